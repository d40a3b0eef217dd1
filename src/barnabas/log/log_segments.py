"""The segments of one log in their order (Kafka's ``LocalLog``): finding, reading, rolling, and removing files.

An offset belongs to the segment with the largest base offset that is not above it; the last segment is the active one,
the only one that is appended to. Compaction may have removed an offset, or the whole end of a segment: then a read
begins at the next batch that exists.

A removed segment is renamed at once and deleted ``file.delete.delay.ms`` later, since a reader may be using it. Here
only a roll syncs the directory; in all other cases the log syncs it, once for each of its own steps. Raises ``OSError``
and `CorruptBatch`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, cast, overload

from barnabas.log.batches import CorruptBatch, StoredBatch
from barnabas.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.log.results import LogOffsetMetadata, TimestampOffset
from barnabas.log.segment import Segment
from barnabas.log.settings import LogSettings
from barnabas.log.txn_index import AbortedTxn
from barnabas.runtime import Bytes, Disk
from barnabas.runtime.file_records import FILE_RECORDS_BYTES, FileRecords
from barnabas.wire.message_sets import records_in_turns
from barnabas.wire.records import HEADER_BYTES, parse_header

OPEN_MAX: Final = 8
"""How many old segments of a log may keep their files open between two rounds of the upkeep: a segment may be a record
long, and a client may write and read thousands of them in that time."""


class LogSegments(Sequence[Segment]):
    """See the module; never empty, but while all segments are being replaced by a new one."""

    __slots__ = (
        "_appended_before",
        "_bases",
        "_disk",
        "_jitter",
        "_marked",
        "_roll_ms",
        "_segments",
        "_settings",
        "_used",
        "active",
        "changed",
        "unflushed_rolls",
    )

    def __init__(
        self, disk: Disk, segments: list[Segment], settings: LogSettings, jitter: Callable[[int], int]
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._settings = settings
        self._jitter = jitter
        self._roll_ms = self._next_roll_ms()
        self.unflushed_rolls: list[tuple[int, int]] = []
        """Rolled segments that are not flushed: when they were rolled, and the next one's base offset."""
        self._bases = [segment.base_offset for segment in segments]
        self._marked: list[tuple[int | None, list[str]]] = []
        """Files renamed to ``.deleted``: when they are due (None: not decided yet), and their names."""
        self._used: deque[Segment] = deque()
        """The most recently used old segments, whose files may be open."""
        self.active = segments[-1]
        self.changed = 0
        """Counts removals and cuts: work on old segments compares it to see whether they are still the same."""
        self._appended_before = -self.active.size
        self.active.look_whether_full()

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
        return sum([segment.size for segment in self._segments])

    @property
    def appended_bytes(self) -> int:
        """Bytes appended since the log was opened, including those that were cut or deleted since."""
        return self._appended_before + self.active.size

    def update_settings(self, settings: LogSettings) -> None:
        self._settings = settings
        for segment in self._segments:
            segment.offset_index.set_max_bytes(settings.index_bytes)
            segment.time_index.set_max_bytes(settings.index_bytes)
        self.active.look_whether_full()
        self._roll_ms = self._next_roll_ms()

    # Finding

    def index_of(self, offset: int) -> int:
        """Index of the segment to which `offset` belongs; -1 before the first one."""
        if offset >= self.active.base_offset:
            return len(self._segments) - 1
        return bisect_right(self._bases, offset) - 1

    def position_of(self, offset: int) -> LogOffsetMetadata:
        """Where the first batch is that ends at or after `offset`; the end of the log if there is none."""
        index = self.index_of(offset)
        if index < 0:
            return LogOffsetMetadata(offset, self._segments[0].base_offset, 0)
        for segment in self._segments[index:]:
            located = segment.locate(offset)
            if located is not None:
                position, _ = located
                return LogOffsetMetadata(offset, segment.base_offset, position)
        return LogOffsetMetadata(offset, self.active.base_offset, self.active.size)

    def batch_at(self, offset: int) -> StoredBatch | None:
        """The header of the first batch that ends at or after `offset`; reads nothing more."""
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
        """The aborted transactions that overlap the offsets from `start_offset` to before `end_offset`."""
        found: list[AbortedTxn] = []
        for segment in self._segments[max(0, self.index_of(start_offset)) :]:
            if segment.collect_aborted(start_offset, end_offset, found):
                break
        return found

    def bound_of_read(self, start_offset: int, size: int) -> int | None:
        """An offset after the `size` bytes of batches that a read from `start_offset` found, by the index; None if that
        is the log's end."""
        where = self.position_of(start_offset)
        index = self.index_of(where.segment_base_offset)
        bound = self._segments[index].bound_of_read(where.position + size)
        if bound is None and index + 1 < len(self._segments):
            return self._segments[index + 1].base_offset
        return bound

    def searching_record(self, timestamp: int, log_start_offset: int) -> Generator[None, None, TimestampOffset | None]:
        """The first record from `log_start_offset` on whose timestamp is not smaller. It yields at times, since a batch
        of a megabyte may unpack to millions of records. Each piece is read without yielding: segments may go meanwhile.

        The record may lie after segments that are deleted up to their end but still there. (Apache looks only into the
        first of them, and finds nothing until retention has removed it.)
        """
        return (yield from self._searching(lambda segment: segment.largest_timestamp, timestamp, log_start_offset))

    def searching_record_with_max_timestamp(self) -> Generator[None, None, TimestampOffset | None]:
        """The first record with the largest timestamp (KIP-734); as `searching_record`."""
        timestamp, offset = max(
            (segment.max_timestamp_and_offset() for segment in self._segments), key=lambda found: found[0]
        )
        if timestamp < 0:
            return None

        def largest(segment: Segment) -> int:
            return segment.max_timestamp_and_offset()[0]

        return (yield from self._searching(largest, timestamp, offset, exact=True))

    def _searching(
        self, largest: Callable[[Segment], int], timestamp: int, from_offset: int, *, exact: bool = False
    ) -> Generator[None, None, TimestampOffset | None]:
        """`exact`: the first record with `timestamp` or later in the batch that ends at `from_offset` or after it."""
        next_offset = from_offset
        while (found := self._batch_not_before(largest, timestamp, next_offset)) is not None:
            batch, stored = found
            try:
                for record in records_in_turns(parse_header(stored), memoryview(stored)):
                    if record is None:
                        yield
                    elif record.timestamp >= timestamp and (exact or record.offset >= from_offset):
                        return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
            except ValueError as error:
                raise CorruptBatch(f"the batch at offset {batch.base_offset} cannot be read: {error}") from None
            next_offset = batch.next_offset
        return None

    def _batch_not_before(
        self, largest: Callable[[Segment], int], timestamp: int, offset: int
    ) -> tuple[StoredBatch, bytes] | None:
        for segment in self._segments:
            if largest(segment) >= timestamp:
                for batch in segment.batches_not_before(timestamp, offset):
                    return batch, segment.read_batch(batch)
        return None

    # Reading

    def read(
        self, offset: int, bound: int | None, max_bytes: int, *, min_one_batch: bool, incomplete: bool, in_place: bool
    ) -> Bytes:
        """As `Log.read`, of an offset that the log has; `bound` is None for its end."""
        segments = self._segments
        index = bisect_right(self._bases, offset) - 1
        while True:
            segment = segments[index]
            located = segment.locate(offset)
            if located is not None:
                break
            # The rest of this segment lies below `offset`: compaction removed the other records.
            index += 1
            if index == len(segments):
                return b""
        position, first_size = located
        if bound is None or (index + 1 < len(segments) and segments[index + 1].base_offset <= bound):
            end_position = segment.size
        else:
            limit = segment.locate(bound)
            end_position = segment.size if limit is None else limit[0]
        if max_bytes < first_size:
            if min_one_batch:
                max_bytes = first_size
            elif not incomplete:
                return b""
        length = min(end_position - position, max_bytes)
        if length <= 0:
            return b""
        if segment is not self.active:
            self._uses(segment)
        if in_place and length >= FILE_RECORDS_BYTES:
            # Between here and the connection nothing but their length is used.
            return cast(Bytes, FileRecords(segment, position, length))
        return segment.file_unless_short.pread(length, position)

    def _uses(self, old: Segment) -> None:
        used = self._used
        if old not in used:
            used.append(old)
            if len(used) > OPEN_MAX:
                used.popleft().close_files()

    # Rolling

    def _next_roll_ms(self) -> int:
        """`segment.ms` less a random part, so that partitions made together do not roll together."""
        bound = min(self._settings.segment_jitter_ms, self._settings.segment_ms)
        return self._settings.segment_ms - (self._jitter(bound) if bound > 0 else 0)

    def should_roll(self, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch that ends at `last_offset` begins a new segment for a reason other than size."""
        segment = self.active
        began = segment.rolling_timestamp
        if not segment.size:
            waited_ms = 0
        elif began is not None and began >= 0:
            waited_ms = max_timestamp - began
        else:
            waited_ms = segment.waited_ms(now_ms, max_timestamp)
        return (
            waited_ms > self._roll_ms or segment.indexes_full or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def runs(
        self, batches: list[tuple[int, StoredBatch]], now_ms: int, roll: Callable[[int, int], object]
    ) -> Iterable[list[tuple[int, StoredBatch]]]:
        """The batches in groups that each go into one segment with one write; calls `roll` between them."""
        start, last = batches[-1]
        ends_at = self.active.size + start + last.size
        if ends_at <= self._settings.segment_bytes and not self.should_roll(
            last.last_offset, batches[0][1].max_timestamp, now_ms
        ):
            return (batches,)
        return self._runs_between_rolls(batches, now_ms, roll)

    def _runs_between_rolls(
        self, batches: list[tuple[int, StoredBatch]], now_ms: int, roll: Callable[[int, int], object]
    ) -> Iterator[list[tuple[int, StoredBatch]]]:
        run: list[tuple[int, StoredBatch]] = []
        run_size = 0
        for entry in batches:
            batch = entry[1]
            full = self.active.size + run_size + batch.size > self._settings.segment_bytes
            if run and (full or not self.active.fits(batch.last_offset)):
                yield run
                run, run_size = [], 0
            if not run and (
                (full and self.active.size) or self.should_roll(batch.last_offset, batch.max_timestamp, now_ms)
            ):
                roll(batch.base_offset, now_ms)
            run.append(entry)
            run_size += batch.size
        if run:
            yield run

    def roll(self, new_offset: int, now_ms: int, *, sync: bool) -> bool:
        """Begins a new active segment; `sync` means that no flush will come for the old one's time index.

        False if an empty active segment already begins there.
        """
        active = self.active
        if active.base_offset == new_offset:
            # Only an empty active segment can begin where the next one would. It may have counted as full because its
            # indexes were cut to nothing: they get their room back.
            assert active.size == 0, f"rolling {active} of {active.directory} at its own base offset"
            active.offset_index.truncate_to(new_offset)
            active.time_index.truncate_to(new_offset)
            active.look_whether_full()
            active.created_ms = now_ms
            return False
        assert new_offset > active.base_offset, f"rolling {active} of {active.directory} back to {new_offset}"
        active.become_inactive(sync=sync)
        # The active segment's names are usually on the disk already, so this costs little. Otherwise a power loss could
        # take them and leave the next segment's: a hole, which compaction makes look like any other gap.
        self._disk.fsync_dir(active.directory)
        self.append_new(new_offset, now_ms)
        self._roll_ms = self._next_roll_ms()
        self.unflushed_rolls.append((now_ms, new_offset))
        return True

    def flushed_to(self, offset: int) -> None:
        self.unflushed_rolls = [(rolled_ms, base) for rolled_ms, base in self.unflushed_rolls if base > offset]

    # Changing

    def append_new(self, base_offset: int, now_ms: int) -> None:
        """Adds a new active segment."""
        segment = Segment(
            self._disk,
            self.active.directory,
            base_offset,
            index_bytes=self._settings.index_bytes,
            now_ms=now_ms,
            new=True,
        )
        self._appended_before += self.active.size
        self._uses(self.active)
        self._segments.append(segment)
        self._bases.append(base_offset)
        self.active = segment

    def take_out(self, doomed: list[Segment]) -> None:
        """Removes the first or the last segments; the last remaining one is the active one."""
        self.changed += 1
        appended_bytes = self.appended_bytes
        for segment in doomed:
            index = self._bases.index(segment.base_offset)
            del self._bases[index]
            del self._segments[index]
            self._marked.append((None, segment.mark_deleted()))
        if self._segments:
            self.active = self._segments[-1]
        else:
            self.unflushed_rolls.clear()
        self._appended_before = appended_bytes - self.active.size

    def truncate_active(self, offset: int, now_ms: int) -> int:
        """Cuts the active segment at `offset`; returns where it ends, as `Segment.truncate_to`."""
        self.changed += 1
        appended_bytes = self.appended_bytes
        with self.active.open_briefly():
            end_offset = self.active.truncate_to(offset, now_ms)
        self._appended_before = appended_bytes - self.active.size
        self.active.look_whether_full()
        self.unflushed_rolls = [(rolled_ms, base) for rolled_ms, base in self.unflushed_rolls if base <= end_offset]
        return end_offset

    def replace(self, replaced: list[Segment], cleaned: Segment) -> None:
        """Puts a cleaned segment in the place of consecutive old ones."""
        first = self._bases.index(replaced[0].base_offset)
        assert self._segments[first : first + len(replaced)] == replaced, "the cleaner works on old segments"
        # The oldest first: wherever a crash comes, a tombstone outlives the record that it deleted.
        for segment in replaced:
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
        """Removes all marked files, due or not."""
        for _, paths in self._marked:
            self._remove(paths)
        self._marked.clear()

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._disk.remove(path)

    def close_old_files(self) -> None:
        """Closes the descriptors of all but the active segment; the next reader opens them again."""
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
