"""A produce in a known envelope is answered, and appended, as the handler would have done it: byte for byte."""

from __future__ import annotations

import asyncio
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from leading_broker import PARTITION, TOPIC, Broker
from verdicts import batches as cases

from barnabas.broker import repeated_produce
from barnabas.log.validation import AT_ONCE_BYTES
from barnabas.runtime.real import real_runtime
from barnabas.wire.compression import Codec
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.produce import ProduceRequest
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


def base_offsets(answers: bytearray, size: int) -> list[int]:
    """Of answers of version 9 that have `size` bytes each."""
    at = size - 1 - 4 - 1 - 1 - 1 - 1 - 8 - 8 - 8
    return [struct.unpack_from(">q", answers, start + at)[0] for start in range(0, len(answers), size)]


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_is_repeated_is_answered_as_the_first_time(tmp_path: Path, version: int, acks: int) -> None:
    async def main() -> None:
        ordinary, repeating = Broker(tmp_path / "a"), Broker(tmp_path / "b")
        ordinary.router.repeated_produces._versions.clear()
        chance = random.Random(version)
        frames = odd_frames(version, acks)
        for number in range(400):
            data = frames[number % len(frames)] if number < 2 * len(frames) else chance.choice(frames)
            if number > 100 and chance.random() < 0.5:
                at = chance.randrange(4, min(len(data), 200))
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            for broker in (ordinary, repeating):
                broker.feed(data)
            assert repeating.transport.written == ordinary.transport.written, (number, data.hex())
            assert repeating.transport.closed == ordinary.transport.closed, (number, data.hex())
            if ordinary.transport.closed:
                ordinary.connect()
                repeating.connect()
        assert ordinary.log == repeating.log
        assert len(ordinary.log) > 10_000

    asyncio.run(main())


@pytest.mark.parametrize("version", [7, 11])
def test_the_second_request_of_a_kind_needs_no_handler(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(version, batch()))
        broker.connection._routes = {}
        broker.feed(frame(version, batch(b"another")))
        assert not broker.transport.closed
        broker.feed(frame(version, batch(), index=1))
        assert broker.transport.closed

    asyncio.run(main())


def known(broker: Broker) -> int:
    return sum(len(each.envelopes) for each in broker.router.repeated_produces._versions.values())


def test_what_was_refused_is_not_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        for refused in (
            frame(11, batch(), index=7),
            frame(11, batch()[:-1]),
            frame(11, batch(), client_id="x" * 127)[:-1],
        ):
            broker.feed(refused)
            if broker.transport.closed:
                broker.connect()
        assert known(broker) == 0
        broker.feed(frame(11, batch()))
        assert known(broker) == 1

    asyncio.run(main())


def test_what_was_learned_first_makes_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_produce, "MAX_ENVELOPES", 3)

    async def main() -> None:
        broker = Broker(tmp_path)
        for name in ("a", "b", "c", "d"):
            broker.feed(frame(11, batch(), client_id=name))
            broker.feed(frame(9, batch(), client_id=name))
            assert known(broker) <= 3
        broker.connection._routes = {}
        broker.feed(frame(9, batch(), client_id="d"))
        assert not broker.transport.closed, "it is known"
        broker.feed(frame(11, batch(), client_id="a"))
        assert broker.transport.closed, "it is not known any more"

    asyncio.run(main())


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


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused_in_a_known_envelope_as_well(tmp_path: Path, codec: int) -> None:
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
