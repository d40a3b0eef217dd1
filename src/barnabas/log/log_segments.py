"""The segments of one log in their order (Kafka's ``LogSegments``), and the way out for files of theirs.

An offset belongs to the segment with the largest base offset that is not above it; the last segment is the active one,
the only one that is appended to. Compaction may have taken an offset, or the whole end of a segment: then the next
batch that there is stands for it.

What is taken out is renamed at once and removed ``file.delete.delay.ms`` later, since a reader may be using it. Nothing
here syncs a directory: the log does, once for all that one step of its own does. Raises ``OSError`` and `CorruptBatch`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from barnabas.log.batches import HEADER_BYTES, CorruptBatch, StoredBatch
from barnabas.log.results import LogOffsetMetadata, TimestampOffset
from barnabas.log.segment import Segment
from barnabas.log.txn_index import AbortedTxn
from barnabas.runtime import Disk
from barnabas.wire import records as wire_records


class LogSegments(Sequence[Segment]):
    """See the module; never empty, but while all segments are being replaced by a new one."""

    __slots__ = ("_bases", "_disk", "_marked", "_segments", "active", "changed")

    def __init__(self, disk: Disk, segments: list[Segment]) -> None:
        self._disk = disk
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._marked: list[tuple[int | None, list[str]]] = []
        """Files renamed to ``.deleted``: when they are due (None: not decided yet), and which."""
        self.active = segments[-1]
        self.changed = 0
        """Counts what was taken out or cut: whoever works on old segments looks whether they are still so."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    # Finding

    def index_of(self, offset: int) -> int:
        """Index of the segment to which `offset` belongs; -1 before the first one."""
        if offset >= self.active.base_offset:
            return len(self._segments) - 1
        return bisect_right(self._bases, offset) - 1

    def position_of(self, offset: int) -> LogOffsetMetadata:
        """Where the first batch stands that ends at or after `offset`; the end of the log where there is none."""
        index = self.index_of(offset)
        if index < 0:
            return LogOffsetMetadata(offset, self._segments[0].base_offset, 0)
        for segment in self._segments[index:]:
            located = segment.locate(offset)
            if located is not None:
                return LogOffsetMetadata(offset, segment.base_offset, located[0])
        return LogOffsetMetadata(offset, self.active.base_offset, self.active.size)

    def batch_at(self, offset: int) -> StoredBatch | None:
        """The header of the first batch that ends at or after `offset`; nothing more is read."""
        for segment in self._segments[max(0, self.index_of(offset)) :]:
            located = segment.locate(offset)
            if located is not None:
                position, size = located
                return next(segment.batches(position, position + size, chunk=HEADER_BYTES))
        return None

    def bytes_between(self, start: LogOffsetMetadata, end: LogOffsetMetadata) -> int:
        if start.segment_base_offset == end.segment_base_offset:
            return max(0, end.position - start.position)
        first = bisect_left(self._bases, start.segment_base_offset)
        between = self._segments[first : bisect_left(self._bases, end.segment_base_offset)]
        return sum(segment.size for segment in between) - start.position + end.position

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the offsets from `start_offset` to before `end_offset`."""
        found: list[AbortedTxn] = []
        for segment in self._segments[max(0, self.index_of(start_offset)) :]:
            if segment.collect_aborted(start_offset, end_offset, found):
                break
        return found

    def record_not_before(self, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
        """The first record from `log_start_offset` on whose timestamp is not smaller.

        It may lie behind segments that are deleted up to their end and still there. (Apache looks into the first one
        alone, and finds nothing until retention has taken that away.)
        """
        for segment in self._segments:
            if segment.largest_timestamp < timestamp:
                continue
            for batch in segment.batches_not_before(timestamp, log_start_offset):
                for record in _records(segment, batch):
                    if record.timestamp >= timestamp and record.offset >= log_start_offset:
                        return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
        return None

    def record_with_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp (KIP-734)."""
        largest = max(self._segments, key=lambda segment: segment.max_timestamp_and_offset()[0])
        timestamp, offset = largest.max_timestamp_and_offset()
        if timestamp < 0:
            return None
        for batch in largest.batches_not_before(timestamp, offset):
            if batch.max_timestamp == timestamp:
                for record in _records(largest, batch):
                    if record.timestamp == timestamp:
                        return TimestampOffset(timestamp, record.offset, batch.leader_epoch)
        return None

    # Changing

    def append(self, segment: Segment) -> None:
        """A new active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_out(self, doomed: list[Segment]) -> None:
        """The first or the last segments; of the last ones the one before becomes active, where one is left."""
        self.changed += 1
        for segment in doomed:
            index = self._bases.index(segment.base_offset)
            del self._bases[index]
            del self._segments[index]
            self._marked.append((None, segment.mark_deleted()))
        if self._segments:
            self.active = self._segments[-1]

    def truncate_active(self, offset: int, now_ms: int) -> int:
        """Cuts the active segment at `offset`; returns where it ends, as `Segment.truncate_to`."""
        self.changed += 1
        end_offset = self.active.truncate_to(offset, now_ms)
        self.active.look_whether_full()
        return end_offset

    def replace(self, replaced: list[Segment], cleaned: Segment) -> None:
        """Puts a cleaned segment in the place of old ones that follow each other."""
        first = self._bases.index(replaced[0].base_offset)
        assert self._segments[first : first + len(replaced)] == replaced, "the cleaner works on old segments"
        for segment in reversed(replaced):
            self._marked.append((None, segment.mark_deleted()))
        self._segments[first : first + len(replaced)] = [cleaned]
        self._bases[first : first + len(replaced)] = [cleaned.base_offset]

    # Files

    @property
    def has_marked_files(self) -> bool:
        return bool(self._marked)

    def remove_due_files(self, now_ms: int, delay_ms: int) -> None:
        """Removes files that were marked `delay_ms` ago."""
        waiting: list[tuple[int | None, list[str]]] = []
        for due_ms, paths in self._marked:
            if due_ms is None:
                waiting.append((now_ms + delay_ms, paths))
            elif due_ms > now_ms:
                waiting.append((due_ms, paths))
            else:
                self._remove(paths)
        self._marked = waiting

    def remove_marked_files(self) -> None:
        """Removes all files that are marked, due or not."""
        for _, paths in self._marked:
            self._remove(paths)
        self._marked.clear()

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._disk.remove(path)

    def close_old_files(self) -> None:
        """Lets the descriptors of all but the active segment go; the next reader opens them again."""
        for segment in self._segments[:-1]:
            segment.close_files()

    def close_files(self) -> None:
        for segment in self._segments:
            segment.close_files()

    def moved(self, directory: str) -> None:
        """The directory was renamed; open descriptors stay good."""
        self._marked = [
            (due_ms, [f"{directory}/{path.rpartition('/')[2]}" for path in paths]) for due_ms, paths in self._marked
        ]
        for segment in self._segments:
            segment.moved(directory)


def _records(segment: Segment, batch: StoredBatch) -> list[wire_records.Record]:
    try:
        return wire_records.records_of(memoryview(segment.read_batch(batch)), 0, batch.size)
    except ValueError as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} cannot be read: {error}") from None
