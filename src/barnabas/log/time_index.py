"""The ``.timeindex`` file: the largest timestamp up to an offset, strictly growing."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import ClassVar, Final

from barnabas.log.index_file import CorruptIndex, IndexFile
from barnabas.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.runtime import Disk

_ENTRY: Final = Struct(">qi")


class TimeIndex(IndexFile):
    """An entry says: no record up to this offset has a larger timestamp."""

    ENTRY_SIZE: ClassVar[int] = _ENTRY.size

    __slots__ = ("_relative_offsets", "_timestamps")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, *, new: bool = False) -> None:
        self._timestamps = array("q")
        self._relative_offsets = array("i")
        super().__init__(disk, path, base_offset, max_bytes, new=new)

    def _clear(self) -> None:
        self._timestamps = array("q")
        self._relative_offsets = array("i")

    def _decode(self, data: bytes) -> None:
        last_timestamp, last_relative = NO_TIMESTAMP, -1
        for timestamp, relative in _ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or relative < last_relative:
                raise CorruptIndex(f"the entries of {self.path} do not rise")
            last_timestamp, last_relative = timestamp, relative
            self._timestamps.append(timestamp)
            self._relative_offsets.append(relative)

    def _encode(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._timestamps, self._relative_offsets))

    @property
    def full(self) -> bool:
        """One slot is reserved for the entry that a roll or a close adds."""
        entries = self._entries
        return (self._load() if entries is None else entries) >= self._max_entries - 1

    @property
    def last_entry(self) -> tuple[int, int]:
        """Timestamp and offset; (-1, base offset) if there is no entry."""
        if not self._load():
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self.base_offset + self._relative_offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Adds an entry when `timestamp` is larger than the last one; False when it is not.

        Raises `CorruptIndex` if the last entry has a later offset.
        """
        entries = self._entries
        if entries is None:
            entries = self._load()
        if timestamp <= (self._timestamps[-1] if entries else NO_TIMESTAMP):
            return False
        relative = offset - self.base_offset
        if entries and relative < self._relative_offsets[-1]:
            raise CorruptIndex(f"offset {offset} lies before the last entry of {self.path}")
        self._timestamps.append(timestamp)
        self._relative_offsets.append(relative)
        self._add(_ENTRY.pack(timestamp, relative))
        return True

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry whose timestamp is not larger; (-1, base offset) if there is none."""
        self._load()
        slot = bisect_right(self._timestamps, timestamp) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[slot], self.base_offset + self._relative_offsets[slot]

    def truncate_to(self, offset: int) -> None:
        """Drops every entry for `offset` and beyond."""
        self._load()
        keep = bisect_left(self._relative_offsets, min(offset - self.base_offset, MAX_RELATIVE_OFFSET))
        del self._timestamps[keep:]
        del self._relative_offsets[keep:]
        self._cut(keep)
