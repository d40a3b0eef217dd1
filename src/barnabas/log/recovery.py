"""Loads a partition's directory: after a clean stop it trusts the files, otherwise it checks all that was not flushed.

After an unclean stop every batch from the recovery point on is read and its CRC checked. The log ends before the first
batch that is torn or wrong, and segments after it are dropped: what a log holds is always a prefix of what was appended
(R15). Indexes, leader epochs and producer state of that part are made anew from the batches.

That may take minutes, so it is done in pieces: a function that reads a whole segment is a generator, which yields the
bytes of each piece. The caller decides what is done in between; no other code knows the log meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.log.batches import CorruptBatch, StoredBatch
from barnabas.log.index_file import CorruptIndex
from barnabas.log.leader_epoch_cache import FILE_NAME as EPOCHS_FILE_NAME
from barnabas.log.leader_epoch_cache import LeaderEpochCache
from barnabas.log.producer_state import ProducerStateManager
from barnabas.log.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    RECOVERY_BYTES,
    SUFFIXES,
    Segment,
    base_offset_of,
)
from barnabas.log.settings import LogSettings
from barnabas.log.validation import end_txn_marker
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from barnabas.model.sentinels import OFFSET_MAX
from barnabas.runtime import Disk
from barnabas.runtime.descriptors import briefly
from barnabas.runtime.unreadable import Skip

logger = logging.getLogger(__name__)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
Pieces = Generator[int, None, None]


@dataclass(slots=True)
class LoadedLog:
    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochCache
    producers: ProducerStateManager


def load_segments(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    settings: LogSettings,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    producer_id_expiration_ms: int,
    skip: Skip,
) -> Generator[int, None, LoadedLog]:
    """The segments of `directory`, at least one. `skip` is told of unreadable things. Raises ``OSError`` only."""
    _finish_interrupted_work(disk, directory, skip)
    bases = _segment_bases(disk, directory, skip)
    segments = [Segment(disk, directory, base, index_bytes=settings.index_bytes, now_ms=now_ms) for base in bases]
    epochs = LeaderEpochCache(disk, directory)
    epochs_known = _load_epochs(epochs, directory, skip)
    producers = ProducerStateManager(
        disk, directory, topic_partition, producer_id_expiration_ms=producer_id_expiration_ms, skip=skip
    )
    producers.remove_stray_snapshots(bases)
    flushed_offset = OFFSET_MAX if clean else recovery_point
    loading = _Loading(
        disk, directory, topic_partition, settings, flushed_offset, log_start_offset, segments, epochs, producers
    )
    first = len(segments) if clean else _holder(bases, recovery_point)
    log_end_offset = yield from loading.find_end(first, skip)
    if segments and log_end_offset < log_start_offset:
        logger.warning(
            "[%s] all segments are dropped: the log ends at %d, before its start %d; files were removed from %s",
            topic_partition,
            log_end_offset,
            log_start_offset,
            directory,
        )
        loading.drop(list(segments))
        epochs.clear()
        producers.truncate_fully_and_start_at(log_start_offset)
    if not segments:
        log_end_offset = log_start_offset
        segments.append(
            Segment(disk, directory, log_start_offset, index_bytes=settings.index_bytes, now_ms=now_ms, new=True)
        )
        if log_start_offset:
            disk.fsync_dir(directory)  # from now on the segment's name alone says where the log begins
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    if not epochs_known or _begins_before(segments, log_start_offset, epochs):
        yield from _scan_epochs(segments, epochs)
    epochs.truncate_from_start(log_start_offset)
    producers.truncate_and_reload(log_start_offset, log_end_offset)
    if producers.map_end_offset < log_end_offset:
        yield from replaying_producers(segments, producers, log_start_offset, log_end_offset)
    producers.map_end_offset = log_end_offset
    # A broker loads all its logs before any is used: their files together would exceed its descriptors.
    for segment in segments:
        segment.close_files()
    return LoadedLog(
        segments,
        log_start_offset,
        log_end_offset,
        log_end_offset if clean else min(recovery_point, log_end_offset),
        epochs,
        producers,
    )


def _finish_interrupted_work(disk: Disk, directory: str, skip: Skip) -> None:
    """Removes files marked for deletion and half-made ones, and finishes a swap that compaction had begun.

    Apache's broker also splits a segment into several, whose files get their second names last to first: while one
    lacks it, the following ones are half made as well (KAFKA-6264).

    The new names may not have been durable before a crash: a power loss must not bring the old ones back.
    """
    endings = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
    names = [
        each for each in disk.listdir(directory) if each.endswith(endings) and not disk.is_dir(f"{directory}/{each}")
    ]
    half_made = min((base for each in SUFFIXES for base in _bases(names, each + CLEANED_SUFFIX)), default=OFFSET_MAX)
    swapped = sorted(base for base in _bases(names, LOG_SUFFIX + SWAP_SUFFIX) if base < half_made)
    whole = tuple(f"{base:020d}" for base in swapped)
    for name in names:
        # A log file becomes a swap file after its indexes: without it they would wait here for the next one's.
        if not (name.endswith(SWAP_SUFFIX) and name.startswith(whole)):
            disk.remove(f"{directory}/{name}")
    if not swapped:
        if any(name.endswith(DELETED_SUFFIX) for name in names):
            disk.fsync_dir(directory)
        return
    ends = [_swap_end(disk, directory, base, skip) for base in swapped]
    for name in disk.listdir(directory):
        bases = [base for suffix in SUFFIXES if (base := base_offset_of(name, suffix)) is not None]
        if bases and swapped[0] <= bases[0] < max(ends):
            disk.remove(f"{directory}/{name}")
    for name in names:
        if name.endswith(SWAP_SUFFIX) and name.startswith(whole):
            disk.rename(f"{directory}/{name}", f"{directory}/{name[: -len(SWAP_SUFFIX)]}")
    disk.fsync_dir(directory)


def _bases(names: Sequence[str], suffix: str) -> list[int]:
    return [base for name in names if (base := base_offset_of(name, suffix)) is not None]


def _swap_end(disk: Disk, directory: str, base: int, skip: Skip) -> int:
    """The offset after the last readable batch of a swap file."""
    segment = Segment(disk, directory, base, index_bytes=0, now_ms=0, suffix=SWAP_SUFFIX)
    end = base
    try:
        for batch in segment.batches(chunk=RECOVERY_BYTES):
            end = batch.next_offset
    except CorruptBatch as error:
        skip("cleaned segment", segment.path, error)
    finally:
        segment.close_files()
    return end


def _segment_bases(disk: Disk, directory: str, skip: Skip) -> list[int]:
    """Base offsets in order; index files without their segment are removed."""
    names = disk.listdir(directory)
    bases = []
    for name in names:
        if name.endswith(LOG_SUFFIX):
            base = base_offset_of(name, LOG_SUFFIX)
            if base is None:
                skip("segment", f"{directory}/{name}", "its name is no offset")
            else:
                bases.append(base)
    known = dict.fromkeys(bases)
    for name in names:
        for suffix in SUFFIXES[1:]:
            base = base_offset_of(name, suffix)
            if base is not None and base not in known:
                logger.warning("%s/%s is removed: its log file is not there", directory, name)
                disk.remove(f"{directory}/{name}")
    return sorted(bases)


def _load_epochs(epochs: LeaderEpochCache, directory: str, skip: Skip) -> bool:
    """Loads the epochs; False if they have to be read from the batches."""
    try:
        return epochs.load()
    except ValueError as error:
        skip("leader epochs", f"{directory}/{EPOCHS_FILE_NAME}", error)
        return False


def _begins_before(segments: list[Segment], log_start_offset: int, epochs: LeaderEpochCache) -> bool:
    """Whether the log has a batch before the first epoch in the file.

    The file was cut at a log start offset whose checkpoint was never written, and the crash took that offset back.
    """
    earliest = epochs.earliest
    if earliest is not None and earliest.start_offset <= log_start_offset:
        return False
    for segment in segments:
        located = segment.locate(log_start_offset)
        if located is not None:
            first = next(segment.batches(located[0]))
            if earliest is None:
                return True
            return first.leader_epoch >= 0 and max(first.base_offset, log_start_offset) < earliest.start_offset
    return False


def _scan_epochs(segments: list[Segment], epochs: LeaderEpochCache) -> Pieces:
    epochs.forget()
    for segment in segments:
        try:
            yield from _each_batch(
                segment, 0, lambda batch: epochs.note(batch.leader_epoch, batch.base_offset, batch.last_offset)
            )
        except CorruptBatch as error:
            # As in `replaying_producers`: these bytes were flushed, a reader gets the error, and the log still opens.
            logger.error("leader epochs may be incomplete: %s", error)
    epochs.write()


def _each_batch(segment: Segment, position: int, take: Callable[[StoredBatch], object]) -> Pieces:
    """Calls `take` for each batch from `position` on, until it returns True. Raises `CorruptBatch`."""
    told = position
    last_offset = NO_OFFSET
    for batch in segment.batches(position, chunk=RECOVERY_BYTES):
        if batch.base_offset <= last_offset:
            raise CorruptBatch(f"{segment.path} goes on with offset {batch.base_offset} behind {last_offset}")
        last_offset = batch.last_offset
        if take(batch):
            return
        if batch.position - told >= RECOVERY_BYTES:
            yield batch.position - told
            told = batch.position


def _holder(bases: list[int], offset: int) -> int:
    """Index of the first segment that may hold offsets at or beyond `offset`."""
    for index in range(len(bases) - 1, -1, -1):
        if bases[index] <= offset:
            return index
    return 0


def _with_unfit_indexes(segments: list[Segment], first: int, skip: Skip) -> list[Segment]:
    """The segments before the index `first` that lack an index or have a wrong one."""
    found = []
    for index, segment in enumerate(segments[:first]):
        try:
            for index_file in (segment.offset_index, segment.time_index):
                if index_file.file_size % index_file.ENTRY_SIZE:
                    raise CorruptIndex(f"{index_file.path} has {index_file.file_size} bytes")
            end_offset = segments[index + 1].base_offset if index + 1 < len(segments) else None
            segment.txn_index.check(segment.base_offset, end_offset)
            if index + 1 == len(segments) or segment.size == 0:
                # The end of a clean log is found from its last index entry.
                position = segment.offset_index.last_position
                if position and position >= segment.size:
                    raise CorruptIndex(f"{segment.offset_index.path} points beyond the segment")
        except (CorruptIndex, FileNotFoundError) as error:
            skip("index", f"{segment.path}, which is recovered", error)
            found.append(segment)
    return found


class _Loading:
    """One pass of recovery over the segments of one log."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        settings: LogSettings,
        flushed_offset: int,
        log_start_offset: int,
        segments: list[Segment],
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.settings = settings
        self.flushed_offset = flushed_offset
        """No power loss has changed the records below."""
        self.log_start_offset = log_start_offset
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.last_epoch = NO_EPOCH

    def find_end(self, first: int, skip: Skip) -> Generator[int, None, int]:
        """Checks the segments from index `first` on, and those with wrong indexes; returns the log end offset."""
        for segment in _with_unfit_indexes(self.segments, first, skip):
            yield from self.index_anew(segment)
        checked = yield from self.recover_from(first)
        if checked is not None:
            return checked
        return (yield from self.end_of_clean_log())

    def index_anew(self, segment: Segment) -> Pieces:
        """Rebuilds the indexes of a segment that was flushed.

        Damage in it stays, as with intact indexes: readers get the error, and no record after it is lost. (Apache cuts
        the segment there.)
        """
        producers, start = self.producers, segment.base_offset
        producers.truncate_and_reload(self.log_start_offset, start)
        if producers.map_end_offset < start:
            yield from replaying_producers(self.segments, producers, self.log_start_offset, start)
        end = yield from segment.recover(
            self.settings.index_interval_bytes,
            self.flushed_offset,
            lambda batch, good: True,
            lambda batch: self._take_producers(segment, batch),
        )
        if end < segment.size:
            logger.error("the indexes of %s end at %d, where it is damaged", segment.path, end)
        segment.close_files()
        producers.take_snapshot(sync=True)  # the next segment may begin with it

    def recover_from(self, first: int) -> Generator[int, None, int | None]:
        """Checks the segments from index `first` on; returns the log end offset, None when there was none to check."""
        segments, producers = self.segments, self.producers
        if first >= len(segments):
            return None
        start = segments[first].base_offset
        producers.truncate_and_reload(self.log_start_offset, start)
        if producers.map_end_offset < start:
            yield from replaying_producers(segments, producers, self.log_start_offset, start)
        producers.map_end_offset = start
        next_offset = start
        epochs_before = self.epochs.entries
        self.last_epoch = self.epochs.epoch_for_offset(start - 1) if first else NO_EPOCH
        for index in range(first, len(segments)):
            segment = segments[index]
            if segment.base_offset > producers.map_end_offset:
                if not self.settings.compact and producers.map_end_offset >= self.flushed_offset:
                    # Only compaction leaves such a gap, and older segments may be from a time when the topic was
                    # compacted. Here a power loss took the end of the preceding segment, between two batches, and left
                    # this one's name.
                    logger.warning(
                        "[%s] segments from %s on are dropped: the one before ends at %d",
                        self.topic_partition,
                        segment.path,
                        next_offset,
                    )
                    self.drop(segments[index:])
                    break
                producers.map_end_offset = segment.base_offset
            if index > first:
                producers.take_snapshot(sync=True)
            end = yield from segment.recover(
                self.settings.index_interval_bytes,
                self.flushed_offset,
                self._belongs,
                lambda batch, segment=segment: self._take(segment, batch),  # type: ignore[misc]
            )
            next_offset = max(segment.base_offset, producers.map_end_offset)
            if end < segment.size:
                self._end_at(segment, end, next_offset)
                break
            segment.close_files()
        if self.epochs.entries != epochs_before:
            self.epochs.write()
        return next_offset

    def _end_at(self, segment: Segment, size: int, next_offset: int) -> None:
        """Ends the log with this segment, of which this many bytes are intact."""
        logger.warning(
            "[%s] recovered segment %s: %d bytes after offset %d are no whole batches and are cut",
            self.topic_partition,
            segment.path,
            segment.size - size,
            next_offset,
        )
        self.drop(self.segments[self.segments.index(segment) + 1 :])
        segment.cut_file(size)

    def _belongs(self, batch: StoredBatch, good: bool) -> bool:
        """Whether a batch belongs to the log: its CRC is right, and its leader epoch is not below the previous one.

        If epochs fall, a truncation cut the batch, part of it was overwritten, and a power loss brought the rest back:
        its CRC is right, but no leader has it at this offset. Flushed batches are accepted: logs of Apache's followers
        have falling epochs, and so have logs of a cluster that lost its znodes.
        """
        return good and (
            batch.leader_epoch < 0 or batch.leader_epoch >= self.last_epoch or batch.base_offset < self.flushed_offset
        )

    def _take(self, segment: Segment, batch: StoredBatch) -> None:
        self.last_epoch = max(self.last_epoch, batch.leader_epoch)
        self.epochs.note(batch.leader_epoch, batch.base_offset, batch.last_offset)
        self._take_producers(segment, batch)

    def _take_producers(self, segment: Segment, batch: StoredBatch) -> None:
        _take_stored(segment, batch, self.producers, index_aborted=True)
        self.producers.map_end_offset = batch.next_offset

    def end_of_clean_log(self) -> Generator[int, None, int]:
        """The log end offset after a clean stop. A last segment that does not end with a batch, or ends within an
        aborted transaction, is recovered."""
        if not self.segments:
            return self.log_start_offset
        last = self.segments[-1]
        try:
            end_offset = last.next_offset()
            last.txn_index.check(last.base_offset, end_offset)
            return end_offset
        except (CorruptBatch, CorruptIndex) as error:
            logger.warning("[%s] not as it was at the clean stop: %s", self.topic_partition, error)
            end = yield from self.recover_from(len(self.segments) - 1)
            assert end is not None
            return end

    def drop(self, doomed: list[Segment]) -> None:
        """Removes the log's last segments: none may come back after the cut or the next appends."""
        if not doomed:
            return
        for segment in reversed(doomed):  # a crash in between leaves no hole
            self.segments.remove(segment)
            for path in segment.mark_deleted():
                self.disk.remove(path)
        self.producers.delete_snapshots_of([segment.base_offset for segment in doomed])
        self.disk.fsync_dir(self.directory)


def _take_stored(segment: Segment, batch: StoredBatch, producers: ProducerStateManager, *, index_aborted: bool) -> None:
    """Applies a batch of the log to the producer state, and to a new transaction index."""
    aborted = producers.append_stored(batch, lambda: end_txn_marker(segment.read_batch(batch)))
    if aborted is not None and index_aborted:
        segment.txn_index.append(aborted)


def replay_producers(
    segments: Sequence[Segment],
    producers: ProducerStateManager,
    log_start_offset: int,
    end_offset: int,
) -> None:
    """Reads the batches from the producer state's offset to `end_offset` into it, without pauses."""
    with briefly(), segments[-1].open_briefly():
        for _ in replaying_producers(segments, producers, log_start_offset, end_offset):
            continue


def replaying_producers(
    segments: Sequence[Segment],
    producers: ProducerStateManager,
    log_start_offset: int,
    end_offset: int,
) -> Pieces:
    """As `replay_producers`, in pieces. Only the last segment stays open."""
    start_offset = max(producers.map_end_offset, log_start_offset)
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        if following <= start_offset or segment.base_offset >= end_offset:
            continue

        def take(batch: StoredBatch, segment: Segment = segment) -> bool:
            if batch.base_offset >= end_offset:
                return True
            _take_stored(segment, batch, producers, index_aborted=False)
            return False

        try:
            located = segment.locate(start_offset)
            if located is not None:
                yield from _each_batch(segment, located[0], take)
        except CorruptBatch as error:
            # Below the recovery point everything was flushed; a reader gets the error, and the log still opens.
            logger.error("producer state is incomplete: %s", error)
        finally:
            if segment is not segments[-1]:
                segment.close_files()
