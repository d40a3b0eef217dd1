"""A log against a list: whatever happens to it, it holds what the list holds (R5, R10, R11, R13, R15)."""

from __future__ import annotations

import shutil
import tempfile
from struct import pack_into

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.log.log import Log
from barnabas.model.config import broker_config, topic_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import Record, build_batch, records_of

NOW = 1_700_000_000_000
DISK = real_runtime().disk
PARTITION = TopicPartition("flights", 0)
CONFIG = topic_config(
    broker_config({}),
    {
        "cleanup.policy": "compact",  # followers of such a log get gaps
        "segment.bytes": "600",
        "index.interval.bytes": "150",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.after.max.ms": str(10**15),
    },
)


class LogMachine(RuleBasedStateMachine):
    """`self.batches` is the model: (base offset, values, leader epoch) of every batch that the log holds."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="barnabas-log-")
        self.batches: list[tuple[int, list[str], int]] = []
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.flushed = 0
        self.epoch = 0
        self.sequence = 0
        self.counter = 0
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> Log:
        return Log.open(
            DISK,
            f"{self.directory}/flights-0",
            PARTITION,
            CONFIG,
            now_ms=NOW,
            clean=clean,
            recovery_point=self.flushed,
            log_start_offset=self.start,
        )

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close_files()
            shutil.rmtree(self.directory)

    def make(self, count: int) -> list[str]:
        self.counter += count
        return [f"value {self.counter - count + i}" for i in range(count)]

    @rule(count=st.integers(1, 5), new_epoch=st.booleans(), repeat=st.booleans())
    def append_as_leader(self, count: int, new_epoch: bool, repeat: bool) -> None:
        self.epoch += new_epoch
        values = self.make(count)
        records = [Record(i, NOW + self.end + i, b"k", value.encode()) for i, value in enumerate(values)]
        data = build_batch(records, producer_id=9, producer_epoch=0, base_sequence=self.sequence)
        info = self.log.append_as_leader(bytearray(data), self.epoch, now_ms=NOW)
        assert info.first_offset == self.end
        if repeat:
            again = self.log.append_as_leader(bytearray(data), self.epoch, now_ms=NOW)
            assert again.duplicate
            assert again.first_offset == info.first_offset
        self.batches.append((self.end, values, self.epoch))
        self.end += count
        self.sequence += count

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=6), gap=st.integers(0, 3))
    def append_as_follower(self, counts: list[int], gap: int) -> None:
        data = bytearray()
        base = self.end + gap
        for count in counts:
            values = self.make(count)
            piece = bytearray(
                build_batch([Record(i, NOW + base + i, b"k", value.encode()) for i, value in enumerate(values)])
            )
            pack_into(">q", piece, 0, base)
            pack_into(">i", piece, 12, self.epoch)
            data += piece
            self.batches.append((base, values, self.epoch))
            base += count
        self.log.append_as_follower(memoryview(data), now_ms=NOW)
        self.end = base

    @rule(part=st.floats(0, 1))
    def raise_high_watermark(self, part: float) -> None:
        target = self.high_watermark + int(part * (self.end - self.high_watermark))
        self.high_watermark = self.log.update_high_watermark(target)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.batches) - 1))
        offset, values, _ = self.batches[at]
        target = data.draw(st.integers(offset, offset + len(values) - 1))
        # Where a batch began that is deleted with its segment, the log does not know any more.
        end = target if target < self.log.segments[0].base_offset else offset
        self.log.truncate_to(target, now_ms=NOW)
        self.batches = [each for each in self.batches if each[0] < offset]
        self.end = end
        self.start = min(self.start, end)
        self.high_watermark = min(self.high_watermark, end)
        self.flushed = min(self.flushed, end)
        self.sequence = self.log.producers.entries[9].last_sequence + 1 if 9 in self.log.producers.entries else 0

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = self.start + int(part * (self.high_watermark - self.start))
        self.log.maybe_increment_log_start_offset(offset)
        self.start = max(self.start, offset)
        self.log.delete_old_segments(now_ms=NOW)
        self.log.delete_marked_files(now_ms=NOW)

    @rule(up_to=st.floats(0, 1))
    def flush(self, up_to: float) -> None:
        self.log.flush(now_ms=NOW, up_to=self.start + int(up_to * (self.end - self.start)))
        self.flushed = self.log.recovery_point

    @rule()
    def stop_cleanly_and_start(self) -> None:
        self.log.close(now_ms=NOW)
        self.flushed = self.log.recovery_point
        self.log = self.open(clean=True)
        self.reopened()

    @rule(lost=st.integers(0, 200), noise=st.binary(max_size=80))
    def crash_and_start(self, lost: int, noise: bytes) -> None:
        """The last bytes of the active segment that were not flushed are lost, or other bytes stand there."""
        active = self.log.active_segment
        keep_from = self.log.offset_metadata(max(self.log.recovery_point, active.base_offset)).position
        size = max(keep_from, active.size - lost)
        path = active.path
        base = active.base_offset
        lost_any = size < active.size
        self.log.close_files()
        with open(path, "r+b") as file:
            file.truncate(size)
            file.seek(size)
            file.write(noise)
        end_before = self.end
        self.log = self.open(clean=False)
        assert base <= self.log.log_end_offset <= end_before
        if not lost_any:
            whole = [each for each in self.batches if each[0] >= base]
            end = whole[-1][0] + len(whole[-1][1]) if whole else base
            assert self.log.log_end_offset == max(end, self.start)
        self.batches = [each for each in self.batches if each[0] + len(each[1]) <= self.log.log_end_offset]
        self.end = self.log.log_end_offset
        self.reopened()

    def reopened(self) -> None:
        # Offsets that no batch has, after a truncation into a gap, are not known any more.
        last = self.batches[-1] if self.batches else (0, [], 0)
        assert last[0] + len(last[1]) <= self.log.log_end_offset <= self.end
        self.end = self.log.log_end_offset
        assert self.log.recovery_point >= min(self.flushed, self.end)
        self.start = self.log.log_start_offset
        self.high_watermark = self.log.update_high_watermark(self.high_watermark)
        self.flushed = self.log.recovery_point
        entry = self.log.producers.entries.get(9)
        self.sequence = entry.last_sequence + 1 if entry is not None else 0

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_start_offset == self.start <= log.last_stable_offset <= log.high_watermark <= self.end
        assert log.log_end_offset == self.end
        expected = [
            (base + i, value)
            for base, values, _ in self.batches
            for i, value in enumerate(values)
            if base + i >= self.start
        ]
        assert self.read_all() == expected

    def read_all(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        offset = self.start
        while offset < self.end:
            data = memoryview(self.log.read(offset, 200))
            if not data:
                break
            position = 0
            while position + 12 <= len(data):
                size = int.from_bytes(data[position + 8 : position + 12]) + 12
                if position + size > len(data):
                    break
                for record in records_of(data, position, position + size):
                    if record.offset >= offset:
                        assert record.value is not None
                        found.append((record.offset, record.value.decode()))
                        offset = record.offset + 1
                position += size
        return found

    @invariant()
    def leader_epochs_are_those_of_the_batches(self) -> None:
        if not hasattr(self, "log"):
            return
        expected: dict[int, int] = {}
        for base, values, epoch in self.batches:
            if base + len(values) > self.start:
                expected.setdefault(epoch, max(base, self.start))
        known = {entry.epoch: entry.start_offset for entry in self.log.leader_epochs.entries}
        for epoch, start in expected.items():
            assert known.get(epoch, -1) <= start, (known, expected)
            assert epoch in known, (known, expected)

    @invariant()
    def every_offset_is_found_by_its_timestamp(self) -> None:
        if not hasattr(self, "log") or not self.batches:
            return
        base = self.batches[len(self.batches) // 2][0]
        if base < self.start:
            return
        found = self.log.fetch_offset_by_timestamp(NOW + base)
        assert found is not None
        assert found.offset == base


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLog = LogMachine.TestCase
