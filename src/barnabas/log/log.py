"""One partition's log (Kafka's ``UnifiedLog``): appended to by a leader or a follower, read, truncated, deleted from.

How it stays correct
--------------------
Everything is synchronous: a check and the write that rests on it are one step, so there is no lock. Offsets and the
state of producers change only after the bytes were written; a write that fails takes the whole log directory offline
(`LogDirFailure`), and nothing is appended or acknowledged there until a restart has recovered it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

A batch stays one opaque buffer. The leader checks its header, its CRC and its producer's sequence, stamps base offset
and leader epoch into it (both outside the CRC), and writes it with one system call.

What a leader asks of a client's batch before, and what it changes of it, is `validation`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from struct import Struct
from typing import Any, Final, cast

from crc32c import crc32c

from barnabas.log.batches import (
    ATTRIBUTES_AT,
    CONTROL,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    CorruptBatch,
    StoredBatch,
    batches_in,
    crc_is_valid,
)
from barnabas.log.compaction import LastRecord
from barnabas.log.leader_epoch_cache import LeaderEpochCache
from barnabas.log.loading import at_once
from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.log.log_segments import LogSegments
from barnabas.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.log.partition_metadata import read_topic_id, write_topic_id
from barnabas.log.producer_state import NO_PRODUCER_ID, NOT_PLAIN, EndTxnMarker, ProducerState
from barnabas.log.recovery import CLEANED_SUFFIX, SWAP_SUFFIX, load_segments, replay_producers
from barnabas.log.refusals import corrupt
from barnabas.log.results import (
    AppendInfo,
    AppendOrigin,
    LogOffsetMetadata,
    LogRead,
    TimestampOffset,
    UnexpectedAppendOffset,
)
from barnabas.log.segment import Segment
from barnabas.log.settings import LogSettings
from barnabas.log.txn_index import AbortedTxn
from barnabas.log.validation import Unpacking, end_txn_marker, stamp_timestamps, validated
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition, Uuid
from barnabas.model.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
)
from barnabas.runtime import Bytes, Disk
from barnabas.runtime.file_records import FILE_RECORDS_BYTES, FileRecords

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "Log",
    "LogOffsetMetadata",
    "LogRead",
    "TimestampOffset",
    "UnexpectedAppendOffset",
]

logger = logging.getLogger(__name__)


DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000

_CLIENT: Final = AppendOrigin.CLIENT
_STAMP: Final = Struct(">qii").pack_into
"""Base offset, length and leader epoch: the head of a batch, which its CRC does not cover."""


class Log:
    """See the module. Made by `Log.open` and `Log.opening` only."""

    def __init__(
        self,
        disk: Disk,
        log_dir: LogDir,
        directory: str,
        topic_partition: TopicPartition,
        config: Config,
        *,
        segments: LogSegments,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        topic_id: Uuid | None,
        jitter: Callable[[int], int],
        now_ms: int,
    ) -> None:
        self._disk = disk
        self.log_dir = log_dir
        self.directory = directory
        self.segments = segments
        self.topic_partition = topic_partition
        self.config = config
        self.settings = LogSettings.of(config)
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        """Everything below is on the disk for good. A log start offset may pass it: segments that are below that one
        and not flushed are there until retention deletes them, and are to be looked at by a recovery before."""
        self.last_flush_ms = now_ms
        self.closed = False
        self._jitter = jitter
        self._roll_ms = self._next_roll_ms()
        self._first_unstable: int | None = None
        self._unflushed_rolls: list[tuple[int, int]] = []
        """Rolled segments that are not flushed: when they were rolled, and the next one's base offset."""
        self.cleaned_offset = log_start_offset
        """The cleaner has been up to here (its checkpoint)."""
        self.uncleanable: str | None = None
        """Why the cleaner leaves this log alone."""
        self.on_cleaned_offset_lowered: Callable[[], None] | None = None
        """Told when a truncation went below what was cleaned: other records will stand there."""
        self.on_log_start_offset_lowered: Callable[[], None] | None = None
        """Told when a truncation went below the log start offset: what its checkpoint says is too large now."""
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        """Told when a truncation went below the recovery point: a checkpoint that says more would let recovery trust
        bytes that are written again and not flushed."""
        self.just_appended: AppendInfo | None = None
        """The log's last append, while those are told of it who wait for it: it is read from memory."""
        self._directory_synced = False
        self._appended_before = -segments.active.size
        segments.active.look_whether_full()
        self._note_first_unstable()

    @classmethod
    def open(cls, *arguments: Any, **options: Any) -> Log:
        """As `opening`, at once."""
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
        """Loads what is in `directory`, or begins an empty log there; yields after each piece how many bytes it read.

        `clean` tells that the last stop was a clean one; otherwise every batch from the recovery point on is checked
        and the log ends before the first bad one. `topic_id` is written down for a new log; for another one it must
        agree.
        """
        if log_dir is None:
            log_dir = LogDir(directory.rpartition("/")[0])
        try:
            disk.makedirs(directory)
            settings = LogSettings.of(config)
            stored_id = read_topic_id(disk, directory, log_dir.skip)
            if topic_id is not None and stored_id is not None and stored_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"Tried to assign topic ID {topic_id} to log for topic partition {topic_partition}, but log "
                    f"already contained topic ID {stored_id}",
                )
            if topic_id is not None and stored_id is None:
                write_topic_id(disk, directory, topic_id)
            loaded = yield from load_segments(
                disk,
                directory,
                topic_partition,
                settings,
                now_ms=now_ms,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                producer_id_expiration_ms=producer_id_expiration_ms,
                end_txn_marker=end_txn_marker,
                skip=log_dir.skip,
            )
        except OSError as error:
            raise log_dir.failed(error, f"loading {topic_partition}", half_done=True) from error
        return cls(
            disk,
            log_dir,
            directory,
            topic_partition,
            config,
            segments=LogSegments(disk, loaded.segments),
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            recovery_point=loaded.recovery_point,
            leader_epochs=loaded.leader_epochs,
            producers=loaded.producers,
            topic_id=stored_id or topic_id,
            jitter=jitter,
            now_ms=now_ms,
        )

    def __repr__(self) -> str:
        return (
            f"Log({self.directory}, log_start_offset={self.log_start_offset}, high_watermark={self.high_watermark}, "
            f"log_end_offset={self.log_end_offset})"
        )

    # What it is

    @property
    def latest_epoch(self) -> int:
        """The largest leader epoch that began in this log; -1 where none did."""
        return self.leader_epochs.latest_epoch

    @property
    def last_stable_offset(self) -> int:
        first = self._first_unstable
        return self.high_watermark if first is None or first >= self.high_watermark else first

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    @property
    def appended_bytes(self) -> int:
        """So many since it was opened; what was cut or deleted again is among it."""
        return self._appended_before + self.segments.active.size

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    @property
    def name(self) -> str:
        return self.directory.rpartition("/")[2]

    @property
    def is_future(self) -> bool:
        return self.name.endswith("-future")

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Notes the topic id for good. Raises INCONSISTENT_TOPIC_ID when the log is another topic's."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {topic_id} to log for topic partition {self.topic_partition}, but log "
                f"already contained topic ID {self.topic_id}",
            )
        self.log_dir.check_online()
        try:
            write_topic_id(self._disk, self.directory, topic_id)
        except OSError as error:
            raise self._failed(error, "writing partition.metadata") from error
        self.topic_id = topic_id

    def update_config(self, config: Config) -> None:
        self.config = config
        self.settings = LogSettings.of(config)
        for segment in self.segments:
            segment.offset_index.set_max_bytes(self.settings.index_bytes)
            segment.time_index.set_max_bytes(self.settings.index_bytes)
        self.segments.active.look_whether_full()
        self._roll_ms = self._next_roll_ms()

    def _next_roll_ms(self) -> int:
        """`segment.ms` less a random part, so that partitions made together do not roll together."""
        bound = min(self.settings.segment_jitter_ms, self.settings.segment_ms)
        return self.settings.segment_ms - (self._jitter(bound) if bound > 0 else 0)

    def _failed(self, error: OSError, doing: str, *, half_done: bool = False) -> LogDirFailure:
        return self.log_dir.failed(error, f"{doing} of {self.topic_partition}", half_done=half_done)

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
        """Appends one batch; what is not a whole batch after it is left out. A writable buffer is stamped in place.

        Raises `TakesLong`, and `KafkaError`: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED, and `LogDirFailure`. After any of them nothing was appended.
        """
        if self.log_dir.failure is not None:
            self.log_dir.check_online()
        settings = self.settings
        is_client = origin is _CLIENT
        view, size, attributes, max_timestamp, restamped, header = validated(
            self.topic_partition, settings, records, now_ms, is_client=is_client, unpacking=unpacking
        )
        last_offset_delta, producer_id, producer_epoch, base_sequence = header[6], header[9], header[10], header[11]
        if size > settings.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds the "
                f"maximum configured segment size of {settings.segment_bytes}.",
            )

        first_offset = self.log_end_offset
        last_offset = first_offset + last_offset_delta
        marker: EndTxnMarker | None = None
        last_sequence = -1
        if producer_id != NO_PRODUCER_ID:
            if attributes & CONTROL:
                marker = end_txn_marker(view)
                if marker is not None:
                    self.producers.check_marker(producer_id, producer_epoch, marker, first_offset)
            else:
                last_sequence = (base_sequence + last_offset_delta) & 0x7FFFFFFF if base_sequence >= 0 else -1
                duplicate = self.producers.check(
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    last_sequence,
                    first_offset,
                    is_transactional=bool(attributes & TRANSACTIONAL),
                    check_sequence=is_client,
                )
                if duplicate is not None:
                    return AppendInfo(
                        duplicate.first_offset,
                        duplicate.last_offset,
                        duplicate.timestamp if settings.log_append_time else NO_TIMESTAMP,
                        self.log_start_offset,
                        duplicate.timestamp,
                        0,
                        0,
                        True,
                    )

        if restamped:
            stamp_timestamps(view, attributes, max_timestamp)
        _STAMP(view, 0, first_offset, size - LOG_OVERHEAD, leader_epoch)
        position = -1
        try:
            if leader_epoch > self.leader_epochs.written_epoch:
                self.leader_epochs.assign(leader_epoch, first_offset)
            segment = self.segments.active
            if segment.size + size > settings.segment_bytes or self._should_roll(
                segment, last_offset, max_timestamp, now_ms
            ):
                segment = self._roll(first_offset, now_ms)
            position = segment.size
            segment.append(view, first_offset, last_offset, max_timestamp, settings.index_interval_bytes)
            # From here on the offsets are taken, even where a write to an index below fails.
            self.log_end_offset = last_offset + 1
            if marker is not None:
                self._take_marker(segment, producer_id, producer_epoch, marker, first_offset, max_timestamp)
        except OSError as error:
            raise self._failed(error, "appending to the log", half_done=0 <= position < segment.size) from error
        producers = self.producers
        if producer_id != NO_PRODUCER_ID and marker is None and not attributes & CONTROL:
            producers.append_data(
                producer_id,
                producer_epoch,
                base_sequence,
                last_sequence,
                first_offset,
                last_offset,
                max_timestamp,
                is_transactional=bool(attributes & TRANSACTIONAL),
            )
            if attributes & TRANSACTIONAL:
                self._note_first_unstable()
        producers.map_end_offset = last_offset + 1
        if last_offset + 1 - self.recovery_point >= settings.flush_messages:
            self.flush(now_ms=now_ms)
        # `tuple.__new__` has a third of the price of the class's own constructor.
        return tuple.__new__(
            AppendInfo,
            (
                first_offset,
                last_offset,
                now_ms if settings.log_append_time else NO_TIMESTAMP,
                self.log_start_offset,
                max_timestamp,
                size,
                header[12],
                False,
                view,
            ),
        )

    def _take_marker(
        self,
        segment: Segment,
        producer_id: int,
        producer_epoch: int,
        marker: EndTxnMarker,
        offset: int,
        timestamp: int,
    ) -> None:
        ended = self.producers.append_marker(producer_id, producer_epoch, marker, offset, timestamp)
        if ended is None:
            return
        completed, last_stable_offset = ended
        if completed.is_aborted:
            segment.txn_index.append(
                AbortedTxn(producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
            )
        self._note_first_unstable()

    # Appending as a follower

    def append_as_follower(self, records: Bytes, *, now_ms: int) -> bool:
        """Appends what the leader sent, offsets and epochs as they are; a partial batch at the end is left out.

        False when there was no whole batch. Raises CORRUPT_MESSAGE, `UnexpectedAppendOffset`, `LogDirFailure`.
        """
        if self.log_dir.failure is not None:
            self.log_dir.check_online()
        view = memoryview(records)
        batches: list[tuple[int, StoredBatch]] = []
        next_offset = self.log_end_offset
        try:
            for start, batch in batches_in(view):
                if batch.magic != 2:
                    valid = crc_is_valid(view, start, batch)
                else:  # without a call: every batch comes by here
                    valid = crc32c(view[start + ATTRIBUTES_AT : start + batch.size]) == batch.crc
                if not valid:
                    raise corrupt(self.topic_partition, f"Record is corrupt (stored crc = {batch.crc})")
                if batch.base_offset < next_offset:
                    if not batches:
                        raise UnexpectedAppendOffset(
                            f"Unexpected offset in append to {self.topic_partition}. First offset {batch.base_offset} "
                            f"is less than the next offset {next_offset}. Log start offset = {self.log_start_offset}",
                            batch.base_offset,
                            batch.last_offset,
                        )
                    raise corrupt(
                        self.topic_partition, f"Out of order offsets: {batch.base_offset} after {next_offset - 1}"
                    )
                batches.append((start, batch))
                next_offset = batch.last_offset + 1
        except CorruptBatch as error:
            raise corrupt(self.topic_partition, str(error)) from None
        if not batches:
            return False
        producers = self.producers
        leader_epochs = self.leader_epochs
        interval = self.settings.index_interval_bytes
        written = False
        try:
            for run in self._runs(batches, now_ms):
                start = run[0][0]
                end = run[-1][0] + run[-1][1].size
                segment = self.segments.active
                position = segment.size
                for _, batch in run:
                    # One of an older epoch takes back a later one that began here without a record, while this log led.
                    if (
                        not batch.leader_epoch == leader_epochs.written_epoch == leader_epochs.latest_epoch
                        and batch.leader_epoch != NO_EPOCH
                    ):
                        leader_epochs.assign(batch.leader_epoch, batch.base_offset)
                file = segment.file
                written = True
                file.pwrite(view[start:end], position)
                for at, batch in run:
                    last_offset = batch.last_offset
                    segment.note(
                        position + at - start,
                        batch.size,
                        batch.base_offset,
                        last_offset,
                        batch.max_timestamp,
                        interval,
                    )
                    self.log_end_offset = last_offset + 1
                    if batch.producer_id != NO_PRODUCER_ID:
                        if batch.attributes & NOT_PLAIN:
                            self._take_stored(segment, batch, view[at : at + batch.size])
                        else:
                            producers.append_plain(batch)
                    producers.map_end_offset = last_offset + 1
                written = False
        except OSError as error:
            raise self._failed(error, "appending to the log", half_done=written) from error
        if next_offset - self.recovery_point >= self.settings.flush_messages:
            self.flush(now_ms=now_ms)
        return True

    def _runs(self, batches: list[tuple[int, StoredBatch]], now_ms: int) -> Iterable[list[tuple[int, StoredBatch]]]:
        """The batches in groups that each go into one segment with one write; rolls between them."""
        segment = self.segments.active
        first, (start, last) = batches[0][1], batches[-1]
        ends_at = segment.size + start + last.size
        if ends_at <= self.settings.segment_bytes and not self._should_roll(
            segment, last.last_offset, first.max_timestamp, now_ms
        ):
            return (batches,)
        return self._runs_between_rolls(batches, now_ms)

    def _runs_between_rolls(
        self, batches: list[tuple[int, StoredBatch]], now_ms: int
    ) -> Iterator[list[tuple[int, StoredBatch]]]:
        run: list[tuple[int, StoredBatch]] = []
        run_size = 0
        segments = self.segments
        for entry in batches:
            batch = entry[1]
            full = segments.active.size + run_size + batch.size > self.settings.segment_bytes
            if run and (full or not segments.active.fits(batch.last_offset)):
                yield run
                run, run_size = [], 0
            if not run and (
                (full and segments.active.size)
                or self._should_roll(segments.active, batch.last_offset, batch.max_timestamp, now_ms)
            ):
                self._roll(batch.base_offset, now_ms)
            run.append(entry)
            run_size += batch.size
        if run:
            yield run

    def _take_stored(self, segment: Segment, batch: StoredBatch, view: memoryview) -> None:
        ended = self.producers.append_stored(batch, lambda: end_txn_marker(view))
        if ended is not None:
            completed, last_stable_offset = ended
            if completed.is_aborted:
                segment.txn_index.append(
                    AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
                )
        if batch.is_transactional:
            self._note_first_unstable()

    # Rolling

    def _should_roll(self, segment: Segment, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch that ends at `last_offset` begins a new segment for another reason than size."""
        began = segment.rolling_timestamp
        if began is not None and began >= 0:
            waited_ms = max_timestamp - began if segment.size else 0
        else:
            waited_ms = segment.waited_ms(now_ms, max_timestamp) if segment.size else 0
        return (
            waited_ms > self._roll_ms or segment.indexes_full or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self, *, now_ms: int) -> Segment:
        """Begins a new segment at the log end offset."""
        self.log_dir.check_online()
        try:
            return self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._failed(error, "rolling the log") from error

    def _roll(self, expected_next_offset: int, now_ms: int) -> Segment:
        new_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active
        if active.base_offset == new_offset:
            # Only an empty active segment can begin where the next one would. It may have been found full because its
            # indexes were cut to nothing: they get their room again.
            assert active.size == 0, f"rolling {active} of {self.topic_partition} at its own base offset"
            active.offset_index.truncate_to(new_offset)
            active.time_index.truncate_to(new_offset)
            active.look_whether_full()
            active.created_ms = now_ms
            return active
        assert new_offset > active.base_offset, f"rolling {active} of {self.topic_partition} back to {new_offset}"
        active.become_inactive(sync=self.log_end_offset <= self.recovery_point)
        # The names of the active segment are long on the disk, and this costs next to nothing. Were they not, a power
        # loss could take them and leave the next segment's: a hole, which compaction makes look like any other gap.
        self._disk.fsync_dir(self.directory)
        segment = Segment(
            self._disk, self.directory, new_offset, index_bytes=self.settings.index_bytes, now_ms=now_ms, new=True
        )
        self._appended_before += active.size
        self.segments.append(segment)
        self._roll_ms = self._next_roll_ms()
        # The snapshot stands at the new segment's base, so that recovery can begin with the two of them.
        self.producers.map_end_offset = new_offset
        self._unflushed_rolls.append((now_ms, new_offset))
        self.producers.take_snapshot(sync=False)
        return segment

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        bound: int | None = None,
        min_one_batch: bool = True,
        incomplete: bool = False,
        in_place: bool = False,
    ) -> LogRead:
        """Batches from the one that holds `offset` on, none of them at or beyond the offset `bound`.

        At most `max_bytes`. Of a first batch that is larger: all of it when `min_one_batch` is set, else its head when
        `incomplete` is. Many of them are left in the file where `in_place` allows it (`FileRecords`). Raises
        OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, `LogDirFailure`.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.topic_partition}, but we only have log "
                f"segments in the range {self.log_start_offset} to {end_offset}.",
            )
        if bound is None or bound > end_offset:
            bound = end_offset
        just = self.just_appended
        if (
            just is not None
            and just.first_offset == offset
            and just.last_offset < bound
            and just.size <= max_bytes
            and not (in_place and just.size >= FILE_RECORDS_BYTES)
        ):
            return LogRead(just.records)
        try:
            if offset >= bound:
                return LogRead(b"")
            segments = self.segments
            index = segments.index_of(offset)
            while True:
                segment = segments[index]
                located = segment.locate(offset)
                if located is not None:
                    break
                # What is left of this segment lies below `offset`: compaction took the rest.
                index += 1
                if index == len(segments):
                    return LogRead(b"")
            position, first_size = located
            if bound == end_offset or (index + 1 < len(segments) and segments[index + 1].base_offset <= bound):
                end_position = segment.size
            else:
                limit = segment.locate(bound)
                end_position = segment.size if limit is None else limit[0]
            if max_bytes < first_size:
                if min_one_batch:
                    max_bytes = first_size
                elif not incomplete:
                    return LogRead(b"", first_batch_incomplete=True)
            length = min(end_position - position, max_bytes)
            if length <= 0:
                return LogRead(b"")
            if in_place and length >= FILE_RECORDS_BYTES:
                # What is done with them from here to the connection is to be counted, and nothing else.
                return LogRead(cast(bytes, FileRecords(segment, position, length)))
            return LogRead(segment.file.pread(length, position))
        except CorruptBatch as error:
            raise corrupt(self.topic_partition, str(error)) from None
        except OSError as error:
            raise self._failed(error, "reading the log") from error

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Where `offset` stands; the end of the log for the log end offset."""
        if offset == self.log_end_offset:
            active = self.segments.active
            return LogOffsetMetadata(offset, active.base_offset, active.size)
        try:
            return self.segments.position_of(offset)
        except CorruptBatch as error:
            raise corrupt(self.topic_partition, str(error)) from None
        except OSError as error:
            raise self._failed(error, "reading the log") from error

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """How many bytes of batches lie between two offsets."""
        if end_offset <= start_offset:
            return 0
        return self.segments.bytes_between(self.offset_metadata(start_offset), self.offset_metadata(end_offset))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the offsets from `start_offset` to before `end_offset`."""
        try:
            return self.segments.aborted_transactions(start_offset, end_offset)
        except OSError as error:
            raise self._failed(error, "reading the transaction index") from error

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is not smaller; ListOffsets' negative timestamps have their meanings."""
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            earliest = self.leader_epochs.earliest
            known = earliest is not None and earliest.start_offset <= self.log_start_offset
            epoch = earliest.epoch if earliest is not None and known else NO_EPOCH
            return TimestampOffset(NO_TIMESTAMP, self.log_start_offset, epoch)
        if timestamp == LATEST_TIMESTAMP:
            return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, self.latest_epoch)
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return TimestampOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
        try:
            if timestamp == MAX_TIMESTAMP:
                return self.segments.record_with_max_timestamp()
            return self.segments.record_not_before(timestamp, self.log_start_offset)
        except CorruptBatch as error:
            raise corrupt(self.topic_partition, str(error)) from None
        except OSError as error:
            raise self._failed(error, "searching the log") from error

    # High watermark and last stable offset

    def update_high_watermark(self, high_watermark: int) -> int:
        """Sets it, kept within log start and log end; returns what it is then."""
        if not self.log_start_offset <= high_watermark <= self.log_end_offset:
            high_watermark = min(max(high_watermark, self.log_start_offset), self.log_end_offset)
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            if self._first_unstable is not None:
                self.producers.on_high_watermark(high_watermark)
                self._note_first_unstable()
        return high_watermark

    def maybe_increment_high_watermark(self, high_watermark: int) -> int | None:
        """Raises it, never lowers it; returns the old one when it rose."""
        assert high_watermark <= self.log_end_offset, f"high watermark {high_watermark} beyond {self!r}"
        old = self.high_watermark
        if high_watermark <= old:
            return None
        self.update_high_watermark(high_watermark)
        return old

    def _note_first_unstable(self) -> None:
        first = self.producers.first_unstable_offset
        self._first_unstable = None if first is None else max(first, self.log_start_offset)

    # Leader epochs

    def maybe_assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Notes where a leader epoch begins, before anything is appended in it."""
        self.log_dir.check_online()
        self.leader_epochs.begin(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and its end offset; (-1, -1) where that is not known."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def take_over(self, log: Log, *, now_ms: int) -> None:
        """Takes from `log`, whose batches this one has all, what batches do not tell; and is on the disk for good.

        Epochs that began without a record are among it: a follower may ask for them.
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
        """Cuts the log so that it ends at `target_offset` or before; False when it did already.

        Where the target lies within a batch, the whole batch is cut: the log ends where a batch does, so that what is
        appended next leaves no hole (``UnifiedLog.truncateTo`` says it ends at the target, whatever is left).
        """
        assert target_offset >= 0, f"cannot truncate {self.topic_partition} to {target_offset}"
        self.log_dir.check_online()
        self.just_appended = None
        try:
            if target_offset >= self.log_end_offset:
                # An epoch that began here without a record may contradict what the new leader has.
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            if self.segments[0].base_offset > target_offset:
                self._truncate_fully_and_start_at(target_offset, target_offset, now_ms)
                return True
            appended_bytes = self.appended_bytes
            self._drop_segments(self.segments[self.segments.index_of(target_offset) + 1 :])
            target_offset = self.segments.truncate_active(target_offset, now_ms)
            self._appended_before = appended_bytes - self.segments.active.size
            lowered = self._spans(
                min(self.log_start_offset, target_offset), min(self.high_watermark, target_offset), target_offset
            )
            self._unflushed_rolls = [roll for roll in self._unflushed_rolls if roll[1] <= target_offset]
            self._lower_recovery_point(target_offset)
            self.leader_epochs.truncate_from_end(target_offset)
            if lowered:
                self._tell_lowered_start()
            self._reload_producers(target_offset)
            self.producers.on_high_watermark(self.high_watermark)
            self._note_first_unstable()
        except CorruptBatch as error:
            raise corrupt(self.topic_partition, str(error)) from None
        except OSError as error:
            raise self._failed(error, "truncating the log", half_done=True) from error
        return True

    def truncate_fully_and_start_at(self, new_offset: int, *, now_ms: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the log begins, empty, at `new_offset`."""
        self.log_dir.check_online()
        self.just_appended = None
        try:
            self._truncate_fully_and_start_at(
                new_offset, new_offset if log_start_offset is None else log_start_offset, now_ms
            )
        except OSError as error:
            raise self._failed(error, "truncating the log", half_done=True) from error

    def _truncate_fully_and_start_at(self, new_offset: int, log_start_offset: int, now_ms: int) -> None:
        self._appended_before = self.appended_bytes
        self._drop_segments(list(self.segments))
        segment = Segment(
            self._disk, self.directory, new_offset, index_bytes=self.settings.index_bytes, now_ms=now_ms, new=True
        )
        self.segments.append(segment)
        self._unflushed_rolls.clear()
        # The high watermark also when it does not move: what it pointed to is gone.
        lowered = self._spans(log_start_offset, new_offset, new_offset)
        self._lower_recovery_point(new_offset)
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(new_offset)
        if lowered:
            self._tell_lowered_start()
        self.producers.on_high_watermark(new_offset)
        self._note_first_unstable()

    def _spans(self, log_start_offset: int, high_watermark: int, log_end_offset: int) -> bool:
        """What a cut left, ahead of all that can fail. True when the log starts lower than before."""
        lowered = log_start_offset < self.log_start_offset
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        return lowered

    def _tell_lowered_start(self) -> None:
        if self.on_log_start_offset_lowered is not None:
            self.on_log_start_offset_lowered()

    def _lower_recovery_point(self, offset: int) -> None:
        if offset < self.cleaned_offset:
            self.cleaned_offset = offset
            if self.on_cleaned_offset_lowered is not None:
                self.on_cleaned_offset_lowered()
        if offset < self.recovery_point:
            self.recovery_point = offset
            if self.on_recovery_point_lowered is not None:
                self.on_recovery_point_lowered()

    def _reload_producers(self, end_offset: int) -> None:
        """Brings the producer state to `end_offset`: the newest snapshot before it, and what the log says since."""
        producers = self.producers
        was_empty = producers.is_empty and producers.map_end_offset >= end_offset
        producers.truncate_and_reload(self.log_start_offset, end_offset)
        if producers.map_end_offset < end_offset and not was_empty:
            replay_producers(self.segments, producers, self.log_start_offset, end_offset, end_txn_marker)
        producers.map_end_offset = end_offset
        producers.take_snapshot(sync=True)

    # Log start offset and deletion

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start offset forward. Raises OFFSET_OUT_OF_RANGE beyond the high watermark."""
        if self.log_dir.failure is not None:
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
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self._failed(error, "writing the leader epochs") from error
        self.producers.on_log_start_offset(offset)
        self._note_first_unstable()
        return True

    def delete_old_segments(self, *, now_ms: int) -> int:
        """Deletes whole segments by log start offset, size and age, never at or above the high watermark."""
        self.log_dir.check_online()
        try:
            deleted = self._delete_while(lambda segment, next_base: next_base <= self.log_start_offset, now_ms)
            settings = self.settings
            if settings.delete:
                if settings.retention_bytes >= 0:
                    excess = self.size - settings.retention_bytes
                    doomed: list[int] = []

                    def beyond_size(segment: Segment, next_base: int) -> bool:
                        left = excess - sum(doomed)
                        if left < segment.size:
                            return False
                        doomed.append(segment.size)
                        return True

                    if excess > 0:
                        deleted += self._delete_while(beyond_size, now_ms)
                if settings.retention_ms >= 0:
                    deleted += self._delete_while(
                        lambda segment, next_base: now_ms - segment.largest_timestamp > settings.retention_ms, now_ms
                    )
        except OSError as error:
            raise self._failed(error, "deleting old segments", half_done=True) from error
        return deleted

    def _delete_while(self, is_old: Callable[[Segment, int], bool], now_ms: int) -> int:
        """Deletes segments from the first on as long as they are old; the active one too, when it has data."""
        doomed: list[Segment] = []
        segments = self.segments
        for index, segment in enumerate(segments):
            is_last = segment is segments.active
            upper_bound = self.log_end_offset if is_last else segments[index + 1].base_offset
            if is_last and segment.size == 0:
                break
            # The start offset can never pass the high watermark, and no follower loses what it has still to fetch.
            if self.high_watermark < upper_bound or not is_old(segment, upper_bound):
                break
            if is_last and upper_bound <= self.log_start_offset and segment.base_offset == upper_bound:
                break
            doomed.append(segment)
        if not doomed:
            return 0
        if len(doomed) == len(segments):
            self._roll(self.log_end_offset, now_ms)
        new_start = segments[len(doomed)].base_offset
        if new_start > self.log_start_offset:
            self.maybe_increment_log_start_offset(new_start)
        self._drop_segments(doomed)
        return len(doomed)

    def _drop_segments(self, doomed: list[Segment]) -> None:
        """Takes the first or the last segments out of the log for good; their snapshots go with them.

        Files are renamed now and removed later. A power loss does not undo it: were some of the first ones back and not
        those behind them, the log would end at the hole; and where the last ones were back while the segment before
        them, which is cut next, stayed cut, it would have a hole that nothing shows: where a segment ends and the next
        begins may be far apart after compaction.
        """
        if not doomed:
            return
        self.segments.take_out(doomed)
        self.producers.delete_snapshots_of([segment.base_offset for segment in doomed])
        self._disk.fsync_dir(self.directory)

    # Compaction

    def last_records_of_producers(self) -> dict[int, LastRecord]:
        """Where each known producer stands."""
        return {
            entry.producer_id: LastRecord(entry.last_offset if entry.batches else None, entry.producer_epoch)
            for entry in self.producers.entries.values()
        }

    def replace_segments(self, cleaned: Segment, replaced: list[Segment]) -> None:
        """Puts a cleaned segment, whose files are synced under `CLEANED_SUFFIX`, in the place of old ones.

        The cleaned log file's second name says that the work is to be finished: from then on a restart does it. An old
        segment's files are out of the way before the cleaned ones get their last names (KAFKA-12520).
        """
        self.log_dir.check_online()
        try:
            cleaned.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            self._disk.fsync_dir(self.directory)
            self.segments.replace(replaced, cleaned)
            gone = [segment.base_offset for segment in replaced if segment.base_offset != cleaned.base_offset]
            self.producers.delete_snapshots_of(gone)
            cleaned.change_suffix(SWAP_SUFFIX, "")
            self._disk.fsync_dir(self.directory)
        except OSError as error:
            raise self._failed(error, "replacing cleaned segments", half_done=True) from error

    def delete_marked_files(self, *, now_ms: int) -> None:
        """Removes files that were marked `file.delete.delay.ms` ago; a reader may have been using them until then."""
        if not self.segments.has_marked_files:
            return
        self.log_dir.check_online()
        try:
            self.segments.remove_due_files(now_ms, self.settings.file_delete_delay_ms)
        except OSError as error:
            raise self._failed(error, "removing deleted files", half_done=True) from error

    # Flushing and closing

    def flush(self, *, now_ms: int, up_to: int | None = None) -> bool:
        """Makes everything below `up_to` (all by default) survive a power loss, and moves the recovery point there.

        False when it was there already.
        """
        self.log_dir.check_online()
        target = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        self.last_flush_ms = now_ms
        if target <= self.recovery_point:
            return False
        try:
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
        except OSError as error:
            raise self._failed(error, "flushing the log") from error
        self.recovery_point = target
        self._unflushed_rolls = [roll for roll in self._unflushed_rolls if roll[1] > target]
        return True

    def flush_rolled_before(self, rolled_before_ms: int, *, now_ms: int) -> bool:
        """Flushes segments that were rolled a while ago: by then the kernel has written them, and it costs little."""
        due = [base_offset for rolled_ms, base_offset in self._unflushed_rolls if rolled_ms <= rolled_before_ms]
        return bool(due) and self.flush(now_ms=now_ms, up_to=due[-1])

    def close(self, *, now_ms: int) -> None:
        """A clean stop: everything flushed, a producer snapshot at the end, the time index complete."""
        if self.closed:
            return
        self.log_dir.check_online()
        try:
            self.producers.map_end_offset = self.log_end_offset
            self.producers.take_snapshot(sync=True)
            self.segments.active.become_inactive(sync=self.log_end_offset <= self.recovery_point)
            self.flush(now_ms=now_ms)
            self.segments.remove_marked_files()
        except OSError as error:
            raise self._failed(error, "closing the log", half_done=True) from error
        self.close_files()

    def close_files(self) -> None:
        """Lets all descriptors go and leaves the files as they are."""
        self.closed = True
        self.segments.close_files()

    def rename_directory(self, name: str) -> None:
        """Renames the partition's directory within its log directory."""
        self.log_dir.check_online()
        target = f"{self.directory.rpartition('/')[0]}/{name}"
        try:
            self._disk.rename(self.directory, target)
            self._disk.fsync_dir(self.log_dir.path)
        except OSError as error:
            raise self._failed(error, "renaming the directory", half_done=True) from error
        self.directory = target
        self.segments.moved(target)
        self.leader_epochs.moved(target)
        self.producers.moved(target)

    def delete(self) -> None:
        """Removes the partition's directory with all that is in it."""
        self.close_files()
        self.log_dir.check_online()
        try:
            if self._disk.is_dir(self.directory):
                self._disk.rmtree(self.directory)
        except OSError as error:
            raise self._failed(error, "deleting the directory", half_done=True) from error
