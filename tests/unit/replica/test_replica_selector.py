"""Consumers are sent to the replica in their rack (KIP-392)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_ID, TOPIC_PARTITION, fetch_one

from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode
from barnabas.model.leadership import CommittedIsr
from barnabas.replica.delayed_fetch import FetchParams, TopicIdPartition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replica_selector import ReplicaView, rack_aware, replica_selector
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

KEY = TopicIdPartition(TOPIC_ID, TOPIC_PARTITION.topic, TOPIC_PARTITION.partition)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "followers", "selected"),
    [
        ("", [ReplicaView(2, "b", 100, 0)], 1),
        ("a", [ReplicaView(2, "a", 100, 0)], 1),
        ("b", [ReplicaView(2, "b", 90, 50)], 2),
        ("c", [ReplicaView(2, "b", 100, 0)], 1),
        ("b", [ReplicaView(2, "b", 90, 0), ReplicaView(3, "b", 95, 50)], 3),
        ("b", [ReplicaView(2, "b", 90, 10), ReplicaView(3, "b", 90, 50)], 2),
    ],
)
def test_the_least_behind_in_the_consumers_rack_is_selected(
    rack: str, followers: list[ReplicaView], selected: int
) -> None:
    assert rack_aware(rack, LEADER, followers).broker_id == selected


def test_a_selector_that_is_not_there_is_refused() -> None:
    assert replica_selector(broker_config({})) is None
    assert replica_selector(broker_config({"replica.selector.class": RACK_AWARE})) is rack_aware
    with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
        replica_selector(broker_config({"replica.selector.class": "com.example.Mine"}))


def live(broker_id: int, rack: str, listener: str = "OUTSIDE") -> UpdateMetadataRequest.UpdateMetadataBroker:
    endpoint = UpdateMetadataRequest.UpdateMetadataEndpoint(9092, "here", listener)
    return UpdateMetadataRequest.UpdateMetadataBroker(broker_id, endpoints=[endpoint], rack=rack)


async def fetch(broker: Broker, rack: str, offset: int = 0, epoch: int = 0) -> FetchResponse.PartitionData:
    params = FetchParams(
        -1,
        -1,
        60_000,
        1,
        1 << 20,
        FetchIsolation.HIGH_WATERMARK,
        rack_id=rack,
        listener="OUTSIDE",
        fetch_only_leader=False,
    )
    asked = FetchRequest.FetchPartition(0, epoch, offset, -1, 0, 1 << 20)
    async with asyncio.timeout(60):
        return await fetch_one(broker.replicas, params, asked)


def test_a_consumer_is_sent_to_the_follower_in_its_rack(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path, replicas=(1, 2, 3), **{"replica.selector.class": RACK_AWARE})
        await broker.startup()
        brokers = [live(1, "a"), live(2, "b"), live(3, "c", "INSIDE")]
        broker.metadata.update(UpdateMetadataRequest(live_brokers=brokers))
        broker.append(b"x")
        partition = broker.partition
        partition.isr_state = CommittedIsr(frozenset((1, 2, 3)), 0)
        for follower in (2, 3):
            partition.record_fetch(follower, -1, 1, 0, 1, 0)
        sent = await fetch(broker, "b")
        assert (sent.preferred_read_replica, sent.records, sent.high_watermark) == (2, b"", 1)
        assert (await fetch(broker, "a")).records, "the leader is as near"
        assert (await fetch(broker, "")).records, "it names no rack"
        assert (await fetch(broker, "c")).records, "broker 3 cannot be reached by the consumer's listener"
        assert (await fetch(broker, "b", epoch=7)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.isr_state = CommittedIsr(frozenset((1, 3)), 0)
        assert (await fetch(broker, "b")).records, "broker 2 is not in sync"
        await broker.stop()

    asyncio.run(story())


def test_a_follower_that_has_not_the_offset_is_not_named(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), **{"replica.selector.class": RACK_AWARE})
        await broker.startup()
        broker.metadata.update(UpdateMetadataRequest(live_brokers=[live(1, "a"), live(2, "b")]))
        broker.append(b"x")
        broker.append(b"y")
        partition = broker.partition
        partition.log.update_high_watermark(2)  # type: ignore[union-attr]
        partition.isr_state = CommittedIsr(frozenset((1, 2)), 0)
        partition.record_fetch(2, -1, 1, 1, 2, 0)
        assert (await fetch(broker, "b", offset=0)).records, "it begins at 1"
        assert (await fetch(broker, "b", offset=1)).preferred_read_replica == 2
        await broker.stop()

    asyncio.run(story())
