"""Frames of produces, in order and out of it: what is answered, and what is appended."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from leading_broker import PARTITION, TOPIC, Broker
from verdicts import batches as cases

from barnabas.log.validation import AT_ONCE_BYTES
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.runtime.turns import SLICE
from barnabas.wire import frames as wire_frames
from barnabas.wire import plans
from barnabas.wire.compression import Codec
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch


def frame(
    version: int,
    records: bytes | None,
    acks: int = 1,
    index: int = 0,
    client_id: str | None = "test",
    timeout_ms: int = 1000,
) -> bytes:
    data = ProduceRequest.PartitionProduceData(index, records)
    message = ProduceRequest(None, acks, timeout_ms, [ProduceRequest.TopicProduceData(TOPIC, [data])])
    return b"".join(bytes(part) for part in encode_request(message, version, random.randrange(1 << 31), client_id))


def batch(value: bytes = b"x" * 100, **fields: Any) -> bytes:
    return build_batch([Record(0, 1_700_000_000_000, None, value, [])], **fields)


def odd_frames(version: int, acks: int) -> list[bytes]:
    """Requests of one partition, in order and out of it."""
    good = batch()
    return [
        frame(version, good, acks),
        frame(version, batch(b""), acks),
        frame(version, batch(b"y" * 40_000), acks),
        frame(version, batch(b"z", compression="gzip"), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=0), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=1), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=0), acks),  # again
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=9), acks),  # out of order
        frame(version, batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True), acks),
        frame(version, good[:17] + b"\0\0\0\0" + good[21:], acks),  # the CRC
        frame(version, good[:16] + b"\1" + good[17:], acks),  # the magic
        frame(version, good + good, acks),
        frame(version, good[:-1], acks),
        frame(version, good[:60], acks),
        frame(version, b"", acks),
        frame(version, None, acks),
        frame(version, good, acks, index=1),
        frame(version, good, acks, client_id=None),
        frame(version, good, acks, client_id="ü" * 200),
        frame(version, good, acks, client_id="__admin_client"),
        frame(version, good, 5),
    ]


TRANSACTIONAL = batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)


@pytest.mark.parametrize(
    ("records", "index", "acks", "told"),
    [
        (TRANSACTIONAL, 7, 5, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (TRANSACTIONAL[:-1], 0, 5, ErrorCode.INVALID_RECORD),
        (b"", 7, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"", 0, 5, ErrorCode.INVALID_RECORD),
        (batch(), 0, 5, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_of_several_faults_the_first_in_kafkas_order_is_told(
    tmp_path: Path, records: bytes, index: int, acks: int, told: ErrorCode
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(9, records, acks, index))
        for _ in range(100):
            await asyncio.sleep(0)
        _, answer = decode_response(ProduceResponse, 9, bytes(broker.transport.written[4:]))
        assert answer.responses[0].partition_responses[0].error_code == told

    asyncio.run(story())


def base_offsets(answers: bytearray, size: int) -> list[int]:
    """Of answers of version 9 that have `size` bytes each."""
    at = size - 1 - 4 - 1 - 1 - 1 - 1 - 8 - 8 - 8
    return [struct.unpack_from(">q", answers, start + at)[0] for start in range(0, len(answers), size)]


def answered(directory: Path, frames: list[bytes]) -> tuple[list[bytes], bytes]:
    """What a broker writes to each, on a new connection where it closed the last one, and what its log is then."""

    async def main() -> tuple[list[bytes], bytes]:
        broker = Broker(directory)
        written = []
        for data in frames:
            broker.feed(data)
            written.append(bytes(broker.transport.written) + b"closed" * broker.transport.closed)
            if broker.transport.closed:
                broker.connect()
        return written, bytes(broker.log)

    return asyncio.run(main())


@pytest.mark.parametrize("version", [3, 7, 8, 9, 11])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_broker_without_a_kernel_answers_the_same(
    tmp_path: Path, version: int, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(version)
    odd = odd_frames(version, acks)
    frames = 2 * odd
    for number in range(300):
        data = chance.choice(odd)
        if number > 60 and chance.random() < 0.5:
            at = chance.randrange(4, min(len(data), 200))
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        frames.append(data)
    expected = answered(tmp_path / "with", frames)
    monkeypatch.setattr(plans, "_kernel", None)
    monkeypatch.setattr(wire_frames, "_kernel", None)
    for cls in (ProduceRequest, ProduceResponse):
        for codecs in ("_decoders", "_decoders_in_turns", "_short_decoders", "_encoders", "_framers"):
            monkeypatch.setattr(cls, codecs, {})
    assert answered(tmp_path / "without", frames) == expected
    assert len(expected[1]) > 10_000


def test_what_waits_for_followers_is_answered_in_order_when_they_have_it(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        for _ in range(3):
            broker.feed(frame(9, batch(), -1))
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.local_log().log_end_offset == 3
        await asyncio.sleep(0)
        assert not broker.transport.written
        partition.record_fetch(2, -1, 3, 0, 3, real_runtime().clock.monotonic_ms())
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        size = 4 + struct.unpack_from(">i", broker.transport.written)[0]
        assert len(broker.transport.written) == 3 * size
        assert base_offsets(broker.transport.written, size) == [0, 1, 2]

    asyncio.run(main())


def test_nobody_waits_for_a_replica_whose_directory_failed_at_a_later_partition_of_the_request(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=(0, 1))
        lost = broker.replicas.partition(TopicPartition(TOPIC, 1))
        assert lost is not None
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, lost.local_log().segments.active.file.fileno())
        os.close(full)
        data = [ProduceRequest.PartitionProduceData(index, batch()) for index in (0, 1)]
        message = ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, data)])
        broker.feed(b"".join(bytes(part) for part in encode_request(message, 9, 1, "test")))
        async with asyncio.timeout(10):
            while broker.connection.busy:  # noqa: ASYNC110
                await asyncio.sleep(0)
        _, told = wire_frames.decode_response(ProduceResponse, 9, bytes(broker.transport.written[4:]))
        errors = [answer.error_code for answer in told.responses[0].partition_responses]
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]

    asyncio.run(main())


@pytest.mark.parametrize(("asked", "at_once"), [(SLICE, SLICE), (SLICE + 1, SLICE)])
def test_what_makes_a_slice_is_appended_in_one_so_that_followers_are_told_of_it_together(
    tmp_path: Path, asked: int, at_once: int
) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=range(asked))
        data = [ProduceRequest.PartitionProduceData(index, batch()) for index in range(asked)]
        message = ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, data)])
        broker.feed(b"".join(bytes(part) for part in encode_request(message, 9, 1, "test")))
        led = [broker.replicas.partition(TopicPartition(TOPIC, index)) for index in range(asked)]
        appended = [partition is not None and partition.local_log().log_end_offset for partition in led]
        assert appended == [1] * at_once + [0] * (asked - at_once)
        broker.connection.connection_lost(None)

    asyncio.run(main())


def test_answers_keep_their_order_where_nobody_waits(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        at_once, hurried = (frame(9, batch(), acks, timeout_ms=0) for acks in (1, -1))
        for each in (at_once, hurried):
            broker.feed(each)
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        broker.transport.written.clear()
        asked = [at_once, hurried, at_once, hurried, hurried, at_once]
        broker.feed(b"".join(asked))
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        written, answered = bytes(broker.transport.written), []
        while written:
            answered.append(written[4:8])
            written = written[4 + struct.unpack_from(">i", written)[0] :]
        assert answered == [each[8:12] for each in asked]

    asyncio.run(main())


def test_a_batch_that_takes_long_to_check_keeps_its_place_and_others_do_not_wait_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(9, batch()))
        size = len(broker.transport.written)
        long = cases.batch(cases.record(value=bytes(3 * AT_ONCE_BYTES)), 1, Codec.ZSTD)
        busy, served = broker.connection, broker.transport
        broker.feed(b"".join((frame(9, batch()), frame(9, long), frame(9, batch()))))
        assert base_offsets(served.written, size) == [0, 1]
        broker.connect()
        broker.feed(frame(9, batch()))
        assert base_offsets(broker.transport.written, size) == [2]
        while busy.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert base_offsets(served.written, size) == [0, 1, 3, 4]

    asyncio.run(main())


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_batch_that_takes_long_comes_behind_those_before_it_in_its_request(tmp_path: Path, acks: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, partitions=(0, 1, 2))
        long = cases.batch(cases.record(value=bytes(3 * AT_ONCE_BYTES)), 1, Codec.ZSTD)
        data = [
            ProduceRequest.PartitionProduceData(index, records)
            for index, records in ((0, batch()), (3, batch()), (1, long), (2, batch()), (0, batch()))
        ]
        message = ProduceRequest(None, acks, 1000, [ProduceRequest.TopicProduceData(TOPIC, data)])
        broker.feed(b"".join(encode_request(message, 9, 7, "test")))
        assert not broker.transport.written
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        _, answer = decode_response(ProduceResponse, 9, bytes(broker.transport.written[4:]))
        told = [(each.index, each.error_code, each.base_offset) for each in answer.responses[0].partition_responses]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == [(0, 0, 0), (3, unknown, -1), (1, 0, 0), (2, 0, 0), (0, 0, 1)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("config", "size"), [({}, AT_ONCE_BYTES // 5), ({"log.flush.interval.messages": "1"}, 1)], ids=["large", "flushed"]
)
def test_a_request_to_many_partitions_gives_way_between_them(tmp_path: Path, config: dict[str, str], size: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, partitions=range(12), config=config, request_bytes_max=12 * AT_ONCE_BYTES)
        data = [ProduceRequest.PartitionProduceData(index, batch(bytes(size))) for index in range(12)]
        message = ProduceRequest(None, 1, 1000, [ProduceRequest.TopicProduceData(TOPIC, data)])
        broker.feed(b"".join(encode_request(message, 9, 7, "test")))
        found = [broker.replicas.partition(TopicPartition(TOPIC, index)) for index in range(12)]
        logs = [each.local_log() for each in found if each is not None]
        seen = set()
        while broker.connection.busy:
            seen.add(sum(log.log_end_offset for log in logs))
            await asyncio.sleep(0)
        assert sum(log.log_end_offset for log in logs) == 12
        assert len(seen) >= 2, "others had their turn between them"

    asyncio.run(main())


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused_and_the_connection_stays(tmp_path: Path, codec: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(9, batch()))
        odd = cases.batch(cases.record(), codec=codec, packed=cases.record())
        broker.feed(frame(9, odd))
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not broker.transport.closed
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.local_log().log_end_offset == 1

    asyncio.run(main())


def test_who_wants_no_answer_may_go_at_once(tmp_path: Path) -> None:
    """As with Apache Kafka, which reads on until all that came is done (``Selector.maybeReadFromClosingChannel``)."""

    async def main() -> None:
        broker = Broker(tmp_path)
        long = cases.batch(cases.record(value=bytes(3 * AT_ONCE_BYTES)), 1, Codec.ZSTD)
        unasked = [frame(9, records, acks=0) for records in (batch(), long, *[batch()] * 50)]
        broker.feed(b"".join(unasked))
        assert broker.connection.eof_received()
        while not broker.transport.closed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.local_log().log_end_offset == len(unasked)

    asyncio.run(main())


def test_what_a_throttled_client_has_said_is_done_when_it_has_gone(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.connection.throttle(1)
        broker.feed(frame(9, batch(), acks=0) * 3)
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.local_log().log_end_offset == 0
        assert broker.connection.eof_received()
        while not broker.transport.closed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert partition.local_log().log_end_offset == 3

    asyncio.run(main())


def test_who_goes_while_an_answer_is_waited_for_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        broker.feed(frame(9, batch(), acks=-1))
        assert broker.connection.busy
        assert not broker.connection.eof_received()

    asyncio.run(main())
