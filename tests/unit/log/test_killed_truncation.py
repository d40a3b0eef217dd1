"""A log whose process was killed amid a truncation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from log_worlds import NOW, PARTITION, append, idempotent, values

from barnabas.log.log import Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config, topic_config
from barnabas.runtime.real import real_runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import Loss, SimDisk, Volume


class Killed(BaseException):
    pass


def test_a_segment_that_was_cut_when_its_process_was_killed_does_not_come_back_with_the_power() -> None:
    """Behind the segment that was cut next it would leave a hole, which looks like one that compaction made."""
    volume, dies = Volume(), False

    def guard(operation: str, path: str) -> None:
        if dies and operation == "fsync" and path == "/logs/flights-0":
            raise Killed

    def opened() -> Log:
        disk = SimDisk(volume, guard, lambda: NOW)
        settings = topic_config(broker_config({}), {"cleanup.policy": "compact"})
        return Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW, clean=False)

    log = opened()
    append(log, "a")
    append(log, "b")
    log.roll(now_ms=NOW)
    append(log, "c")
    log.flush(now_ms=NOW)
    dies = True
    with pytest.raises(Killed):
        log.truncate_to(1, now_ms=NOW)
    dies = False
    opened().truncate_to(1, now_ms=NOW)
    volume.lose_power(Chance(1, "power"), Loss(page_survives=1.0, size_survives=1.0, name_survives=0.0))
    assert values(opened()) == [(0, "a")]


def test_a_compacted_log_killed_amid_a_truncation_has_no_hole() -> None:
    """Behind a hole the rest of what was cut would be there, and a hole is what compaction leaves."""
    volume, renames = Volume(), -1

    def guard(operation: str, path: str) -> None:
        nonlocal renames
        if operation == "rename" and path.endswith(".log"):
            if not renames:
                raise Killed
            renames -= 1

    def opened() -> Log:
        disk = SimDisk(volume, guard, lambda: NOW)
        settings = topic_config(broker_config({}), {"cleanup.policy": "compact"})
        return Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW, clean=False)

    log = opened()
    for value in "abcd":
        append(log, value)
        log.roll(now_ms=NOW)
    renames = 2
    with pytest.raises(Killed):
        log.truncate_to(1, now_ms=NOW)
    renames = -1
    assert values(opened()) == [(0, "a"), (1, "b"), (2, "c")]


def test_what_is_left_of_a_log_killed_when_it_began_anew_has_no_snapshot_beyond_its_end() -> None:
    """Such a snapshot would be read for one of the records that come to stand there."""
    volume, dies = Volume(), False

    def guard(operation: str, path: str) -> None:
        if dies and operation == "rename" and path.endswith(".index"):
            raise Killed

    def opened() -> Log:
        disk = SimDisk(volume, guard, lambda: NOW)
        return Log.open(
            disk, "/logs/flights-0", PARTITION, topic_config(broker_config({}), {}), now_ms=NOW, clean=False
        )

    log = opened()
    log.append_as_leader(idempotent(["a", "b"], 0), 0, now_ms=NOW)
    log.close(now_ms=NOW)
    assert log.producers.snapshot_offsets == (2,)
    dies = True
    with pytest.raises(Killed):
        log.truncate_fully_and_start_at(6, now_ms=NOW)
    dies = False
    log = opened()
    assert (log.log_end_offset, log.producers.snapshot_offsets) == (0, ())


def end_after_a_kill(begins_anew: bool, operations: int) -> int | None:
    """Where a log of 8 records that begins at 5 ends when it was killed as it was cut at 2, after so many operations of
    its disk; None where it was cut by then."""
    volume, left = Volume(), -1

    def guard(operation: str, path: str) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1

    runtime = replace(real_runtime(), disk=SimDisk(volume, guard, lambda: NOW))

    def opened() -> LogDirs:
        volume.release_locks()
        dirs = LogDirs(runtime, broker_config({"log.dirs": "/logs"}))
        asyncio.run(dirs.load())
        return dirs

    dirs = opened()
    log = dirs.get_or_create(PARTITION)
    for value in "abcdefgh":
        append(log, value)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(5)
    dirs.checkpoint_log_start_offsets()
    left = operations
    try:
        if begins_anew:
            log.truncate_fully_and_start_at(2, now_ms=NOW)
        else:
            log.truncate_to(2, now_ms=NOW)
    except Killed:
        left = -1
        return opened().logs[PARTITION].log_end_offset
    return None


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_log_killed_as_it_is_cut_below_its_start_does_not_skip_what_its_leader_has_there(begins_anew: bool) -> None:
    """It began, empty, at the start that it had before: it fetched from there, and was in sync without the rest."""
    ends = []
    while (end := end_after_a_kill(begins_anew, len(ends))) is not None:
        ends.append(end)
    assert (ends[0], ends[-1]) == (8, 2)
    assert dict.fromkeys(ends).keys() <= {8, 2, 0}
