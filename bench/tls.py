# ruff: noqa: TID251 -- a bench uses real sockets
"""What an answer costs a server over TLS, by who encrypts it: ``python bench/tls.py --bytes 1048576 --answers 512``.

One client on loopback asks under TLS 1.3 (AES-256-GCM), one answer after the other, of a server in a process of its own
on the loop that brokers run on. What counts is the server's CPU time an answer, user and system; the kinds take turns,
and of the rounds the least is told, since others only add to it, and the median. Kernel TLS is tried where the kernel
and Python have it; else it is said who has not. What came of it: docs/decisions/0015-tls-below-the-connection.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import multiprocessing
import resource
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.real import real_runtime
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.security.tls.authority import issue, make_authority
from barnabas.security.tls.settings import tls_settings

PLAIN: Final = "plain, for comparison"
ASYNCIO: Final = "asyncio's TLS"
UVLOOP: Final = "uvloop's TLS"
OURS: Final = "ours, over MemoryBIO"
SOCKET: Final = "a non-blocking SSLSocket"
KERNEL: Final = "kernel TLS"
KINDS: Final = (PLAIN, ASYNCIO, UVLOOP, OURS, SOCKET, KERNEL)
ASK: Final = b"an answer, please"
TELL_CPU: Final = b"and what you took"
_CPU: Final = struct.Struct(">dd")
_TCP_ULP: Final = 31
"""Of Linux: what a TCP socket is told to speak; ``tls`` where the kernel was built with it."""


class Contexts(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


def answer_to(request: bytes, answer: bytes) -> bytes:
    if request == ASK:
        return answer
    used = resource.getrusage(resource.RUSAGE_SELF)
    return _CPU.pack(used.ru_utime, used.ru_stime)


class Answering(asyncio.BufferedProtocol):
    """One connection; a request comes when the answer before it has been read."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._buffer = bytearray(len(ASK))
        self._held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def secured(self, certificate: bytes | None) -> None:
        """Nobody is asked who it is."""

    def insecure(self, reason: str) -> None:
        raise RuntimeError(reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        self._held += nbytes
        if self._held == len(ASK):
            self._held = 0
            self._transport.write(answer_to(bytes(self._buffer), self._answer))


class AnsweringSocket:
    """The same over an ``SSLSocket`` that does not block; OpenSSL calls the system once for each record of 16 KiB."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, context: ssl.SSLContext, answer: bytes
    ) -> None:
        self._loop = loop
        self._answer = answer
        plain, _ = listening.accept()
        plain.setblocking(True)
        self._socket = context.wrap_socket(plain, server_side=True)
        self._socket.setblocking(False)
        self._left = memoryview(b"")
        loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            while request := self._socket.recv(len(ASK)):
                self._left = memoryview(answer_to(request, self._answer))
                self._writable()
            self._loop.remove_reader(self._socket)

    def _writable(self) -> None:
        try:
            while self._left:
                self._left = self._left[self._socket.send(self._left) :]
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._socket, self._writable)
            return
        self._loop.remove_writer(self._socket)


async def _serve_streams(listening: socket.socket, make: Callable[[], Any], tls: ssl.SSLContext | None) -> None:
    server = await asyncio.get_running_loop().create_server(make, sock=listening, ssl=tls)
    async with server:
        await server.serve_forever()


async def _serve_sockets(listening: socket.socket, context: ssl.SSLContext, answer: bytes) -> None:
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    connections = []
    loop.add_reader(listening, lambda: connections.append(AnsweringSocket(loop, listening, context, answer)))
    await loop.create_future()


def _serve(kind: str, listening: socket.socket, context: ssl.SSLContext, answer: bytes) -> None:
    clock = real_runtime().clock
    if kind == KERNEL:
        context.options |= cast(ssl.Options, vars(ssl)["OP_ENABLE_KTLS"])
    loop: Any = asyncio.SelectorEventLoop if kind == ASYNCIO else fastest_loop()
    with asyncio.Runner(loop_factory=loop) as runner:
        if kind in (SOCKET, KERNEL):
            runner.run(_serve_sockets(listening, context, answer))
        elif kind == OURS:
            runner.run(_serve_streams(listening, lambda: TlsTransport(Answering(answer), context, clock), None))
        else:
            runner.run(_serve_streams(listening, lambda: Answering(answer), None if kind == PLAIN else context))


def without_kernel_tls() -> str:
    """Who has not what kernel TLS needs; nothing where it can be tried."""
    missing = []
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"tls")
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "an error")
            missing.append(f"the kernel (setsockopt TCP_ULP, tls: {name})")
    if not hasattr(ssl, "OP_ENABLE_KTLS"):
        missing.append("Python's ssl (OP_ENABLE_KTLS is there from 3.12 on)")
    return " and ".join(missing)


def measured(kind: str, contexts: Contexts, size: int, answers: int) -> tuple[float, float]:
    """The server's CPU seconds, user and system, for so many answers of `size` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        words = (kind, listening, contexts.server, bytes(size))
        process = multiprocessing.get_context("fork").Process(target=_serve, args=words)
        process.start()
        try:
            wire: socket.socket = socket.create_connection(listening.getsockname())
            with wire:
                if kind != PLAIN:
                    wire = contexts.client.wrap_socket(wire, server_hostname="localhost")
                began = _asked_cpu(wire)
                buffer = bytearray(size)
                for _ in range(answers):
                    wire.sendall(ASK)
                    _read(wire, buffer)
                ended = _asked_cpu(wire)
                wire.close()
        finally:
            process.terminate()
            process.join()
    return ended[0] - began[0], ended[1] - began[1]


def _asked_cpu(wire: socket.socket) -> tuple[float, float]:
    wire.sendall(TELL_CPU)
    buffer = bytearray(_CPU.size)
    _read(wire, buffer)
    user, system = _CPU.unpack(buffer)
    return user, system


def _read(wire: socket.socket, buffer: bytearray) -> None:
    view, held = memoryview(buffer), 0
    while held < len(buffer):
        count = wire.recv_into(view[held:])
        if not count:
            raise ConnectionError("the server has ended")
        held += count


def contexts_of(directory: str) -> Contexts:
    now_ms = time.time_ns() // 1_000_000
    authority = make_authority("bench", now_ms)
    files = {"key": issue(authority, "server", ["localhost"], now_ms), "trust": authority.certificate}
    for name, data in files.items():
        with open(f"{directory}/{name}.pem", "wb") as file:
            file.write(data)
    settings = tls_settings(
        {"ssl.keystore.location": f"{directory}/key.pem", "ssl.truststore.location": f"{directory}/trust.pem"}
    )
    return Contexts(settings.server_context(), settings.client_context())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of an answer")
    parser.add_argument("--answers", type=int, default=512, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    missing = without_kernel_tls()
    kinds = [kind for kind in KINDS if kind != KERNEL or not missing]
    with tempfile.TemporaryDirectory() as directory:
        contexts = contexts_of(directory)
        rounds = [
            {kind: measured(kind, contexts, given.bytes, given.answers) for kind in kinds} for _ in range(given.rounds)
        ]
    print(f"{'CPU us an answer':28}{'least':>8}{'user':>8}{'system':>8}{'median':>8}")
    for kind in kinds:
        each = sorted((sum(of[kind]), *of[kind]) for of in rounds)
        figures = (*each[0], each[len(each) // 2][0])
        print(f"{kind:28}" + "".join(f"{1e6 * seconds / given.answers:8.0f}" for seconds in figures))
    if missing:
        print(f"{KERNEL}: {missing} has not what it takes")


if __name__ == "__main__":
    main()
