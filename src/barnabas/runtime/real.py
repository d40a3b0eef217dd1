"""The doors' real form: the operating system's clock, files, sockets and generator."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import random
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any, TypeVar

from barnabas.model.ids import Uuid
from barnabas.runtime.descriptors import briefly, opening
from barnabas.runtime.doors import Bytes, Runtime
from barnabas.runtime.story import within
from barnabas.runtime.syncing import syncing
from barnabas.runtime.unreached import handshake_failed

P = TypeVar("P", bound=asyncio.BaseProtocol)
_sync_data, _sync_all = syncing()


class RealClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)


class RealFile:
    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        while got < length and (data := os.pread(self._descriptor, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_ahead(self, length: int, position: int) -> None:
        if sys.platform == "linux":  # it is only advice, and not available everywhere
            os.posix_fadvise(self._descriptor, position, length, os.POSIX_FADV_WILLNEED)

    # The system's errors about a descriptor name no file; the reader of an error about a full disk needs it.

    def pwrite(self, data: Bytes, position: int) -> None:
        try:
            written = os.pwrite(self._descriptor, data, position)
            if written != len(data):
                self._write_rest(memoryview(data)[written:], position + written)
        except OSError as error:
            error.filename = self.path
            raise

    def _write_rest(self, rest: memoryview, position: int) -> None:
        """Writes the bytes that the kernel did not take. On a full disk this raises the ``OSError`` that says so."""
        while len(rest):
            written = os.pwrite(self._descriptor, rest, position)
            if written == 0:
                raise OSError(errno.EIO, "the disk took no bytes")
            rest = rest[written:]
            position += written

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            error.filename = self.path
            raise

    def fsync(self) -> None:
        try:
            _sync_data(self._descriptor)
        except OSError as error:
            error.filename = self.path
            raise

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealLock:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        descriptor = opening(lambda: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # else a forked process would keep the lock
        os.close(self._descriptor)


def _open(path: str, flags: int) -> int:
    """A regular file's descriptor. Raises ``OSError`` for a pipe in its place that no process has open."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "is no regular file", path)


class RealDisk:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return RealFile(path, opening(lambda: _open(path, flags)))

    @contextmanager
    def open_briefly(self, path: str, *, create: bool = False) -> Iterator[RealFile]:
        with briefly():
            file = self.open(path, create=create)
            try:
                yield file
            finally:
                file.close()

    def read(self, path: str) -> bytes:
        with briefly(), opening(lambda: open(path, "rb", opener=_open)) as file:
            return file.read()

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            with briefly(), opening(lambda: open(temporary, "wb", opener=_open)) as file:
                file.write(data)
                if sync:
                    file.flush()
                    _sync_all(file.fileno())
            os.rename(temporary, path)
            if sync:
                self.fsync_dir(os.path.dirname(path))
        except OSError as error:
            error.filename = path
            raise

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def listdir(self, path: str) -> list[str]:
        with briefly():
            return sorted(opening(lambda: os.listdir(path)))

    def absolute(self, path: str) -> str:
        return os.path.join(os.getcwd(), path)

    def makedirs(self, path: str) -> None:
        # Only the owner may read its content, no other user of the machine.
        os.makedirs(path, mode=0o700, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def rmtree(self, path: str) -> None:
        def remove() -> None:
            import shutil  # with its archive formats it is slow to import, and rarely needed

            if os.path.islink(path):
                for name in os.listdir(path):
                    if not os.path.isdir(f"{path}/{name}"):
                        os.unlink(f"{path}/{name}")
                os.unlink(path)
            else:
                shutil.rmtree(path)

        with briefly(), suppress(FileNotFoundError):
            opening(remove)

    def fsync_dir(self, path: str) -> None:
        with briefly():
            descriptor = opening(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            try:
                _sync_all(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: str) -> RealLock:
        return RealLock(path)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def free_bytes(self, path: str) -> int:
        usage = os.statvfs(path)
        return usage.f_bavail * usage.f_frsize

    def total_bytes(self, path: str) -> int:
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


class RealListener:
    __slots__ = ("_server", "host", "port")

    def __init__(self, server: asyncio.AbstractServer, host: str, port: int) -> None:
        self._server = server
        self.host = host
        self.port = port

    def close(self) -> None:
        self._server.close()


class RealNetwork:
    __slots__ = ()

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> RealListener:
        loop = asyncio.get_running_loop()
        # Java's sockets at :: accept IPv4 as well, asyncio's do not.
        where = None if host in ("", "::") else host
        while True:
            free = _free_port() if where is None and port == 0 else port  # else each family would get its own
            try:
                # asyncio's sockets are a tuple, uvloop's are a list, which compiled code would not accept as one.
                server: Any = await loop.create_server(protocol_factory, where, free, ssl=tls, backlog=1024)
                break
            except OSError as error:
                if free == port or error.errno != errno.EADDRINUSE:
                    raise
        for listening in server.sockets:
            # Connections inherit it: so one whose peer has vanished ends even if nothing is ever sent to it.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return RealListener(server, host, server.sockets[0].getsockname()[1])

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        timeout_ms: int,
        tls: ssl.SSLContext | None = None,
    ) -> P:
        loop = asyncio.get_running_loop()
        # A task of its own: so a driven story, which is no task, may connect with a timeout, too.
        connecting = loop.create_task(
            loop.create_connection(protocol_factory, host, port, ssl=tls, server_hostname=host if tls else None)
        )
        try:
            if not await within(connecting, timeout_ms):
                raise TimeoutError(f"{host}:{port} did not accept a connection within {timeout_ms} ms")
            return connecting.result()[1]
        except socket.gaierror as unresolved:
            raise ConnectionError(f"{host}:{port}: {unresolved.strerror}") from None
        except OSError as failure:  # some TLS errors are a ValueError, too
            raise (failure if tls is None else handshake_failed(failure, f"{host}:{port}")) from None
        except (ValueError, OverflowError) as error:
            raise ConnectionError(f"{host!r}:{port} is no address: {error}") from None
        finally:
            connecting.cancel()

    async def address_of(self, host: str) -> str:
        return await address_of(host)


async def address_of(host: str) -> str:
    """The address by the system's resolver, which is not asked about an address."""
    with suppress(ValueError):
        return str(ip_address(host))
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no host's name: {error}") from None
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class RealEntropy:
    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random()

    def randrange(self, start: int, stop: int) -> int:
        return self._random.randrange(start, stop)

    def shuffle(self, items: list[int]) -> None:
        self._random.shuffle(items)

    def token(self, length: int) -> bytes:
        return os.urandom(length)

    def uuid(self) -> Uuid:
        return uuid_from(os.urandom)


def uuid_from(token: Callable[[int], bytes]) -> Uuid:
    """A version 4 UUID from `token`; draws again where the base64 form would look like an option (``-...``)."""
    while True:
        raw = bytearray(token(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        made = Uuid(bytes(raw))
        if not str(made).startswith("-"):
            return made


def real_runtime() -> Runtime:
    return Runtime(RealClock(), RealDisk(), RealNetwork(), RealEntropy())
