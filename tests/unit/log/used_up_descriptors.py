"""A process that has no file descriptor left changes a log whose files are closed: ``DIRECTORY CHANGE``."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from log_worlds import DISK, NOW, append, idempotent, marker, open_log, values

from barnabas.log.log import AppendOrigin, Log
from barnabas.runtime.descriptors import BRIEF, SPARES, hold_spares, opening
from barnabas.wire.records import ControlType

ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)
SEGMENTS = {"segment.bytes": "300", "index.interval.bytes": "0"}
RECORDS = 12
"""Three to a segment; the first two are an idempotent producer's."""


def written(directory: Path, **config: str) -> Log:
    """A log of some segments, none of which is flushed, and none of whose files is open."""
    log = open_log(directory, config=SEGMENTS | config)
    for sequence in range(2):
        log.append_as_leader(idempotent(["0" * 20], sequence), 0, now_ms=NOW)
    for number in range(2, RECORDS):
        append(log, f"{number % 10}" * 20, epoch=number // 4)
    assert len(log.segments) > 3
    log.update_high_watermark(RECORDS)
    log.segments.close_files()
    return log


def with_an_open_transaction(directory: Path) -> Log:
    log = open_log(directory)
    log.append_as_leader(idempotent(["a"], 0, is_transactional=True), 0, now_ms=NOW)
    return log


def without_snapshots(directory: Path) -> Log:
    """Whoever cuts it reads all its segments, to know its producers."""
    log = written(directory)
    for offset in log.producers.snapshot_offsets:
        log.producers._forget_snapshot(offset)
    return log


def with_damaged_indexes(directory: Path) -> Log:
    log = written(directory)
    log.close(now_ms=NOW)
    log = open_log(directory, config=SEGMENTS | {"retention.ms": "1"}, recovery_point=RECORDS)
    for index in Path(log.directory).glob("*index"):
        index.write_bytes(b"x" * 7)
    log.update_high_watermark(RECORDS)
    return log


WORLDS: dict[str, Callable[[Path], Log]] = {
    "abort": with_an_open_transaction,
    "cut without snapshots": without_snapshots,
    "by size": lambda directory: written(directory, **{"retention.bytes": "1"}),
    "by age": lambda directory: written(directory, **{"retention.ms": "1"}),
    "by age, damaged": with_damaged_indexes,
}
CHANGES: dict[str, Callable[[Log], object]] = {
    "cut": lambda log: log.truncate_to(5, now_ms=NOW),
    "cut without snapshots": lambda log: log.truncate_to(RECORDS - 1, now_ms=NOW),
    "cut to nothing": lambda log: log.truncate_to(0, now_ms=NOW),
    "begin elsewhere": lambda log: log.truncate_fully_and_start_at(100, now_ms=NOW),
    "by size": lambda log: log.delete_old_segments(now_ms=NOW),
    "by age": lambda log: log.delete_old_segments(now_ms=2 * NOW),
    "by age, damaged": lambda log: log.delete_old_segments(now_ms=2 * NOW),
    "abort": lambda log: log.append_as_leader(
        marker(ControlType.ABORT), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR
    ),
    "flush": lambda log: log.flush(now_ms=NOW),
    "roll": lambda log: log.roll(now_ms=NOW),
    "close": lambda log: log.close(now_ms=NOW),
    "rename": lambda log: log.rename_directory("renamed-0"),
    "delete": lambda log: log.delete(),
}


def use_up_all() -> None:
    """Opens files that stay open until there is no descriptor left."""
    few = len(os.listdir("/proc/self/fd")) + 2 * SPARES
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, ALLOWED[1]))
    with suppress(OSError):
        while True:
            opening(lambda: os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def main(directory: Path, name: str) -> None:
    world = WORLDS.get(name, written)
    log, with_plenty = world(directory / "short"), world(directory / "plenty")
    CHANGES[name](with_plenty)
    found = told(with_plenty)
    with_plenty.segments.close_files()
    hold_spares()
    use_up_all()
    CHANGES[name](log)
    with ExitStack() as stack:
        for number in range(BRIEF):  # none is left open
            stack.enter_context(DISK.open_briefly(str(directory / str(number)), create=True))
    resource.setrlimit(resource.RLIMIT_NOFILE, ALLOWED)
    assert told(log) == found


def told(log: Log) -> list[object]:
    """What a change left."""
    there = os.path.exists(log.directory)
    return [
        log.log_start_offset,
        log.log_end_offset,
        [segment.base_offset for segment in log.segments],
        [tuple(entry) for entry in log.leader_epochs.entries],
        sorted(log.producers.entries),
        log.segments.aborted_transactions(0, RECORDS) if there else [],
        values(log) if there else [],
    ]


main(Path(sys.argv[1]), sys.argv[2])
