"""Requests in which several things are wrong at once, or that come after others: what is told first, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from answers.requests import (
    OK,
    TOPIC_RESOURCE,
    alter_partition_reassignments,
    batch,
    describe_configs,
    describe_groups,
    describe_producers,
    errors_in,
    leave_group,
    offset_delete,
    produce_data,
    write_txn_markers,
)
from answers.world import World

from barnabas.model.ids import Uuid
from barnabas.wire.api import ApiKey
from barnabas.wire.message import Message
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

ABSENT = "absent"
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
SET, SUBTRACT, UNKNOWN_OPERATION = 0, 3, 7
NOT_ALLOWED = {"cleanup.policy": "nope", "segment.ms": "0", "flush.ms": "x"}
"""In another order than that in which Kafka defines the keys."""


class Together(NamedTuple):
    key: ApiKey
    name: str
    request: Callable[[World, int], Message]
    since: int = 0
    """The first version that has it."""


def transactional_batch() -> bytes:
    record = Record(0, 1_700_000_000_000, b"key", b"value", [])
    return build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


def produces(world: World, records: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = produce_data(world.topic(), records)
    data[0].partition_data[0].index = partition
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def produces_beside_a_transaction(world: World, version: int) -> ProduceRequest:
    request = produces(world, batch())
    request.topic_data += produce_data(world.topic(), transactional_batch())
    return request


def creates_a_topic(world: World, version: int) -> CreateTopicsRequest:
    configs = [CreateTopicsRequest.CreatableTopicConfig(name, value) for name, value in NOT_ALLOWED.items()]
    topic = CreateTopicsRequest.CreatableTopic(
        name=world.name("topic"), num_partitions=1, replication_factor=1, configs=configs
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def alter_configs(kind: int, name: str, values: dict[str, str]) -> AlterConfigsRequest:
    configs = [AlterConfigsRequest.AlterableConfig(*each) for each in values.items()]
    return AlterConfigsRequest(resources=[AlterConfigsRequest.AlterConfigsResource(kind, name, configs)])


def change(kind: int, name: str, key: str, operation: int, value: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequest.AlterableConfig(key, operation, value)
    return IncrementalAlterConfigsRequest(
        resources=[IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, [config])]
    )


def describes_a_group_that_all_have_left(world: World, version: int) -> Message:
    group, member, _ = world.member()
    assert errors_in(world.ask(leave_group(2, group, member), 2)) == OK
    assert errors_in(world.ask(OffsetDeleteRequest(group_id=group), 0)) == OK
    return describe_groups(group)


def describes_a_group_whose_offset_is_deleted(world: World, version: int) -> Message:
    group = world.group_with_offsets()
    assert errors_in(world.ask(offset_delete(world.data, group), 0)) == OK
    return describe_groups(group)


def describes_a_producer(world: World, version: int) -> Message:
    request = describe_producers(world.topic())
    request.topics[0].partition_indexes = [7]
    return request


def begins_a_session_of_nothing(world: World, version: int) -> Message:
    return FetchRequest(session_epoch=0, max_wait_ms=0, min_bytes=0)


def asks_of_a_topic_by_an_id_that_is_not_there(world: World, version: int) -> Message:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic_id=Uuid(b"absent topic id!"), partitions=[partition])
    return FetchRequest(session_epoch=0, max_wait_ms=0, min_bytes=0, topics=[topic])


TOGETHER = [
    Together(ApiKey.PRODUCE, "nothing to no partition", lambda world, _: produces(world, b"", partition=7)),
    Together(ApiKey.PRODUCE, "nothing, and wrong acks", lambda world, _: produces(world, b"", acks=7), since=3),
    Together(
        ApiKey.PRODUCE,
        "to no partition, and wrong acks",
        lambda world, _: produces(world, batch(), partition=7, acks=7),
    ),
    Together(ApiKey.PRODUCE, "no id of its transaction", lambda world, _: produces(world, transactional_batch())),
    Together(ApiKey.PRODUCE, "no id of its transaction, beside another", produces_beside_a_transaction),
    Together(ApiKey.FETCH, "a session of nothing", begins_a_session_of_nothing, since=7),
    Together(ApiKey.FETCH, "a session of an absent topic", asks_of_a_topic_by_an_id_that_is_not_there, since=13),
    Together(
        ApiKey.WRITE_TXN_MARKERS,
        "of no producer, to no topic",
        lambda world, _: write_txn_markers(ABSENT, producer_id=-1),
    ),
    Together(ApiKey.DESCRIBE_PRODUCERS, "of no partition", describes_a_producer),
    Together(ApiKey.DESCRIBE_GROUPS, "after no offset was deleted", describes_a_group_that_all_have_left),
    Together(ApiKey.DESCRIBE_GROUPS, "after its only offset was deleted", describes_a_group_whose_offset_is_deleted),
    Together(ApiKey.CREATE_TOPICS, "several values that are not allowed", creates_a_topic),
    Together(
        ApiKey.ALTER_CONFIGS,
        "several values that are not allowed",
        lambda world, _: alter_configs(TOPIC_RESOURCE, world.scratch, NOT_ALLOWED),
    ),
    Together(
        ApiKey.ALTER_CONFIGS,
        "several of a broker's values that are not allowed",
        lambda world, _: alter_configs(
            BROKER_RESOURCE, str(world.home), {"log.message.downconversion.enable": "1", "log.preallocate": "1"}
        ),
    ),
    Together(
        ApiKey.ALTER_CONFIGS,
        "a key that only a broker's file has",
        lambda world, _: alter_configs(
            BROKER_RESOURCE, str(world.home), {"sasl.server.callback.handler.class": "a.Class"}
        ),
    ),
    Together(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "an entry of no list, of no topic",
        lambda world, _: change(TOPIC_RESOURCE, ABSENT, "retention.ms", SUBTRACT, "1"),
    ),
    Together(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "no operation, of a broker",
        lambda world, _: change(BROKER_RESOURCE, "", "log.preallocate", UNKNOWN_OPERATION, "true"),
    ),
    Together(
        ApiKey.DESCRIBE_CONFIGS,
        "a value with blanks",
        lambda world, version: describe_configs(
            version, (TOPIC_RESOURCE, world.topic(config={"preallocate": " True ", "flush.ms": "+5"}))
        ),
        since=1,
    ),
    Together(
        ApiKey.DESCRIBE_CONFIGS,
        "a broker with blanks",
        lambda world, version: describe_configs(version, (BROKER_RESOURCE, " 0")),
    ),
    Together(
        ApiKey.DESCRIBE_CONFIGS,
        "nobody's metrics",
        lambda world, version: describe_configs(version, (CLIENT_METRICS_RESOURCE, "")),
    ),
    *(
        Together(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            name,
            lambda world, _, replicas=replicas: alter_partition_reassignments(world.scratch, replicas),  # type: ignore[misc]
        )
        for name, replicas in (("to no broker", [-1]), ("to an absent broker", [7]), ("twice to one", [0, 0]))
    ),
]


def together_of(key: ApiKey, version: int) -> list[Together]:
    return [each for each in TOGETHER if each.key is key and version >= each.since]
