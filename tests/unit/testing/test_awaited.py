"""What coroutines are given has all that plain code has."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.testing import KafkaCluster
from barnabas.testing.awaited import AsyncBroker, AsyncGroup, AsyncPartition, AsyncTopic, AsyncUser
from barnabas.testing.cluster import AsyncKafkaCluster
from barnabas.testing.handles import BrokerHandle, GroupHandle, PartitionHandle, TopicHandle
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
