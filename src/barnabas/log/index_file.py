"""The common part of offset index and time index: a file of fixed-width entries.

The entries are in arrays, which are read from the file at their first use. New entries are written with ``pwrite``,
`GATHERED_ENTRIES` at a time, and the rest at a flush. A crash before that loses them, and recovery, which reads all
that was not flushed, rebuilds them. Kafka maps these files into memory and therefore preallocates those of the active
segment. Ours hold only their entries at any time, which is the form that Kafka gives them at a clean stop: its tools
and brokers can read them, even while a broker writes. Index files are closed between two writes; only a segment's log
file stays open.
"""

from __future__ import annotations

from typing import ClassVar, Final

from barnabas.runtime import Disk, File
from barnabas.runtime.descriptors import are_exhausted

GATHERED_ENTRIES: Final = 64
"""How many new entries one write carries: an index lags behind its segment by 256 KB, or 64 larger batches."""


class CorruptIndex(ValueError):
    """An index file that does not fit its segment; it is rebuilt from the segment."""


def write_index(file: File, data: bytes, *, sync: bool) -> None:
    """Makes `data` the file's content, unless it already is: after most crashes the indexes are right."""
    if file.size() == len(data) and file.pread(len(data), 0) == data:
        return
    file.truncate(0)
    file.pwrite(data, 0)
    if sync:
        file.fsync()


class IndexFile:
    """The file under an index. `entries` counts valid entries; None until the file was looked at."""

    ENTRY_SIZE: ClassVar[int]

    __slots__ = ("_disk", "_entries", "_max_entries", "_rebuilding", "_unwritten", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._max_entries = max_bytes // self.ENTRY_SIZE
        self._entries: int | None = None
        self._rebuilding = False
        self._unwritten: list[bytes] = []
        """The last entries, which are not in the file yet."""
        if new:
            with disk.open_briefly(path, create=True) as file:
                file.truncate(0)
            self._entries = 0
            self._clear()

    def _clear(self) -> None:
        raise AssertionError("each index clears its own arrays")

    def _decode(self, data: bytes) -> None:
        """Fills the arrays from `data`. Raises `CorruptIndex`."""
        raise AssertionError("each index decodes its own entries")

    def _encode(self) -> bytes:
        raise AssertionError("each index encodes its own entries")

    def _add(self, entry: bytes) -> None:
        """Adds a new entry, which the arrays already have, to those for the file."""
        entries = self._entries
        assert entries is not None, f"{self.path} is loaded"
        self._entries = entries + 1
        if not self._rebuilding:
            self._unwritten.append(entry)
            if len(self._unwritten) >= GATHERED_ENTRIES:
                self._write_what_is_gathered()

    def _write_what_is_gathered(self) -> None:
        try:
            with self._disk.open_briefly(self.path, create=True) as file:
                self._write_out(file)
        except OSError as error:
            if not are_exhausted(error):
                raise
            # The segment already has the batch: the entries wait for the next one.

    def _write_out(self, file: File) -> None:
        if self._unwritten:
            assert self._entries is not None, f"{self.path} is loaded"
            file.pwrite(b"".join(self._unwritten), (self._entries - len(self._unwritten)) * self.ENTRY_SIZE)
            self._unwritten.clear()

    def _load(self) -> int:
        """Reads the file unless it is loaded; returns the number of entries."""
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
        """The file's size, including entries that are not written yet."""
        return self._disk.size(self.path) + len(self._unwritten) * self.ENTRY_SIZE

    def _cut(self, entries: int) -> None:
        with self._disk.open_briefly(self.path, create=True) as file:
            self._write_out(file)
            file.truncate(entries * self.ENTRY_SIZE)
        self._entries = entries

    def rebuild(self) -> None:
        """Drops all entries; later `rebuilt` writes those appended from now on."""
        self._clear()
        self._entries = 0
        self._unwritten.clear()
        self._rebuilding = True

    def rebuilt(self, *, sync: bool) -> None:
        """Writes the new entries, if they differ from the file's."""
        self._rebuilding = False
        with self._disk.open_briefly(self.path, create=True) as file:
            write_index(file, self._encode(), sync=sync)

    def set_max_bytes(self, max_bytes: int) -> None:
        self._max_entries = max_bytes // self.ENTRY_SIZE

    def flush(self) -> None:
        with self._disk.open_briefly(self.path) as file:
            self._write_out(file)
            file.fsync()
