"""Replication that is throttled (KIP-73), as ``ReplicationQuotaManager`` and its callers do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_ID, TOPIC_PARTITION, fetch_one
from test_replicas import Peer, SippingPeer
from test_replicas import play as play_two
from turns import until

from barnabas.broker.configs import validate_topic_values
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.replica.delayed_fetch import FetchParams, TopicIdPartition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.fetch import FetchRequest

KEY = TopicIdPartition(TOPIC_ID, TOPIC_PARTITION.topic, TOPIC_PARTITION.partition)


def test_the_rate_is_that_of_the_last_eleven_seconds() -> None:
    quota = ReplicationQuota(11, 1000)
    assert quota.rate(5_000) == 0
    quota.record(100, 5_000)
    assert quota.rate(5_100) == 100, "the first second counts as a whole one"
    quota.record(300, 7_000)
    assert quota.rate(7_000) == 200
    assert quota.rate(15_999) == pytest.approx(400 / 10.999)
    assert quota.rate(16_000) == pytest.approx(300 / 9), "the first sample is too old"
    assert quota.rate(60_000) == 0


def test_the_rate_of_what_comes_steadily_is_what_comes() -> None:
    quota = ReplicationQuota(11, 1000)
    for now_ms in range(0, 60_000, 400):
        quota.record(40, now_ms)
        assert now_ms < 11_000 or quota.rate(now_ms) == pytest.approx(100, rel=0.15)


def test_a_quota_that_is_not_set_is_never_exceeded() -> None:
    quota = ReplicationQuota(11, 1000)
    quota.record(1 << 60, 0)
    assert not quota.is_exceeded(0)
    quota.bytes_per_second = 100
    assert quota.is_exceeded(0)
    assert not quota.is_exceeded(11_000)


def play(tmp_path: Path, story: Callable[[Broker], Coroutine[Any, Any, None]], throttled: str) -> None:
    async def whole() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), topic={"leader.replication.throttled.replicas": throttled})
        await broker.startup()
        broker.replicas.quotas.leader.bytes_per_second = 1
        broker.append(b"x")
        broker.append(b"y")
        try:
            await story(broker)
        finally:
            await broker.stop()

    asyncio.run(whole())


async def fetched(broker: Broker, offset: int, max_wait_ms: int = 0, replica_id: int = 2) -> int:
    """How many bytes a fetch of at most one batch from `offset` gets."""
    isolation = FetchIsolation.LOG_END if replica_id > 0 else FetchIsolation.HIGH_WATERMARK
    params = FetchParams(replica_id, -1, max_wait_ms, 1, 1, isolation)
    data = await fetch_one(broker.replicas, params, FetchRequest.FetchPartition(0, 0, offset, -1, 0, 1))
    return len(data.records or b"")


@pytest.mark.parametrize("throttled", ["*", "0:1"])
def test_a_leader_sends_no_faster_than_its_quota(tmp_path: Path, throttled: str) -> None:
    async def story(broker: Broker) -> None:
        assert await fetched(broker, 0) > 0, "nothing was sent before"
        assert await fetched(broker, 1) == 0
        waiting = asyncio.get_running_loop().create_task(fetched(broker, 1, max_wait_ms=20))
        while not broker.replicas.purgatories.follower_fetch.delayed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        broker.append(b"z")
        assert not waiting.done(), "an append does not wake a fetch that would get nothing"
        assert await waiting == 0
        broker.replicas.quotas.leader.bytes_per_second = 1 << 30
        assert await fetched(broker, 1) > 0

    play(tmp_path, story, throttled)


def test_only_the_replicas_that_are_named_are_throttled(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        assert await fetched(broker, 0) > 0
        assert await fetched(broker, 1) > 0

    play(tmp_path, story, "1:1,0:2")


def test_a_follower_in_sync_is_not_throttled(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        assert await fetched(broker, 0) > 0
        assert broker.replicas.quotas.holds_back(broker.partition, 2)
        assert not broker.replicas.quotas.holds_back(broker.partition, 1)

    play(tmp_path, story, "*")


def test_a_follower_stops_fetching_when_its_quota_is_used_up(tmp_path: Path) -> None:
    async def whole() -> None:
        broker = Broker(tmp_path, topic={"follower.replication.throttled.replicas": "0:1"})
        await broker.startup()
        quotas = broker.replicas.quotas
        quotas.follower.bytes_per_second = 100
        quotas.fetched(broker.partition, 100)
        assert not quotas.is_held_back(broker.partition, 5)
        quotas.fetched(broker.partition, 1)
        assert quotas.is_held_back(broker.partition, 5)
        assert quotas.is_held_back(broker.partition, None), "it may be behind"
        assert not quotas.is_held_back(broker.partition, 0), "it is caught up"
        await broker.stop()

    asyncio.run(whole())


@pytest.mark.parametrize("used_by", ["itself", "another partition"])
def test_a_follower_asks_for_nothing_as_long_as_its_quota_is_used_up(tmp_path: Path, used_by: str) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        for value in (b"x", b"y"):
            await one.append(value, acks=1)
        quota = two.replicas.quotas.follower
        quota.bytes_per_second = 1
        fetched = 1
        if used_by != "itself":
            quota.record(1_000, real_runtime().clock.monotonic_ms())
            fetched = 0
        two.leads(1, 0, (1,))
        following = two.replicas.fetchers.state(TOPIC_PARTITION)
        assert following is not None
        for _ in range(3):
            paused_until_ms = following.paused_until_ms
            await until(lambda: following.paused_until_ms > paused_until_ms)  # noqa: B023
            assert two.end == fetched
        quota.bytes_per_second = 1 << 30
        await until(lambda: two.end == 2)

    play_two(tmp_path, story, SippingPeer, **{"follower.replication.throttled.replicas": "*"})


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1,12:3", "0:1,"])
def test_throttled_replicas_are_partitions_and_brokers(text: str) -> None:
    validate_topic_values(broker_config({}), {"leader.replication.throttled.replicas": text})


@pytest.mark.parametrize("text", ["0", "a:b", "*,0:1", "0:1 2:3"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be the literal"):
        validate_topic_values(broker_config({}), {"follower.replication.throttled.replicas": text})
