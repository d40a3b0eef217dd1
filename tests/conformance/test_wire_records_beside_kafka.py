"""Record batches beside Kafka's own classes, in every codec and magic."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import apache
import pytest

from barnabas.wire.compression import Codec
from barnabas.wire.records import (
    ControlType,
    Record,
    TimestampType,
    batches,
    build_batch,
    check_crc,
    control_batch,
    records_of,
)

NOW = 1_700_000_000_000


def _records(chance: random.Random, headers: bool) -> list[Record]:
    records = []
    offset = base = chance.choice((0, 5, 2**40))
    for _ in range(chance.choice((1, 2, 30))):
        key = chance.choice((None, b"", chance.randbytes(3)))
        value = chance.choice((None, b"", b"value" * chance.choice((1, 20, 400)), chance.randbytes(100)))
        pairs = [("name", b"v"), ("name", None), ("é", b"")][: chance.randint(0, 3)] if headers else []
        records.append(Record(offset, NOW + chance.choice((0, 0, -5, 10**6)), key, value, tuple(pairs)))
        offset += chance.choice((1, 1, 1, 7))
    assert records[0].offset == base
    return records


def _cases() -> list[tuple[list[Record], Codec, bytes]]:
    cases = []
    for codec in Codec:
        for seed in range(8):
            chance = random.Random(f"{codec.name} {seed}")
            records = _records(chance, headers=seed % 2 == 0)
            batch = build_batch(
                records,
                compression=codec,
                leader_epoch=chance.choice((-1, 3)),
                producer_id=1000 if seed > 3 else -1,
                producer_epoch=2 if seed > 3 else -1,
                base_sequence=9 if seed > 3 else -1,
                is_transactional=seed > 5,
                log_append_time=NOW + 99 if seed in (1, 2) else None,
            )
            if seed in (1, 2):
                records = [record._replace(timestamp=NOW + 99) for record in records]
            cases.append((records, codec, batch))
    # Blocks of snappy and lz4 have bounds: more than one, and some that do not compress.
    big = [Record(number, NOW, None, random.Random(number).randbytes(40_000) + bytes(40_000)) for number in range(5)]
    cases += [(big, codec, build_batch(big, compression=codec)) for codec in Codec]
    marker = control_batch(
        ControlType.COMMIT, producer_id=7, producer_epoch=1, coordinator_epoch=4, timestamp=NOW, base_offset=12
    )
    cases.append((records_of(marker, 0, len(marker)), Codec.NONE, marker))
    return cases


def _in_words(records: list[Record]) -> str:
    def word(data: bytes | None) -> str:
        return "-" if data is None else "x" + data.hex()

    def line(record: Record) -> str:
        headers = "".join(f" {word(name.encode())}={word(value)}" for name, value in record.headers)
        return f"{record.offset} {record.timestamp} {word(record.key)} {word(record.value)}{headers};"

    return "".join(map(line, records))


def _read(data: bytes) -> list[Record]:
    records = []
    for _, start, end in batches(data):
        check_crc(data, start, end)
        records += records_of(data, start, end)
    return [record._replace(headers=tuple(record.headers)) for record in records]


@pytest.mark.apache
def test_kafka_reads_our_batches_and_we_read_kafkas() -> None:
    cases = _cases()
    done = subprocess.run(
        apache.program_command(Path(__file__).with_name("RecordsOracle.java")),
        input="".join(f"{batch.hex()}\n" for _, _, batch in cases),
        capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    for (records, codec, batch), answer in zip(cases, done.stdout.splitlines(), strict=True):
        assert not answer.startswith("!"), answer
        words, magic_2, magic_1, magic_0 = answer.split("\t")
        assert words == _in_words(records)
        kafkas = bytes.fromhex(magic_2[1:])
        assert _read(kafkas) == records
        # With log append time the times of creation, which the deltas are of, are lost on those who read.
        if codec is Codec.NONE and next(batches(batch))[0].timestamp_type is TimestampType.CREATE_TIME:
            assert kafkas == batch
        if magic_1 != "-":
            assert _read(bytes.fromhex(magic_1[1:])) == records
        if magic_0 != "-":
            assert _read(bytes.fromhex(magic_0[1:])) == [record._replace(timestamp=-1) for record in records]


def test_the_kinds_of_timestamps_are_told_apart() -> None:
    created = build_batch([Record(0, NOW, None, b"")])
    appended = build_batch([Record(0, NOW, None, b"")], log_append_time=NOW + 1)
    kinds = [next(batches(batch))[0].timestamp_type for batch in (created, appended)]
    assert kinds == [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]
    assert records_of(appended, 0, len(appended))[0].timestamp == NOW + 1
