"""The ``.index`` file: from a batch's last offset to the position of that batch, one entry every few kilobytes."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import ClassVar, Final

from barnabas.log.index_file import CorruptIndex, IndexFile
from barnabas.runtime import Disk

_ENTRY: Final = Struct(">ii")
_SWAP: Final = sys.byteorder == "little"
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class OffsetIndex(IndexFile):
    """Entries rise strictly in offset and in position."""

    ENTRY_SIZE: ClassVar[int] = _ENTRY.size

    __slots__ = ("_positions", "_relative_offsets")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, *, new: bool = False) -> None:
        self._relative_offsets = array("i")
        self._positions = array("i")
        super().__init__(disk, path, base_offset, max_bytes, new=new)

    def _clear(self) -> None:
        self._relative_offsets = array("i")
        self._positions = array("i")

    def _decode(self, data: bytes) -> None:
        words = array("i")
        words.frombytes(data)
        if _SWAP:
            words.byteswap()
        self._relative_offsets, self._positions = words[::2], words[1::2]
        for column in (self._relative_offsets, self._positions):
            if len(column) and (column[0] < 0 or any(a >= b for a, b in pairwise(column))):
                raise CorruptIndex(f"the entries of {self.path} do not rise")

    def _encode(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._relative_offsets, self._positions))

    @property
    def full(self) -> bool:
        entries = self._entries
        return (self._load() if entries is None else entries) >= self._max_entries

    @property
    def last_offset(self) -> int:
        """The last indexed offset; the base offset if there is none."""
        return self.base_offset + self._relative_offsets[-1] if self._load() else self.base_offset

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._load() else 0

    def append(self, offset: int, position: int) -> None:
        """Adds an entry. Raises `CorruptIndex` if the last entry lies after it."""
        entries = self._entries
        if entries is None:
            entries = self._load()
        relative = offset - self.base_offset
        assert 0 <= relative <= MAX_RELATIVE_OFFSET, f"offset {offset} does not fit {self.path}"
        if entries and (relative <= self._relative_offsets[-1] or position <= self._positions[-1]):
            raise CorruptIndex(f"offset {offset} at position {position} does not follow the last entry of {self.path}")
        self._relative_offsets.append(relative)
        self._positions.append(position)
        self._add(_ENTRY.pack(relative, position))

    def lookup(self, offset: int, passed_over: int = 0) -> int:
        """Position of a batch not after the one that holds `offset`, from the nearest entry before it, or `passed_over`
        entries earlier."""
        self._load()
        relative = offset - self.base_offset
        slot = bisect_right(self._relative_offsets, min(relative, MAX_RELATIVE_OFFSET)) - 1 - passed_over
        return self._positions[slot] if slot >= 0 else 0

    def upper_bound_offset(self, position: int) -> int | None:
        """Last offset of the first indexed batch at or beyond `position`; None beyond the last entry."""
        self._load()
        slot = bisect_left(self._positions, position)
        return self.base_offset + self._relative_offsets[slot] if slot < len(self._positions) else None

    def truncate_to(self, offset: int) -> None:
        """Drops every entry for `offset` and beyond."""
        self._load()
        keep = bisect_left(self._relative_offsets, min(offset - self.base_offset, MAX_RELATIVE_OFFSET))
        del self._relative_offsets[keep:]
        del self._positions[keep:]
        self._cut(keep)
