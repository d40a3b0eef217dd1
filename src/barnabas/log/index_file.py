"""What the offset index and the time index have in common: a file of fixed-width entries.

Here the entries live in arrays, read from the file when they are first asked for, and each new entry is one ``pwrite``.
Kafka maps these files into memory and therefore preallocates those of the active segment. Ours hold their entries and
nothing else at any time, which is the form that Kafka gives them at a clean stop: its tools and brokers read them, even
while we write.
"""

from __future__ import annotations

from typing import ClassVar

from barnabas.runtime import Disk, File


class CorruptIndex(ValueError):
    """An index file that its segment cannot have; it is rebuilt from the segment."""


def write_index(file: File, data: bytes, *, sync: bool) -> None:
    """Makes `data` the file's content, unless it is: most crashes find indexes that say what recovery says."""
    if file.size() == len(data) and file.pread(len(data), 0) == data:
        return
    file.truncate(0)
    file.pwrite(data, 0)
    if sync:
        file.fsync()


class IndexFile:
    """The file under an index. `entries` counts valid entries; None until the file was looked at."""

    ENTRY_SIZE: ClassVar[int]

    __slots__ = ("_disk", "_entries", "_file", "_max_entries", "_rebuilding", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._max_entries = max_bytes // self.ENTRY_SIZE
        self._file: File | None = None
        self._entries: int | None = None
        self._rebuilding = False
        if new:
            file = disk.open(path, create=True)
            try:
                file.truncate(0)
            finally:
                # Reopened at the first entry: a partition that nobody writes to costs no descriptor.
                file.close()
            self._entries = 0
            self._clear()

    def _clear(self) -> None:
        raise AssertionError("each index clears its own arrays")

    def _decode(self, data: bytes) -> None:
        """Fills the arrays from `data`. Raises `CorruptIndex`."""
        raise AssertionError("each index decodes its own entries")

    def _encode(self) -> bytes:
        raise AssertionError("each index encodes its own entries")

    def _written(self, entry: bytes) -> None:
        """One entry more, after those that are there."""
        entries = self._entries
        assert entries is not None, f"{self.path} is loaded"
        if not self._rebuilding:
            self.file().pwrite(entry, entries * self.ENTRY_SIZE)
        self._entries = entries + 1

    def _load(self) -> int:
        """Reads the file when that was not done yet; returns the number of entries."""
        if self._entries is None:
            data = self._disk.read(self.path)
            if len(data) % self.ENTRY_SIZE:
                raise CorruptIndex(f"{self.path} has {len(data)} bytes, no multiple of {self.ENTRY_SIZE}")
            self._clear()
            self._decode(data)
            self._entries = len(data) // self.ENTRY_SIZE
        return self._entries

    @property
    def entries(self) -> int:
        return self._load()

    @property
    def file_size(self) -> int:
        return self._disk.size(self.path)

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def _cut(self, entries: int) -> None:
        self.file().truncate(entries * self.ENTRY_SIZE)
        self._entries = entries

    def rebuild(self) -> None:
        """No entries any more; those that are appended from now on are for `rebuilt` to write."""
        self._clear()
        self._entries = 0
        self._rebuilding = True

    def rebuilt(self, *, sync: bool) -> None:
        """Gives the file the new entries, where they are not what it has."""
        self._rebuilding = False
        write_index(self.file(), self._encode(), sync=sync)

    def set_max_bytes(self, max_bytes: int) -> None:
        self._max_entries = max_bytes // self.ENTRY_SIZE

    def flush(self) -> None:
        if self._file is not None:
            self._file.fsync()
        else:
            file = self._disk.open(self.path)
            try:
                file.fsync()
            finally:
                file.close()

    def close_file(self) -> None:
        """Lets the descriptor go; the next write opens the file again."""
        if self._file is not None:
            self._file.close()
            self._file = None
