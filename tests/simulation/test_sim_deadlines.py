"""How long a client's calls take when brokers are away or stand still, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client import Cluster, NewTopic, TopicPartition
from barnabas.model.errors import KafkaError
from barnabas.runtime.doors import Runtime
from barnabas.sim.world.world import World, broker_name

TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)
BROKERS = [broker_name(number) for number in range(3)]
API_TIMEOUT_MS = 60_000
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, Cluster], Coroutine[Any, Any, Seen]]) -> Seen:
    """What `story` sees in a cluster of three brokers with a topic."""
    world = World(11)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(connected, "client")

    async def connected(runtime: Runtime, cluster: Cluster) -> Seen:
        assert await cluster.admin.create_topics([NewTopic(TOPIC, 1, 3)]) == {TOPIC: None}
        return await story(world, cluster)

    return world.loop.run_until_complete(run())


async def refused_after_ms(cluster: Cluster, call: Callable[[], Awaitable[object]]) -> int:
    begun_ms = cluster.monotonic_ms()
    with pytest.raises((KafkaError, OSError)):
        await call()
    return cluster.monotonic_ms() - begun_ms


@pytest.mark.parametrize("call", ["commit", "committed", "send", "create_topics", "end_offsets"])
def test_a_call_is_over_in_time_while_all_brokers_stand_still(call: str) -> None:
    async def story(world: World, cluster: Cluster) -> int:
        reader = cluster.consumer(group="g", enable_auto_commit=False)
        await reader.assign({FIRST: 0})
        await reader.commit()
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "commit": reader.commit,
            "committed": reader.committed,
            "send": lambda: cluster.producer().send("another", b"value"),
            "create_topics": lambda: cluster.admin.create_topics([NewTopic("another", 1, 1)]),
            "end_offsets": lambda: reader.end_offsets([FIRST]),
        }
        for name in BROKERS:
            world.pause(name)
        return await refused_after_ms(cluster, calls[call])

    assert seen_in(story) == pytest.approx(API_TIMEOUT_MS, abs=2_000)


def test_a_commit_that_waits_its_turn_is_over_in_time() -> None:
    async def story(world: World, cluster: Cluster) -> list[int]:
        reader = cluster.consumer(group="g", enable_auto_commit=False)
        await reader.assign({FIRST: 0})
        await reader.commit()
        for name in BROKERS:
            world.pause(name)
        return list(await asyncio.gather(*(refused_after_ms(cluster, reader.commit) for _ in range(3))))

    assert max(seen_in(story)) <= API_TIMEOUT_MS


def test_who_asks_where_nobody_listens_is_told_so_in_its_own_time() -> None:
    async def story(world: World, cluster: Cluster) -> tuple[int, str]:
        config = {"default.api.timeout.ms": "5000"}
        async with Cluster(cluster.runtime, [("nowhere", 9092)], config=config) as other:
            begun_ms = cluster.monotonic_ms()
            with pytest.raises(OSError) as refused:
                await other.producer().send(TOPIC, b"value")
            return cluster.monotonic_ms() - begun_ms, str(refused.value)

    took_ms, words = seen_in(story)
    assert took_ms <= 5_000
    assert "no broker can be reached: nowhere:9092" in words
