"""The log cleaner: chooses the next log to compact, and compacts it piece by piece (Kafka's ``LogCleaner``).

A compacted log has a clean head and a dirty tail, which meet at its `cleaned_offset`. A pass maps the last offset of
each key in the tail, as far as the map has room. Then it copies all segments up to there without outdated records,
several small segments into one, and replaces the originals by their copies. It touches only rolled segments below the
last stable offset and older than ``min.compaction.lag.ms``.

A pass runs on the broker's loop, in pieces of `PIECE_BYTES` and at ``log.cleaner.io.max.bytes.per.second`` at most. The
log goes on between pieces. If its old segments change (a truncation, retention, a deletion), the pass is dropped;
copies that it has already swapped in are complete. A log that cannot be read is left alone until the broker starts
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from barnabas.log.batches import CorruptBatch, parse
from barnabas.log.compaction import (
    CleanedTransactions,
    Compaction,
    Counted,
    OffsetMap,
    last_records_of,
    records_in,
)
from barnabas.log.index_file import CorruptIndex
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.log.recovery import CLEANED_SUFFIX
from barnabas.log.segment import RECOVERY_BYTES, Segment
from barnabas.model.config import Config
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Clock, Disk
from barnabas.runtime.descriptors import are_exhausted

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 128 * 1024
"""How many bytes of records are processed before the loop's other work gets its turn."""


class CleaningAborted(Exception):
    """The log changed under the cleaner; the next pass begins anew."""


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log, and the part of it that a pass would touch."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """How long a record has waited beyond ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.cleanable_bytes > 0 and (
            self.overdue_ms > 0 or self.dirty_ratio > self.log.settings.min_cleanable_dirty_ratio
        )


def log_to_clean(log: Log, now_ms: int) -> LogToClean:
    """The log with the start and end of its dirty part (``LogCleanerManager.cleanableOffsets``)."""
    first_dirty = log.cleaned_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    settings = log.settings
    rolled = rolled_segments(log)
    dirty = [(segment, end) for segment, end in rolled if end > first_dirty]
    bound = min(log.last_stable_offset, log.active_segment.base_offset)
    if settings.min_compaction_lag_ms > 0:
        young_from_ms = now_ms - settings.min_compaction_lag_ms
        bound = min(
            [bound, *(segment.base_offset for segment, _ in dirty if segment.largest_timestamp > young_from_ms)]
        )
    # A segment counts only if all of it is below the bound.
    cleanable = [(segment, end) for segment, end in dirty if end <= bound]
    first_uncleanable = cleanable[-1][1] if cleanable else first_dirty
    oldest_ms = min((timestamp for segment, _ in dirty if (timestamp := _first_timestamp(segment)) > 0), default=now_ms)
    return LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        sum(segment.size for segment, end in rolled if end <= first_dirty),
        sum(segment.size for segment, _ in cleanable),
        max(0, now_ms - settings.max_compaction_lag_ms - oldest_ms),
    )


def rolled_segments(log: Log) -> list[tuple[Segment, int]]:
    """All segments but the active one, each with the offset at which the next one begins."""
    segments = log.segments
    return [(segment, following.base_offset) for segment, following in pairwise(segments)]


def _first_timestamp(segment: Segment) -> int:
    if segment.rolling_timestamp is None:
        first = next(segment.batches(), None)
        segment.rolling_timestamp = -1 if first is None else first.max_timestamp
    return segment.rolling_timestamp


class LogCleaner:
    """`logs` returns the broker's logs; `checkpoint` stores a log's new `cleaned_offset`, `checkpoint_flushed` its
    recovery point.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: Config,
        logs: Callable[[], Mapping[TopicPartition, Log]],
        checkpoint: Callable[[Log], None],
        checkpoint_flushed: Callable[[Log], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._logs = logs
        self._checkpoint = checkpoint
        self._checkpoint_flushed = checkpoint_flushed
        self._bytes_in_piece = 0
        self.take_config(config)

    def take_config(self, config: Config) -> None:
        self._backoff_ms = config.number("log.cleaner.backoff.ms")
        self._memory_bytes = int(
            config.number("log.cleaner.dedupe.buffer.size") * config.real("log.cleaner.io.buffer.load.factor")
        )
        self._bytes_per_second = config.real("log.cleaner.io.max.bytes.per.second")

    async def run(self) -> None:
        while True:
            cleaned = await self.clean_filthiest()
            # Many small logs cause many flushes: other work has its turn after each.
            await asyncio.sleep(0 if cleaned else self._backoff_ms / 1000)

    async def clean_filthiest(self) -> bool:
        """Makes a pass over the dirtiest log, if one is due. False if none was, or its directory failed."""
        now_ms = self._clock.now_ms()
        due: list[LogToClean] = []
        for partition, log in self._logs().items():
            if not log.settings.compact or log.uncleanable is not None or log.closed or not log.log_dir.online:
                continue
            try:
                candidate = log_to_clean(log, now_ms)
            except Exception as error:
                if not are_exhausted(error):  # otherwise it is tried again
                    self._set_aside(partition, log, error)
                continue
            if candidate.is_due:
                due.append(candidate)
        if not due:
            return False
        filthiest = max(due, key=lambda cleanable: cleanable.dirty_ratio)
        partition = filthiest.log.topic_partition
        try:
            await self._clean(filthiest)
        except CleaningAborted:
            logger.info("[%s] the cleaner begins anew: the log changed under it", partition)
        except LogDirFailure as failure:
            logger.error("[%s] %s", partition, failure)
            return False
        except OSError as error:
            filthiest.log.log_dir.failed(error, "cleaning a log")
            return False
        except Exception as error:
            # Any error, as in Apache's: the cause lies in this log, and the others must still be cleaned.
            self._set_aside(partition, filthiest.log, error)
        return True

    def _set_aside(self, partition: TopicPartition, log: Log, error: Exception) -> None:
        log.uncleanable = str(error) or repr(error)
        logger.error(
            "[%s] cannot be compacted and grows until the broker starts again: %s",
            partition,
            log.uncleanable,
            exc_info=None if isinstance(error, CorruptBatch | CorruptIndex | OSError) else error,
        )

    # One pass

    async def _clean(self, cleanable: LogToClean) -> None:
        log = cleanable.log
        version = log.segments.changed
        began_ms = self._clock.monotonic_ms()
        offsets = OffsetMap(self._memory_bytes)
        await self._map(cleanable, version, offsets)
        end_offset = offsets.latest_offset + 1
        if end_offset <= cleanable.first_dirty_offset:
            raise ValueError(
                f"the map of keys has no room for one batch at offset {cleanable.first_dirty_offset}: "
                "log.cleaner.dedupe.buffer.size is too small"
            )
        # Below the recovery point a gap is from compaction, even if the topic's policy changes before the next start.
        log.flush(now_ms=self._clock.now_ms(), up_to=end_offset)
        self._checkpoint_flushed(log)
        before = [(segment, end) for segment, end in rolled_segments(log) if segment.base_offset < end_offset]
        horizon_ms = self._old_tombstone_horizon_ms(log, cleanable.first_dirty_offset)
        # The map may end within the last segment; its new index needs all of its transactions.
        aborted = log.aborted_transactions(log.log_start_offset, before[-1][1])
        compaction = Compaction(
            offsets,
            CleanedTransactions(aborted),
            last_records_of(log.producers),
            now_ms=self._clock.now_ms(),
            delete_retention_ms=log.settings.delete_retention_ms,
        )
        for group in self._groups(log, [segment for segment, _ in before], cleanable.first_uncleanable_offset):
            await self._clean_group(log, version, group, compaction, horizon_ms)
        log.cleaned_offset = end_offset
        self._checkpoint(log)
        self._tell(log, end_offset, offsets, compaction.counted, self._clock.monotonic_ms() - began_ms)

    @staticmethod
    def _tell(log: Log, end_offset: int, offsets: OffsetMap, counted: Counted, took_ms: int) -> None:
        logger.info(
            "[%s] cleaned up to offset %d in %d ms: %d keys, %d of %d records and %d of %d bytes are kept",
            log.topic_partition,
            end_offset,
            took_ms,
            len(offsets),
            counted.records_kept,
            counted.records_read,
            counted.bytes_written,
            counted.bytes_read,
        )

    async def _map(self, cleanable: LogToClean, version: int, offsets: OffsetMap) -> None:
        """Fills `offsets` from the dirty part until it is full: then the pass ends before that batch."""
        log, start = cleanable.log, cleanable.first_dirty_offset
        transactions = CleanedTransactions(log.aborted_transactions(start, cleanable.first_uncleanable_offset))
        for segment, end in rolled_segments(log):
            if end <= start:
                continue
            if end > cleanable.first_uncleanable_offset:
                return
            located = segment.locate(start)
            for batch in segment.batches(located[0], chunk=RECOVERY_BYTES) if located is not None else ():
                data = segment.read_batch(batch)
                if batch.is_control:
                    transactions.marker_is_alone(batch, data)
                elif not transactions.data_is_aborted(batch):
                    for record in records_in(batch, data):
                        if (
                            record.key is not None
                            and record.offset >= start
                            and not offsets.put(record.key, record.offset)
                        ):
                            return
                offsets.latest_offset = max(offsets.latest_offset, batch.last_offset)
                await self._breathe(log, version, batch.size)
            # If compaction removed the last batches before, there is a gap.
            offsets.latest_offset = max(offsets.latest_offset, end - 1)

    def _old_tombstone_horizon_ms(self, log: Log, first_dirty_offset: int) -> int:
        """Tombstones of magic 0 and 1 may be removed from segments whose files are older than this."""
        clean = [segment for segment, end in rolled_segments(log) if end <= first_dirty_offset]
        return self._disk.modified_ms(clean[-1].path) - log.settings.delete_retention_ms if clean else 0

    @staticmethod
    def _groups(log: Log, segments: list[Segment], first_uncleanable_offset: int) -> list[list[Segment]]:
        """Runs of segments that together are no larger than one segment may be (``groupSegmentsBySize``)."""
        groups: list[list[Segment]] = []
        size = index_size = time_index_size = 0
        for number, segment in enumerate(segments):
            last = (segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable_offset) - 1
            size += segment.size
            index_size += segment.offset_index.file_size
            time_index_size += segment.time_index.file_size
            fits = (
                bool(groups)
                and size <= log.settings.segment_bytes
                and index_size <= log.settings.index_bytes
                and time_index_size <= log.settings.index_bytes
                and last - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if not fits:
                groups.append([])
                size, index_size = segment.size, segment.offset_index.file_size
                time_index_size = segment.time_index.file_size
            groups[-1].append(segment)
        return groups

    async def _clean_group(
        self, log: Log, version: int, group: list[Segment], compaction: Compaction, horizon_ms: int
    ) -> None:
        cleaned = Segment(
            self._disk,
            log.directory,
            group[0].base_offset,
            index_bytes=log.settings.index_bytes,
            now_ms=group[-1].created_ms,
            new=True,
            suffix=CLEANED_SUFFIX,
        )
        kept_before = len(compaction.transactions.kept)
        try:
            for segment in group:
                keep_old_tombstones = self._disk.modified_ms(segment.path) > horizon_ms
                for batch in segment.batches(chunk=RECOVERY_BYTES):
                    result = compaction.cleaned(
                        batch, segment.read_batch(batch), keep_old_tombstones=keep_old_tombstones
                    )
                    if result is not None:
                        cleaned.append(result, [(0, parse(result, 0, 0))], log.settings.index_interval_bytes)
                    await self._breathe(log, version, batch.size + (0 if result is None else len(result)))
            for transaction in compaction.transactions.kept[kept_before:]:
                cleaned.txn_index.append(transaction)
            cleaned.become_inactive(sync=False)
            cleaned.flush()
            # Records without timestamps are as old as their file, and must not become younger.
            self._disk.set_modified_ms(cleaned.path, self._disk.modified_ms(group[-1].path))
            self._look_again(log, version)
        except (Exception, asyncio.CancelledError):
            # An abandoned coroutine removes nothing: the next start does.
            cleaned.remove_files()
            raise
        log.replace_segments(cleaned, group)

    async def _breathe(self, log: Log, version: int, worked_bytes: int) -> None:
        """Lets other work have its turn now and then, and slows down to the allowed rate."""
        self._bytes_in_piece += worked_bytes
        if self._bytes_in_piece < PIECE_BYTES:
            return
        pause_s = self._bytes_in_piece / self._bytes_per_second
        self._bytes_in_piece = 0
        await asyncio.sleep(pause_s if pause_s > 0.001 else 0)
        self._look_again(log, version)

    def _look_again(self, log: Log, version: int) -> None:
        if (
            log.segments.changed != version
            or log.closed
            or not log.settings.compact
            or self._logs().get(log.topic_partition) is not log
        ):
            raise CleaningAborted
        log.log_dir.check_online()
