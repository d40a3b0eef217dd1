from __future__ import annotations

import pytest

from barnabas.wire.compression import TooLargeError
from barnabas.wire.errors import WireError
from barnabas.wire.message_sets import (
    RECORD_BYTES_MAX,
    UnsupportedCompressionError,
    build_message_set,
    down_converting,
)
from barnabas.wire.records import (
    LOG_APPEND_TIME,
    ControlType,
    Record,
    batches,
    build_batch,
    check_crc,
    control_batch,
    records_of,
)

RECORDS = [
    Record(7, 100, b"key", b"value", [("header", b"lost")]),
    Record(8, 101, None, b"", []),
    Record(10, 102, b"", None, []),
]


def down_converted(data: bytes, magic: int, first_offset: int, limit: int = 1 << 30) -> bytes:
    converting = down_converting(data, magic, first_offset, limit)
    while True:
        try:
            next(converting)
        except StopIteration as end:
            return bytes(end.value)


def read(data: bytes) -> list[tuple[int, Record]]:
    found = []
    for header, start, end in batches(data):
        check_crc(data, start, end)
        found += [(header.magic, record) for record in records_of(data, start, end)]
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_client_reads_keys_values_and_offsets(magic: int, compression: str) -> None:
    found = read(down_converted(build_batch(RECORDS, compression=compression), magic, 7))
    assert found == [
        (magic, record._replace(headers=(), timestamp=record.timestamp if magic else -1)) for record in RECORDS
    ]


def test_what_is_before_the_offset_asked_for_is_left_out() -> None:
    assert [record.offset for _, record in read(down_converted(build_batch(RECORDS), 1, 8))] == [8, 10]


def test_the_time_of_the_append_stays_one() -> None:
    data = down_converted(build_batch(RECORDS, log_append_time=500), 1, 0)
    assert [(header.attributes, header.base_timestamp) for header, _, _ in batches(data)] == [
        (LOG_APPEND_TIME, 500)
    ] * 3


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_times_further_apart_than_a_number_holds_are_those_that_were_sent(compression: str) -> None:
    times = [-(1 << 63), (1 << 63) - 1, 0]
    records = [Record(at, time, b"key", b"value") for at, time in enumerate(times)]
    found = read(down_converted(build_batch(records, compression=compression), 1, 0))
    assert [record.timestamp for _, record in found] == times


def test_older_messages_stay_as_they_are_among_batches() -> None:
    old = build_message_set(RECORDS[:1], 0)
    assert down_converted(old + build_batch(RECORDS[1:]), 1, 0).startswith(old)


def test_a_cut_batch_is_dropped_behind_whole_ones_and_kept_alone() -> None:
    batch = build_batch(RECORDS)
    assert len(read(down_converted(batch + batch[:40], 1, 0))) == 3
    assert down_converted(batch[:40], 1, 0) == batch[:40]


def test_control_records_are_nothing_for_old_clients() -> None:
    marker = control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=103, base_offset=11
    )
    data = build_batch(RECORDS) + marker
    assert len(read(down_converted(data, 1, 0))) == 3


def test_an_old_client_reads_what_is_before_a_batch_of_zstd_and_then_hears_of_that() -> None:
    """As ``LazyDownConversionRecordsSend`` has it: consumers come to the batch at whose offset they are refused."""
    marker = control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=103, base_offset=11
    )
    zstd = build_batch([Record(12, 104, b"key", b"value", [])], compression="zstd")
    data = build_batch(RECORDS) + marker + zstd
    assert [record.offset for _, record in read(down_converted(data, 1, 7))] == [7, 8, 10]
    for behind in (marker + zstd, zstd):
        with pytest.raises(UnsupportedCompressionError):
            down_converted(behind, 1, 11)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
def test_no_more_is_converted_than_was_asked_for_and_the_rest_comes_next(compression: str) -> None:
    records = [Record(at, 100, b"key", bytes(1000), []) for at in range(500)]
    batch = build_batch(records, compression=compression)
    found: list[int] = []
    while len(found) < len(records):
        converted = down_converted(batch, 1, len(found), 100_000)
        assert 0 < len(converted) <= 100_000
        found += [record.offset for _, record in read(converted)]
    assert found == [record.offset for record in records]


def test_one_record_comes_whole_although_it_is_longer_than_what_was_asked_for() -> None:
    batch = build_batch([Record(at, 100, None, bytes(200_000), []) for at in range(3)], compression="gzip")
    assert [record.offset for _, record in read(down_converted(batch, 1, 0, 1000))] == [0]
    assert [record.offset for _, record in read(down_converted(batch, 1, 1, 1000))] == [1]


def test_a_record_that_nobody_can_have_meant_is_too_large() -> None:
    batch = build_batch([Record(0, 100, None, bytes(RECORD_BYTES_MAX), [])], compression="gzip")
    with pytest.raises(TooLargeError):
        down_converted(batch, 1, 0, 1000)


@pytest.mark.parametrize("at", range(61, 61 + 40, 3))
def test_records_that_are_none_are_refused(at: int) -> None:
    batch = bytearray(build_batch(RECORDS))
    batch[at] ^= 0x55
    try:
        found = [record for _, record in read(down_converted(bytes(batch), 1, 0))]
    except WireError:
        return
    assert len(found) <= 3


def test_converting_gives_way_while_a_bomb_is_unpacked() -> None:
    batch = build_batch([Record(0, 100, None, bytes(12 << 20), [])], compression="gzip")
    assert len(list(down_converting(batch, 1, 0, 1000))) > 20
