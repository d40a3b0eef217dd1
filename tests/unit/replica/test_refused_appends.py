"""What a producer is told of an append that is refused, and what is counted of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_PARTITION, WALL_MS, batch

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.replica.appending import Appended
from barnabas.wire.records import Record, build_batch


def produce(
    broker: Broker, records: bytearray, acks: int = 1, topic_partition: TopicPartition = TOPIC_PARTITION
) -> Appended:
    return broker.replicas.appending.append(topic_partition, records, acks)


def sent(key: bytes | None, value: bytes, **fields: int) -> bytearray:
    return bytearray(build_batch([Record(0, WALL_MS, key, value, ())], **fields))


def damaged() -> bytearray:
    records = sent(b"k", b"x")
    records[-1] ^= 1
    return records


@pytest.mark.parametrize(
    ("refused", "error", "tells_log_start", "counts_as_failed", "rejected_bytes"),
    [
        (lambda broker: produce(broker, damaged()), ErrorCode.CORRUPT_MESSAGE, False, 0, 0),
        (
            lambda broker: produce(broker, sent(b"k", bytes(2_000))),
            ErrorCode.MESSAGE_TOO_LARGE,
            False,
            0,
            len(sent(b"k", bytes(2_000))),
        ),
        (lambda broker: produce(broker, sent(b"k", b"x"), -1), ErrorCode.NOT_ENOUGH_REPLICAS, True, 1, 0),
        (lambda broker: produce(broker, sent(None, b"x")), ErrorCode.INVALID_RECORD, True, 1, 0),
        (
            lambda broker: [
                produce(broker, sent(b"k", b"x", producer_id=7, producer_epoch=0, base_sequence=sequence))
                for sequence in (0, 5)
            ][-1],
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            True,
            1,
            0,
        ),
        (
            lambda broker: [
                produce(broker, sent(b"k", b"x", producer_id=7, producer_epoch=epoch, base_sequence=0))
                for epoch in (1, 0)
            ][-1],
            ErrorCode.INVALID_PRODUCER_EPOCH,
            True,
            1,
            0,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_a_refused_append_tells_where_the_log_starts_where_kafka_does(
    tmp_path: Path,
    refused: Callable[[Broker], Appended],
    error: ErrorCode,
    tells_log_start: bool,
    counts_as_failed: int,
    rejected_bytes: int,
) -> None:
    """A producer tells by it whether its records are lost, or only too old to be known."""

    async def play() -> None:
        values = {"max.message.bytes": "1000", "cleanup.policy": "compact,delete"}
        broker = Broker(tmp_path, replicas=(1, 2), topic=values)
        await broker.startup()
        for _ in range(3):
            assert produce(broker, sent(b"k", b"x")).error is ErrorCode.NONE
        broker.partition.delete_records(2)
        broker.log_dirs.update_topic_config(TOPIC_PARTITION.topic, values | {"min.insync.replicas": "2"})
        traffic = broker.partition.traffic
        before, failed, end = traffic.produces, traffic.failed_produces, broker.log.log_end_offset
        result = refused(broker)
        appended = broker.log.log_end_offset - end
        assert (result.error, result.log_start_offset) == (error, 2 if tells_log_start else NO_OFFSET)
        assert (traffic.produces - before, traffic.failed_produces - failed) == (1 + appended, counts_as_failed)
        assert traffic.bytes_rejected == rejected_bytes
        assert bool(result.record_errors) == (error is ErrorCode.INVALID_RECORD)
        await broker.stop()

    asyncio.run(play())


def test_an_append_to_what_is_not_here_is_counted_nowhere(tmp_path: Path) -> None:
    async def play() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        result = produce(broker, batch(b"x"), topic_partition=TopicPartition("flights", 1))
        assert (result.error, result.log_start_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_OFFSET)
        assert (broker.partition.traffic.produces, broker.partition.traffic.failed_produces) == (0, 0)
        await broker.stop()

    asyncio.run(play())
