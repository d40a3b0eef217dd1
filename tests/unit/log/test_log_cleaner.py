"""What the cleaner chooses, keeps and remembers."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack
from zlib import crc32

import pytest
from clocks import ManualClock
from log_worlds import batch, idempotent, marker

from barnabas.log.cleaner import log_to_clean
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config, topic_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.node import SimClock
from barnabas.wire.records import DELETE_HORIZON, ControlType, Record, build_batch, records_of

BEGIN_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PARTITION = TopicPartition("accounts", 0)


class World:
    def __init__(self, directory: Path, **config: str) -> None:
        self.clock = ManualClock(BEGIN_MS)
        self.config = broker_config({"log.dirs": str(directory), "log.cleanup.policy": "compact", **config})
        self.dirs = LogDirs(replace(real_runtime(), clock=self.clock), self.config)
        asyncio.run(self.dirs.load())
        self.log = self.dirs.get_or_create(PARTITION)

    def put(self, *pairs: tuple[str, str | None], codec: str = "none") -> None:
        records = [
            Record(index, self.clock.ms, key.encode(), None if value is None else value.encode())
            for index, (key, value) in enumerate(pairs)
        ]
        self.log.append_as_leader(bytearray(build_batch(records, compression=codec)), 0, now_ms=self.clock.ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(now_ms=self.clock.ms)

    def clean(self) -> bool:
        return asyncio.run(self.dirs.cleaner.clean_filthiest())

    def held(self) -> list[tuple[int, str, str | None]]:
        return held(self.log)


def held(log: Log) -> list[tuple[int, str, str | None]]:
    found = []
    for segment in log.segments:
        for each in segment.batches():
            data = segment.read_batch(each)
            if not each.is_control:
                found += [
                    (
                        record.offset,
                        (record.key or b"").decode(),
                        None if record.value is None else record.value.decode(),
                    )
                    for record in records_of(data, 0, len(data))
                ]
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.dirs.close()


def test_tombstones_may_be_kept_for_as_long_as_a_number_can_say(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.delete.retention.ms": str((1 << 63) - 1)})
    for value in ("1", None):
        world.put(("a", value))
        world.roll()
    assert world.clean()
    assert (world.log.uncleanable, world.held()) == (None, [(1, "a", None)])
    world.put(("b", "1"))
    world.roll()
    world.clean()
    assert world.held() == [(1, "a", None), (2, "b", "1")]
    world.dirs.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_last_value_of_each_key_stays_at_its_offset(world: World, codec: str) -> None:
    world.put(("a", "1"), ("b", "1"), codec=codec)
    world.put(("a", "2"), ("c", "1"), codec=codec)
    world.put(("a", "3"), codec=codec)
    assert not world.clean(), "the active segment is not touched"
    world.roll()
    assert world.clean()
    assert world.held() == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    assert world.log.log_end_offset == 5
    assert world.log.cleaned_offset == 5
    assert len(world.log.read(0, 1 << 20)) > 0, "a reader from before the first record gets the next one"
    assert not world.clean(), "nothing is dirty now"


def test_a_tombstone_stays_until_its_readers_have_had_their_time(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.min.cleanable.ratio": "0.01"})
    world.put(("a", "1"))
    world.put(("a", None), ("b", "1"))
    world.roll()
    world.clean()
    assert world.held() == [(1, "a", None), (2, "b", "1")]
    first = next(world.log.segments[0].batches())
    assert first.attributes & DELETE_HORIZON
    assert first.base_timestamp == BEGIN_MS + DAY_MS
    for passed_ms, expected in ((DAY_MS - 1, [(1, "a", None)]), (1, [])):
        world.clock.ms += passed_ms
        world.put(("c", str(passed_ms)))
        world.roll()
        assert world.clean()
        assert [each for each in world.held() if each[1] == "a"] == expected
    world.dirs.close()


def old_message(offset: int, value: bytes | None, timestamp: int) -> bytes:
    """One message of magic 1 with the key ``a``, as a log of before 0.11 holds it."""
    content = pack(">bbqi", 1, 0, timestamp, 1) + b"a"
    content += pack(">i", -1) if value is None else pack(">i", len(value)) + value
    return pack(">qiI", offset, len(content) + 4, crc32(content)) + content


@pytest.mark.parametrize(("hours", "kept"), [(23, True), (25, False)])
def test_an_old_tombstone_stays_while_its_file_is_young(tmp_path: Path, hours: int, kept: bool) -> None:
    """Messages of magic 1 say nothing of when a tombstone may go, and their timestamps are producers'."""
    world = World(tmp_path, **{"log.cleaner.min.cleanable.ratio": "0.1"})
    for offset, value, timestamp in (0, b"1", BEGIN_MS + 400 * DAY_MS), (1, None, BEGIN_MS):
        world.log.append_as_follower(old_message(offset, value, timestamp), now_ms=BEGIN_MS)
        world.log.update_high_watermark(world.log.log_end_offset)
        world.roll()
        path, written_ms = world.log.segments[-2].path, BEGIN_MS - offset * hours * DAY_MS // 24
        os.utime(path, ns=(written_ms * 1_000_000, written_ms * 1_000_000))
        assert world.clean()
    assert world.held() == ([(1, "a", None)] if kept else [])
    world.dirs.close()


def test_several_small_segments_become_one(world: World) -> None:
    for number in range(6):
        world.put(("a", str(number)), (f"key-{number}", "x"))
        world.roll()
    assert len(world.log.segments) == 7
    world.clean()
    assert [each.base_offset for each in world.log.segments] == [0, 12]
    assert world.held()[-2:] == [(10, "a", "5"), (11, "key-5", "x")]


def test_aborted_records_go_and_their_marker_after_them(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.min.cleanable.ratio": "0.01"})
    log = world.log
    log.producers.requires_verification = False
    for kind, sequence in ((ControlType.ABORT, 0), (ControlType.COMMIT, 1)):
        data = idempotent([kind.name], sequence, is_transactional=True)
        log.append_as_leader(data, 0, now_ms=world.clock.ms)
        log.append_as_leader(marker(kind), 0, now_ms=world.clock.ms, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)

    def markers() -> list[int]:
        return [each.base_offset for segment in log.segments for each in segment.batches() if each.is_control]

    def another_pass(passed_ms: int) -> None:
        world.clock.ms += passed_ms
        world.put((f"key-{passed_ms}", "x"))
        world.roll()
        assert world.clean()

    another_pass(0)
    assert [value for _, _, value in world.held()] == ["COMMIT", "x"]
    assert markers() == [1, 3]
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 1, "a reader may be in the midst of it"
    another_pass(1)
    assert markers() == [1, 3]
    assert log.aborted_transactions(0, log.log_end_offset) == []
    another_pass(DAY_MS + 1)
    assert markers() == [3], "its records are gone, and its time is over"
    world.dirs.close()


def test_what_is_young_or_not_committed_waits(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.min.compaction.lag.ms": "1000"})
    world.put(("a", "1"), ("a", "2"))
    world.roll()
    assert not world.clean(), "younger than min.compaction.lag.ms"
    world.clock.ms += 1001
    assert world.clean()
    world.log.append_as_leader(batch(["3"], key=b"a", timestamp=world.clock.ms), 0, now_ms=world.clock.ms)
    world.roll()
    world.clock.ms += 2000
    candidate = log_to_clean(world.log, world.clock.ms)
    assert candidate.cleanable_bytes == 0, "above the high watermark"
    world.dirs.close()


def test_a_record_does_not_wait_longer_than_the_maximal_lag(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        **{"log.cleaner.max.compaction.lag.ms": "5000", "log.cleaner.min.cleanable.ratio": "1"},
    )
    world.put(("a", "1"), ("a", "2"))
    world.roll()
    assert not world.clean(), "not dirty enough"
    world.clock.ms += 5001
    assert world.clean()
    world.dirs.close()


def test_the_checkpoint_is_read_again_and_lowered_by_a_truncation(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(("a", "1"))
    world.put(("a", "2"))
    world.roll()
    world.clean()
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\naccounts 0 2\n"
    world.dirs.close()
    again = LogDirs(replace(real_runtime(), clock=world.clock), world.config)
    asyncio.run(again.load())
    log = again.get(PARTITION)
    assert log is not None
    assert log.cleaned_offset == 2
    log.truncate_to(1, now_ms=BEGIN_MS)
    assert log.cleaned_offset == 1
    assert checkpoint.read_text() == "0\n1\naccounts 0 1\n"
    again.close()


def test_a_map_without_room_cleans_as_far_as_it_goes(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.dedupe.buffer.size": "700"})  # three keys
    for number in range(8):
        world.put((f"key-{number % 4}", str(number)))
        world.roll()
    while world.clean():
        assert world.log.uncleanable is None
    assert [(key, value) for _, key, value in world.held()][-4:] == [
        (f"key-{each % 4}", str(each)) for each in range(4, 8)
    ]
    world.dirs.close()


def test_a_transaction_behind_what_the_map_had_room_for_stays_aborted(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.dedupe.buffer.size": "700"})  # three keys
    log = world.log
    log.producers.requires_verification = False
    world.put(("a", "1"), ("b", "1"), ("c", "1"))
    world.put(("d", "1"))
    log.append_as_leader(idempotent(["aborted"], 0, is_transactional=True), 0, now_ms=world.clock.ms)
    log.append_as_leader(marker(ControlType.ABORT), 0, now_ms=world.clock.ms, origin=AppendOrigin.COORDINATOR)
    world.put(("e", "1"))
    world.roll()
    before = log.aborted_transactions(0, log.log_end_offset)
    assert len(before) == 1
    assert world.clean()
    assert log.cleaned_offset == 3
    assert log.aborted_transactions(0, log.log_end_offset) == before
    assert [key for _, key, _ in world.held()] == ["a", "b", "c", "d", "e"]
    world.dirs.close()


def test_a_log_that_cannot_be_read_is_left_alone_and_named(world: World) -> None:
    world.put(("a", "1"), ("a", "2"))
    world.roll()
    segment = world.log.segments[0]
    segment.file.pwrite(b"\xff" * 8, segment.size - 8)
    data = bytearray(segment.file.pread(segment.size, 0))
    data[57:] = b"\xff" * (len(data) - 57)
    segment.file.pwrite(data, 0)
    assert world.clean()
    assert world.log.uncleanable is not None
    assert not world.clean(), "it is not tried again"


def test_others_have_their_turn_after_each_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    logs = [world.dirs.get_or_create(TopicPartition("small", number)) for number in range(5)]
    for log in logs:
        log.append_as_leader(batch(["1"]), 0, now_ms=world.clock.ms)
        log.update_high_watermark(1)
        log.roll(now_ms=world.clock.ms)

    async def cleaned_in_turns() -> list[int]:
        cleaning = asyncio.create_task(world.dirs.cleaner.run())
        found = []
        for _ in range(8):
            await asyncio.sleep(0)
            found.append(sum(log.cleaned_offset for log in logs))
        cleaning.cancel()
        return found

    assert asyncio.run(cleaned_in_turns()) == [1, 2, 3, 4, 5, 5, 5, 5]
    world.dirs.close()


def test_what_is_written_counts_among_the_bytes_per_second() -> None:
    """``log.cleaner.io.max.bytes.per.second``: the sum of what is read, twice, and written."""
    loop = SimLoop(Chance(1, "cleaner").stream("loop"), EventHash())
    clock = SimClock(loop)
    runtime = replace(real_runtime(), clock=clock, disk=SimDisk(Volume(), lambda operation, path: None, clock.now_ms))
    config = {"log.dirs": "/data", "log.cleanup.policy": "compact", "log.cleaner.io.max.bytes.per.second": "1000000"}
    dirs = LogDirs(runtime, broker_config(config))

    async def cleaned() -> int:
        await dirs.load()
        log = dirs.get_or_create(PARTITION)
        for key in b"a", b"b", b"c":
            log.append_as_leader(batch(["x" * 200_000], key=key, timestamp=clock.now_ms()), 0, now_ms=clock.now_ms())
        log.update_high_watermark(log.log_end_offset)
        log.roll(now_ms=clock.now_ms())
        began_ms = clock.monotonic_ms()
        assert await dirs.cleaner.clean_filthiest()
        return clock.monotonic_ms() - began_ms

    assert loop.run_until_complete(cleaned()) == pytest.approx(1800, abs=20)
    dirs.close()


def test_a_log_whose_files_cannot_be_opened_now_is_cleaned_later() -> None:
    clock, refuses = ManualClock(BEGIN_MS), False

    def guard(operation: str, path: str) -> None:
        if refuses and operation == "open":
            raise OSError(errno.EMFILE, "Too many open files", path)

    config = broker_config({"log.dirs": "/data", "log.cleanup.policy": "compact"})
    runtime = replace(real_runtime(), clock=clock, disk=SimDisk(Volume(), guard, clock.now_ms))
    dirs = LogDirs(runtime, config)
    asyncio.run(dirs.load())
    dirs.get_or_create(PARTITION).append_as_leader(batch(["1"]), 0, now_ms=clock.ms)
    dirs.close()
    for known in (False, True):  # whether the cleaner has looked at the segment before
        dirs = LogDirs(runtime, config)
        asyncio.run(dirs.load())
        log = dirs.get_or_create(PARTITION)
        log.update_high_watermark(log.log_end_offset)
        log.roll(now_ms=clock.ms)
        log.cleaned_offset = 0
        if known:
            assert log_to_clean(log, clock.ms).is_due
            log.segments.close_files()
        refuses = True
        assert not asyncio.run(dirs.cleaner.clean_filthiest()), "who says that it cleaned is asked again at once"
        refuses = False
        assert (log.uncleanable, log.log_dir.online) == (None, True)
        assert asyncio.run(dirs.cleaner.clean_filthiest())
        dirs.close()


@pytest.mark.parametrize("last", [0, 1, 3])
def test_a_death_among_the_old_segments_of_a_swap_brings_no_deleted_key_back(last: int) -> None:
    """Nothing is left of the group behind its first segment, so that a restart cannot tell what the swap replaces."""
    clock, dies_at = ManualClock(BEGIN_MS), ""

    class Killed(BaseException):
        pass

    def guard(operation: str, path: str) -> None:
        if dies_at and operation == "rename" and path.endswith(dies_at):
            raise Killed

    volume = Volume()
    config = broker_config(
        {"log.dirs": "/data", "log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0.01",
         "log.segment.bytes": "4000", "log.cleaner.dedupe.buffer.size": "900"}
    )  # fmt: skip

    def started() -> tuple[LogDirs, Log]:
        runtime = replace(real_runtime(), clock=clock, disk=SimDisk(volume, guard, clock.now_ms))
        dirs = LogDirs(runtime, config)
        asyncio.run(dirs.load())
        log = dirs.get_or_create(PARTITION)
        log.update_high_watermark(log.log_end_offset)
        return dirs, log

    def segment_of(log: Log, *pairs: tuple[str, str | None]) -> None:
        for key, value in pairs:
            record = Record(0, clock.ms, key.encode(), None if value is None else value.encode())
            log.append_as_leader(bytearray(build_batch([record])), 0, now_ms=clock.ms)
        log.update_high_watermark(log.log_end_offset)
        log.roll(now_ms=clock.ms)

    dirs, log = started()
    segment_of(log, ("first", "." * 1000))
    segment_of(log, ("gone", "1"), ("x", "." * 3000))
    # There is room for four keys: the map ends before `z`, and the tombstone behind it is dated, but not mapped.
    segment_of(log, ("x", "." * 1000), ("y", "1"), ("z", "1"), ("gone", None))
    assert asyncio.run(dirs.cleaner.clean_filthiest())
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3, 7]
    assert [(offset, key) for offset, key, _ in held(log)] == [
        (0, "first"), (1, "gone"), (3, "x"), (4, "y"), (5, "z"), (6, "gone"),
    ]  # fmt: skip
    segment_of(log, ("x", "." * 3000), ("y", "2"), ("z", "2"))
    clock.ms += DAY_MS + 1
    log.flush(now_ms=clock.ms)
    dirs.checkpoint_recovery_points()
    dirs.take_config(config.with_overrides({"log.cleaner.dedupe.buffer.size": "9000"}))
    dies_at = f"{last:020d}.log"
    with pytest.raises(Killed):
        asyncio.run(dirs.cleaner.clean_filthiest())
    dies_at = ""
    dirs.close(clean=False)
    dirs, log = started()
    found = {key: value for _, key, value in held(log)}
    assert found.get("gone") is None
    assert found.keys() >= {"first", "x", "y", "z"}
    dirs.close()


def test_a_policy_that_is_changed_is_obeyed(world: World) -> None:
    world.put(("a", "1"), ("a", "2"))
    world.roll()
    world.log.update_config(topic_config(world.config, {"cleanup.policy": "delete"}))
    assert not world.clean()
    world.log.update_config(topic_config(world.config, {"cleanup.policy": "compact,delete"}))
    assert world.clean()
    assert world.held() == [(1, "a", "2")]


def test_a_brokers_changed_buffer_is_the_next_passes(world: World) -> None:
    """With room for three keys, a batch of four has none."""
    world.put(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"))
    world.roll()
    world.dirs.take_config(world.config.with_overrides({"log.cleaner.dedupe.buffer.size": "700"}))
    assert world.clean()
    assert world.log.uncleanable is not None


@pytest.mark.parametrize("timestamp", [-(1 << 63), (1 << 63) - 1])
def test_what_is_older_or_younger_than_any_clock_says_stays_readable(world: World, timestamp: int) -> None:
    """From a tombstone's delete horizon to such a record's time is further than a number holds: Java's begins again."""
    records = [Record(0, timestamp, b"a", b"1"), Record(1, timestamp, b"b", None)]
    world.log.append_as_leader(bytearray(build_batch(records)), 0, now_ms=world.clock.ms)
    world.log.update_high_watermark(2)
    world.roll()
    assert world.clean()
    assert (world.log.uncleanable, world.held()) == (None, [(0, "a", "1"), (1, "b", None)])
    (batch,) = world.log.segments[0].batches()
    assert (batch.base_timestamp, batch.max_timestamp) == (BEGIN_MS + DAY_MS, timestamp)
    deltas = [
        record.timestamp - batch.base_timestamp
        for record in records_of(world.log.segments[0].read_batch(batch), 0, batch.size)
    ]
    assert [(timestamp - batch.base_timestamp - delta) % (1 << 64) for delta in deltas] == [0, 0]


def test_what_a_pass_left_is_there_though_its_topic_is_compacted_no_more_when_its_broker_starts() -> None:
    """Killed before recovery points were written next: a segment that ends early has lost nothing with the power."""
    clock, volume = ManualClock(BEGIN_MS), Volume()

    def started(policy: str) -> tuple[LogDirs, Log]:
        config = broker_config({"log.dirs": "/data", "log.cleanup.policy": policy, "log.segment.bytes": "150"})
        disk = SimDisk(volume, lambda operation, path: None, clock.now_ms)
        dirs = LogDirs(replace(real_runtime(), clock=clock, disk=disk), config)
        asyncio.run(dirs.load())
        return dirs, dirs.get_or_create(PARTITION)

    dirs, log = started("compact")
    for key, value in (("a", "1"), ("b", "1"), ("b", "2"), ("c", "1"), ("d", "1")):
        log.append_as_leader(batch([value], key=key.encode(), timestamp=clock.ms), 0, now_ms=clock.ms)
    log.update_high_watermark(log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert asyncio.run(dirs.cleaner.clean_filthiest())
    left = [(0, "a", "1"), (2, "b", "2"), (3, "c", "1"), (4, "d", "1")]
    assert held(log) == left
    volume.release_locks()
    _, log = started("delete")
    assert held(log) == left
