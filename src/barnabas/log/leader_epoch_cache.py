"""``leader-epoch-checkpoint``: where each leader epoch began in this log (KIP-101).

Followers find with it the offset at which their log diverges from their leader's. Epochs and start offsets both rise.
The file is never older than the log's recovery point: `flush` syncs it before the recovery point moves. Recovery reads
the batches after that point, and so finds the epochs that a power loss took from the file. Nothing waits for the disk
when a leader changes.

An epoch is written with its first record. An epoch without records begins at the log's end, and would be removed when
the log is opened. (Apache writes an epoch at the election, one file for each partition that a failover moves.)

A new log start offset is written with the next epoch or the next flush, since opening the log removes epochs below its
start anyway, and a client may move the start with each request. (Apache writes it in the background.)
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from barnabas.log.checkpoints import decode_lines, encode_lines
from barnabas.model.ids import NO_EPOCH, NO_OFFSET
from barnabas.model.sentinels import OFFSET_MAX
from barnabas.runtime import Disk

FILE_NAME: Final = "leader-epoch-checkpoint"
_EPOCH_MAX: Final = 2**31 - 1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log, oldest first."""

    __slots__ = ("_directory", "_disk", "_entries", "_unsynced", "_unwritten", "latest_epoch", "written_epoch")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._entries: list[EpochEntry] = []
        self._unsynced = False
        self._unwritten = False
        """Whether the file still has epochs before the log's start."""
        self.latest_epoch = NO_EPOCH
        self.written_epoch = NO_EPOCH
        """The latest epoch in the file."""

    def load(self) -> bool:
        """Reads the file; False if it is missing or empty; Apache makes an empty one before the first record. Raises
        ``ValueError`` for a file that is no such checkpoint."""
        path = f"{self._directory}/{FILE_NAME}"
        data = self._disk.read(path) if self._disk.exists(path) else b""
        if not data:
            return False
        entries = [EpochEntry(int(epoch), int(start)) for epoch, start in decode_lines(data, path)]
        for entry in entries:
            if not (0 <= entry.epoch <= _EPOCH_MAX and 0 <= entry.start_offset <= OFFSET_MAX):
                raise ValueError(f"{path} holds {entry}")
            self._assign(entry)
        self.written_epoch = self.latest_epoch
        self._unsynced = True  # its writer may have been killed before the sync
        return True

    def moved(self, directory: str) -> None:
        self._directory = directory

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def begin(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`, the log's end: it has no record yet."""
        assert min(epoch, start_offset) >= 0, f"epoch {epoch} at offset {start_offset}"
        self._assign(EpochEntry(epoch, start_offset))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that the first record of `epoch` is at `start_offset`.

        Entries that contradict it are dropped: this fact is newer.
        """
        self.begin(epoch, start_offset)
        self.write()

    def note(self, epoch: int, base_offset: int, last_offset: int) -> None:
        """As `assign`, for a batch found by scanning a log; the caller writes the file at the end.

        A contradicted entry is from before a truncation, or from a file that a power loss reverted.
        """
        if epoch >= 0 and self.epoch_for_offset(last_offset) != epoch:
            self._assign(EpochEntry(epoch, base_offset))

    def _assign(self, entry: EpochEntry) -> None:
        entries = self._entries
        if entries and entries[-1].epoch == entry.epoch and entry.start_offset >= entries[-1].start_offset:
            return
        while entries and (entries[-1].epoch > entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        if not entries or entries[-1].epoch != entry.epoch:
            entries.append(entry)
        self.latest_epoch = entry.epoch

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `requested_epoch`, and its end offset; (-1, -1) if that is unknown."""
        entries = self._entries
        if requested_epoch == NO_EPOCH or not entries:
            return NO_EPOCH, NO_OFFSET
        if requested_epoch == entries[-1].epoch:
            return requested_epoch, log_end_offset
        higher = self._above(requested_epoch)
        if higher == len(entries):
            # This log never had the epoch: with its end as the answer a follower would keep what it must cut.
            return NO_EPOCH, NO_OFFSET
        if higher == 0:
            # Its records are gone from the log's start; the following records begin with the first known epoch.
            return requested_epoch, entries[0].start_offset
        return entries[higher - 1].epoch, entries[higher].start_offset

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which `offset` was written, -1 if that is not known."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else NO_EPOCH

    def first_after(self, epoch: int) -> EpochEntry | None:
        """The smallest epoch above `epoch`."""
        at = self._above(epoch)
        return self._entries[at] if at < len(self._entries) else None

    def _above(self, epoch: int) -> int:
        return bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops epochs that begin at `end_offset` or beyond."""
        entries = self._entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        if len(entries) != before:
            self.latest_epoch = entries[-1].epoch if entries else NO_EPOCH
            if self.latest_epoch < self.written_epoch:
                self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops epochs that end before `start_offset`; the epoch that contains it begins there now."""
        entries = self._entries
        at = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if at and entries[at - 1].start_offset != start_offset:
            entries[:at] = [EpochEntry(entries[at - 1].epoch, start_offset)]
            self._unwritten = True
        elif at > 1:
            del entries[: at - 1]
            self._unwritten = True

    def clear(self) -> None:
        self.forget()
        self.write()

    def forget(self) -> None:
        """As `clear`; the caller writes the file."""
        self._entries.clear()
        self.latest_epoch = NO_EPOCH

    def write(self) -> None:
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in self._entries]
        self._disk.replace(f"{self._directory}/{FILE_NAME}", encode_lines(lines), sync=False)
        self.written_epoch = self.latest_epoch
        self._unsynced = True
        self._unwritten = False

    def flush(self) -> None:
        """Syncs the file; the caller syncs the directory, for the file's name and others."""
        if self._unwritten:
            self.write()
        if self._unsynced:
            with self._disk.open_briefly(f"{self._directory}/{FILE_NAME}") as file:
                file.fsync()
            self._unsynced = False
