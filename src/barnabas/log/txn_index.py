"""The ``.txnindex`` file: the aborted transactions of a segment. It exists only where one was aborted."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from barnabas.log.index_file import CorruptIndex, write_index
from barnabas.runtime import Disk

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
_last_offset: Final = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """A transaction whose records a committed reader skips. `last_offset` is that of its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def can_be(self) -> bool:
        """Whether such a transaction can be: it has a record before its marker, and no later offset is stable yet."""
        return (
            self.producer_id >= 0
            and 0 <= self.first_offset < self.last_offset
            and 0 <= self.last_stable_offset <= self.last_offset + 1
        )


class TransactionIndex:
    """Entries rise in `last_offset`."""

    __slots__ = ("_aborted", "_disk", "_rebuilding", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._aborted: list[AbortedTxn] | None = None
        self._rebuilding = False

    def aborted(self) -> list[AbortedTxn]:
        """All aborted transactions. Raises `CorruptIndex`."""
        if self._aborted is None:
            data = self._disk.read(self.path) if self._disk.exists(self.path) else b""
            if len(data) % _ENTRY.size:
                raise CorruptIndex(f"{self.path} has {len(data)} bytes, no multiple of {_ENTRY.size}")
            entries: list[AbortedTxn] = []
            for version, *fields in _ENTRY.iter_unpack(data):
                entry = AbortedTxn(*fields)
                rises = not entries or entry.last_offset > entries[-1].last_offset
                if version != _VERSION or not rises or not entry.can_be:
                    raise CorruptIndex(f"{self.path} holds an entry that cannot be: {entry}")
                entries.append(entry)
            self._aborted = entries
        return self._aborted

    def check(self, base_offset: int, end_offset: int | None) -> None:
        """Raises `CorruptIndex` for entries that a segment of these offsets cannot have."""
        for entry in self.aborted():
            if not base_offset <= entry.last_offset or (end_offset is not None and entry.last_offset >= end_offset):
                raise CorruptIndex(f"{self.path} holds {entry}, which is not of this segment")

    def append(self, entry: AbortedTxn) -> None:
        aborted = self.aborted()
        assert not aborted or entry.last_offset > aborted[-1].last_offset, f"{entry} is out of order in {self.path}"
        if not self._rebuilding:
            with self._disk.open_briefly(self.path, create=True) as file:
                file.pwrite(_ENTRY.pack(_VERSION, *entry), len(aborted) * _ENTRY.size)
        aborted.append(entry)

    def collect(self, fetch_offset: int, upper_bound_offset: int, into: list[AbortedTxn]) -> bool:
        """Adds the transactions that overlap the range; True when later segments hold no more of them."""
        aborted = self.aborted()
        # The entries are in the order of their ends: those that ended before the range are skipped without a look.
        for index in range(bisect_left(aborted, fetch_offset, key=_last_offset), len(aborted)):
            entry = aborted[index]
            if entry.first_offset < upper_bound_offset:
                into.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        aborted = self.aborted()
        keep = len(aborted)
        while keep and aborted[keep - 1].last_offset >= offset:
            keep -= 1
        if keep < len(aborted):
            del aborted[keep:]
            with self._disk.open_briefly(self.path) as file:
                file.truncate(keep * _ENTRY.size)

    def rebuild(self) -> None:
        """Drops all entries; later `rebuilt` writes those appended from now on."""
        self._aborted = []
        self._rebuilding = True

    def rebuilt(self, *, sync: bool) -> None:
        """Writes the new entries, if they differ from the file's."""
        self._rebuilding = False
        aborted = self.aborted()
        if not aborted and not self._disk.exists(self.path):
            return
        with self._disk.open_briefly(self.path, create=True) as file:
            write_index(file, b"".join(_ENTRY.pack(_VERSION, *entry) for entry in aborted), sync=sync)

    def flush(self) -> None:
        if self._disk.exists(self.path):
            with self._disk.open_briefly(self.path) as file:
                file.fsync()
