"""Real sockets on loopback, with a door between them and each process: latency by link, cut links, pauses, resets.

Each end of a connection in a process of the cluster is a `LinkEnd`. Bytes from another process or from a client pass
the link from the sender to this process. Bytes to a client pass the link to the client here, as the client has no
`LinkEnd`. A cut link holds sent bytes, as TCP does, until it is healed. No connection is made through a cut link.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

from barnabas.broker.connection import BrokerConnection
from barnabas.runtime.doors import Bytes
from barnabas.runtime.real import RealListener, address_of
from barnabas.runtime.story import within
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.testing.loop import Process

P = TypeVar("P", bound=asyncio.BaseProtocol)

HOST: Final = "127.0.0.1"
CLIENT: Final = "client"
"""The name of a link's end for all clients of the test."""
HARNESS: Final = "harness"
"""The name of a link's end for the cluster's own client, which is exempt from faults."""
_RESET: Final = struct.pack("ii", 1, 0)


class Links:
    """The names of all ends, and the faults of the links between them."""

    def __init__(self) -> None:
        self.quiet = True
        """True while no link is cut or slow: then bytes go straight through."""
        self.names: dict[int, str] = {}
        """The owners of ports, both of listening and of connected sockets."""
        self.ends: dict[LinkEnd, None] = {}
        self.servers: list[asyncio.AbstractServer] = []
        self.holders: Sequence[socket.socket] = ()
        """Sockets that hold the ports of brokers that do not run."""
        self._cut: dict[tuple[str, str], None] = {}
        self._latency: dict[tuple[str, str], float] = {}
        _all_links.add(self)

    def name_of(self, port: int) -> str:
        return self.names.get(port, CLIENT)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def latency(self, source: str, target: str) -> float:
        """The latency of a link in one direction, in seconds."""
        return self._latency.get((source, target), 0.0)

    def cut(self, source: str, target: str) -> None:
        self._cut[source, target] = None
        self.quiet = False

    def set_latency(self, source: str, target: str, seconds: float) -> None:
        if seconds > 0:
            self._latency[source, target] = seconds
        else:
            self._latency.pop((source, target), None)
        self._changed()

    def heal(self, pairs: Iterable[tuple[str, str]] | None = None) -> None:
        """Heals the cut links between `pairs`; without pairs all links, and ends every latency as well."""
        if pairs is None:
            self._cut.clear()
            self._latency.clear()
        else:
            for pair in pairs:
                self._cut.pop(pair, None)
        self._changed()

    def _changed(self) -> None:
        self.quiet = not self._cut and not self._latency
        for end in list(self.ends):
            end.go_on()

    def cuts(self) -> list[tuple[str, str]]:
        return list(self._cut)

    def descriptors(self) -> Iterator[int]:
        """The descriptors of all open sockets of the cluster."""
        listening = [near for server in self.servers for near in getattr(server, "sockets", ())]
        for near in (*self.holders, *listening, *(end.get_extra_info("socket") for end in self.ends)):
            if near is not None and near.fileno() >= 0:
                yield near.fileno()


_all_links: WeakSet[Links] = WeakSet()


def _let_go() -> None:
    """Closes the brokers' sockets in a forked child. Otherwise the child would keep a dead broker's port and
    connections, so that clients would not notice its death. The descriptors stay in use (of another file), because
    objects of the child still have them."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for links in list(_all_links):
        for descriptor in list(links.descriptors()):
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


os.register_at_fork(after_in_child=_let_go)


class _Made:
    """An event: the connection is made."""


class _Ended:
    """An event: the other side will send no more."""


class _Lost:
    """An event: the connection is lost."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class LinkEnd(asyncio.Protocol, asyncio.Transport):
    """Stands between the real transport and a process's protocol, and is the other one for each of them."""

    def __init__(self, links: Links, process: Process, factory: Callable[[], asyncio.BaseProtocol], remote: str | None):
        super().__init__()
        self.inner: Any = None
        self._links = links
        self._process = process
        self._factory = factory
        self._remote = remote
        self._transport: Any = None
        self._inbox: deque[tuple[float, Any]] = deque()
        self._outbox: deque[tuple[float, bytes | None]] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reading = True
        self._closing = False
        self._port = 0

    @property
    def remote(self) -> str:
        """The other side's name; an accepted connection learns it with its first bytes."""
        if self._remote is None:
            peer = self._transport.get_extra_info("peername")
            self._remote = self._links.name_of(peer[1]) if peer else CLIENT
        return self._remote

    def belongs_to(self, process: Process) -> bool:
        return self._process is process

    # ---- from the real transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if not self._process.alive:
            self._transport.abort()
            return
        self._links.ends[self] = None
        self._take(_Made())

    def data_received(self, data: bytes) -> None:
        if self._links.quiet and not self._inbox and self._reading and not self._process.paused:
            if self._process.alive and not self._closing:
                self._feed(data)
        else:
            self._take(data)

    def eof_received(self) -> bool:
        self._take(_Ended())
        return True  # the inner protocol decides on closing, once the end of the data has reached it

    def connection_lost(self, error: Exception | None) -> None:
        self._links.ends.pop(self, None)
        if self._port:
            self._links.names.pop(self._port, None)
        if self._closing:
            self._inbox.clear()
        self._take(_Lost(error))

    def pause_writing(self) -> None:
        if self._process.alive and self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self._process.alive and self.inner is not None:
            self.inner.resume_writing()

    # ---- inwards

    def _take(self, item: Any) -> None:
        now = self._process.loop.time()
        due = now if self._links.quiet or isinstance(item, _Made) else now + self._links.latency(self.remote, self.name)
        self._inbox.append((due, item))
        self._deliver()

    @property
    def name(self) -> str:
        return self._process.name

    def go_on(self) -> None:
        """Called after a change, such as a healed link: bytes may pass again."""
        if self._inbox or self._outbox:
            self._process.loop.call_soon(self._go_on, context=self._process.context.copy())

    def _go_on(self) -> None:
        self._deliver()
        self._send_held()

    def freeze(self) -> None:
        """The process is paused: bytes for it stay in the kernel."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def thaw(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._transport.resume_reading()
        self.go_on()

    def _deliver(self) -> None:
        inbox = self._inbox
        while inbox and self._process.alive and not self._process.paused:
            due, item = inbox[0]
            ends = isinstance(item, _Lost)
            if not isinstance(item, _Made) and not (ends and self._closing):
                if self._links.is_cut(self.remote, self.name) or (not self._reading and not ends):
                    return
                left = due - self._process.loop.time()
                if left > 0:
                    self._later("in", left, self._deliver)
                    return
            inbox.popleft()
            self._hand_over(item)

    def _hand_over(self, item: Any) -> None:
        if isinstance(item, _Made):
            self.inner = self._factory()
            self.inner.connection_made(self)
        elif isinstance(item, _Lost):
            self._closing = True
            self.inner.connection_lost(item.error)
        elif self._closing:
            return
        elif isinstance(item, _Ended):
            if not self.inner.eof_received():
                self.close()
        else:
            self._feed(item)

    def _feed(self, data: bytes) -> None:
        inner = self.inner
        if not isinstance(inner, asyncio.BufferedProtocol):
            inner.data_received(data)
            return
        view = memoryview(data)
        while view and not self._closing:
            buffer = memoryview(inner.get_buffer(len(view))).cast("B")
            length = min(len(buffer), len(view))
            buffer[:length] = view[:length]
            del buffer
            inner.buffer_updated(length)
            view = view[length:]

    def _later(self, which: str, seconds: float, callback: Callable[[], None]) -> None:
        timer = self._timers.get(which)
        if timer is not None:
            timer.cancel()
        self._timers[which] = self._process.loop.call_later(seconds, callback, context=self._process.context.copy())

    # ---- outwards: calls of the process's protocol to its transport

    def write(self, data: Bytes) -> None:
        if self._process.alive and not self._closing:
            if self._outbox or not self._links.quiet:
                self._hold_back(bytes(data))
            else:
                self._transport.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._process.alive and not self._closing:
            if self._outbox or not self._links.quiet:
                self._hold_back(b"".join(list_of_data))
            else:
                self._transport.writelines(list_of_data)

    def _hold_back(self, data: bytes | None) -> None:
        """Bytes to a client pass the link here, as the client has no `LinkEnd`."""
        latency = self._links.latency(self.name, self.remote) if self.remote == CLIENT else 0.0
        self._outbox.append((self._process.loop.time() + latency, data))
        self._send_held()

    def _send_held(self) -> None:
        outbox = self._outbox
        while outbox and self._process.alive:
            due, data = outbox[0]
            if self.remote == CLIENT:
                if self._links.is_cut(self.name, CLIENT):
                    return
                left = due - self._process.loop.time()
                if left > 0:
                    self._later("out", left, self._send_held)
                    return
            outbox.popleft()
            if data is None:
                self._transport.close()
            else:
                self._transport.write(data)

    def close(self) -> None:
        if self._closing or not self._process.alive:
            return
        self._closing = True
        if self._outbox:
            self._hold_back(None)
        else:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once, even if `close` still waits for the other side to read."""
        if self._process.alive:
            self._closing = True
            self._outbox.clear()
            self._transport.abort()

    def pause_reading(self) -> None:
        self._reading = False
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._reading = True
        if not self._closing:
            self._transport.resume_reading()
            # Not within the caller's frame, which goes on reading from this connection.
            self._process.loop.call_soon(self._deliver, context=self._process.context.copy())

    def is_reading(self) -> bool:
        return self._reading

    def is_closing(self) -> bool:
        return self._closing or bool(self._transport.is_closing())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return int(self._transport.get_write_buffer_size()) + sum(len(data or b"") for _, data in self._outbox)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self.inner)

    def connected_from(self, port: int) -> None:
        self._port = port

    # ---- the process dies

    def reset(self) -> None:
        """Resets the connection, as the kernel does for a process that was killed with unread bytes."""
        self._links.ends.pop(self, None)
        if self._port:
            self._links.names.pop(self._port, None)
        for timer in self._timers.values():
            timer.cancel()
        if self._transport is None:
            return
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def bury(self) -> None:
        """Ends the protocol's coroutines, once they cannot have an effect."""
        inner, self.inner = self.inner, None
        self._inbox.clear()
        self._outbox.clear()
        if isinstance(inner, BrokerConnection | TlsTransport):  # which may have a waiting coroutine
            self._process.context.copy().run(inner.connection_lost, None)


class LinkNetwork:
    """The network door of one process."""

    def __init__(self, links: Links, process: Process) -> None:
        self._links = links
        self._process = process
        self._servers: list[asyncio.AbstractServer] = []

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> RealListener:
        server = await self._process.loop.create_server(
            lambda: LinkEnd(self._links, self._process, protocol_factory, None),
            host or None,
            port,
            ssl=tls,
            backlog=1024,
        )
        self._servers.append(server)
        self._links.servers.append(server)
        bound = server.sockets[0].getsockname()[1]
        self._links.names[bound] = self._process.name
        return RealListener(server, host, bound)

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        timeout_ms: int,
        tls: ssl.SSLContext | None = None,
    ) -> P:
        links, loop, name = self._links, self._process.loop, self._process.name
        target = links.name_of(port)
        deadline = loop.time() + timeout_ms / 1000
        while links.is_cut(name, target) or links.is_cut(target, name):
            if loop.time() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not accept a connection within {timeout_ms} ms")
            await asyncio.sleep(0.01)
        await asyncio.sleep(links.latency(name, target) + links.latency(target, name))
        near, own_port = socket.socket(), 0
        connecting: asyncio.Task[tuple[asyncio.Transport, LinkEnd]] | None = None
        try:
            near.setblocking(False)
            near.bind((HOST, 0))
            # The other side can look up the owner of the connection before it sees the connection.
            own_port = near.getsockname()[1]
            links.names[own_port] = name
            await loop.sock_connect(near, (host, port))
            # The TLS handshake may take long: the other process may be paused.
            connecting = loop.create_task(
                loop.create_connection(
                    lambda: LinkEnd(links, self._process, protocol_factory, target),
                    sock=near,
                    ssl=tls,
                    server_hostname=host if tls else None,
                )
            )
            try:
                if not await within(connecting, max(0, round((deadline - loop.time()) * 1000))):
                    raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not begin TLS within {timeout_ms} ms")
                _, end = connecting.result()
            finally:
                connecting.cancel()
        except BaseException:
            links.names.pop(own_port, None)
            if connecting is None or connecting.done():
                near.close()
            else:
                # The new transport closes the descriptor by its number. By then the number may belong to another
                # socket, of this loop or of a client's thread.
                connecting.add_done_callback(lambda done: near.close())
            raise
        end.connected_from(own_port)
        return cast(P, end.inner)

    async def address_of(self, host: str) -> str:
        return await address_of(host)

    @property
    def ends(self) -> list[LinkEnd]:
        return [end for end in self._links.ends if end.belongs_to(self._process)]

    def shut(self) -> list[LinkEnd]:
        """Frees a dead process's ports and resets its connections. Returns its link ends, which must still be
        buried."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
            self._links.servers.remove(server)
        ends = self.ends
        for end in ends:
            end.reset()
        return ends
