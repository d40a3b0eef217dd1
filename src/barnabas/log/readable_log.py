"""A log as its readers see it: its offsets, and reading from it.

log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.log.batches import CorruptBatch
from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.log.log_segments import LogSegments
from barnabas.log.partition_dirs import FUTURE_SUFFIX
from barnabas.log.partition_metadata import write_topic_id
from barnabas.log.recovery import LoadedLog
from barnabas.log.refusals import corrupt
from barnabas.log.results import (
    AppendInfo,
    LogOffsetMetadata,
    TimestampOffset,
)
from barnabas.log.segment import Segment
from barnabas.log.settings import LogSettings
from barnabas.log.txn_index import AbortedTxn
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
from barnabas.runtime.file_records import FILE_RECORDS_BYTES


class ReadableLog:
    """The readers' side of `Log`."""

    def __init__(
        self,
        disk: Disk,
        log_dir: LogDir,
        directory: str,
        topic_partition: TopicPartition,
        config: Config,
        loaded: LoadedLog,
        *,
        topic_id: Uuid | None,
        jitter: Callable[[int], int],
        now_ms: int,
    ) -> None:
        self._disk = disk
        self.log_dir = log_dir
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.settings = LogSettings.of(config)
        self.segments = LogSegments(disk, loaded.segments, self.settings, jitter)
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        """All records below are durably on the disk. The log start offset may be higher: segments below that offset
        stay until retention deletes them, and until then a recovery has to check the unflushed ones."""
        self.last_flush_ms = now_ms
        self.closed = False
        self._first_unstable: int | None = None
        self.cleaned_offset = loaded.log_start_offset
        """How far the cleaner has come (its checkpoint)."""
        self.uncleanable: str | None = None
        """Why the cleaner skips this log."""
        self.on_cleaned_offset_lowered: Callable[[Any], None] | None = None
        """Called with this log when a truncation went below the cleaned offset: other records will come there."""
        self.on_log_start_offset_lowered: Callable[[Any], None] | None = None
        """Called with this log when a truncation went below its start offset: the checkpointed one is now too large."""
        self.on_recovery_point_lowered: Callable[[Any], None] | None = None
        """Called with this log when a truncation went below the recovery point: a larger checkpoint would let recovery
        trust bytes that are rewritten and not flushed."""
        self.just_appended: AppendInfo | None = None
        """The log's last append, which waiting readers read from memory."""
        self._directory_synced = False
        self._note_first_unstable()

    def __repr__(self) -> str:
        return (
            f"Log({self.directory}, log_start_offset={self.log_start_offset}, high_watermark={self.high_watermark}, "
            f"log_end_offset={self.log_end_offset})"
        )

    # State

    @property
    def latest_epoch(self) -> int:
        """The largest leader epoch that began in this log; -1 if none did."""
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
    def active_segment(self) -> Segment:
        return self.segments.active

    @property
    def name(self) -> str:
        return self.directory.rpartition("/")[2]

    @property
    def is_future(self) -> bool:
        return self.name.endswith(FUTURE_SUFFIX)

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Stores the topic id for good. Raises INCONSISTENT_TOPIC_ID when the log is another topic's."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise inconsistent_topic_id(self.topic_partition, topic_id, self.topic_id)
        with self._changing("writing partition.metadata"):
            write_topic_id(self._disk, self.directory, topic_id)
        self.topic_id = topic_id

    def update_config(self, config: Config) -> None:
        self.config = config
        self.settings = LogSettings.of(config)
        self.segments.update_settings(self.settings)

    def _failed(self, error: OSError, doing: str, *, half_done: bool = False) -> LogDirFailure:
        return self.log_dir.failed(error, f"{doing} of {self.topic_partition}", half_done=half_done)

    @contextmanager
    def _reading(self, doing: str) -> Iterator[None]:
        """Turns errors of the files into CORRUPT_MESSAGE or `LogDirFailure`."""
        try:
            yield
        except CorruptBatch as batch:
            raise corrupt(self.topic_partition, str(batch)) from None
        except OSError as error:
            raise self._failed(error, doing) from error

    @contextmanager
    def _changing(self, doing: str, *, half_done: bool = False) -> Iterator[None]:
        """As `_reading`, and only while the directory is online; an error may leave the change `half_done`."""
        self.log_dir.check_online()
        try:
            yield
        except CorruptBatch as batch:
            raise corrupt(self.topic_partition, str(batch)) from None
        except OSError as error:
            raise self._failed(error, doing, half_done=half_done) from error

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
    ) -> Bytes:
        """Batches from the one that holds `offset` on, all below the offset `bound`.

        At most `max_bytes`; the last batch may be cut. A larger first batch comes whole with `min_one_batch`, else its
        head with `incomplete`. Many batches stay in the file if `in_place` allows it (`FileRecords`). Raises
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
            return just.records
        if offset >= bound:
            return b""
        try:
            return self.segments.read(
                offset,
                None if bound == end_offset else bound,
                max_bytes,
                min_one_batch=min_one_batch,
                incomplete=incomplete,
                in_place=in_place,
            )
        except CorruptBatch as batch:
            raise corrupt(self.topic_partition, str(batch)) from None
        except OSError as error:
            raise self._failed(error, "reading the log") from error

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """The position of `offset`; the end of the log for the log end offset."""
        if offset == self.log_end_offset:
            active = self.segments.active
            return LogOffsetMetadata(offset, active.base_offset, active.size)
        with self._reading("reading the log"):
            return self.segments.position_of(offset)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """How many bytes of batches lie between two offsets."""
        if end_offset <= start_offset:
            return 0
        return self.segments.bytes_between(self.offset_metadata(start_offset), self.offset_metadata(end_offset))

    def on_older_segment(self, offset: int, end_offset: int) -> bool:
        """Whether `offset` belongs to an earlier segment than `end_offset`: no read spans two segments."""
        return self.segments.index_of(offset) < self.segments.index_of(end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that overlap the offsets from `start_offset` to before `end_offset`."""
        with self._reading("reading the transaction index"):
            return self.segments.aborted_transactions(start_offset, end_offset)

    def aborted_in_read(self, start_offset: int, size: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that overlap the `size` bytes of batches that a read from `start_offset` found,
        which end before `end_offset`, and a few after them (``LocalLog.addAbortedTransactions``)."""
        with self._reading("reading the indexes"):
            bound = self.segments.bound_of_read(start_offset, size)
            return self.segments.aborted_transactions(
                start_offset, end_offset if bound is None else min(bound, end_offset)
            )

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is not smaller; ListOffsets' negative timestamps have special meanings."""
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            earliest = self.leader_epochs.earliest
            known = earliest is not None and earliest.start_offset <= self.log_start_offset
            epoch = earliest.epoch if earliest is not None and known else NO_EPOCH
            return TimestampOffset(NO_TIMESTAMP, self.log_start_offset, epoch)
        if timestamp == LATEST_TIMESTAMP:
            return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, self.latest_epoch)
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return TimestampOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
        searching = self.searching(timestamp)
        while True:
            try:
                next(searching)
            except StopIteration as end:
                found: TimestampOffset | None = end.value
                return found

    def searching(self, timestamp: int) -> Generator[None, None, TimestampOffset | None]:
        """As `fetch_offset_by_timestamp`, for a time or the largest timestamp; yields so that others may run."""
        with self._reading("searching the log"):
            if timestamp == MAX_TIMESTAMP:
                return (yield from self.segments.searching_record_with_max_timestamp())
            return (yield from self.segments.searching_record(timestamp, self.log_start_offset))

    # High watermark and last stable offset

    def update_high_watermark(self, high_watermark: int) -> int:
        """Sets the high watermark within log start and log end; returns it."""
        if not self.log_start_offset <= high_watermark <= self.log_end_offset:
            high_watermark = min(max(high_watermark, self.log_start_offset), self.log_end_offset)
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            if self._first_unstable is not None:
                self.producers.on_high_watermark(high_watermark)
                self._note_first_unstable()
        return high_watermark

    def _note_first_unstable(self) -> None:
        first = self.producers.first_unstable_offset
        self._first_unstable = None if first is None else max(first, self.log_start_offset)

    # Leader epochs

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and its end offset; (-1, -1) if that is not known."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def has_batch(self, leader_epoch: int, end_offset: int) -> bool:
        """Whether a batch of that epoch ends at `end_offset`. It reads the batch: where epochs fall, since znodes were
        restored, the cache has forgotten the earlier ones."""
        with self._reading("reading the log"):
            batch = self.segments.batch_at(end_offset - 1)
        return batch is not None and (batch.leader_epoch, batch.next_offset) == (leader_epoch, end_offset)

    def ends_as(self, other: ReadableLog) -> bool:
        """Whether both have the same records, except before the later start: in one leader epoch, equal end offsets
        mean equal records. An empty log knows no epoch."""
        end_offset = self.log_end_offset
        if (end_offset, self.topic_id) != (other.log_end_offset, other.topic_id):
            return False
        if end_offset in (self.log_start_offset, other.log_start_offset):
            return True
        last_epoch, its_last_epoch = (each.leader_epochs.epoch_for_offset(end_offset - 1) for each in (self, other))
        return last_epoch == its_last_epoch


def inconsistent_topic_id(topic_partition: TopicPartition, topic_id: Uuid, stored_id: Uuid) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_TOPIC_ID,
        f"Tried to assign topic ID {topic_id} to log for topic partition {topic_partition}, but log already contained "
        f"topic ID {stored_id}",
    )
