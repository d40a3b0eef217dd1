"""How long a client's calls take when brokers are away or stand still, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client import Cluster, NewTopic, TopicPartition
from barnabas.client.consumer import CLOSE_TIMEOUT_MS, ConsumerClosed
from barnabas.client.group import LEAVE_TIMEOUT_MS
from barnabas.client.offsets import CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Runtime
from barnabas.sim.world.world import World, broker_name

TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)
BROKERS = [broker_name(number) for number in range(3)]
API_TIMEOUT_MS = 60_000
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, Cluster], Coroutine[Any, Any, Seen]], **configs: str) -> Seen:
    """What `story` sees in a cluster of three brokers with a topic."""
    world = World(11, config={name.replace("_", "."): value for name, value in configs.items()})

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


@pytest.mark.parametrize("made_with", ["orders", "a group", "a pattern"])
def test_a_first_poll_is_over_in_time_while_all_brokers_stand_still(made_with: str) -> None:
    async def story(world: World, cluster: Cluster) -> int:
        topics: list[Any] = [re.compile("ord.*")] if made_with == "a pattern" else [TOPIC]
        reader = cluster.consumer(*topics, group=None if made_with == TOPIC else "g")
        for name in BROKERS:
            world.pause(name)
        begun_ms = cluster.monotonic_ms()
        assert await reader.poll(500) == []
        return cluster.monotonic_ms() - begun_ms

    assert seen_in(story) <= 1_000


@pytest.mark.parametrize("joined", [True, False])
def test_who_polls_goes_on_when_the_brokers_come_back_however_long_they_were_away(
    joined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World, cluster: Cluster) -> list[bytes | None]:
        await cluster.producer().send(TOPIC, b"before")
        reader = cluster.consumer(TOPIC, group="g", auto_offset_reset="earliest")
        read: list[bytes | None] = []
        while joined and not read:
            read += [record.value for record in await reader.poll(1_000)]
        for name in BROKERS:
            world.kill(name)
        begun_ms = cluster.monotonic_ms()
        while cluster.monotonic_ms() - begun_ms < 5 * API_TIMEOUT_MS:
            assert await reader.poll(1_000) == []
        for name in BROKERS:
            world.start(name)
        await cluster.producer().send(TOPIC, b"after")
        while b"after" not in read:
            read += [record.value for record in await reader.poll(1_000)]
        return read

    assert seen_in(story) == [b"before", b"after"]
    assert "a consumer goes on trying: no broker can be reached" in caplog.text


def test_who_polls_waits_for_a_transaction_that_commits_offsets_however_long_it_is_open() -> None:
    async def story(world: World, cluster: Cluster) -> list[bytes | None]:
        for value in (b"0", b"1"):
            await cluster.producer().send(TOPIC, value)
        producer = cluster.transactional_producer("t", transaction_timeout_ms=600_000)
        await producer.init_transactions()
        former = cluster.consumer(TOPIC, group="g", enable_auto_commit=False)
        while not former.assignment:
            await former.poll(100)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({FIRST: CommittedOffset(1)}, former.group_metadata())
            await former.close()
            reader = cluster.consumer(TOPIC, group="g", auto_offset_reset="earliest")
            begun_ms = cluster.monotonic_ms()
            while cluster.monotonic_ms() - begun_ms < 2 * API_TIMEOUT_MS:
                assert await reader.poll(1_000) == []
        read: list[bytes | None] = []
        while not read:
            read += [record.value for record in await reader.poll(1_000)]
        return read

    assert seen_in(story) == [b"1"]


def test_who_reaches_no_broker_at_all_is_told_so_by_a_poll() -> None:
    async def story(world: World, cluster: Cluster) -> int:
        async with Cluster(cluster.runtime, [("nowhere", 9092)]) as other:
            reader = other.consumer(TOPIC, group="g")

            async def polls() -> None:
                while True:
                    assert await reader.poll(1_000) == []

            return await refused_after_ms(cluster, polls)

    assert API_TIMEOUT_MS - 2_000 <= seen_in(story) <= API_TIMEOUT_MS + 1_000


def test_who_closes_a_consumer_waits_no_longer_than_it_may_while_all_brokers_stand_still() -> None:
    async def story(world: World, cluster: Cluster) -> int:
        await cluster.producer().send(TOPIC, b"value")
        reader = cluster.consumer(TOPIC, group="g", auto_offset_reset="earliest")
        while not await reader.poll(1_000):
            pass
        for name in BROKERS:
            world.pause(name)
        begun_ms = cluster.monotonic_ms()
        while cluster.monotonic_ms() - begun_ms < 10_000:  # its tasks look for brokers by the time that it closes
            assert await reader.poll(1_000) == []
        begun_ms = cluster.monotonic_ms()
        await reader.close()
        return cluster.monotonic_ms() - begun_ms

    assert seen_in(story) <= CLOSE_TIMEOUT_MS + LEAVE_TIMEOUT_MS


def test_a_member_outlives_a_coordinator_that_stands_still() -> None:
    async def story(world: World, cluster: Cluster) -> list[list[TopicPartition]]:
        gone: list[list[TopicPartition]] = []
        reader = cluster.consumer(TOPIC, group="g", session_timeout_ms=10_000, on_revoked=gone.append)
        while not reader.assignment:
            await reader.poll(1_000)
        world.pause((await cluster.coordinator("g")).host)
        begun_ms = cluster.monotonic_ms()
        while cluster.monotonic_ms() - begun_ms < 60_000:
            await reader.poll(1_000)
        return gone

    assert seen_in(story) == []


def test_a_transaction_one_of_whose_records_was_not_taken_is_not_committed() -> None:
    async def story(world: World, cluster: Cluster) -> tuple[str, list[bytes | None]]:
        producer = cluster.transactional_producer("t")

        async def writes_two() -> None:
            async with producer.transaction():
                await producer.append(TOPIC, b"one of two")
                await producer.flush()
                for name in BROKERS:
                    world.pause(name)
                with contextlib.suppress(OSError):
                    await producer.append("another", b"the other one")
                for name in BROKERS:
                    world.resume(name)

        await producer.init_transactions()
        with pytest.raises(OSError) as refused:
            await writes_two()
        async with producer.transaction():
            await producer.append(TOPIC, b"next")
        reader = cluster.consumer(TOPIC, isolation_level="read_committed", auto_offset_reset="earliest")
        read: list[bytes | None] = []
        while not read:
            read += [record.value for record in await reader.poll(1_000)]
        return str(refused.value), read

    words, read = seen_in(story)
    assert "did not answer in time" in words
    assert read == [b"next"]


def test_who_is_given_up_is_told_who_has_not_answered() -> None:
    async def story(world: World, cluster: Cluster) -> str:
        producer = cluster.producer(delivery_timeout_ms=8_000)
        await producer.send(TOPIC, b"value")
        for name in BROKERS:
            world.pause(name)
        with pytest.raises(KafkaError) as late:
            await producer.send(TOPIC, b"value")
        return str(late.value)

    words = seen_in(story)
    assert re.fullmatch(
        "orders-0: not acknowledged within 8000 ms; the last attempt: broker [012] has not answered", words
    )


def test_a_topic_that_was_there_is_waited_for_while_too_few_brokers_are_alive() -> None:
    async def story(world: World, cluster: Cluster) -> list[Any]:
        producer = cluster.producer()
        await producer.send(TOPIC, b"value")
        assert await cluster.admin.delete_topics([TOPIC]) == {TOPIC: None}
        for name in BROKERS[1:]:
            world.kill(name)
        known = await cluster.refresh([TOPIC])
        while known.error_of(TOPIC) is ErrorCode.NONE or len(known.brokers) > 1:
            await asyncio.sleep(0.1)
            known = await cluster.refresh([TOPIC])
        with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
            await producer.send("another", b"value")
        sending = asyncio.ensure_future(producer.send(TOPIC, b"again"))
        await asyncio.sleep(5)
        waits = not sending.done()
        for name in BROKERS[1:]:
            world.start(name)
        return [waits, (await sending).topic]

    assert seen_in(story, default_replication_factor="3") == [True, TOPIC]


def test_a_closed_consumer_commits_nothing_more() -> None:
    async def story(world: World, cluster: Cluster) -> dict[TopicPartition, int]:
        reader = cluster.consumer(TOPIC, group="g")
        await reader.close()
        for call in (reader.commit({FIRST: 1}), reader.assign({FIRST: 0}), reader.subscribe(TOPIC)):
            with pytest.raises(ConsumerClosed):
                await call
        return await cluster.consumer(group="g").committed([FIRST])

    assert seen_in(story) == {FIRST: -1}


def test_who_chooses_others_before_the_first_poll_reads_these() -> None:
    async def story(world: World, cluster: Cluster) -> list[str]:
        assert await cluster.admin.create_topics([NewTopic("another", 1, 3)]) == {"another": None}
        for topic in (TOPIC, "another"):
            await cluster.producer().send(topic, b"value")
        reader = cluster.consumer(TOPIC, group="g", auto_offset_reset="earliest")
        await reader.subscribe("another")
        read: list[str] = []
        while not read:
            read += [record.topic for record in await reader.poll(1_000)]
        return [*read, *reader.subscription]

    assert seen_in(story) == ["another", "another"]


def test_a_topic_made_anew_between_two_looks_at_it_is_read_from_its_beginning() -> None:
    async def story(world: World, cluster: Cluster) -> list[bytes | None]:
        for _ in range(3):
            await cluster.producer().send(TOPIC, b"old")
        reader = cluster.consumer(TOPIC, group="g", auto_offset_reset="earliest")
        read: list[bytes | None] = []
        while len(read) < 3:
            read += [record.value for record in await reader.poll(1_000)]
        # The consumer does not poll meanwhile, and its group's heartbeats tell it nothing.
        assert await cluster.admin.delete_topics([TOPIC]) == {TOPIC: None}
        outcome = await cluster.admin.create_topics([NewTopic(TOPIC, 1, 3)])
        while outcome[TOPIC] is not None:  # its deletion is not over
            await asyncio.sleep(0.1)
            outcome = await cluster.admin.create_topics([NewTopic(TOPIC, 1, 3)])
        for number in range(5):
            await cluster.producer().send(TOPIC, b"%d" % number)
        begun_ms = cluster.monotonic_ms()
        while len(read) < 8 and cluster.monotonic_ms() - begun_ms < 120_000:
            read += [record.value for record in await reader.poll(1_000)]
        return read

    assert seen_in(story) == [b"old"] * 3 + [b"%d" % number for number in range(5)]


def test_a_first_join_may_take_longer_than_a_call() -> None:
    async def story(world: World, cluster: Cluster) -> list[TopicPartition]:
        first = cluster.consumer(TOPIC, group="g", max_poll_interval_ms=8_000)
        while not first.assignment:
            await first.poll(100)

        async def joins(_: Runtime, other: Cluster) -> list[TopicPartition]:
            other.retry_timeout_ms = 2_000
            second = other.consumer(TOPIC, group="g")
            while not second.assignment:  # the first one does not poll, and is waited for
                await second.poll(500)
            return second.assignment

        return await world.client(joins, "other")

    assert seen_in(story) == [FIRST]


def test_a_call_that_is_given_up_is_not_told_by_what_it_had_overcome() -> None:
    async def story(world: World, cluster: Cluster) -> str:
        async def asked() -> None:
            async def refused_once() -> None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)

            outcomes = iter([refused_once, lambda: asyncio.sleep(0)])
            await cluster.retrying(lambda: next(outcomes)())
            await asyncio.Event().wait()

        with pytest.raises(OSError, match="no answer within") as told:
            await cluster.retrying(asked, timeout_ms=1_000)
        return str(told.value)

    assert "NOT_CONTROLLER" not in seen_in(story)
