from __future__ import annotations

import pytest

from barnabas.wire.message_sets import build_message_set, down_converted
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
