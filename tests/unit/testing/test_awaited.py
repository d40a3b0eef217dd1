"""What coroutines are given has all that plain code has."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.testing import ClusterError, KafkaCluster
from barnabas.testing.awaited import AsyncBroker, AsyncGroup, AsyncPartition, AsyncTopic, AsyncUser
from barnabas.testing.cluster import AsyncKafkaCluster
from barnabas.testing.handles import BrokerHandle, GroupHandle, PartitionHandle, TopicHandle
from barnabas.testing.loop import background
from barnabas.testing.users import UserHandle


@pytest.mark.parametrize(
    ("awaited", "plain"),
    [
        (AsyncKafkaCluster, KafkaCluster),
        (AsyncBroker, BrokerHandle),
        (AsyncPartition, PartitionHandle),
        (AsyncTopic, TopicHandle),
        (AsyncGroup, GroupHandle),
        (AsyncUser, UserHandle),
    ],
)
def test_nothing_is_missing(awaited: type, plain: type) -> None:
    public = {name for name in vars(plain) if not name.startswith("_")}
    made_and_ended = {"start", "close"} if plain is KafkaCluster else {"make"}  # by `async with`
    assert public - made_and_ended <= set(dir(awaited))


def test_what_is_asked_is_what_plain_code_is_told(kafka_cluster: KafkaCluster) -> None:
    cluster = AsyncKafkaCluster(kafka_cluster)

    async def story() -> None:
        topic = await cluster.create_topic("t", partitions=2)
        assert isinstance(topic, AsyncTopic)
        assert (topic.name, await topic.partition(1).high_watermark()) == ("t", 0)
        partition = (await cluster.topic("t").partitions())[0]
        leader = await partition.leader()
        assert {leader, *await partition.followers()} == set(await partition.replicas()) == await partition.isr()
        assert await partition.leader_epoch() == 0
        assert (leader.address, leader.state) == (leader.plain.address, "running")
        assert await (await cluster.controller()).is_controller()
        group = cluster.group("nobody")
        assert (group.name, await group.state(), await group.members()) == ("nobody", "Dead", [])
        assert (cluster.seed, cluster.zookeeper) == (kafka_cluster.seed, kafka_cluster.zookeeper)

    asyncio.run(story())


def test_any_number_of_waits_keep_no_kill_waiting(kafka_cluster: KafkaCluster) -> None:
    cluster = AsyncKafkaCluster(kafka_cluster)

    async def story() -> None:
        topic = await cluster.create_topic("t", partitions=50)
        leader = await topic.partition(0).leader()
        left = {0, 1, 2} - {leader.id}
        await asyncio.gather(*(partition.wait(isr=left) for partition in await topic.partitions()), leader.kill())

    asyncio.run(story())


def test_a_wait_that_is_cancelled_is_over(kafka_cluster: KafkaCluster) -> None:
    cluster = AsyncKafkaCluster(kafka_cluster)

    async def story() -> None:
        await cluster.create_topic("t")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await cluster.partition("t", 0).wait(isr=[0], timeout=60)

    async def nobody_waits() -> None:
        while any("RunningCluster.until" in repr(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    asyncio.run(story())
    background().run(nobody_waits(), timeout=10)


def test_a_start_that_is_cancelled_leaves_no_cluster() -> None:
    cluster = KafkaCluster(1)

    async def story() -> None:
        async with asyncio.timeout(0), cluster:
            raise AssertionError("it was not cancelled")

    with pytest.raises(TimeoutError):
        asyncio.run(story())
    with pytest.raises(ClusterError, match="is not running"):
        _ = cluster.bootstrap
