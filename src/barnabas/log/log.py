"""One partition's log (Kafka's ``UnifiedLog``): appended to by a leader or a follower, read, truncated, deleted from.

How it stays correct
--------------------
Everything is synchronous: a check and the write that rests on it are one step, so there is no lock. Offsets and the
state of producers change only after the bytes were written; a write that fails takes the whole log directory offline
(`LogDirFailure`), and nothing is appended or acknowledged there until a restart has recovered it.

A batch stays one opaque buffer. `validation` judges a client's batch for a leader and says what changes in it;
`following` judges a leader's batch for a follower; `retention` says which segments are too old. This module acts on
their results: a leader stamps base offset and leader epoch into the batch (both outside the CRC), and leader and
follower write it with one system call. `LogSegments` handles the files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final

from barnabas.log.batches import StoredBatch
from barnabas.log.following import batches_to_append
from barnabas.log.loading import at_once
from barnabas.log.log_dir import LogDir
from barnabas.log.partition_metadata import read_topic_id, write_topic_id
from barnabas.log.producer_state import NO_PRODUCER_ID, BatchMetadata, EndTxnMarker
from barnabas.log.readable_log import ReadableLog, inconsistent_topic_id
from barnabas.log.recovery import CLEANED_SUFFIX, SWAP_SUFFIX, load_segments, replay_producers
from barnabas.log.results import (
    AppendInfo,
    AppendOrigin,
    LogOffsetMetadata,
    TimestampOffset,
    UnexpectedAppendOffset,
)
from barnabas.log.retention import segments_to_delete
from barnabas.log.segment import Segment
from barnabas.log.settings import LogSettings
from barnabas.log.validation import Unpacking, end_txn_marker, stamp_timestamps, validated
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, TopicPartition, Uuid
from barnabas.model.sentinels import (
    NO_TIMESTAMP,
)
from barnabas.runtime import Bytes, Disk
from barnabas.wire.records import CONTROL, LOG_OVERHEAD, TRANSACTIONAL

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "Log",
    "LogOffsetMetadata",
    "TimestampOffset",
    "UnexpectedAppendOffset",
]

DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000

_CLIENT: Final = AppendOrigin.CLIENT
_STAMP: Final = Struct(">qii").pack_into
"""Base offset, length and leader epoch: the start of a batch, which its CRC does not cover."""


class Log(ReadableLog):
    """See the module. Made by `Log.open` and `Log.opening` only."""

    @classmethod
    def open(cls, *arguments: Any, **options: Any) -> Log:
        """As `opening`, without pauses."""
        return at_once(cls.opening(*arguments, **options))

    @classmethod
    def opening(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: Config,
        *,
        now_ms: int,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        topic_id: Uuid | None = None,
        log_dir: LogDir | None = None,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        jitter: Callable[[int], int] = lambda bound: 0,
    ) -> Generator[int, None, Log]:
        """Loads the files in `directory`, or begins an empty log there; yields after each piece how many bytes it read.

        `clean`: the last stop was a clean one; otherwise every batch from the recovery point on is checked and the log
        ends before the first bad one. A new log stores `topic_id`; any other log must have the same id.
        """
        if log_dir is None:
            log_dir = LogDir(directory.rpartition("/")[0])
        try:
            disk.makedirs(directory)
            stored_id = read_topic_id(disk, directory, log_dir.skip)
            if topic_id is not None and stored_id is not None and stored_id != topic_id:
                raise inconsistent_topic_id(topic_partition, topic_id, stored_id)
            if topic_id is not None and stored_id is None:
                write_topic_id(disk, directory, topic_id)
            loaded = yield from load_segments(
                disk,
                directory,
                topic_partition,
                LogSettings.of(config),
                now_ms=now_ms,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                producer_id_expiration_ms=producer_id_expiration_ms,
                skip=log_dir.skip,
            )
        except OSError as error:
            raise log_dir.failed(error, f"loading {topic_partition}") from error
        topic_id = stored_id or topic_id
        return cls(
            disk, log_dir, directory, topic_partition, config, loaded, topic_id=topic_id, jitter=jitter, now_ms=now_ms
        )

    # Appending as a leader

    def append_as_leader(
        self,
        records: Bytes,
        leader_epoch: int,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        unpacking: Unpacking | None = None,
    ) -> AppendInfo:
        """Appends one batch; bytes after it that are no whole batch are omitted. A writable buffer is stamped in place.

        Raises `TakesLong`, and `KafkaError`: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED, and `LogDirFailure`. After any of them nothing was appended.
        """
        if self.log_dir.failure is not None:
            self.log_dir.check_online()
        settings = self.settings
        first_offset = self.log_end_offset
        view, batch, restamped = validated(
            self.topic_partition, settings, records, now_ms, origin is _CLIENT, unpacking, first_offset, leader_epoch
        )
        size, last_offset, max_timestamp, attributes = (
            batch.size,
            batch.last_offset,
            batch.max_timestamp,
            batch.attributes,
        )
        marker: EndTxnMarker | None = None
        if batch.producer_id != NO_PRODUCER_ID:
            if attributes & CONTROL:
                marker = end_txn_marker(view)
                if marker is not None:
                    self.producers.check_marker(batch, marker)
            else:
                duplicate = self.producers.check(batch, check_sequence=origin is _CLIENT)
                if duplicate is not None:
                    return self._told_again(duplicate)
        if restamped:
            stamp_timestamps(view, attributes, max_timestamp)
        _STAMP(view, 0, first_offset, size - LOG_OVERHEAD, leader_epoch)
        segment = None
        try:
            if leader_epoch != self.leader_epochs.written_epoch:  # a smaller one if znodes were restored
                self.leader_epochs.assign(leader_epoch, first_offset)
            segments = self.segments
            if segments.active.size + size > settings.segment_bytes or segments.should_roll(
                last_offset, max_timestamp, now_ms
            ):
                self._roll(first_offset, now_ms)
            segment, size_before = segments.active, segments.active.size
            run = [(0, batch)]
            segment.append(view, run, settings.index_interval_bytes)
            self._take_up(segment, view, run, marker)
        except OSError as error:
            half_done = segment is not None and segment.size > size_before
            raise self._failed(error, "appending to the log", half_done=half_done) from error
        if last_offset + 1 - self.recovery_point >= settings.flush_messages:
            self.flush(now_ms=now_ms)
            if unpacking is not None:
                unpacking.at_once = -1  # a disk takes as long as much unpacking does
        return AppendInfo(
            first_offset, last_offset, now_ms if settings.log_append_time else NO_TIMESTAMP, self.log_start_offset,
            max_timestamp, size, batch.record_count, False, view,
        )  # fmt: skip

    def _told_again(self, duplicate: BatchMetadata) -> AppendInfo:
        """The answer to a batch that the log already has."""
        time_ms = duplicate.timestamp if self.settings.log_append_time else NO_TIMESTAMP
        return AppendInfo(
            duplicate.first_offset, duplicate.last_offset, time_ms, self.log_start_offset,
            duplicate.timestamp, 0, 0, True,
        )  # fmt: skip

    def _take_up(
        self,
        segment: Segment,
        view: memoryview,
        batches: list[tuple[int, StoredBatch]],
        marker: EndTxnMarker | None = None,
    ) -> None:
        """Applies `batches` of the segment, each with its start in `view`; `marker` is that of a single batch."""
        producers = self.producers
        for start, batch in batches:
            # From here on the offsets are used, even if a write to an index below fails.
            next_offset = self.log_end_offset = batch.last_offset + 1
            if batch.producer_id != NO_PRODUCER_ID:
                if batch.attributes & CONTROL:
                    self._take_marker(segment, batch, view[start : start + batch.size], marker)
                else:
                    producers.append_data(batch)
                    if batch.attributes & TRANSACTIONAL:
                        self._note_first_unstable()
            producers.map_end_offset = next_offset

    def _take_marker(self, segment: Segment, batch: StoredBatch, view: memoryview, marker: EndTxnMarker | None) -> None:
        aborted = self.producers.append_stored(batch, lambda: marker or end_txn_marker(view))
        if aborted is not None:
            segment.txn_index.append(aborted)
        self._note_first_unstable()

    # Appending as a follower

    def append_as_follower(self, records: Bytes, *, now_ms: int) -> bool:
        """Appends the leader's batches with their offsets and epochs; a partial batch at the end is omitted.

        False when there was no whole batch. Raises CORRUPT_MESSAGE, `UnexpectedAppendOffset`, `LogDirFailure`.
        """
        if self.log_dir.failure is not None:
            self.log_dir.check_online()
        view = records if type(records) is memoryview else memoryview(records)
        batches = batches_to_append(self.topic_partition, view, self.log_start_offset, self.log_end_offset)
        if not batches:
            return False
        leader_epochs, interval = self.leader_epochs, self.settings.index_interval_bytes
        segment = None
        try:
            for run in self.segments.runs(batches, now_ms, self._roll):
                for _, batch in run:
                    # A batch of an older epoch removes a later epoch that began here without a record, while this log
                    # led.
                    if (
                        not batch.leader_epoch == leader_epochs.written_epoch == leader_epochs.latest_epoch
                        and batch.leader_epoch != NO_EPOCH
                    ):
                        leader_epochs.assign(batch.leader_epoch, batch.base_offset)
                start = run[0][0]
                at, last = run[-1]
                segment, size_before = self.segments.active, self.segments.active.size
                segment.append(view[start : at + last.size], run, interval)
                self._take_up(segment, view, run)
                segment = None
        except OSError as error:
            half_done = segment is not None and segment.size > size_before
            raise self._failed(error, "appending to the log", half_done=half_done) from error
        if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
            self.flush(now_ms=now_ms)
        return True

    # Rolling

    def roll(self, *, now_ms: int) -> Segment:
        """Begins a new segment at the log end offset."""
        with self._changing("rolling the log"):
            self._roll(self.log_end_offset, now_ms)
        return self.segments.active

    def _roll(self, expected_next_offset: int, now_ms: int) -> None:
        new_offset = max(expected_next_offset, self.log_end_offset)
        if self.segments.roll(new_offset, now_ms, sync=self.log_end_offset <= self.recovery_point):
            # The snapshot is at the new segment's base, so that recovery can begin with both.
            self.producers.map_end_offset = new_offset
            self.producers.take_snapshot(sync=False)

    # Leader epochs

    def maybe_assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Notes where a leader epoch begins, before anything is appended in it."""
        self.log_dir.check_online()
        self.leader_epochs.begin(leader_epoch, start_offset)

    def take_over(self, log: Log, *, now_ms: int) -> None:
        """Copies from `log` what batches do not tell, and flushes itself; it already has all of `log`'s batches.

        These include epochs that began without a record: a follower may ask for them.
        """
        for epoch, start_offset in log.leader_epochs.entries:
            if epoch > self.latest_epoch:
                self.maybe_assign_epoch_start_offset(epoch, start_offset)
        self.update_high_watermark(log.high_watermark)
        self.maybe_increment_log_start_offset(log.log_start_offset)
        self.producers.take_verifications(log.producers)
        self.cleaned_offset = log.cleaned_offset
        self.flush(now_ms=now_ms)

    # Truncating

    def truncate_to(self, target_offset: int, *, now_ms: int) -> bool:
        """Cuts the log so that it ends at `target_offset` or before; False when it already ended there.

        If the target lies within a batch, the whole batch is cut: the log then ends with a batch, and the next append
        leaves no hole (``UnifiedLog.truncateTo`` reports the target as the end in any case).
        """
        assert target_offset >= 0, f"cannot truncate {self.topic_partition} to {target_offset}"
        with self._changing("truncating the log", half_done=True):
            self.just_appended = None
            if target_offset >= self.log_end_offset:
                # An epoch that began here without a record may contradict the new leader's epochs.
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            if self.segments[0].base_offset > target_offset:
                self._truncate_fully_and_start_at(target_offset, target_offset, now_ms)
                return True
            if self.log_start_offset > self.segments[0].base_offset:
                batch = self.segments.batch_at(target_offset)
                self._lower_start(target_offset if batch is None else min(target_offset, batch.base_offset))
            # The last first: a crash in between leaves no hole. (Apache's begins after the target.)
            self._drop_segments(self.segments[: self.segments.index_of(target_offset) : -1])
            target_offset = self.segments.truncate_active(target_offset, now_ms)
            self._spans(self.log_start_offset, min(self.high_watermark, target_offset), target_offset)
            self._lower_recovery_point(target_offset)
            self.leader_epochs.truncate_from_end(target_offset)
            self._reload_producers(target_offset)
            self.producers.on_high_watermark(self.high_watermark)
            self._note_first_unstable()
        return True

    def truncate_fully_and_start_at(self, new_offset: int, *, now_ms: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the log begins, empty, at `new_offset`."""
        with self._changing("truncating the log", half_done=True):
            self.just_appended = None
            self._truncate_fully_and_start_at(
                new_offset, new_offset if log_start_offset is None else log_start_offset, now_ms
            )

    def _truncate_fully_and_start_at(self, new_offset: int, log_start_offset: int, now_ms: int) -> None:
        self._lower_start(log_start_offset)
        self._drop_segments(self.segments[::-1])
        self.segments.append_new(new_offset, now_ms)
        self._disk.fsync_dir(self.directory)  # from now on the segment's name alone says where the log begins
        # The high watermark is set even if it does not move: its record is gone.
        self._spans(log_start_offset, new_offset, new_offset)
        self._lower_recovery_point(new_offset)
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(new_offset)
        self.producers.on_high_watermark(new_offset)
        self._note_first_unstable()

    def _spans(self, log_start_offset: int, high_watermark: int, log_end_offset: int) -> None:
        """Sets the offsets after a cut, before anything can fail."""
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset

    def _lower_start(self, offset: int) -> None:
        """Lowers the start to `offset` before the log is cut there. Otherwise a crash in between leaves a log that ends
        before its checkpointed start: it would begin there, empty, and never fetch the leader's records below."""
        if offset < self.log_start_offset:
            self.log_start_offset = offset
            if self.on_log_start_offset_lowered is not None:
                self.on_log_start_offset_lowered(self)
                self.log_dir.check_online()

    def _lower_recovery_point(self, offset: int) -> None:
        if offset < self.cleaned_offset:
            self.cleaned_offset = offset
            if self.on_cleaned_offset_lowered is not None:
                self.on_cleaned_offset_lowered(self)
        if offset < self.recovery_point:
            self.recovery_point = offset
            if self.on_recovery_point_lowered is not None:
                self.on_recovery_point_lowered(self)

    def _reload_producers(self, end_offset: int) -> None:
        """Brings the producer state to `end_offset`: the newest snapshot before it, then the log's batches since.

        If no producer wrote, the log has nothing to tell. (Apache also does not read it if no producer is remembered:
        then an expired producer's transaction, whose end is cut, counts as committed.)
        """
        producers = self.producers
        nobody_wrote = producers.nobody_wrote and producers.map_end_offset >= end_offset
        producers.truncate_and_reload(self.log_start_offset, end_offset)
        if producers.map_end_offset < end_offset and not nobody_wrote:
            replay_producers(self.segments, producers, self.log_start_offset, end_offset)
        producers.map_end_offset = end_offset
        producers.take_snapshot(sync=True)

    # Log start offset and deletion

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start offset forward. Raises OFFSET_OUT_OF_RANGE beyond the high watermark."""
        self.log_dir.check_online()
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it is "
                f"larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset(offset)
        self._note_first_unstable()
        return True

    def delete_old_segments(self, *, now_ms: int) -> int:
        """Deletes whole segments by log start offset, size and age, never at or above the high watermark."""
        with self._changing("deleting old segments", half_done=True):
            segments = self.segments
            count = segments_to_delete(
                segments,
                self.settings,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
            )
            if count:
                doomed = segments[:count]
                if count == len(segments):
                    self._roll(self.log_end_offset, now_ms)
                self.maybe_increment_log_start_offset(segments[count].base_offset)
                self._drop_segments(doomed)
        return count

    def _drop_segments(self, doomed: list[Segment]) -> None:
        """Removes the first or the last segments from the log for good, with their snapshots.

        Files are renamed now and removed later. A power loss must not undo that: if some of the first segments came
        back and the following ones did not, the log would end at the hole. If the last ones came back and the preceding
        segment, which is cut next, stayed cut, the hole would not show: after compaction one segment's end and the next
        one's begin may be far apart.
        """
        if not doomed:
            return
        self.segments.take_out(doomed)
        self.producers.delete_snapshots_of([segment.base_offset for segment in doomed])
        self._disk.fsync_dir(self.directory)

    # Compaction

    def replace_segments(self, cleaned: Segment, replaced: list[Segment]) -> None:
        """Puts a cleaned segment, whose files are synced under `CLEANED_SUFFIX`, in the place of old ones.

        The cleaned log file's second name means that the work must be finished: from then on a restart does so. An old
        segment's files are out of the way before the cleaned ones get their last names (KAFKA-12520).
        """
        with self._changing("replacing cleaned segments", half_done=True):
            cleaned.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            self._disk.fsync_dir(self.directory)
            self.segments.replace(replaced, cleaned)
            gone = [segment.base_offset for segment in replaced if segment.base_offset != cleaned.base_offset]
            self.producers.delete_snapshots_of(gone)
            cleaned.change_suffix(SWAP_SUFFIX, "")
            self._disk.fsync_dir(self.directory)

    def delete_marked_files(self, *, now_ms: int) -> None:
        """Removes files that were marked `file.delete.delay.ms` ago; readers may have used them until then."""
        if not self.segments.has_marked_files:
            return
        with self._changing("removing deleted files", half_done=True):
            self.segments.remove_due_files(now_ms, self.settings.file_delete_delay_ms)

    # Flushing and closing

    def flush(self, *, now_ms: int, up_to: int | None = None) -> bool:
        """Makes all records below `up_to` (all by default) survive a power loss, and moves the recovery point there.

        False when the recovery point is already there.
        """
        with self._changing("flushing the log"):
            target = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
            self.last_flush_ms = now_ms
            if target <= self.recovery_point:
                return False
            with self.log_dir.flushing():
                first = max(0, self.segments.index_of(self.recovery_point))
                for segment in self.segments[first:]:
                    if segment.base_offset < target:
                        segment.flush()
                        self.producers.flush_snapshot(segment.base_offset)
                self.producers.flush_snapshot(target)
                self.leader_epochs.flush()
                self._disk.fsync_dir(self.directory)
                if not self._directory_synced:
                    self._disk.fsync_dir(self.log_dir.path)
                    self._directory_synced = True
        self.recovery_point = target
        self.segments.flushed_to(target)
        return True

    def flush_rolled_before(self, rolled_before_ms: int, *, now_ms: int) -> bool:
        """Flushes segments rolled a while ago: the kernel has written them by then, and the flush costs little."""
        due = [base_offset for rolled_ms, base_offset in self.segments.unflushed_rolls if rolled_ms <= rolled_before_ms]
        return bool(due) and self.flush(now_ms=now_ms, up_to=due[-1])

    def close(self, *, now_ms: int) -> None:
        """Stops cleanly: flushes everything, with a producer snapshot at the end and a complete time index."""
        if self.closed:
            return
        with self._changing("closing the log", half_done=True):
            self.producers.map_end_offset = self.log_end_offset
            self.producers.take_snapshot(sync=True)
            self.segments.active.become_inactive(sync=self.log_end_offset <= self.recovery_point)
            self.flush(now_ms=now_ms)
            self.segments.remove_marked_files()
        self.close_files()

    def close_files(self) -> None:
        """Closes all descriptors and leaves the files as they are."""
        self.closed = True
        self.segments.close_files()

    def rename_directory(self, name: str, *, sync: bool = True) -> None:
        """Renames the partition's directory within its log directory. Without `sync` the caller syncs the latter."""
        target = f"{self.directory.rpartition('/')[0]}/{name}"
        with self._changing("renaming the directory", half_done=True):
            self._disk.rename(self.directory, target)
            if sync:
                self._disk.fsync_dir(self.log_dir.path)
        self.directory = target
        self.segments.moved(target)
        self.leader_epochs.moved(target)
        self.producers.moved(target)

    def delete(self) -> None:
        """Removes the partition's directory with all its files."""
        self.close_files()
        with self._changing("deleting the directory", half_done=True):
            if self._disk.is_dir(self.directory):
                self._disk.rmtree(self.directory)
