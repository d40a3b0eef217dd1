"""The client for people, in a simulated cluster: groups that rebalance, positions, transactions."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client import LATEST, Cluster, Consumer, NewTopic, ProducerFenced, TopicPartition, TransactionalProducer
from barnabas.client.transaction import Transaction
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Runtime
from barnabas.sim.world.world import World

TOPIC = "orders"
PARTITIONS = 6
FIRST = TopicPartition(TOPIC, 0)
Seen = TypeVar("Seen")


def seen_by(story: Callable[[Cluster], Coroutine[Any, Any, Seen]], *, partitions: int = PARTITIONS) -> Seen:
    """What `story` sees in a cluster of three brokers with a topic."""
    world = World(7)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(connected, "client")

    async def connected(runtime: Runtime, cluster: Cluster) -> Seen:
        assert await cluster.admin.create_topics([NewTopic(TOPIC, partitions, 3)]) == {TOPIC: None}
        return await story(cluster)

    return world.loop.run_until_complete(run())


async def fill(cluster: Cluster, count: int, first: int = 0) -> None:
    async with cluster.producer() as producer:
        for number in range(first, first + count):
            await producer.append(TOPIC, b"%d" % number, partition=number % PARTITIONS)


async def send_and_fail(producer: TransactionalProducer) -> None:
    async with producer.transaction():
        await producer.send("out", b"never")
        raise ZeroDivisionError


async def settled(*members: Consumer) -> None:
    """Until the members have shared all partitions out, and each has its positions."""
    while True:
        for member in members:
            await member.poll(100)
        owned = Counter(each for member in members for each in member.positions())
        if len(owned) == PARTITIONS and set(owned.values()) == {1} and all(member.assignment for member in members):
            return


def test_records_come_with_all_that_was_sent() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        async with cluster.producer(compression="zstd", linger_ms=5) as producer:
            sent = await producer.send(TOPIC, b"value", key=b"key", headers={"h": b"x"}, timestamp=1_234)
            assert (sent.topic, sent.offset, sent.timestamp) == (TOPIC, 0, 1_234)
        async with cluster.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                return [record.key, record.value, list(record.headers), record.timestamp, record.offset]
        return []

    assert seen_by(story) == [b"key", b"value", [("h", b"x")], 1_234, 0]


def test_an_iteration_goes_on_from_one_fetch_to_the_next() -> None:
    async def story(cluster: Cluster) -> list[bytes | None]:
        async with cluster.producer() as producer:
            for number in range(0, 30, 10):
                sent = [await producer.append(TOPIC, b"%d" % each, partition=0) for each in range(number, number + 10)]
                await asyncio.gather(*sent)
        async with cluster.consumer(max_bytes=1) as consumer:
            await consumer.assign({FIRST: 0})
            return [(await asyncio.wait_for(anext(consumer), 60)).value for _ in range(30)]

    assert seen_by(story) == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_group_shares_and_hands_over_without_a_gap_or_a_record_read_twice(assignor: str) -> None:
    async def story(cluster: Cluster) -> tuple[Counter[bytes], list[str]]:
        told: list[str] = []
        read: Counter[bytes] = Counter()

        def member(name: str) -> Consumer:
            return cluster.consumer(
                TOPIC,
                group="g",
                assignors=[assignor],
                auto_offset_reset="earliest",
                on_assigned=lambda partitions: told.append(f"{name} +{len(partitions)}"),
                on_revoked=lambda partitions: told.append(f"{name} -{len(partitions)}"),
            )

        def take(records: list[Any]) -> None:
            read.update(record.value for record in records)

        await fill(cluster, 60)
        first = member("first")
        while sum(read.values()) < 60:
            take(await first.poll(1_000))
        second = member("second")
        await settled(first, second)
        await fill(cluster, 60, 60)
        while sum(read.values()) < 120:
            take(await first.poll(100, max_records=7))
            take(await second.poll(100, max_records=7))
        await second.close()
        await fill(cluster, 60, 120)
        while sum(read.values()) < 180:
            take(await first.poll(100))
        await first.close()
        return read, told

    read, told = seen_by(story)
    assert read == Counter(b"%d" % number for number in range(180))
    if assignor == "cooperative-sticky":
        assert [each for each in told if not each.endswith("+0")] == [
            "first +6", "first -3", "second +3", "second -3", "first +3", "first -6",
        ]  # fmt: skip
    else:
        assert told[:3] == ["first +6", "first -6", "first +3"] or told[:3] == ["first +6", "first -6", "second +3"]


def test_positions_are_those_of_the_records_that_were_returned() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        await fill(cluster, 60)
        seen: list[Any] = []
        async with cluster.consumer(TOPIC, group="g", enable_auto_commit=False, auto_offset_reset="earliest") as reader:
            async for record in reader:
                assert reader.position(record.topic_partition) == record.offset + 1
                if sum(reader.positions().values()) == 17:
                    await reader.commit()
                    seen.append(sum(max(each, 0) for each in (await reader.committed()).values()))
                    break
            reader.seek_to_beginning()
            assert len(await reader.poll(5_000, max_records=5)) == 5
            reader.seek_to_end(FIRST)
            reader.pause(FIRST)
            assert reader.paused == [FIRST]
            rest: list[int] = []
            while len(rest) < 45 or FIRST not in reader.positions():
                rest += [record.partition for record in await reader.poll(1_000)]
            seen.append(0 in rest)
            reader.resume(FIRST)
            await fill(cluster, 1, 600)
            seen.append([record.value for record in await reader.poll(5_000)])
            reader.seek(FIRST, 3)
            seen.append((await reader.poll(5_000, max_records=1))[0].offset)
            seen.append([sum((await reader.beginning_offsets([FIRST])).values()), await reader.end_offsets([FIRST])])
            found = await reader.offsets_for_times({FIRST: 0, TopicPartition(TOPIC, 1): 1 << 60})
            seen.append([each and each.offset for each in found.values()])
        return seen

    assert seen_by(story) == [17, False, [b"600"], 3, [0, {FIRST: 11}], [0, None]]


def test_a_member_that_works_for_long_stays_and_one_that_is_stuck_gives_way(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> list[Any]:
        lost: list[int] = []
        options = {"group": "g", "session_timeout_ms": 6_000, "max_poll_interval_ms": 30_000}
        slow = cluster.consumer(TOPIC, on_lost=lambda partitions: lost.append(len(partitions)), **options)  # type: ignore[arg-type]
        await settled(slow)
        await asyncio.sleep(20)
        await slow.poll(100)
        stayed = list(lost)
        await asyncio.sleep(60)
        other = cluster.consumer(TOPIC, **options)  # type: ignore[arg-type]
        while len(other.assignment) < PARTITIONS:
            await other.poll(100)
        while not lost:
            await slow.poll(100)
        with pytest.raises(KafkaError, match="this consumer is not a member any more") as refused:
            await slow.commit({FIRST: 1})
        await asyncio.gather(slow.close(), other.close())
        return [stayed, lost, refused.value.code]

    assert seen_by(story) == [[], [PARTITIONS], ErrorCode.UNKNOWN_MEMBER_ID]
    assert "a member leaves group 'g': it has not polled for more than 30000 ms" in caplog.text


def test_a_subscription_that_changes_gives_nothing_twice_and_tells_what_it_gives_up() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        await fill(cluster, PARTITIONS)
        told: list[int] = []
        options = {"group": "g", "auto_offset_reset": "earliest", "assignors": ["range"]}
        consumer = cluster.consumer(auto_commit_interval_ms=600_000, **options)  # type: ignore[arg-type]
        await consumer.subscribe([TOPIC])
        read: list[bytes | None] = []
        while len(read) < PARTITIONS:
            read += [record.value for record in await consumer.poll(1_000)]
        await cluster.admin.create_topics([NewTopic("payments", 1, 3)])
        await consumer.subscribe([TOPIC, "payments"], on_revoked=lambda gone: told.append(len(gone)))
        while len(consumer.positions()) < PARTITIONS + 1:
            read += [record.value for record in await consumer.poll(1_000)]
        read += [record.value for record in await consumer.poll(1_000)]
        await consumer.close()
        return [len(read), told[0]]

    assert seen_by(story) == [PARTITIONS, PARTITIONS]


def test_who_unsubscribes_from_a_pattern_is_not_subscribed_again() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        consumer = cluster.consumer(re.compile("orders.*"), group="g", metadata_max_age_ms=2_000)
        await settled(consumer)
        await consumer.unsubscribe()
        for _ in range(10):
            await consumer.poll(1_000)
        return [consumer.subscription, consumer.assignment]

    assert seen_by(story) == [[], []]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_pattern_all_of_whose_topics_are_deleted_owns_nothing_and_begins_anew_with_the_next(assignor: str) -> None:
    async def story(cluster: Cluster) -> list[Any]:
        gone: list[TopicPartition] = []
        await fill(cluster, 60)
        reader = cluster.consumer(
            re.compile("orders.*"),
            group="g",
            assignors=[assignor],
            auto_offset_reset="earliest",
            metadata_max_age_ms=2_000,
            on_revoked=gone.extend,
        )
        while sum(reader.positions().values()) < 60:
            await reader.poll(1_000)
        assert await cluster.admin.delete_topics([TOPIC]) == {TOPIC: None}
        clock = cluster.runtime.clock
        begun_ms = clock.monotonic_ms()
        while reader.assignment:
            await reader.poll(1_000)
        took_ms = clock.monotonic_ms() - begun_ms
        seen = [took_ms < 10_000, len(gone), len((await cluster.admin.describe_group("g")).members)]
        assert await cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]) == {TOPIC: None}
        await fill(cluster, 120)
        read: list[bytes | None] = []
        while len(read) < 120:
            read += [record.value for record in await reader.poll(1_000)]
        await reader.close()
        return [*seen, sorted(read) == sorted(b"%d" % number for number in range(120))]

    assert seen_by(story) == [True, PARTITIONS, 1, True]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_topic_that_was_deleted_is_given_up_and_read_from_its_beginning_when_it_is_made_anew(assignor: str) -> None:
    async def story(cluster: Cluster) -> tuple[int, bool]:
        gone: list[TopicPartition] = []
        await fill(cluster, 60)
        options = {"group": "g", "assignors": [assignor], "auto_offset_reset": "earliest"}
        reader = cluster.consumer(TOPIC, on_revoked=gone.extend, **options)  # type: ignore[arg-type]
        while sum(reader.positions().values()) < 60:
            await reader.poll(1_000)
        assert await cluster.admin.delete_topics([TOPIC]) == {TOPIC: None}
        for _ in range(10):
            await reader.poll(1_000)
        given_up = len(gone)
        assert await cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]) == {TOPIC: None}
        await fill(cluster, 120)
        read = Counter[bytes | None]()
        for _ in range(20):
            read.update(record.value for record in await reader.poll(1_000))
        return given_up, read == Counter(b"%d" % number for number in range(120))

    assert seen_by(story) == (PARTITIONS, True)


def test_a_commit_for_a_topic_that_is_gone_is_refused_at_once_and_holds_up_no_other() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        consumer = cluster.consumer(group="g", enable_auto_commit=False)
        clock = cluster.runtime.clock
        begun_ms = clock.monotonic_ms()
        with pytest.raises(KafkaError, match="cannot commit for gone-0: it does not exist") as refused:
            await consumer.commit({TopicPartition("gone", 0): 1, FIRST: 2})
        took_ms = clock.monotonic_ms() - begun_ms
        return [refused.value.code, took_ms < 1_000, await consumer.committed([FIRST])]

    assert seen_by(story) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, {FIRST: 2}]


def test_what_is_no_offset_no_time_and_no_partition_is_refused_at_once() -> None:
    async def story(cluster: Cluster) -> str:
        sent = await cluster.producer().send(TOPIC, b"value", partition=0)
        consumer = cluster.consumer(group="g")
        await consumer.assign({FIRST: sent.offset})
        for offset in (-3, 1 << 63):
            with pytest.raises(ValueError, match=f"{offset} is not an offset"):
                consumer.seek(FIRST, offset)
            with pytest.raises(ValueError, match=f"{offset} is not an offset"):
                await consumer.assign({FIRST: offset})
        with pytest.raises(ValueError, match="orders-0: -1 is not an offset that can be committed"):
            await consumer.commit({FIRST: LATEST})
        with pytest.raises(ValueError, match="a timestamp cannot be before 1970"):
            await consumer.offsets_for_times({FIRST: -3})
        with pytest.raises(ValueError, match="-1 is not a partition's number"):
            await cluster.producer().append(TOPIC, b"value", partition=-1)
        return str((await consumer.poll(1_000))[0].value)

    assert seen_by(story) == str(b"value")


def test_who_subscribes_to_nothing_gives_up_what_it_has() -> None:
    async def story(cluster: Cluster) -> list[Any]:
        gone: list[TopicPartition] = []
        consumer = cluster.consumer(TOPIC, group="g", on_revoked=gone.extend)
        await settled(consumer)
        await consumer.subscribe([])
        return [len(gone), consumer.assignment, (await cluster.admin.describe_group("g")).members]

    assert seen_by(story) == [PARTITIONS, [], ()]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_goes_on_when_a_callback_raises(assignor: str) -> None:
    async def story(cluster: Cluster) -> tuple[int, int]:
        def complains(partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError

        options = {"group": "g", "assignors": [assignor]}
        first = cluster.consumer(TOPIC, on_revoked=complains, **options)  # type: ignore[arg-type]
        second = cluster.consumer(TOPIC, **options)  # type: ignore[arg-type]
        await settled(first)
        complaints = 0
        while len(first.assignment) + len(second.assignment) != PARTITIONS or not second.assignment:
            try:
                await first.poll(100)
            except ZeroDivisionError:
                complaints += 1
                assert complaints < 10, "it raises for ever"
            await second.poll(100)
        await settled(first, second)
        await second.close()
        with pytest.raises(ZeroDivisionError):
            await first.close()
        return complaints, len(first.assignment)

    assert seen_by(story) == (1, 0)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_goes_on_when_a_poll_is_interrupted_within_a_callback(assignor: str) -> None:
    async def story(cluster: Cluster) -> int:
        interrupted = 0

        async def takes_long(partitions: list[TopicPartition]) -> None:
            if not interrupted:
                await asyncio.sleep(20)

        options = {"group": "g", "assignors": [assignor]}
        first = cluster.consumer(TOPIC, on_revoked=takes_long, **options)  # type: ignore[arg-type]
        second = cluster.consumer(TOPIC, **options)  # type: ignore[arg-type]
        await settled(first)
        while not interrupted:
            await second.poll(100)
            try:
                await asyncio.wait_for(first.poll(100), 10)
            except TimeoutError:
                interrupted += 1
        await settled(first, second)
        return interrupted

    assert seen_by(story) == 1


def test_who_is_interrupted_while_it_closes_leaves_its_group() -> None:
    async def story(cluster: Cluster) -> float:
        async def takes_long(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(600)

        options = {"group": "g", "session_timeout_ms": 60_000}
        first = cluster.consumer(TOPIC, on_revoked=takes_long, **options)  # type: ignore[arg-type]
        await settled(first)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.close(), 1)
        clock = cluster.runtime.clock
        begun_ms = clock.monotonic_ms()
        await settled(cluster.consumer(TOPIC, **options))  # type: ignore[arg-type]
        return clock.monotonic_ms() - begun_ms

    assert seen_by(story) < 30_000


def test_a_callback_may_take_longer_than_the_session() -> None:
    async def story(cluster: Cluster) -> list[str]:
        told: list[str] = []

        async def assigned(partitions: list[TopicPartition]) -> None:
            told.append("assigned")
            await asyncio.sleep(20)

        async def revoked(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(20)
            await slow.commit({FIRST: 1})
            told.append("revoked")

        def lost(partitions: list[TopicPartition]) -> None:
            told.append("lost")

        options = {"group": "g", "session_timeout_ms": 6_000, "assignors": ["range"]}
        slow = cluster.consumer(TOPIC, on_assigned=assigned, on_revoked=revoked, on_lost=lost, **options)  # type: ignore[arg-type]
        await settled(slow)
        for _ in range(100):
            await slow.poll(100)
        quick = cluster.consumer(TOPIC, **options)  # type: ignore[arg-type]
        await asyncio.gather(*(asyncio.wait_for(polled_until_shared(each), 300) for each in (slow, quick)))
        return told

    assert seen_by(story) == ["assigned", "revoked", "assigned"]


async def polled_until_shared(consumer: Consumer) -> None:
    while len(consumer.assignment) != PARTITIONS // 2:
        await consumer.poll(100)


def test_a_group_reads_partitions_and_topics_that_come_later() -> None:
    async def story(cluster: Cluster) -> set[str]:
        reader = cluster.consumer(
            re.compile("orders.*"), group="g", metadata_max_age_ms=2_000, auto_offset_reset="earliest"
        )
        await settled(reader)
        await cluster.admin.create_partitions({TOPIC: PARTITIONS + 1})
        await cluster.admin.create_topics([NewTopic("orders-too", 1, 3)])
        async with cluster.producer() as producer:
            await producer.send(TOPIC, b"new", partition=PARTITIONS)
            await producer.send("orders-too", b"new", partition=0)
        seen: set[str] = set()
        while len(seen) < 2:
            seen |= {str(record.topic_partition) for record in await reader.poll(1_000)}
        return seen

    assert seen_by(story) == {"orders-6", "orders-too-0"}


def test_a_static_member_comes_back_to_what_it_had_without_a_rebalance() -> None:
    async def story(cluster: Cluster) -> tuple[bool, int]:
        options = {"group": "g", "assignors": ["range"], "session_timeout_ms": 30_000}
        stays = cluster.consumer(TOPIC, group_instance_id="a", **options)  # type: ignore[arg-type]
        goes = cluster.consumer(TOPIC, group_instance_id="b", **options)  # type: ignore[arg-type]
        await settled(stays, goes)
        had, generation = goes.assignment, goes.group_metadata().generation
        await goes.close()
        again = cluster.consumer(TOPIC, group_instance_id="b", **options)  # type: ignore[arg-type]
        await settled(stays, again)
        same = again.assignment == had, again.group_metadata().generation - generation
        await asyncio.gather(stays.close(), again.close())
        return same

    assert seen_by(story) == (True, 0)


def test_what_a_transaction_reads_and_writes_counts_together_or_not_at_all() -> None:
    async def story(cluster: Cluster) -> tuple[list[bytes | None], int]:
        await cluster.admin.create_topics([NewTopic("out", 1, 3)])
        await fill(cluster, 6)
        reader = cluster.consumer(TOPIC, group="g", enable_auto_commit=False, auto_offset_reset="earliest")
        async with cluster.transactional_producer("t") as producer:
            await settled(reader)
            reader.seek_to_beginning()
            with pytest.raises(ZeroDivisionError):
                await send_and_fail(producer)
            records: list[Any] = []
            while len(records) < 6:
                records += await reader.poll(1_000)
            async with producer.transaction():
                for record in records:
                    await producer.append("out", record.value)
                await producer.send_offsets_to_transaction(reader.positions(), reader.group_metadata())
            committed = await reader.committed()
        await reader.close()
        out = cluster.consumer("out", isolation_level="read_committed", auto_offset_reset="earliest")
        read: list[bytes | None] = []
        while len(read) < 6:
            read += [record.value for record in await out.poll(1_000)]
        await out.close()
        return sorted(read, key=str), sum(committed.values())

    assert seen_by(story) == ([b"%d" % number for number in range(6)], 6)


def test_who_takes_a_partition_over_waits_for_the_offset_of_an_open_transaction() -> None:
    async def values_of_first(reader: Consumer) -> list[bytes | None]:
        return [each.value for _ in range(8) for each in await reader.poll(1_000) if each.partition == 0]

    async def story(cluster: Cluster) -> tuple[list[bytes | None], list[bytes | None]]:
        await fill(cluster, 12)
        async with cluster.transactional_producer("t") as producer:
            reader = cluster.consumer(TOPIC, group="g", enable_auto_commit=False, auto_offset_reset="earliest")
            async with producer.transaction():
                await producer.send_offsets_to_transaction({FIRST: 1}, reader.group_metadata())
                early = await values_of_first(reader)
            later = await values_of_first(reader)
            await reader.close()
        return early, later

    assert seen_by(story) == ([], [b"6"])


def test_a_transaction_waits_for_a_topic_that_its_coordinator_does_not_know_yet() -> None:
    async def story(cluster: Cluster) -> list[TopicPartition]:
        transaction = Transaction(cluster, TransactionIdentity("id"))
        await transaction.initialize(60_000)
        adding = asyncio.ensure_future(transaction.add([FIRST, TopicPartition("payments", 0)]))
        await asyncio.wait([adding], timeout=1)
        await cluster.admin.create_topics([NewTopic("payments", 1, 3)])
        await adding
        return sorted(await transaction.partitions())

    assert seen_by(story) == [FIRST, TopicPartition("payments", 0)]


def test_who_is_fenced_is_told_so() -> None:
    async def story(cluster: Cluster) -> None:
        async with cluster.transactional_producer("t") as first, cluster.transactional_producer("t"):
            with pytest.raises(ProducerFenced):
                async with first.transaction():
                    await first.send(TOPIC, b"late")

    seen_by(story)
