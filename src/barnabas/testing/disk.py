"""A process's disk door on real files: when the process is dead, its files are closed and cannot be written any
more."""

from __future__ import annotations

import errno
from collections.abc import Callable

from barnabas.runtime.doors import Bytes
from barnabas.runtime.real import RealDisk, RealFile, RealLock


class MortalFile(RealFile):
    __slots__ = ("_alive",)

    def __init__(self, path: str, descriptor: int, alive: Callable[[], bool]) -> None:
        super().__init__(path, descriptor)
        self._alive = alive

    def _want_life(self) -> None:
        if not self._alive():
            raise OSError(errno.EIO, "the process is dead", self.path)

    def pwrite(self, data: Bytes, position: int) -> None:
        self._want_life()
        super().pwrite(data, position)

    def truncate(self, size: int) -> None:
        self._want_life()
        super().truncate(size)

    def fsync(self) -> None:
        """Does nothing: tests do not simulate a loss of power."""
        self._want_life()


class MortalLock:
    """A lock that is released once, by its process or by the process's death."""

    __slots__ = ("_lock",)

    def __init__(self, lock: RealLock) -> None:
        self._lock: RealLock | None = lock

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class MortalDisk(RealDisk):
    """A process's view of real files."""

    __slots__ = ("_alive", "_files", "_locks")

    def __init__(self, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._files: list[MortalFile] = []
        self._locks: list[MortalLock] = []

    def _want_life(self, path: str) -> None:
        if not self._alive():
            raise OSError(errno.EIO, "the process is dead", path)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._want_life(path)
        opened = super().open(path, create=create)
        file = MortalFile(path, opened.fileno(), self._alive)
        self._files = [other for other in self._files if other.fileno() >= 0]
        self._files.append(file)
        return file

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._want_life(path)
        super().replace(path, data, sync=False)

    def rename(self, source: str, target: str) -> None:
        self._want_life(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._want_life(path)
        super().remove(path)

    def rmtree(self, path: str) -> None:
        self._want_life(path)
        super().rmtree(path)

    def fsync_dir(self, path: str) -> None:
        self._want_life(path)

    def lock(self, path: str) -> MortalLock:  # type: ignore[override]
        self._want_life(path)
        lock = MortalLock(super().lock(path))
        self._locks.append(lock)
        return lock

    def shut(self) -> None:
        """Closes files and releases locks, as the kernel does for a dead process."""
        files, self._files = self._files, []
        for file in files:
            file.close()
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()
