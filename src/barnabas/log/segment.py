"""One segment of a log: the file of record batches and its three indexes.

A batch is found in three ways, the fastest first: the positions of the last appended batches are remembered (readers at
the tail need nothing else); the offset index leads to within a few kilobytes; from there batch headers are read.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from barnabas.log.batches import (
    LAST_OFFSET_END,
    LEGACY_MINIMUM,
    CorruptBatch,
    StoredBatch,
    crc_is_valid,
    header_bytes,
    last_offset_delta,
    parse,
    prefix,
)
from barnabas.log.index_file import CorruptIndex, IndexFile
from barnabas.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from barnabas.log.time_index import TimeIndex
from barnabas.log.txn_index import AbortedTxn, TransactionIndex
from barnabas.model.sentinels import NO_TIMESTAMP, OFFSET_MAX
from barnabas.runtime import Bytes, Disk, File
from barnabas.runtime.descriptors import sparing
from barnabas.wire.records import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT

logger = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

TAIL_BATCHES: Final = 1024
"""How many of the last batches' positions are kept; at this number half of them are dropped."""
DEFAULT_INDEX_INTERVAL_BYTES: Final = 4096
SCAN_BYTES: Final = 16 * 1024
RECOVERY_BYTES: Final = 1024 * 1024

IndexOf = TypeVar("IndexOf", bound=IndexFile)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name; None for a name that is not Kafka's with this suffix, or that leaves no offset for
    the log's end."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not digits.isascii() or not digits.isdigit():
        return None
    offset = int(digits)
    return offset if offset < OFFSET_MAX else None


class Segment:
    """Batches with offsets from `base_offset` on."""

    __slots__ = (
        "_disk",
        "_file",
        "_tail_floor",
        "_tail_last_offsets",
        "_tail_positions",
        "_timestamps_known",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "cuts",
        "directory",
        "indexes_full",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "path",
        "rolling_timestamp",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        index_bytes: int,
        now_ms: int,
        new: bool = False,
        suffix: str = "",
    ) -> None:
        """`suffix` ends the names of all its files while compaction creates it."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.path = segment_path(directory, base_offset, LOG_SUFFIX) + suffix
        self._file: File | None = None
        self.cuts = 0
        """How often the file was cut or deleted."""
        self.created_ms = now_ms
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.rolling_timestamp: int | None = None
        self.bytes_since_index_entry = 0
        self.indexes_full = False
        """Kept only for the active segment: no further index entry fits. Batches that a follower appends together with
        the batch that filled the indexes have none."""
        self._timestamps_known = new
        self._tail_last_offsets = array("q")
        self._tail_positions = array("i")
        self._tail_floor = base_offset
        paths = [segment_path(directory, base_offset, kind) + suffix for kind in SUFFIXES]
        if new:
            for path in paths:
                disk.remove(path)
            # The first append opens it again: an unwritten partition needs no descriptor.
            with disk.open_briefly(self.path, create=True):
                pass
        self.size = 0 if new else disk.size(self.path)
        self.offset_index = OffsetIndex(disk, paths[1], base_offset, index_bytes, new=new)
        self.time_index = TimeIndex(disk, paths[2], base_offset, index_bytes, new=new)
        self.txn_index = TransactionIndex(disk, paths[3])

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    @property
    def file_unless_short(self) -> File:
        """As `file`, for operations that may be refused and repeated when descriptors run out."""
        if self._file is None:
            with sparing():
                return self.file
        return self._file

    @contextmanager
    def open_briefly(self) -> Iterator[None]:
        """Opens the file for the block, unless open; for work that must not stop halfway (`Disk.open_briefly`)."""
        if self._file is not None:
            yield
            return
        with self._disk.open_briefly(self.path) as file:
            self._file = file
            try:
                yield
            finally:
                self._file = None

    # Appending

    def append(self, records: Bytes, batches: list[tuple[int, StoredBatch]], index_interval_bytes: int) -> None:
        """Writes `records` at the end, with the batches and their starts. They count when the write is complete."""
        ahead = self.size - batches[0][0]
        (self._file or self.file_unless_short).pwrite(records, self.size)
        for start, batch in batches:
            last_offset, max_timestamp = batch.last_offset, batch.max_timestamp
            position = ahead + start
            if position == 0:
                self.rolling_timestamp = max_timestamp
            tail = self._tail_last_offsets
            if not tail:
                self._tail_floor = batch.base_offset
            elif len(tail) >= TAIL_BATCHES:
                half = TAIL_BATCHES // 2
                self._tail_floor = tail[half - 1] + 1
                del tail[:half]
                del self._tail_positions[:half]
            tail.append(last_offset)
            self._tail_positions.append(position)
            size = batch.size
            self.size = position + size
            if not self._timestamps_known:
                self._load_timestamps()
            if max_timestamp > self.max_timestamp:
                self.max_timestamp = max_timestamp
                self.offset_of_max_timestamp = last_offset
            since_index_entry = self.bytes_since_index_entry
            if since_index_entry > index_interval_bytes and not self.indexes_full:
                try:
                    self.offset_index.append(last_offset, position)
                    self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
                except CorruptIndex as error:
                    self._mend_indexes(error)
                since_index_entry = 0
                self.indexes_full = self.offset_index.full or self.time_index.full
            self.bytes_since_index_entry = since_index_entry + size

    def look_whether_full(self) -> None:
        self.indexes_full = self._index(self.offset_index).full or self._index(self.time_index).full

    def fits(self, last_offset: int) -> bool:
        """Whether the indexes, whose offsets are relative, can hold `last_offset`."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def waited_ms(self, now_ms: int, max_timestamp: int) -> int:
        """How old the segment is for a batch with this timestamp (``timeWaitedForRoll``)."""
        if self.rolling_timestamp is None and self.size:
            try:
                self.rolling_timestamp = next(self.batches()).max_timestamp
            except CorruptBatch:
                self.rolling_timestamp = NO_TIMESTAMP  # its file's age counts, as for records without timestamps
        if self.rolling_timestamp is not None and self.rolling_timestamp >= 0:
            return max_timestamp - self.rolling_timestamp
        return now_ms - self.created_ms

    # Timestamps

    def _load_timestamps(self) -> None:
        self.max_timestamp, self.offset_of_max_timestamp = self._index(self.time_index).last_entry
        self._timestamps_known = True

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record here; if there is none, the file's modification time."""
        if not self._timestamps_known:
            self._load_timestamps()
        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.path)

    def max_timestamp_and_offset(self) -> tuple[int, int]:
        if not self._timestamps_known:
            self._load_timestamps()
        return self.max_timestamp, self.offset_of_max_timestamp

    # Finding

    def _index(self, index: IndexOf) -> IndexOf:
        """Loads `index`, or rebuilds it from the batches if it cannot be loaded."""
        try:
            index.entries  # noqa: B018  (loads)
        except (CorruptIndex, FileNotFoundError):
            self.rebuild_indexes()
        return index

    def _mend_indexes(self, error: CorruptIndex) -> None:
        """Rebuilds the indexes: the disk returned entries that this segment cannot have."""
        logger.warning("%s: its indexes are made anew: %s", self.path, error)
        try:
            self.rebuild_indexes()
        except CorruptBatch as damage:
            logger.error("the indexes of %s end where it is damaged: %s", self.path, damage)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at or after `offset`."""
        tail = self._tail_last_offsets
        if tail and offset >= self._tail_floor:
            slot = bisect_left(tail, offset)
            if slot == len(tail):
                return None
            positions = self._tail_positions
            position = positions[slot]
            following = slot + 1
            return position, (positions[following] if following < len(positions) else self.size) - position
        index = self._index(self.offset_index)
        passed_over = 0
        while True:
            try:
                return self._scan_for(offset, index.lookup(offset, passed_over))
            except CorruptIndex:
                passed_over += 1  # the entry before leads to it as well

    def _scan_for(self, offset: int, indexed: int) -> tuple[int, int] | None:
        """As `locate`, from the index's position on; reads no more of each header than it needs.

        Raises `CorruptIndex` if no batch begins there at `offset` or before: the entry or the batch is wrong. (Apache
        returns the following batch, and a consumer misses the records between.)
        """
        position = indexed
        if indexed and indexed >= self.size:
            raise CorruptIndex(f"{self.offset_index.path} has the position {indexed} of {self.size}")
        while position < self.size:
            data = self.file.pread(min(SCAN_BYTES, self.size - position), position)
            at, last = 0, len(data) - LAST_OFFSET_END
            if indexed and position == indexed and not (last >= 0 and self._begins_before(offset, data)):
                raise CorruptIndex(f"{self.offset_index.path} has no batch before {offset} at position {indexed}")
            while at <= last:
                base_offset, batch_size = prefix(data, at)
                if batch_size < LEGACY_MINIMUM:
                    raise CorruptBatch(f"{self.path} holds a batch of length {batch_size} at position {position + at}")
                delta = last_offset_delta(data, at) if data[at + MAGIC_AT] == 2 else 0
                if base_offset + delta >= offset:
                    if position + at + batch_size > self.size:
                        raise CorruptBatch(f"{self.path} ends within the batch at position {position + at}")
                    return position + at, batch_size
                at += batch_size
            if at == 0:
                raise CorruptBatch(f"{self.path} ends within a batch header at position {position}")
            position += at
        if position > self.size:
            raise CorruptBatch(f"{self.path} ends within a batch, {position - self.size} bytes before its end")
        return None

    def _begins_before(self, offset: int, data: bytes) -> bool:
        base_offset, size = prefix(data, 0)
        return self.base_offset <= base_offset <= offset and size >= LEGACY_MINIMUM and data[MAGIC_AT] <= 2

    def batches(self, start: int = 0, end: int | None = None, *, chunk: int = SCAN_BYTES) -> Iterator[StoredBatch]:
        """The headers of all batches from position `start` on. Raises `CorruptBatch` if there is none."""
        size = self.size if end is None else end
        position = start
        data = b""
        data_start = start
        while position < size:
            at = position - data_start
            if len(data) - at < HEADER_BYTES and data_start + len(data) < size:
                data = self.file.pread(min(chunk, size - position), position)
                data_start, at = position, 0
            left = len(data) - at
            if left < MAGIC_AT + 1 or left < header_bytes(data, at):
                raise CorruptBatch(f"{self.path} ends within a batch header at position {position}")
            batch = parse(data, at, position)
            if position + batch.size > size:
                raise CorruptBatch(f"{self.path} ends within the batch at position {position}")
            yield batch
            position += batch.size

    def read_batch(self, batch: StoredBatch) -> bytes:
        return self.file.pread(batch.size, batch.position)

    def batches_not_before(self, timestamp: int, offset: int) -> Iterator[StoredBatch]:
        """Batches from `offset` on, including the first that has a record with `timestamp` or later."""
        _, from_offset = self._index(self.time_index).lookup(timestamp)
        located = self.locate(max(from_offset, offset))
        for batch in self.batches(self.size if located is None else located[0]):
            if batch.max_timestamp >= timestamp and batch.last_offset >= offset:
                yield batch

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry on. Raises `CorruptBatch`."""
        last = self.base_offset
        for batch in self.batches(self._index(self.offset_index).last_position):
            if batch.base_offset < last or not self.fits(batch.last_offset):
                raise CorruptBatch(f"{self.path} goes on with offset {batch.base_offset} behind {last - 1}")
            last = batch.next_offset
        return last

    def bound_of_read(self, end_position: int) -> int | None:
        """The last offset of a batch at or after `end_position`, by the index."""
        return self._index(self.offset_index).upper_bound_offset(end_position)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int, into: list[AbortedTxn]) -> bool:
        return self.txn_index.collect(fetch_offset, upper_bound_offset, into)

    # Recovering and truncating

    def recover(
        self,
        index_interval_bytes: int,
        recovery_point: int,
        belongs: Callable[[StoredBatch, bool], bool],
        take: Callable[[StoredBatch], None],
    ) -> Generator[int, None, int]:
        """Checks every batch's CRC and rebuilds the indexes, up to the first bytes that are not a batch of the log.

        It asks for each batch whether it `belongs` to the log, whether its CRC is right or not, and calls `take` for
        each that does. It yields the size of every piece of about `RECOVERY_BYTES`, and returns where the last batch
        ends: `cut_file` removes the rest, when the segments after this one are gone.
        """
        self._forget()
        indexes = self.offset_index, self.time_index, self.txn_index
        for index in indexes:
            index.rebuild()
        size, valid, indexed, told = self.size, 0, 0, 0
        self.file.read_ahead(2 * RECOVERY_BYTES, 0)
        last_offset = self.base_offset - 1
        for batch, good in self._checked(size):
            if batch.base_offset <= last_offset or not self.fits(batch.last_offset) or not belongs(batch, good):
                break
            last_offset = batch.last_offset
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
            if valid - indexed > index_interval_bytes:
                self._rebuild_entries(batch.last_offset, valid)
                indexed = valid
            if valid == 0:
                self.rolling_timestamp = batch.max_timestamp
            valid += batch.size
            take(batch)
            if valid - told >= RECOVERY_BYTES:
                self.file.read_ahead(RECOVERY_BYTES, valid + RECOVERY_BYTES)
                yield valid - told
                told = valid
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        # Below the recovery point everything is synced, and no flush comes later: these writes are synced now.
        for index in indexes:
            index.rebuilt(sync=last_offset < recovery_point)
        return valid

    def cut_file(self, size: int) -> None:
        """Gives the file this size durably, and shortens the indexes to it.

        The recovery point is not above the cut, so no later flush covers this segment: if a power loss restored the old
        length, nothing would check the bytes after the cut.
        """
        self.cuts += 1
        self.size = size
        self.file.truncate(size)
        self.flush()

    def _checked(self, size: int) -> Iterator[tuple[StoredBatch, bool]]:
        """Every batch up to `size` with the result of its CRC check; ends at bytes that cannot be a batch."""
        position = 0
        data = memoryview(b"")
        data_start = 0
        while position < size:
            at = position - data_start
            left = len(data) - at
            wanted = prefix(data, at)[1] if left >= LOG_OVERHEAD else RECOVERY_BYTES
            if left < wanted and data_start + len(data) < size:
                if wanted > size - position and left >= LOG_OVERHEAD:
                    return  # it claims more bytes than there are: it is not read
                data = memoryview(self.file.pread(min(max(wanted, RECOVERY_BYTES), size - position), position))
                data_start = position
                continue
            if left < LEGACY_MINIMUM or wanted < LEGACY_MINIMUM or wanted > left:
                return
            if wanted < header_bytes(data, at):
                return
            try:
                batch = parse(data, at, position)
            except CorruptBatch:
                return
            yield batch, crc_is_valid(data, at, batch)
            position += batch.size

    def _rebuild_entries(self, last_offset: int, position: int) -> None:
        """Adds an entry to both indexes, unless one is full."""
        if not (self.offset_index.full or self.time_index.full):
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def rebuild_indexes(self) -> None:
        """Rebuilds the offset and the time index from batch headers, for a segment whose batches are known good."""
        with self.open_briefly():
            self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        self.offset_index.rebuild()
        self.time_index.rebuild()
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._timestamps_known = True
        indexed = 0
        last_offset = self.base_offset - 1
        try:
            for batch in self.batches(chunk=RECOVERY_BYTES):
                if batch.base_offset <= last_offset or not self.fits(batch.last_offset):
                    raise CorruptBatch(f"{self.path} goes on with offset {batch.base_offset} behind {last_offset}")
                last_offset = batch.last_offset
                if batch.max_timestamp > self.max_timestamp:
                    self.max_timestamp, self.offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
                if batch.position - indexed > DEFAULT_INDEX_INTERVAL_BYTES:
                    self._rebuild_entries(batch.last_offset, batch.position)
                    indexed = batch.position
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        finally:
            # Also if damage ends it: the batches before are right.
            self.offset_index.rebuilt(sync=True)
            self.time_index.rebuilt(sync=True)

    def _forget(self) -> None:
        """Drops what is remembered of the batches."""
        self._tail_last_offsets = array("q")
        self._tail_positions = array("i")
        self._tail_floor = self.base_offset
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._timestamps_known = True
        self.rolling_timestamp = None
        self.bytes_since_index_entry = 0

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cuts the first batch that ends at or after `offset` and all following; the segment is active again.

        Returns where it ends: before `offset` if that lies within a batch.
        """
        located = self.locate(offset)
        position = None if located is None else located[0]
        if position is not None:
            offset = min(offset, next(self.batches(position)).base_offset)
        self._forget()
        self._index(self.offset_index).truncate_to(offset)
        self._index(self.time_index).truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if position is not None:
            self.cut_file(position)
        if self.size == 0:
            self.created_ms = now_ms
            return offset
        # Any cut batch may have had the largest timestamp: it is searched after the last time entry.
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry
        for batch in self.batches(self.offset_index.lookup(self.offset_of_max_timestamp)):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
        return offset

    # Closing and deleting

    def become_inactive(self, *, sync: bool) -> None:
        """The next segment was begun: adds the time index's last entry, synced if no flush will sync it."""
        if self._timestamps_known:
            index = self._index(self.time_index)
            try:
                if index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp) and sync:
                    index.flush()
            except CorruptIndex as error:
                self._mend_indexes(error)

    def flush(self) -> None:
        with self.open_briefly():
            self.file.fsync()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def close_files(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved(self, directory: str) -> None:
        """The directory was renamed; open descriptors stay valid."""
        self.directory = directory
        self.path, *indexes = (segment_path(directory, self.base_offset, suffix) for suffix in SUFFIXES)
        self.offset_index.path, self.time_index.path, self.txn_index.path = indexes

    def change_suffix(self, old: str, new: str) -> None:
        """Renames the files; open descriptors stay valid. The log file comes last: with it the others count."""
        for kind in reversed(SUFFIXES):
            path = segment_path(self.directory, self.base_offset, kind)
            if self._disk.exists(path + old):
                self._disk.rename(path + old, path + new)
        paths = [segment_path(self.directory, self.base_offset, kind) + new for kind in SUFFIXES]
        self.path, self.offset_index.path, self.time_index.path, self.txn_index.path = paths

    def remove_files(self) -> None:
        self.cuts += 1
        self.close_files()
        for path in (self.path, self.offset_index.path, self.time_index.path, self.txn_index.path):
            self._disk.remove(path)

    def mark_deleted(self) -> list[str]:
        """Renames the files; returns the names under which they are to be deleted later."""
        self.cuts += 1
        self.close_files()
        marked = []
        for suffix in SUFFIXES:
            path = segment_path(self.directory, self.base_offset, suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                marked.append(path + DELETED_SUFFIX)
        return marked
