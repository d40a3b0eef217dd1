"""Logs in a temporary directory, for the tests of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas.log.log import Log
from barnabas.model.config import broker_config, topic_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import ControlType, Record, build_batch, control_batch, records_of

NOW = 1_700_000_000_000
PARTITION = TopicPartition("flights", 0)
DISK = real_runtime().disk


def open_log(directory: Path, *, config: dict[str, str] | None = None, now_ms: int = NOW, **options: Any) -> Log:
    return Log.open(
        DISK,
        str(directory / "flights-0"),
        PARTITION,
        topic_config(broker_config({}), config or {}),
        now_ms=now_ms,
        **options,
    )


def batch(values: Sequence[str], *, timestamp: int = NOW, key: bytes | None = b"k", **fields: Any) -> bytearray:
    records = [Record(i, timestamp + i, key, value.encode()) for i, value in enumerate(values)]
    return bytearray(build_batch(records, **fields))


def idempotent(
    values: Sequence[str], sequence: int, *, producer_id: int = 7, epoch: int = 0, **fields: Any
) -> bytearray:
    return batch(values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def marker(kind: ControlType, *, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    return bytearray(
        control_batch(
            kind,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=NOW,
        )
    )


def append(log: Log, *values: str, epoch: int = 0, **fields: Any) -> int:
    """Appends the values as one batch; returns their first offset."""
    return log.append_as_leader(batch(values, **fields), epoch, now_ms=NOW).first_offset


def values(log: Log, start: int | None = None, end: int | None = None) -> list[tuple[int, str]]:
    """All data records as (offset, value), read as a consumer does: in pieces."""
    found: list[tuple[int, str]] = []
    offset = log.log_start_offset if start is None else start
    stop = log.log_end_offset if end is None else end
    while offset < stop:
        records = memoryview(log.read(offset, 300, bound=stop))
        before = offset
        position = 0
        while position + 12 <= len(records):
            size = int.from_bytes(records[position + 8 : position + 12]) + 12
            if position + size > len(records):
                break
            for record in records_of(records, position, position + size):
                if record.offset >= offset and record.value is not None:
                    found.append((record.offset, record.value.decode(errors="replace")))
                    offset = record.offset + 1
            position += size
        assert offset > before, f"no progress at offset {offset} of {log!r}"
    return found
