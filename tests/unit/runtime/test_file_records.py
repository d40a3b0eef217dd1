"""Parts of files that go to a socket without being read, and what happens where that cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop
from certificates import Authority
from clocks import ManualClock

from barnabas.runtime.file_records import PIECE_BYTES, FileRecords, FileSender
from barnabas.runtime.real import RealDisk, RealFile
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.security.tls.settings import TlsSettings, tls_settings

HEAD = b"the size and all that comes before"
TAIL = b"what comes behind"


class OneFile:
    cuts = 0

    def __init__(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.file: RealFile = RealDisk().open(str(path))


class Sending(asyncio.Protocol):
    """Calls `send` as soon as somebody connects, and closes the connection when that is sent."""

    def __init__(self, send: Callable[[asyncio.Transport, FileSender], None]) -> None:
        self.send = send

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.sender = FileSender(self.transport, self)
        self.waits = False
        self.send(self.transport, self.sender)
        if not self.waits:
            self.close()

    def files_wait(self) -> None:
        self.waits = True

    def files_sent(self) -> None:
        self.close()

    def close(self) -> None:
        self.sender.close()
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.sender.close()


class SendingOverTls(Sending, asyncio.BufferedProtocol):
    """Calls `send` when the handshake is done."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def secured(self, certificate: bytes | None) -> None:
        super().connection_made(self.transport)

    def insecure(self, reason: str) -> None:
        pytest.fail(reason)

    def connection_lost(self, error: Exception | None) -> None:
        with contextlib.suppress(AttributeError):  # lost before the handshake was done
            self.sender.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(1000))

    def buffer_updated(self, nbytes: int) -> None:
        pytest.fail("the client says nothing")


async def received(send: Callable[[asyncio.Transport, FileSender], None], tls: TlsSettings | None = None) -> bytes:
    """All that comes until the connection ends, in whatever way."""
    loop = asyncio.get_running_loop()

    def protocol() -> asyncio.BaseProtocol:
        if tls is None:
            return Sending(send)
        clock = ManualClock(time.time_ns() // 1_000_000)
        return TlsTransport(SendingOverTls(send), tls.server_context(), clock)

    server = await loop.create_server(protocol, "127.0.0.1", 0)
    client = socket.socket()
    # So little that a large answer cannot be on its way before anybody reads.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    client.connect(server.sockets[0].getsockname())
    reader, writer = await asyncio.open_connection(
        sock=client,
        ssl=None if tls is None else tls.client_context(),
        server_hostname=None if tls is None else "localhost",
    )
    got = bytearray()
    try:
        while data := await reader.read(1 << 16):
            got += data
    except ConnectionResetError:
        pass  # an end as well: what came before it counts
    writer.close()
    server.close()
    return bytes(got)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[bytes]], bytes]:
    def run(story: Awaitable[bytes]) -> bytes:
        loop = request.param()
        try:
            return bytes(loop.run_until_complete(story))
        finally:
            loop.close()

    return run


@pytest.mark.parametrize("size", [1, 100_000, 30_000_000])
def test_head_records_and_what_follows_arrive_in_order_however_much_the_socket_takes(
    size: int, tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes]
) -> None:
    content = os.urandom(size + 1000)
    segment = OneFile(tmp_path / "00000000000000000000.log", content)
    records = FileRecords(segment, 700, size)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        sender.send([HEAD, records])
        sender.send([TAIL, FileRecords(segment, 0, 10), TAIL])

    assert run(received(send)) == HEAD + content[700 : 700 + size] + TAIL + content[:10] + TAIL


class Watched(FileRecords):
    """Tells whether it was read."""

    __slots__ = ("was_read",)

    def __init__(self, segment: OneFile, position: int, length: int) -> None:
        super().__init__(segment, position, length)
        self.was_read = False

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        self.was_read = True
        return super().read(start, size)


def test_what_the_socket_takes_at_once_is_not_read(tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes]) -> None:
    segment = OneFile(tmp_path / "00000000000000000000.log", b"x" * 70_000)
    records = Watched(segment, 0, 70_000)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        sender.send([HEAD, records])

    assert run(received(send)) == HEAD + b"x" * 70_000
    assert not records.was_read


def test_what_is_left_to_the_transport_before_leaves_before(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes]
) -> None:
    segment = OneFile(tmp_path / "00000000000000000000.log", b"x" * 70_000)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        transport.write(b"first" * 1_000_000)
        sender.send([HEAD, FileRecords(segment, 0, 70_000)])

    assert run(received(send)) == b"first" * 1_000_000 + HEAD + b"x" * 70_000


def test_the_connection_ends_where_the_file_was_cut_meanwhile(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes]
) -> None:
    """A client that was promised more than there is must not take the next answer for the rest of this one."""
    segment = OneFile(tmp_path / "00000000000000000000.log", b"x" * 70_000)
    records = FileRecords(segment, 0, 70_000)
    segment.file.truncate(1000)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        sender.send([HEAD, records, b"the next answer"])

    assert b"the next answer" not in run(received(send))
    with pytest.raises(EOFError, match=r"was cut at 1000 while it was sent"):
        records.read()


def test_what_nobody_reads_stays_in_its_file_and_is_not_sent_once_that_was_cut(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes]
) -> None:
    segment = OneFile(tmp_path / "00000000000000000000.log", b"x" * 50_000_000)
    unsent: list[int] = []

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        sender.send([HEAD, FileRecords(segment, 0, 50_000_000)])
        assert sender.waits
        unsent.append(transport.get_write_buffer_size())
        segment.cuts += 1  # what is there now is something else

    assert len(run(received(send))) < 20_000_000
    assert unsent == [0]


def test_a_file_that_cannot_be_sent_is_read(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse ``sendfile``."""

    def refuses(*_: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "sendfile", refuses)
    content = os.urandom(3 * PIECE_BYTES + 1)
    segment = OneFile(tmp_path / "00000000000000000000.log", content)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        sender.send([HEAD, FileRecords(segment, 0, len(content)), TAIL])

    assert run(received(send)) == HEAD + content + TAIL


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    store = str(authority.issue("broker").key_store)
    return tls_settings({"ssl.keystore.location": store, "ssl.truststore.location": str(authority.trust_store)})


def test_over_tls_a_file_is_read_as_the_socket_takes_it(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes], tls: TlsSettings
) -> None:
    content = os.urandom(20_000_003)
    segment = OneFile(tmp_path / "00000000000000000000.log", content)
    waiting: list[int] = []

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        assert FileSender.can_send_over(transport)
        sender.send([HEAD, FileRecords(segment, 7, len(content) - 7), TAIL])
        assert sender.waits
        waiting.append(transport.get_write_buffer_size())

    assert run(received(send, tls)) == HEAD + content[7:] + TAIL
    assert waiting[0] <= len(HEAD) + PIECE_BYTES


def test_over_tls_nothing_is_sent_of_a_file_that_was_cut(
    tmp_path: Path, run: Callable[[Awaitable[bytes]], bytes], tls: TlsSettings
) -> None:
    segment = OneFile(tmp_path / "00000000000000000000.log", b"x" * 50_000_000)

    def send(transport: asyncio.Transport, sender: FileSender) -> None:
        sender.send([HEAD, FileRecords(segment, 0, 50_000_000)])
        segment.cuts += 1  # what is there now is something else

    assert len(run(received(send, tls))) <= len(HEAD) + PIECE_BYTES
