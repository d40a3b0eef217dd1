"""A disk that remembers what was synced.

Reading sees the page cache: every write at once. What is durable is less: bytes reach the platter with ``fsync``, names
(creations, renames, removals) with ``fsync`` of their directory. `lose_power` leaves the durable image plus any subset
of the unsynced pages and any prefix of the unsynced namespace changes, with the last page torn; killing a process loses
nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from barnabas.runtime.doors import Bytes
from barnabas.sim.plans.chance import Chance

PAGE: Final = 4096
SECTOR: Final = 512


Guard = Callable[[str, str], None]
"""Called before every operation with its name and path; raises where it is to fail."""


class ProcessDied(OSError):
    """Raised to code of a dead process that asks a door for anything."""


class Inode:
    """One file's bytes: `cached` as processes see them, `durable` as on the platter; `dirty` are the pages between."""

    __slots__ = ("cached", "dirty", "durable", "forsaken", "modified_ms")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: dict[int, None] = {}
        self.forsaken: dict[int, None] = {}
        """Pages whose fsync failed. They count as clean and are not on the platter, as nobody can tell. They get there
        when they are written and synced again."""
        self.modified_ms = 0
        """By the clock of the machine that wrote last. It takes effect at once and survives every power loss."""

    def copied(self) -> Inode:
        copy = Inode()
        copy.cached[:], copy.durable[:], copy.modified_ms = self.cached, self.durable, self.modified_ms
        copy.dirty, copy.forsaken = dict(self.dirty), dict(self.forsaken)
        return copy

    def touch(self, start: int, end: int) -> None:
        for page in range(start // PAGE, max(start, end - 1) // PAGE + 1):
            self.dirty[page] = None

    def sync(self) -> None:
        cached, durable = self.cached, self.durable
        if len(durable) > len(cached):
            del durable[len(cached) :]
        elif len(durable) < len(cached):
            durable.extend(bytes(len(cached) - len(durable)))
        for page in self.dirty:
            start = page * PAGE
            durable[start : start + PAGE] = cached[start : start + PAGE]
            self.forsaken.pop(page, None)
        self.dirty.clear()

    def lose_dirty_pages(self) -> None:
        """A failed fsync on Linux: the pages count as clean from now on, and never reach the platter."""
        self.forsaken.update(self.dirty)
        self.dirty.clear()

    def lose_power(self, chance: Chance, loss: Loss) -> None:
        cached = self.cached
        if bytes(self.durable) == bytes(cached):
            self.dirty.clear()
            self.forsaken.clear()
            return
        image = bytearray(self.durable)
        # The size is metadata of its own: of a file that grew, any length between the two may have been written.
        durable_size, size = len(self.durable), len(cached)
        if size <= durable_size:
            size = chance.one_of((durable_size, size))
        elif not (loss.size_survives and chance.happens(loss.size_survives)):
            size = chance.whole(durable_size, size)
        image.extend(bytes(max(0, size - len(image))))
        for page in self.dirty:
            if chance.happens(loss.page_survives):
                piece = cached[page * PAGE : (page + 1) * PAGE]
                if chance.happens(loss.torn):
                    piece = piece[: chance.whole(0, len(piece) // SECTOR) * SECTOR]
                    loss.torn_pages += 1
                image[page * PAGE : page * PAGE + len(piece)] = piece
            else:
                loss.lost_pages += 1
        del image[size:]
        self.cached = image
        self.durable = bytearray(image)
        self.dirty.clear()
        self.forsaken.clear()


@dataclass(slots=True)
class Loss:
    """The chances of a power loss, and what it did: pages and names that never reached the platter."""

    page_survives: float = 0.5
    torn: float = 0.1
    size_survives: float = 0.0
    """The chance that a file has its last length, whatever it holds: missing bytes read as zeros."""
    name_survives: float | None = None
    """The chance of each unsynced change of a name, in any order. None: a prefix of them, as journals keep their
    order."""
    lost_pages: int = 0
    torn_pages: int = 0
    lost_names: int = 0


class Volume:
    """One machine's file system; it survives the processes that use it.

    `names` are the files by path, `directories` the directories, both as processes see them. `_durable_names` are those
    on the platter, as of each directory's last sync; `_pending` are the changes since, oldest first.
    """

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.names: dict[str, Inode] = {}
        self.directories: dict[str, None] = {"/": None}
        self._durable_names: dict[str, Inode] = {}
        self._pending: list[tuple[str, str, Inode | None]] = []
        self._locks: dict[str, object] = {}
        self.capacity = capacity
        self.free: int | None = None
        """How many bytes may still be written, where a disk is to be full."""
        self.overflowed = False
        self.refused_writes = 0

    # ---- names

    def link(self, path: str, inode: Inode) -> None:
        self.names[path] = inode
        self._pending.append((_parent(path), path, inode))

    def unlink(self, path: str) -> Inode:
        inode = self.names.pop(path)
        self._pending.append((_parent(path), path, None))
        return inode

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self.names if name.startswith(path + "/")]:
            self.unlink(name)
        for name in [n for n in self.directories if n == path or n.startswith(path + "/")]:
            del self.directories[name]

    def sync_directory(self, path: str) -> None:
        for change in self._pending:
            if change[0] == path:
                self._apply(change)
        self._pending = [change for change in self._pending if change[0] != path]

    def _apply(self, change: tuple[str, str, Inode | None]) -> None:
        _, path, inode = change
        if inode is None:
            self._durable_names.pop(path, None)
        else:
            self._durable_names[path] = inode

    def lose_power(self, chance: Chance, loss: Loss | None = None) -> Loss:
        """Only what was synced is sure to be there afterwards; the rest may be there in part."""
        loss = Loss() if loss is None else loss
        if loss.name_survives is None:
            kept = chance.whole(0, len(self._pending))
            surviving = self._pending[:kept]
        else:
            surviving = [renamed for renamed in self._pending if chance.happens(loss.name_survives)]
        loss.lost_names += len(self._pending) - len(surviving)
        for change in surviving:
            self._apply(change)
        self._pending.clear()
        self.names = dict(self._durable_names)
        seen: dict[int, None] = {}
        for inode in self.names.values():
            if id(inode) not in seen:
                seen[id(inode)] = None
                inode.lose_power(chance, loss)
        self.release_locks()
        return loss

    def durable_names(self, prefix: str) -> list[str]:
        """The names of files that would surely survive a power loss now."""
        return [name for name in self._durable_names if name.startswith(prefix)]

    def durable_files(self, prefix: str) -> dict[str, bytes]:
        """The files below `prefix` as they surely are on the platter."""
        return {name: bytes(inode.durable) for name, inode in self._durable_names.items() if name.startswith(prefix)}

    def cached_files(self, prefix: str) -> dict[str, bytes]:
        """The files below `prefix` as processes read them."""
        return {name: bytes(inode.cached) for name, inode in self.names.items() if name.startswith(prefix)}

    def copied(self, directory: str) -> Volume:
        """A volume of its own with the files in the directory and those beside it: what processes read, what is on the
        platter, and the changes of names in between."""
        copy, inodes = Volume(), dict[int, Inode]()
        beside = _parent(directory)

        def is_there(path: str) -> bool:
            return path.startswith(f"{directory}/") or _parent(path) == beside

        def of(inode: Inode) -> Inode:
            if id(inode) not in inodes:
                inodes[id(inode)] = inode.copied()
            return inodes[id(inode)]

        copy.names = {path: of(inode) for path, inode in self.names.items() if is_there(path)}
        copy._durable_names = {path: of(inode) for path, inode in self._durable_names.items() if is_there(path)}
        copy._pending = [
            (parent, path, None if inode is None else of(inode))
            for parent, path, inode in self._pending
            if is_there(path)
        ]
        return copy

    def release_locks(self) -> None:
        self._locks.clear()

    def lock(self, path: str) -> SimLock:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "held by another process", path)
        if path not in self.names:
            self.link(path, Inode())
        lock = SimLock(self, path)
        self._locks[path] = lock
        return lock

    def unlock(self, path: str, lock: SimLock) -> None:
        if self._locks.get(path) is lock:
            del self._locks[path]

    def used(self) -> int:
        return sum(len(inode.cached) for inode in self.names.values())


class SimLock:
    __slots__ = ("_path", "_volume")

    def __init__(self, volume: Volume, path: str) -> None:
        self._volume = volume
        self._path = path

    def release(self) -> None:
        self._volume.unlock(self._path, self)


class SimFile:
    """`guard` is called before every operation; it raises where the process is dead or the disk is to fail."""

    __slots__ = ("_guard", "_inode", "_now_ms", "_volume", "path")

    def __init__(self, path: str, inode: Inode, volume: Volume, guard: Guard, now_ms: Callable[[], int]) -> None:
        self.path = path
        self._inode = inode
        self._volume = volume
        self._guard = guard
        self._now_ms = now_ms

    def pread(self, length: int, position: int) -> bytes:
        self._guard("read", self.path)
        return bytes(self._inode.cached[position : position + length])

    def read_ahead(self, length: int, position: int) -> None:
        """Nothing to do, since all of it is in memory."""

    def pwrite(self, data: Bytes, position: int) -> None:
        self._guard("write", self.path)
        self._inode.modified_ms = self._now_ms()
        cached = self._inode.cached
        if self._volume.free is not None:
            data = self._as_much_as_fits(data, position)
        if position > len(cached):
            cached.extend(bytes(position - len(cached)))
        cached[position : position + len(data)] = data
        if len(data):
            self._inode.touch(position, position + len(data))
        if self._volume.overflowed:
            self._volume.overflowed = False
            raise OSError(errno.ENOSPC, "no space left on device", self.path)

    def _as_much_as_fits(self, data: Bytes, position: int) -> Bytes:
        volume = self._volume
        assert volume.free is not None
        grows = position + len(data) - len(self._inode.cached)
        if grows <= 0:
            return data
        if grows <= volume.free:
            volume.free -= grows
            return data
        fits = max(0, len(data) - (grows - volume.free))
        volume.free, volume.overflowed = 0, True
        volume.refused_writes += 1
        return memoryview(data)[:fits]

    def size(self) -> int:
        return len(self._inode.cached)

    def truncate(self, size: int) -> None:
        self._guard("write", self.path)
        self._inode.modified_ms = self._now_ms()
        cached = self._inode.cached
        if size < len(cached):
            del cached[size:]
            last = max(0, size - 1) // PAGE
            self._inode.dirty = {page: None for page in self._inode.dirty if page <= last}
        else:
            cached.extend(bytes(size - len(cached)))
        self._inode.touch(max(0, size - 1), size)

    def fsync(self) -> None:
        try:
            self._guard("fsync", self.path)
        except ProcessDied:
            raise  # nothing was asked of the disk
        except OSError:
            self._inode.lose_dirty_pages()
            raise
        self._inode.sync()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Nothing to do: an open file costs nothing here."""


class SimDisk:
    """One process's view of its machine's volume. `now_ms` is the machine's wall clock, which dates files."""

    def __init__(self, volume: Volume, guard: Guard, now_ms: Callable[[], int]) -> None:
        self._volume = volume
        self._guard = guard
        self._now_ms = now_ms

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self._guard("open", path)
        inode = self._volume.names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._want_directory(_parent(path))
            inode = Inode()
            inode.modified_ms = self._now_ms()
            self._volume.link(path, inode)
        return SimFile(path, inode, self._volume, self._guard, self._now_ms)

    @contextmanager
    def open_briefly(self, path: str, *, create: bool = False) -> Iterator[SimFile]:
        file = self.open(path, create=create)
        try:
            yield file
        finally:
            file.close()

    def _want_directory(self, path: str) -> None:
        if path not in self._volume.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).cached)

    def _inode(self, path: str) -> Inode:
        self._guard("read", path)
        inode = self._volume.names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        self._volume.names.pop(temporary, None)
        file = self.open(temporary, create=True)
        file.pwrite(data, 0)
        if sync:
            file.fsync()
        self.rename(temporary, path)
        if sync:
            self.fsync_dir(_parent(path))

    def exists(self, path: str) -> bool:
        return path in self._volume.names or path in self._volume.directories

    def is_dir(self, path: str) -> bool:
        return path in self._volume.directories

    def size(self, path: str) -> int:
        return len(self._inode(path).cached)

    def listdir(self, path: str) -> list[str]:
        self._guard("read", path)
        self._want_directory(path)
        prefix = path.rstrip("/") + "/"
        found = {
            name[len(prefix) :].split("/", 1)[0]
            for names in (self._volume.names, self._volume.directories)
            for name in names
            if name.startswith(prefix) and name != prefix
        }
        return sorted(found)

    def absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"/{path}"

    def makedirs(self, path: str) -> None:
        # Directories are durable at once: what the product rests on is the durability of files in them.
        self._guard("write", path)
        while path not in self._volume.directories:
            self._volume.directories[path] = None
            path = _parent(path)

    def rename(self, source: str, target: str) -> None:
        self._guard("rename", source)
        volume = self._volume
        if source in volume.names:
            volume.link(target, volume.unlink(source))
            return
        self._want_directory(source)
        for name in [name for name in volume.names if name.startswith(source + "/")]:
            volume.link(target + name[len(source) :], volume.unlink(name))
        for name in [n for n in volume.directories if n == source or n.startswith(source + "/")]:
            del volume.directories[name]
            volume.directories[target + name[len(source) :]] = None
        # One rename of a directory is one change: what lies below moves with it.
        volume.sync_directory(source)
        volume.sync_directory(target)

    def remove(self, path: str) -> None:
        self._guard("write", path)
        if path in self._volume.names:
            self._volume.unlink(path)

    def rmtree(self, path: str) -> None:
        self._guard("write", path)
        self._volume.remove_tree(path)

    def fsync_dir(self, path: str) -> None:
        self._guard("fsync", path)
        self._want_directory(path)
        self._volume.sync_directory(path)

    def lock(self, path: str) -> SimLock:
        self._guard("open", path)
        return self._volume.lock(path)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._guard("write", path)
        self._inode(path).modified_ms = modified_ms

    def free_bytes(self, path: str) -> int:
        return max(0, self._volume.capacity - self._volume.used())

    def total_bytes(self, path: str) -> int:
        return self._volume.capacity


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def covered_by_crc(data: bytearray) -> list[int]:
    """Whether a CRC covers the byte, so that a flipped bit can be noticed. In Kafka's format no CRC covers a batch's
    base offset and leader epoch."""
    starts, at = [], 0
    while at + 61 <= len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    # What was written last was least likely looked at since.
    return [start + 21 + step for start in starts[len(starts) * 2 // 3 :] for step in range(0, 40, 7)]
