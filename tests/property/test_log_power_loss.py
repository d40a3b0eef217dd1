"""Power losses under a log: what was flushed is there, and all that is there was appended (R15)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.log.log import Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import Loss, SimDisk, Volume
from barnabas.wire.records import Record, build_batch, records_of

NOW = 1_700_000_000_000
PARTITION = TopicPartition("flights", 0)
CONFIG = broker_config(
    {
        "log.dirs": "/data",
        "log.segment.bytes": "9000",
        "log.index.interval.bytes": "500",
        "log.retention.ms": "-1",
        "log.message.timestamp.after.max.ms": str(10**15),
    }
)


class PowerLossMachine(RuleBasedStateMachine):
    """`history` has every batch that was ever appended at an offset; `batches` those that the log holds now."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.volume = Volume()
        self.chance = Chance(seed, "disk")
        self.runtime = replace(real_runtime(), disk=SimDisk(self.volume, lambda kind, path: None, lambda: 0))
        self.history: dict[tuple[int, int], list[str]] = {}
        self.batches: list[tuple[int, int]] = []
        self.epoch = 0
        self.counter = 0
        self.safe = 0
        self.start()

    def start(self) -> None:
        self.dirs = LogDirs(self.runtime, CONFIG)
        asyncio.run(self.dirs.load())
        self.log: Log = self.dirs.get_or_create(PARTITION)

    @rule(count=st.integers(1, 3), size=st.integers(1, 1500), times=st.integers(1, 6))
    def append(self, count: int, size: int, times: int) -> None:
        for _ in range(times):
            self.counter += 1
            values = [f"{self.counter} {i} ".ljust(size, "x") for i in range(count)]
            records = [Record(i, NOW + self.counter, b"k", value.encode()) for i, value in enumerate(values)]
            offset = self.log.append_as_leader(build_batch(records), self.epoch, now_ms=NOW).first_offset
            self.history[offset, self.epoch] = values
            self.batches.append((offset, self.epoch))

    @rule(part=st.floats(0, 1))
    def truncate_in_a_new_epoch(self, part: float) -> None:
        self.epoch += 1
        offsets = [*(offset for offset, _ in self.batches), self.log.log_end_offset]
        offset = offsets[int(part * (len(offsets) - 1))]
        self.log.truncate_to(offset, now_ms=NOW)
        self.batches = [each for each in self.batches if each[0] < offset]
        self.safe = min(self.safe, offset)

    @rule()
    def flush(self) -> None:
        self.log.flush(now_ms=NOW)
        self.dirs.checkpoint_recovery_points()
        self.safe = self.log.log_end_offset

    @rule(checkpoint=st.booleans())
    def roll_and_flush_the_rolled(self, checkpoint: bool) -> None:
        self.log.roll(now_ms=NOW)
        self.log.flush_rolled_before(NOW, now_ms=NOW)
        self.safe = self.log.recovery_point
        if checkpoint:
            self.dirs.checkpoint_recovery_points()

    @rule()
    def stop_cleanly(self) -> None:
        self.dirs.close()
        self.safe = self.log.log_end_offset
        self.start()
        assert self.held() == self.batches

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        """The new log start is in memory and in the epochs' file; its own checkpoint is for a crash to lose."""
        self.log.update_high_watermark(self.log.log_end_offset)
        start = self.log.log_start_offset
        self.log.maybe_increment_log_start_offset(start + int(part * (self.log.high_watermark - start)))

    @rule(part=st.floats(0, 1), checkpoint=st.booleans())
    def delete_old_segments(self, part: float, checkpoint: bool) -> None:
        """Files are renamed, which a power loss may undo, and removed later."""
        self.delete_records(part)
        self.log.delete_old_segments(now_ms=NOW)
        self.batches = [each for each in self.batches if each[0] >= self.log.segments[0].base_offset]
        if checkpoint:
            self.dirs.checkpoint_recovery_points()

    @rule()
    def die(self) -> None:
        self.dirs.close(clean=False)
        self.start()
        assert self.held() == self.batches

    @rule(part=st.floats(0, 1, exclude_max=True), names_in_order=st.booleans())
    def rot_and_lose_power(self, part: float, names_in_order: bool) -> None:
        """A byte is wrong on the disk, flushed or not; what recovery cuts for it has to stay cut."""
        segment = self.log.segments[-1]
        ends = [batch.position + batch.size for batch in segment.batches()]
        self.dirs.close(clean=False)
        if ends:
            at = ends[int(part * len(ends))] - 1
            inode = self.volume.names[segment.path]
            inode.cached[at] ^= 0xFF
            inode.durable[at : at + 1] = inode.cached[at : at + 1]
        self.start()
        self.batches = self.batches[: len(self.held())]
        self.safe = min(self.safe, self.log.log_end_offset)
        self.epoch += 1
        self.append(1, 100, 3)
        self.lose_power(False, names_in_order)

    @rule(cleanly=st.booleans(), names_in_order=st.booleans())
    def lose_power(self, cleanly: bool, names_in_order: bool) -> None:
        self.dirs.close(clean=cleanly)
        if cleanly:
            self.safe = self.log.log_end_offset
        self.volume.lose_power(self.chance, Loss(name_survives=None if names_in_order else 0.5))
        self.start()
        held = self.held()
        flushed = [each for each in self.batches if each[0] < self.safe]
        assert not flushed or held[held.index(flushed[0]) :][: len(flushed)] == flushed
        for each in held:
            assert each in self.history
        epochs = [epoch for _, epoch in held]
        assert epochs == sorted(epochs)
        self.batches = held
        self.epoch += 1
        self.safe = min(self.safe, self.log.log_end_offset)

    def held(self) -> list[tuple[int, int]]:
        found = []
        for segment in self.log.segments:
            for batch in segment.batches():
                data = segment.read_batch(batch)
                values = [(record.value or b"").decode() for record in records_of(data, 0, len(data))]
                assert self.history[batch.base_offset, batch.leader_epoch] == values
                found.append((batch.base_offset, batch.leader_epoch))
            timestamps = [batch.max_timestamp for batch in segment.batches()]
            if timestamps:
                # By this one retention judges: an entry that a power loss tore would delete what is young.
                assert segment.largest_timestamp == max(timestamps)
        ends = [offset + len(self.history[offset, epoch]) for offset, epoch in found]
        assert [offset for offset, _ in found[1:]] == ends[:-1], "the log has a hole"
        for (offset, epoch), end in zip(found, ends, strict=True):
            if end > self.log.log_start_offset:
                assert self.log.leader_epochs.epoch_for_offset(max(offset, self.log.log_start_offset)) == epoch
        return found

    @invariant()
    def every_batch_is_found_by_its_offset(self) -> None:
        if not hasattr(self, "log"):
            return
        readable = [offset for offset, _ in self.batches if offset >= self.log.log_start_offset]
        for offset in readable[:: max(1, len(readable) // 5)]:
            assert self.log.read(offset, 1)[:8] == offset.to_bytes(8)


PowerLossMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestPowerLoss = PowerLossMachine.TestCase
