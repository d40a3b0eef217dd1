"""Configurations as two brokers have them while they run: which layer counts, and what a change makes of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.broker.configs import ConfigSource
from barnabas.client.admin import Admin, NewTopic, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer import Producer
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC = "orders"
SET, DELETE, APPEND, SUBTRACT = (
    AlterOperation.SET,
    AlterOperation.DELETE,
    AlterOperation.APPEND,
    AlterOperation.SUBTRACT,
)
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, ClusterClient], Coroutine[Any, Any, Seen]]) -> Seen:
    """What `story` sees in two brokers with a topic of two partitions, one on each."""
    world = World(7, 2)

    async def prepared(_: object, cluster: ClusterClient) -> Seen:
        topic = NewTopic(TOPIC, assignment={0: [0], 1: [1]})
        assert await Admin(cluster).create_topics([topic]) == {TOPIC: None}
        return await story(world, cluster)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 2, "the brokers' start")
        return await world.client(prepared, "operator")

    return world.loop.run_until_complete(run())


def at(world: World, number: int, key: str) -> int:
    """What the log of the broker's partition goes by."""
    partition = world.brokers[broker_name(number)].replicas.partition(TopicPartition(TOPIC, number))
    assert partition is not None
    return partition.local_log().config.number(key)


async def comes_about(world: World, key: str, *values: int) -> None:
    await world.until(lambda: tuple(at(world, number, key) for number in (0, 1)) == values, f"{key} {values}")


def test_the_finest_layer_that_has_a_value_counts_for_each_brokers_logs() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        key, of_broker = "max.message.bytes", "message.max.bytes"
        default = at(world, 0, key)
        await admin.alter_configs(ResourceType.BROKER, "", [(SET, of_broker, "5000")])
        await comes_about(world, key, 5_000, 5_000)
        await admin.alter_configs(ResourceType.BROKER, "1", [(SET, of_broker, "6000")])
        await comes_about(world, key, 5_000, 6_000)
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(SET, key, "7000")])
        await comes_about(world, key, 7_000, 7_000)
        (told,) = [each for each in await admin.describe_configs(ResourceType.TOPIC, TOPIC) if each.name == key]
        assert (told.value, told.source) == ("7000", ConfigSource.TOPIC_CONFIG)
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(DELETE, key, None)])
        await comes_about(world, key, 5_000, 6_000)
        await admin.alter_configs(ResourceType.BROKER, "1", [(DELETE, of_broker, None)])
        await comes_about(world, key, 5_000, 5_000)
        for number in (0, 1):
            described = await admin.describe_configs(ResourceType.BROKER, str(number))
            (told,) = [each for each in described if each.name == of_broker]
            assert (told.value, told.source) == ("5000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        await admin.alter_configs(ResourceType.BROKER, "", [(DELETE, of_broker, None)])
        await comes_about(world, key, default, default)

    seen_in(story)


def test_a_broker_that_was_away_goes_by_what_was_changed_meanwhile() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        world.kill(broker_name(1))
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(SET, "retention.ms", "7000")])
        await admin.alter_configs(ResourceType.BROKER, "", [(SET, "log.segment.bytes", "8000")])
        world.start(broker_name(1))
        await world.until(lambda: broker_name(1) in world.brokers, "its return")
        for key, value in (("retention.ms", 7_000), ("segment.bytes", 8_000)):
            await world.until(
                lambda: world.brokers[broker_name(1)].replicas.partition(TopicPartition(TOPIC, 1)) is not None, "it"
            )
            await comes_about(world, key, value, value)

    seen_in(story)


async def policy_after(cluster: ClusterClient, *changes: tuple[AlterOperation, str]) -> str | None:
    """The topic's own cleanup.policy."""
    admin = Admin(cluster)
    for operation, text in changes:
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(operation, "cleanup.policy", text)])
    described = await admin.describe_configs(ResourceType.TOPIC, TOPIC)
    return next(each.value for each in described if each.name == "cleanup.policy")


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([(APPEND, "compact")], "delete,compact"),
        ([(APPEND, "delete")], "delete"),
        ([(SET, "compact"), (APPEND, "delete")], "compact,delete"),
        ([(SET, "compact,delete"), (SUBTRACT, "compact")], "delete"),
        ([(SET, "compact,delete"), (SUBTRACT, "compact"), (DELETE, "")], "delete"),
    ],
)
def test_a_list_is_added_to_and_taken_from(changes: list[tuple[AlterOperation, str]], left: str) -> None:
    async def story(world: World, cluster: ClusterClient) -> str | None:
        return await policy_after(cluster, *changes)

    assert seen_in(story) == left


@pytest.mark.parametrize(
    ("key", "operation", "text", "code"),
    [
        ("retention.ms", APPEND, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SUBTRACT, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SET, "soon", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SET, "-2", ErrorCode.INVALID_CONFIG),
        ("no.such.key", SET, "1", ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", SET, "compost", ErrorCode.INVALID_CONFIG),
        ("min.compaction.lag.ms", SET, "9223372036854775807", ErrorCode.NONE),
        ("max.compaction.lag.ms", SET, "5", ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("earlier", [(), ((SET, "min.compaction.lag.ms", "6"),)], ids=["", "with a lag"])
def test_a_change_that_is_refused_leaves_everything_as_it_was(
    key: str, operation: AlterOperation, text: str, code: ErrorCode, earlier: Any
) -> None:
    async def story(world: World, cluster: ClusterClient) -> ErrorCode:
        admin, before = Admin(cluster), at(world, 0, "retention.ms")
        if earlier:
            await admin.alter_configs(ResourceType.TOPIC, TOPIC, list(earlier))
        kept = world.znode(f"/config/topics/{TOPIC}")
        try:
            await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(SET, "flush.ms", "9"), (operation, key, text)])
        except KafkaError as error:
            assert world.znode(f"/config/topics/{TOPIC}") == kept
            assert at(world, 0, "retention.ms") == before
            return error.code
        assert world.znode(f"/config/topics/{TOPIC}") != kept
        return ErrorCode.NONE

    conflict = earlier and key == "max.compaction.lag.ms"
    assert seen_in(story) is (ErrorCode.INVALID_CONFIG if conflict else code)


def test_what_is_only_validated_is_not_written_and_the_old_request_replaces_all() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin, connection = Admin(cluster), await cluster.any()
        default = at(world, 0, "flush.ms")
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [(SET, "flush.ms", "9"), (SET, "retention.ms", "7000")])
        await comes_about(world, "retention.ms", 7_000, 7_000)
        await comes_about(world, "flush.ms", 9, 9)
        kept = world.znode(f"/config/topics/{TOPIC}")
        one = IncrementalAlterConfigsRequest.AlterConfigsResource(
            2, TOPIC, [IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", 0, "8000")]
        )
        whole = AlterConfigsRequest.AlterConfigsResource(
            2, TOPIC, [AlterConfigsRequest.AlterableConfig("retention.ms", "8000")]
        )
        for asked in (IncrementalAlterConfigsRequest([one], True), AlterConfigsRequest([whole], True)):
            assert (await connection.send(asked)).responses[0].error_code == ErrorCode.NONE
            assert world.znode(f"/config/topics/{TOPIC}") == kept
        assert (await connection.send(AlterConfigsRequest([whole]), 0)).responses[0].error_code == ErrorCode.NONE
        await comes_about(world, "retention.ms", 8_000, 8_000)
        await comes_about(world, "flush.ms", default, default)

    seen_in(story)


def test_a_smaller_limit_is_kept_from_the_next_record_on() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        async def told(size: int) -> ErrorCode:
            producer = Producer(cluster, acks=-1)
            try:
                await (await producer.append(TOPIC, b"x" * size, partition=1))
            except KafkaError as error:
                return error.code
            finally:
                await producer.close()
            return ErrorCode.NONE

        assert await told(5_000) is ErrorCode.NONE
        await Admin(cluster).alter_configs(ResourceType.TOPIC, TOPIC, [(SET, "max.message.bytes", "1000")])
        await comes_about(world, "max.message.bytes", 1_000, 1_000)
        assert await told(5_000) is ErrorCode.MESSAGE_TOO_LARGE
        assert await told(800) is ErrorCode.NONE

    seen_in(story)
