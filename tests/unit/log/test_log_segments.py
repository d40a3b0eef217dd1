from __future__ import annotations

import os
from pathlib import Path

import pytest
from log_worlds import NOW, append, open_log, values

from barnabas.log.log import Log
from barnabas.log.log_segments import OPEN_MAX


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Two records a segment: base offsets 0, 2, 4 and 6, the last with one record."""
    log = open_log(tmp_path, config={"segment.bytes": "200"})
    for number in range(7):
        append(log, f"value {number}", timestamp=NOW + number)
    assert [each.base_offset for each in log.segments] == [0, 2, 4, 6]
    return log


def test_an_offset_belongs_to_the_last_segment_that_does_not_begin_above_it(log: Log) -> None:
    assert [log.segments.index_of(offset) for offset in range(-1, 9)] == [-1, 0, 0, 1, 1, 2, 2, 3, 3, 3]


def test_what_compaction_took_is_stood_for_by_the_next_batch(log: Log) -> None:
    segments = log.segments
    segments[1].truncate_to(3, NOW)
    assert segments.position_of(2) == (2, 2, 0)
    assert segments.position_of(3) == (3, 4, 0)


def test_the_batch_of_an_offset_is_found_by_its_header(log: Log) -> None:
    segments = log.segments
    found = [segments.batch_at(offset) for offset in range(7)]
    assert [None if each is None else each.base_timestamp for each in found] == [NOW + offset for offset in range(7)]
    assert segments.batch_at(7) is None
    segments[1].truncate_to(3, NOW)
    after = segments.batch_at(3)
    assert after is not None
    assert after.base_offset == 4


def test_bytes_are_counted_across_segments(log: Log) -> None:
    assert log.bytes_between(1, 6) == sum(each.size for each in log.segments[:3]) - log.segments[0].size // 2
    assert log.bytes_between(0, 7) == log.size
    assert log.bytes_between(3, 3) == 0


def test_of_the_last_segments_the_one_before_becomes_active(log: Log) -> None:
    segments = log.segments
    segments.take_out(segments[2:])
    assert segments.active is segments[1]
    segments.take_out(segments[:1])
    assert [each.base_offset for each in segments] == [2]
    assert segments.active is segments[0]


def test_old_segments_that_were_taken_out_or_cut_are_told_by_a_count(log: Log) -> None:
    seen = [log.segments.changed]
    log.truncate_to(5, now_ms=NOW)
    seen.append(log.segments.changed)
    log.truncate_fully_and_start_at(3, now_ms=NOW)
    seen.append(log.segments.changed)
    assert seen == sorted(set(seen))


def test_marked_files_follow_a_directory_that_is_renamed(log: Log, tmp_path: Path) -> None:
    log.truncate_to(4, now_ms=NOW)
    log.rename_directory("flights-0-future")
    assert list((tmp_path / "flights-0-future").glob("*.deleted"))
    log.segments.remove_marked_files()
    assert not list((tmp_path / "flights-0-future").glob("*.deleted"))
    assert not log.segments.has_marked_files


def open_files(directory: Path) -> int:
    links = [Path(f"/proc/self/fd/{descriptor}") for descriptor in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and str(link.readlink()).startswith(str(directory)) for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="here nobody tells which files are open")
def test_old_segments_keep_few_files_open_however_many_are_written_and_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "100", "index.interval.bytes": "0"})
    for number in range(200):
        append(log, f"value {number}")
    assert len(log.segments) == 200
    allowed = 4 * (OPEN_MAX + 1)
    assert open_files(tmp_path) <= allowed
    log.segments.close_files()
    assert [value for _, value in values(log)] == [f"value {number}" for number in range(200)]
    assert open_files(tmp_path) <= allowed
    append(log, "goes on")
    assert values(log, 200) == [(200, "goes on")]
    log.close(now_ms=NOW)
    assert open_files(tmp_path) == 0
