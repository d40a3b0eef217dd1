"""One client's connection: frames in, answers out, and how many of either may wait.

A request of a megabyte, the default of ``jute.maxbuffer``, may be a transaction of fifty thousand operations. A
transaction is done at once or not at all, which takes half a second. So only one long request is done in each turn of
the loop, however many connections send them. Watches need not be set at once; they are set in slices.

A client without a session (or not yet authenticated, where that is required) is a stranger: it may send little, and has
`STRANGER_MS` for all of it, including the TLS handshake. The connection exists before that handshake ends, so that it
is counted and can be closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, cast

from barnabas.runtime.turns import Turns
from barnabas.zk.protocol.acl import Identity
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.jute import INT, JuteError
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.sessions import Session
from barnabas.zk.server.unsent import UnsentEvents

if TYPE_CHECKING:
    from barnabas.zk.protocol.digest_md5 import DigestMd5Server

OUT_BYTES_MAX: Final = 1024 * 1024
"""Answers collected for one connection in one turn; the rest of its requests wait for the next turn."""
WRITTEN_AT_ONCE: Final = 256 * 1024
"""The size of a large answer's pieces: a transport keeps a partly sent buffer whole, but counts the rest alone."""
REQUESTS_AT_ONCE: Final = 32
"""How many requests of one connection are done before other connections' turn: 256 KiB may hold ten thousand."""
LONG_BYTES: Final = 16 * 1024
"""A longer request waits for a turn of its own: a transaction of some eight hundred operations takes 10 ms."""
STRANGER_BYTES: Final = 16 * 1024
"""The longest frame of a stranger: a client without a session, or not authenticated although SASL is required.

A SASL token has at most 4 KiB.
"""
STRANGER_MS: Final = 10_000
"""How long a client may stay a stranger."""
DEAR: Final = frozenset((OpCode.GET_ALL_CHILDREN_NUMBER, OpCode.GET_EPHEMERALS))
"""Requests that read every znode, or all of a session's: each waits for a turn of its own, as a long one does."""
_OP_CODE: Final = 8
"""Its position in a frame that begins with its length."""


class Latency:
    """Milliseconds from a request's arrival to its answer."""

    __slots__ = ("count", "last_ms", "max_ms", "min_ms", "total_ms")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self.total_ms = 0
        self.min_ms = 0
        self.max_ms = 0
        self.last_ms = 0

    def add(self, count: int, latency_ms: int) -> None:
        if not count:
            return
        self.min_ms = latency_ms if not self.count else min(self.min_ms, latency_ms)
        self.max_ms = max(self.max_ms, latency_ms)
        self.last_ms = latency_ms
        self.count += count
        self.total_ms += count * latency_ms

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


class ConnectedServer(Protocol):
    """The part of the server that a connection uses."""

    config: CoordinatorConfig
    turns: Turns
    unsent: UnsentEvents[ServerConnection]

    def monotonic_ms(self) -> int: ...

    def connected(self, connection: ServerConnection) -> None: ...

    def disconnected(self, connection: ServerConnection) -> None: ...

    def certified(self, connection: ServerConnection, certificate: bytes) -> None:
        """TLS has verified the client's certificate (DER). Raises ``ValueError`` if it names nobody."""

    def four_letter_word(self, connection: ServerConnection, word: bytes) -> bool:
        """Whether `word` is a four-letter word; if so, it is answered in a later turn."""
        ...

    def handshake(self, connection: ServerConnection, frame: bytes, now_ms: int) -> None:
        """Raises `JuteError`."""

    def request(self, connection: ServerConnection, frame: bytes) -> None:
        """Raises `JuteError`."""

    def has_output(self, connection: ServerConnection) -> None: ...

    def note_closing(self, connection: ServerConnection, reason: str) -> None:
        """Logs why the server ends the connection."""


class ServerConnection(asyncio.Protocol):
    """One client's connection: takes frames apart, and collects answers and events to be sent."""

    __slots__ = (
        "_asked_a_word",
        "_has_turn",
        "_held",
        "_out",
        "_out_bytes",
        "_rest",
        "_server",
        "_wanted",
        "_work",
        "_writing_is_paused",
        "closing",
        "established_ms",
        "host",
        "identities",
        "last_op_code",
        "last_xid",
        "latency",
        "peer",
        "received",
        "sasl",
        "secure",
        "sent",
        "session",
        "timer",
        "transport",
        "waits_for_turn",
    )

    def __init__(self, server: ConnectedServer, *, secure: bool = False) -> None:
        self._server = server
        self.secure = secure
        self._asked_a_word = False
        self._has_turn = False
        self._held = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._rest = bytearray()
        self._wanted = 0
        """How many bytes `_rest` needs before the next frame is whole."""
        self._work: Iterator[None] | None = None
        self._writing_is_paused = False
        self.closing = False
        self.established_ms = 0
        self.host = "?"
        self.identities: list[Identity] = []
        self.last_op_code = 0
        self.last_xid = 0
        self.latency = Latency()
        self.peer = "?"
        self.received = 0
        self.sasl: DigestMd5Server | None = None
        self.sent = 0
        self.session: Session[ServerConnection] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.waits_for_turn = False
        """Whether the rest of its input is read only after other connections have had their turn."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.host = str(peer[0])
            self.peer = f"{self.host}:{peer[1]}"
        self._server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self._server.disconnected(self)
        self.transport = None

    def eof_received(self) -> bool:
        """The client sends no more. Only after a four-letter word does it still read (``nc -N``, ``socat``)."""
        return self._asked_a_word

    def pause_writing(self) -> None:
        self._writing_is_paused = True
        self._hold()

    def resume_writing(self) -> None:
        self._writing_is_paused = False
        self._server.unsent.note(self, 0)
        self._go_on()

    def _hold(self) -> None:
        """Stops reading from a client that does not read its answers."""
        if not self._held and self.transport is not None and not self.closing:
            self._held = True
            self.transport.pause_reading()

    def _go_on(self) -> None:
        if not self._held or self._writing_is_paused or self.waits_for_turn:
            return
        if self.transport is None or self.closing:
            return
        self._held = False
        self.transport.resume_reading()
        rest, self._rest = bytes(self._rest), bytearray()
        self._take(rest)

    def do_in_turns(self, work: Iterator[None]) -> None:
        """Does the first slice of `work` at once; the client's later requests wait until all of it is done."""
        for _ in work:
            self._work = work
            self._wait_for_turn()
            return

    def _wait_for_turn(self) -> None:
        self._hold()
        self.waits_for_turn = True
        self._server.turns.next().add_done_callback(self._turn_has_come)

    def _turn_has_come(self, turn: object) -> None:
        self.waits_for_turn = False
        work, self._work = self._work, None
        if self.transport is None or self.closing:
            return
        if self.session is not None:
            self.session.heard_ms = self._server.monotonic_ms()
        if work is not None:
            self.do_in_turns(work)
        else:
            self._has_turn = True
        self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data, self._rest = bytes(self._rest), bytearray()
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Carries out the whole requests in `data` and keeps the rest."""
        position = 0
        size = len(data)
        server = self._server
        now_ms = server.monotonic_ms()
        begun = 0
        self._wanted = 4
        while size - position >= 4 and not self.closing:
            if self._out_bytes > OUT_BYTES_MAX:
                self._hold()
            if self._held:
                break
            (length,) = INT.unpack_from(data, position)
            start = position + 4
            allowed = server.config.jute_max_buffer
            if self.timer is not None:
                allowed = min(allowed, STRANGER_BYTES)
            if not 0 <= length <= allowed:
                if self.session is None and server.four_letter_word(self, data[position:start]):
                    self._asked_a_word = True
                    return
                if self.timer is not None:
                    self.refuse(f"a frame of {length} bytes, where a stranger may send {allowed}")
                else:
                    self.refuse(f"a frame of {length} bytes, where jute.maxbuffer allows {allowed}")
                return
            if start + length > size:
                self._wanted = start + length - position
                break
            dear = length > LONG_BYTES or (length >= _OP_CODE and INT.unpack_from(data, position + _OP_CODE)[0] in DEAR)
            if (dear and not self._has_turn) or begun == REQUESTS_AT_ONCE:
                self._wait_for_turn()
                break
            self._has_turn = False
            begun += 1
            position = start + length
            frame = data[start:position]
            self.received += 1
            try:
                if self.session is None:
                    server.handshake(self, frame, now_ms)
                else:
                    self.session.heard_ms = now_ms
                    server.request(self, frame)
            except JuteError as error:
                self.refuse(str(error))
        if position < size:
            self._rest += memoryview(data)[position:]

    def send(self, frame: bytes) -> None:
        """Collects a frame for the end of this turn."""
        if not self._out:
            self._server.has_output(self)
        self._out.append(frame)
        self._out_bytes += len(frame)
        self.sent += 1

    def flush(self, latency_ms: int) -> None:
        transport = self.transport
        out, self._out = self._out, []
        self._out_bytes = 0
        self.latency.add(len(out), latency_ms)
        if transport is None:
            return
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            del out
            for start in range(0, len(data), WRITTEN_AT_ONCE):
                transport.write(data[start : start + WRITTEN_AT_ONCE])
        if self.closing:
            transport.close()  # closes when all is sent, which is up to the client
        if self._writing_is_paused:
            most = self._server.unsent.note(self, transport.get_write_buffer_size())
            if most is not None:
                most.drop("it does not read what is sent to it, and others need the memory")
        elif self._held:
            self._go_on()

    def close_when_sent(self) -> None:
        """Accepts no more requests; closes after this turn's output."""
        if not self.closing:
            self.closing = True
            self._server.has_output(self)

    def refuse(self, reason: str) -> None:
        """Reads no more from a client that breaks the protocol; its earlier requests are answered."""
        self._server.note_closing(self, reason)
        self.close_when_sent()

    def drop(self, reason: str) -> None:
        """Closes at once. The session, if any, lives on."""
        self._server.note_closing(self, reason)
        self.abort()

    def abort(self) -> None:
        self.closing = True
        if self.transport is not None:
            self.transport.abort()

    def await_introduction(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the connection if its client is still a stranger after `STRANGER_MS`."""
        self.timer = loop.call_later(STRANGER_MS / 1000, self.drop, f"it was a stranger for {STRANGER_MS} ms")

    def is_introduced(self) -> None:
        """Stops that timer: the client is no stranger any more, or gone."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


_arrived: Final = bytearray(64 * 1024)
_arrived_view: Final = memoryview(_arrived)


class SecureConnection(ServerConnection):
    """A connection over TLS, behind a `TlsTransport`."""

    __slots__ = ()

    def __init__(self, server: ConnectedServer) -> None:
        super().__init__(server, secure=True)

    def secured(self, certificate: bytes | None) -> None:
        if certificate is not None:
            try:
                self._server.certified(self, certificate)
            except ValueError as error:
                self.drop(f"its certificate names nobody ({error})")

    def insecure(self, reason: str) -> None:
        self._server.note_closing(self, reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _arrived_view

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(_arrived_view[:nbytes]))
