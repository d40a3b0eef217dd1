"""Compaction against a model: wherever the broker dies in it, no key goes back in time (R18)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from clocks import ManualClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dirs import LogDirs
from barnabas.log.validation import end_txn_marker
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.wire.records import ControlType, Record, build_batch, control_batch, records_of

DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000
PARTITION = TopicPartition("accounts", 0)
CONFIG = broker_config(
    {
        "log.dirs": "/data",
        "log.cleanup.policy": "compact",
        "log.segment.bytes": "2000",
        "log.index.interval.bytes": "300",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": str(DAY_MS),
        "log.cleaner.dedupe.buffer.size": "4000",
        "log.message.timestamp.after.max.ms": str(10**15),
        "producer.id.expiration.ms": str(2**31 - 1),
    }
)
keys = st.integers(0, 5)
codecs = st.sampled_from(["none", "gzip", "lz4"])


SMALL_MAP = CONFIG.with_overrides({"log.cleaner.dedupe.buffer.size": "900"})
"""Room for four keys: a pass ends in the middle of a segment."""


class Killed(BaseException):  # as no `except Exception` may survive it
    """The process is gone."""


class CompactionMachine(RuleBasedStateMachine):
    """`written` has every record: offset to key, value and whether it counts, which an aborted one does not."""

    config = CONFIG

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.volume = Volume()
        self.chance = Chance(seed, "disk")
        self.clock = ManualClock(BEGIN_MS)
        self.operations_left: int | None = None
        self.written: dict[int, tuple[bytes, bytes | None, bool]] = {}
        self.sequences: dict[int, int] = {}
        self.last_batches: dict[int, bytes] = {}
        self.counter = 0
        self.start()

    def _operation(self, kind: str, path: str) -> None:
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise Killed

    def start(self) -> None:
        runtime = replace(
            real_runtime(), clock=self.clock, disk=SimDisk(self.volume, self._operation, self.clock.now_ms)
        )
        self.dirs = LogDirs(runtime, self.config)
        asyncio.run(self.dirs.load())
        self.log: Log = self.dirs.get_or_create(PARTITION)
        self.log.producers.requires_verification = False  # there is no coordinator to ask
        self.log.update_high_watermark(self.log.log_end_offset)

    def _append(self, records: list[Record], producer_id: int = -1, *, counts: bool, codec: str = "none") -> None:
        transactional = producer_id >= 10
        sequence = self.sequences.get(producer_id, 0)
        data = build_batch(
            records,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            is_transactional=transactional,
        )
        first = self.log.append_as_leader(bytearray(data), 0, now_ms=self.clock.ms).first_offset
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
            self.last_batches[producer_id] = data
        for index, record in enumerate(records):
            assert record.key is not None
            self.written[first + index] = (record.key, record.value, counts)
        self.log.update_high_watermark(self.log.log_end_offset)

    def _records(self, chosen: list[int], *, tombstones: bool = False) -> list[Record]:
        found = []
        for index, key in enumerate(chosen):
            self.counter += 1
            value = None if tombstones else f"{self.counter}".ljust(100, ".").encode()
            found.append(Record(index, self.clock.ms, b"key-%d" % key, value))
        return found

    @rule(chosen=st.lists(keys, min_size=1, max_size=4), producer=st.sampled_from([-1, 7, 8]), codec=codecs)
    def produce(self, chosen: list[int], producer: int, codec: str) -> None:
        self._append(self._records(chosen), producer, counts=True, codec=codec)

    @rule(chosen=st.lists(keys, min_size=1, max_size=2))
    def delete(self, chosen: list[int]) -> None:
        self._append(self._records(chosen, tombstones=True), counts=True)

    @rule(batches=st.lists(st.lists(keys, min_size=1, max_size=3), min_size=1, max_size=3), commit=st.booleans())
    def transact(self, batches: list[list[int]], commit: bool) -> None:
        for chosen in batches:
            self._append(self._records(chosen), 10, counts=commit)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        end = control_batch(kind, producer_id=10, producer_epoch=0, coordinator_epoch=0, timestamp=self.clock.ms)
        self.log.append_as_leader(bytearray(end), 0, now_ms=self.clock.ms, origin=AppendOrigin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.clock.ms)

    @rule(days=st.integers(0, 3))
    def clean(self, days: int) -> None:
        self.clock.ms += days * DAY_MS
        asyncio.run(self.dirs.cleaner.clean_filthiest())
        assert self.log.uncleanable is None

    @rule(after=st.integers(0, 60), power_too=st.booleans())
    def die_while_cleaning(self, after: int, power_too: bool) -> None:
        self.log.flush(now_ms=self.clock.ms)
        self.dirs.checkpoint_recovery_points()
        self.operations_left = after
        with contextlib.suppress(Killed):
            asyncio.run(self.dirs.cleaner.clean_filthiest())
        self.operations_left = None
        self.dirs.close(clean=False)
        if power_too:
            self.volume.lose_power(self.chance)
        end = self.log.log_end_offset
        self.start()
        assert self.log.log_end_offset == end

    @rule()
    def stop_and_start(self) -> None:
        self.dirs.close()
        self.start()

    @rule()
    def send_the_last_batch_again(self) -> None:
        """Deduplication outlives compaction and restarts (KAFKA-5490)."""
        for data in self.last_batches.values():
            end = self.log.log_end_offset
            assert self.log.append_as_leader(bytearray(data), 0, now_ms=self.clock.ms).duplicate
            assert self.log.log_end_offset == end

    def _held(self) -> dict[int, tuple[bytes, bytes | None]]:
        """Every record of the log that a committed reader gets, with its offset."""
        held: dict[int, tuple[bytes, bytes | None]] = {}
        aborted = self.log.aborted_transactions(self.log.log_start_offset, self.log.log_end_offset)
        last = -1
        ends: set[int] = set()
        for segment in self.log.segments:
            for batch in segment.batches():
                assert batch.base_offset > last
                last = batch.last_offset
                data = segment.read_batch(batch)
                if batch.is_control:
                    if end_txn_marker(data) is not None:
                        ends.add(batch.base_offset)
                    continue
                skipped = any(
                    each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
                    for each in aborted
                )
                for record in records_of(data, 0, len(data)):
                    assert record.key is not None
                    key, value, counts = self.written[record.offset]
                    assert (record.key, record.value) == (key, value), "an offset never changes its value"
                    if skipped:
                        assert not counts
                    else:
                        assert counts, "a committed reader meets no aborted record"
                        held[record.offset] = (record.key, record.value)
        for each in aborted:
            assert each.last_offset in ends, "an aborted transaction that is left has its marker"
        return held

    @invariant()
    def no_key_goes_back_in_time(self) -> None:
        if not hasattr(self, "log"):
            return
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (key, value, counts) in self.written.items():
            if counts:
                newest[key] = (offset, value)
        seen: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (key, value) in self._held().items():
            seen[key] = (offset, value)
        for key, (offset, value) in newest.items():
            if value is None and key not in seen:
                continue  # deleted, and the tombstone has had its time
            assert seen.get(key) == (offset, value)


class SmallMapMachine(CompactionMachine):
    config = SMALL_MAP


TestCompaction = CompactionMachine.TestCase
TestCompactionWithASmallMap = SmallMapMachine.TestCase
TestCompaction.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestCompactionWithASmallMap.settings = TestCompaction.settings
