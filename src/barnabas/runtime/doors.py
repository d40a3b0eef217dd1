"""The four doors to the world: clock, disk, network, entropy. A Protocol each, and `Runtime`, which holds one of each.

Nothing that the simulator runs imports ``time``, ``os``, ``socket``, ``random``, ``threading``, ``uuid`` or ``secrets``
itself (``make check`` enforces it), so that the simulator can stand behind the same four doors. The command, the
benches, Spark, the clusters for tests and the blocking client use the real world directly. Waiting is asyncio's own
(``asyncio.sleep``, ``loop.call_later``): the simulator has a loop with virtual time.

Disk calls are synchronous: no other code may run between a decision about a log and the reading or writing of its
bytes. All paths are absolute strings.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from barnabas.model.ids import Uuid

Bytes: TypeAlias = bytes | bytearray | memoryview
P = TypeVar("P", bound=asyncio.BaseProtocol)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch. May jump; only for timestamps that others read."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that only go forward; for every interval and timeout. Equals ``loop.time()`` in ms."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds that only go forward; only to measure durations, on which no decision depends."""
        ...


class File(Protocol):
    """An open regular file. Errors are ``OSError`` with the real errno; a short write is one too."""

    path: str

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def read_ahead(self, length: int, position: int) -> None:
        """Announces that these bytes will be read soon, so that the disk may fetch them in advance."""
        ...

    def pwrite(self, data: Bytes, position: int) -> None: ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None: ...

    def fileno(self) -> int:
        """A real descriptor for ``sendfile``, or -1 if there is none (the simulator)."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing. Without `create` a missing file is ``FileNotFoundError``."""
        ...

    def open_briefly(self, path: str, *, create: bool = False) -> AbstractContextManager[File]:
        """As `open`, closed at the end of the block: works even if long-open files have taken all descriptors.

        The block must not await, and at most `descriptors.BRIEF` such files may be open at a time.
        """
        ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replaces the whole file durably: write ``path + ".tmp"``, fsync, rename, fsync the directory.

        Without `sync` a killed process leaves the old file or the new one, and a power loss one of them or a torn one.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def listdir(self, path: str) -> list[str]:
        """The names in the directory, sorted."""
        ...

    def absolute(self, path: str) -> str:
        """The absolute path, of one relative to where the process was started."""
        ...

    def makedirs(self, path: str) -> None:
        """Creates the directory and its parents, if it does not exist."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Removes one file; a missing one is no error."""
        ...

    def rmtree(self, path: str) -> None:
        """Removes a directory with its content; a missing one is no error.

        A symbolic link is removed with its target's files: operators link a partition to another disk.
        """
        ...

    def fsync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Takes an exclusive advisory lock on `path` (created if missing). Raises ``BlockingIOError`` if it is held."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file's bytes changed last; wall clock, milliseconds since the epoch."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Listener(Protocol):
    host: str
    port: int

    def close(self) -> None:
        """Stops accepting. Connections that are open stay open."""
        ...


class Network(Protocol):
    """TCP. The transports are asyncio's (``asyncio.Transport``): protocol callbacks, never streams."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Port 0 takes a free port. A port in use is an ``OSError`` with ``EADDRINUSE``."""
        ...

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        timeout_ms: int,
        tls: ssl.SSLContext | None = None,
    ) -> P:
        """Returns the connected protocol. Raises ``OSError`` (refused, unreachable, ``TimeoutError``)."""
        ...

    async def address_of(self, host: str) -> str:
        """A host's address, of version 4 if it has one. Raises ``OSError`` for an unknown host."""
        ...


class Entropy(Protocol):
    """Randomness; not for secrets that must resist an attacker, except `token`."""

    def randrange(self, start: int, stop: int) -> int: ...

    def shuffle(self, items: list[int]) -> None: ...

    def token(self, length: int) -> bytes:
        """Unpredictable bytes (real form: the operating system's generator)."""
        ...

    def uuid(self) -> Uuid:
        """A random version 4 UUID whose base64 form does not begin with ``-`` (Kafka's ``Uuid.randomUuid``)."""
        ...


@dataclass(frozen=True, slots=True)
class Runtime:
    clock: Clock
    disk: Disk
    network: Network
    entropy: Entropy
