"""Followers' fetches of several partitions: what rests, what is told, and what moves while many are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from leading_broker import TOPIC, TOPIC_ID, Broker

from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import CommittedIsr, PendingExpandIsr
from barnabas.replica.fetching import READ_AT_ONCE
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

VERSION = 16
CONSUMER = -1
DEBUGGING_CONSUMER = -2
"""Kafka's ``DEBUGGING_CONSUMER_ID``, of ``kafka-replica-verification``."""
PATIENT_MS = 60_000


class Fetcher:
    """A connection of a follower, or of a consumer, with a fetch session."""

    def __init__(self, broker: Broker, replica_id: int, version: int = VERSION) -> None:
        broker.connect()
        self._version = version
        self._broker, self._replica_id = broker, replica_id
        self._connection, self._transport = broker.connection, broker.transport
        self.session_id = 0
        self._epoch = 0

    def send(self, offsets: Mapping[int, int]) -> None:
        """Fetches, and names these partitions."""
        follows = self._replica_id != CONSUMER
        asked = [FetchRequest.FetchPartition(index, 0, offset, 0 if offset and follows else -1, 0, 1 << 20)
                 for index, offset in offsets.items()]  # fmt: skip
        request = FetchRequest(
            max_wait_ms=PATIENT_MS,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self._epoch,
            topics=[FetchRequest.FetchTopic(TOPIC, TOPIC_ID, asked)],
        )
        if follows:
            request.replica_state = FetchRequest.ReplicaState(self._replica_id, 100 + self._replica_id)
        self._epoch += 1
        self._broker.connection, self._broker.transport = self._connection, self._transport
        self._broker.feed(b"".join(bytes(part) for part in encode_request(request, self._version, 1, "test")))

    async def told(self) -> dict[int, tuple[int, int]]:
        """High watermark and bytes of each partition in the answer."""
        async with asyncio.timeout(10):
            while not self._transport.written:  # noqa: ASYNC110
                await asyncio.sleep(0)
        _, response = decode_response(FetchResponse, self._version, bytes(self._transport.written[4:]))
        self._transport.written.clear()
        assert not response.error_code
        self.session_id = response.session_id
        answers = [data for topic in response.responses for data in topic.partitions]
        assert not any(data.error_code for data in answers)
        return {data.partition_index: (data.high_watermark, len(data.records or b"")) for data in answers}

    async def waits(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not self._transport.written


def produce(broker: Broker, *partitions: int) -> int:
    """Appends a record to each, acks=1; returns a batch's size."""
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"value", [])])
    data = [ProduceRequest.PartitionProduceData(index, batch) for index in partitions]
    message = ProduceRequest(None, 1, 1000, [ProduceRequest.TopicProduceData(TOPIC, data)])
    broker.connect()
    broker.feed(b"".join(bytes(part) for part in encode_request(message, 9, 1, "test")))
    return len(batch)


def high_watermark(broker: Broker, index: int) -> int:
    partition = broker.replicas.partition(TopicPartition(TOPIC, index))
    assert partition is not None
    return partition.local_log().high_watermark


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(play())


def test_what_a_follower_has_all_of_is_told_its_high_watermark_where_another_partition_has_records(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        broker = Broker(tmp_path, replicas=(1, 2, 3), partitions=(0, 1))
        two, three = Fetcher(broker, 2), Fetcher(broker, 3)
        size = produce(broker, 0, 1)
        for follower in (two, three):
            follower.send({0: 0, 1: 0})
            assert await follower.told() == {0: (0, size), 1: (0, size)}
        two.send({0: 1, 1: 1})
        await two.waits()
        produce(broker, 0)
        assert await two.told() == {0: (0, size)}
        three.send({0: 1, 1: 1})
        assert await three.told() == {0: (1, size), 1: (1, 0)}
        two.send({0: 2})
        three.send({0: 2})
        await two.waits()
        await three.waits()
        assert high_watermark(broker, 0) == 2
        produce(broker, 1)
        assert await two.told() == await three.told() == {0: (2, 0), 1: (1, size)}

    played(play)


def test_a_sessions_first_answer_has_all_of_its_partitions_whichever_moves_first(tmp_path: Path) -> None:
    """The follower has all of the first, and asks to join the ISR of the second. Who gets an answer that leaves one out
    does not take it."""

    async def play() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=(0, 1))
        behind = broker.replicas.partition(TopicPartition(TOPIC, 1))
        assert behind is not None
        behind.isr_state = PendingExpandIsr(frozenset({2}), CommittedIsr(frozenset({1}), 0))
        two = Fetcher(broker, 2)
        two.send({0: 0, 1: 0})
        await two.waits()
        size = produce(broker, 1)
        assert await two.told() == {0: (0, 0), 1: (0, size)}

    played(play)


def test_who_fetches_in_another_ones_session_has_what_it_says_noted_as_its_own(tmp_path: Path) -> None:
    async def play() -> None:
        broker = Broker(tmp_path, replicas=(1, 2, 3), partitions=(0, 1))
        two = Fetcher(broker, 2)
        size = produce(broker, 0, 1)
        two.send({0: 0, 1: 0})
        assert await two.told() == {0: (0, size), 1: (0, size)}
        two._replica_id = 3
        two.send({0: 1, 1: 1})
        await two.waits()
        for index in (0, 1):
            partition = broker.replicas.partition(TopicPartition(TOPIC, index))
            assert partition is not None
            assert [partition.progress[each].log_end_offset for each in (2, 3)] == [0, 1]

    played(play)


@pytest.mark.parametrize("replica_id", [CONSUMER, 2])
def test_a_fetch_of_many_partitions_does_not_wait_where_one_that_was_read_first_moved_before_the_last(
    tmp_path: Path, replica_id: int
) -> None:
    async def play() -> None:
        many = range(READ_AT_ONCE + 1)
        replicas = (1,) if replica_id == CONSUMER else (1, 2)
        broker = Broker(tmp_path, replicas=replicas, partitions=many)
        fetcher = Fetcher(broker, replica_id)
        fetcher.send(dict.fromkeys(many, 0))
        size = produce(broker, 0)
        answers = await fetcher.told()
        assert answers[0] == (1 if replica_id == CONSUMER else 0, size)

    played(play)


@pytest.mark.parametrize("version", [7, 9, 10])
def test_the_session_of_a_consumer_that_does_not_know_zstd_is_told_what_changed_and_no_more(
    tmp_path: Path, version: int
) -> None:
    async def play() -> None:
        broker = Broker(tmp_path, partitions=(0, 1))
        consumer = Fetcher(broker, CONSUMER, version)
        size = produce(broker, 0, 1)
        consumer.send({0: 0, 1: 0})
        assert await consumer.told() == {0: (1, size), 1: (1, size)}
        consumer.send({0: 1, 1: 1})
        await consumer.waits()
        produce(broker, 1)
        assert await consumer.told() == {1: (2, size)}

    played(play)


@pytest.mark.parametrize("replica_id", [CONSUMER, DEBUGGING_CONSUMER])
def test_who_is_no_replica_reads_what_is_committed_and_no_more(tmp_path: Path, replica_id: int) -> None:
    async def play() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        produce(broker, 0)
        reader = Fetcher(broker, replica_id)
        reader.send({0: 0})
        await reader.waits()
        assert high_watermark(broker, 0) == 0

    played(play)
