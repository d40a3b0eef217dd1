"""One TCP connection to one server: handshake, authentication, watches, then packets matched to requests in order.

::

    GREETING   --- the server took the session up --->  SASL (only with a user to prove)  --- proved --->  READY
        any    --- bytes that make no sense, silence, the server's or our own wish --->  closed

After the greeting, and before any request, the client sends its identities (``auth``) and sets the session's watches
again. Requests go out in the order of their submission and are answered in that order. When the connection ends, the
owner gets all unanswered requests back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from barnabas.runtime import Clock
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.zk.client.chroot import below
from barnabas.zk.client.login import ZooKeeperLogin
from barnabas.zk.client.session import ClientSession
from barnabas.zk.protocol.data import AUTH_XID, NOTIFICATION_XID, PING_XID, SET_WATCHES_XID
from barnabas.zk.protocol.errors import MarshallingError, ZkErrorCode
from barnabas.zk.protocol.frames import (
    LENGTH_BYTES,
    REPLY_HEADER_SIZE,
    ConnectRequest,
    ConnectResponse,
    WatchEvent,
    decode_reply_header,
    encode_request,
    framed,
)
from barnabas.zk.protocol.jute import JuteError
from barnabas.zk.protocol.ops import Exists, GetChildren, GetChildrenWithoutStat, GetData, ZkOperation
from barnabas.zk.protocol.session_ops import Auth, Ping, Sasl

if TYPE_CHECKING:
    from barnabas.security.sasl.login import Tokens

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest packet taken from a server: children of a znode may be many more bytes than ``jute.maxbuffer``."""
_SASL_REFUSED: Final = (ZkErrorCode.AUTH_FAILED, ZkErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """A client's TLS, login and identities.

    `sasl` comes before anything else; `auth` are further identities, such as ``("digest", b"user:word")``.
    A certificate (scheme x509) is part of `tls`.
    """

    tls: ssl.SSLContext | None = None
    sasl: ZooKeeperLogin | None = None
    auth: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)


class Request:
    """One operation: queued, then sent, then answered."""

    __slots__ = ("chroot", "future", "op", "path", "sent_ms", "watch")

    def __init__(self, op: ZkOperation[Any], chroot: str, future: asyncio.Future[Any]) -> None:
        self.op = op
        self.path: str | None = getattr(op, "path", None)
        self.chroot = chroot
        self.future = future
        self.sent_ms = 0
        self.watch = False


class ConnectionOwner(Protocol):
    """The owner of a connection, which gets its events."""

    @property
    def request_bytes_max(self) -> int:
        """The server's ``jute.maxbuffer``: a server that gets a longer request ends the connection."""

    def connected(self, connection: ClientConnection) -> None:
        """The server has accepted the session and its watches are set; requests may be sent."""

    def expired(self, session: ClientSession) -> None:
        """The server says that the session is over."""

    def auth_failed(self, session: ClientSession, why: str) -> None:
        """The server refuses the client's authentication; it closes the connection."""

    def answered(self, connection: ClientConnection, request: Request, code: int, packet: bytes) -> None: ...

    def drained(self, connection: ClientConnection) -> None:
        """All bytes that arrived are processed; there may be room for more requests."""

    def fired(self, session: ClientSession, event: WatchEvent) -> None: ...

    def disconnected(self, connection: ClientConnection, lost: list[Request]) -> None:
        """The connection is over; it is unknown whether the requests in `lost` were done."""

    def watches_node(self, path: str) -> bool:
        """Whether a read of this znode has to set its watch, asked just before it is sent. `path` has no chroot."""

    def watches_children(self, path: str) -> bool:
        """As above, for the znode's children."""


class Phase(Enum):
    GREETING = "GREETING"
    SASL = "SASL"
    READY = "READY"


class ClientConnection(asyncio.Protocol):
    """See the module. The futures `ready` and `closed` are done when the connection is (`ready` also if it fails)."""

    def __init__(
        self,
        owner: ConnectionOwner,
        session: ClientSession,
        clock: Clock,
        security: ClientSecurity,
        auth: Iterable[tuple[str, bytes]],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.transport: asyncio.Transport | None = None
        self.phase = Phase.GREETING
        self.closed: asyncio.Future[None] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.in_flight: deque[tuple[int, Request]] = deque()
        self.opened_ms = clock.monotonic_ms()
        self.last_received_ms = self.opened_ms
        self.last_sent_ms = self.opened_ms
        self.why = "the server closed the connection"
        self._owner = owner
        self._clock = clock
        self._auth = deque(auth)
        self._auth_sent: deque[tuple[str, asyncio.Future[bool] | None]] = deque()
        self._login = security.sasl
        self._tokens: Tokens | None = None
        self._sasl_xid = 0
        self._next_xid = 1
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether requests may be sent."""
        return self.phase is Phase.READY and not self.closed.done()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are not asyncio's subclasses
        session = self.session
        self._write(framed(ConnectRequest(session.timeout, session.id, session.password, session.last_zxid).encode()))
        self._tick()

    def data_received(self, data: bytes) -> None:
        self.last_received_ms = self._clock.monotonic_ms()
        buffer = self._buffer
        buffer += data
        position = 0
        size = len(buffer)
        while size - position >= 4 and not self.closed.done():
            length = int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if not 0 <= length <= FRAME_BYTES_MAX:
                self.drop(f"the server sent a packet of {length} bytes")
                return
            end = position + 4 + length
            if end > size:
                break
            try:
                self._packet(bytes(buffer[position + 4 : end]))
            except JuteError as error:
                self.drop(f"the server sent what cannot be read: {error}")
                return
            position = end
        del buffer[:position]
        if self.usable:
            self._owner.drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.why = str(exc) or type(exc).__name__
        elif self.phase is Phase.GREETING and not self.closed.done():
            self.why = (
                f"the server closed the connection without taking the session up: perhaps it has not seen "
                f"zxid 0x{self.session.last_zxid:x} yet, takes no more connections, or wants TLS"
            )
        self._end()

    # --- packets ---

    def _write(self, frame: bytes) -> None:
        assert self.transport is not None
        self.last_sent_ms = self._clock.monotonic_ms()
        self.transport.write(frame)

    def _packet(self, packet: bytes) -> None:
        if self.phase is Phase.GREETING:
            self._greeting(packet)
            return
        xid, zxid, code = decode_reply_header(packet)
        if xid == NOTIFICATION_XID:
            # Its zxid does not count as seen: other events of the same transaction may still arrive.
            event, _ = WatchEvent.decode(packet, REPLY_HEADER_SIZE)
            self._owner.fired(self.session, event)
            return
        if zxid > 0:
            self.session.last_zxid = zxid
        if xid in (PING_XID, SET_WATCHES_XID):
            return
        if xid == AUTH_XID:
            self._auth_answered(code)
            return
        if self.phase is Phase.SASL and xid == self._sasl_xid:
            self._sasl_answered(code, packet)
            return
        if not self.in_flight:
            raise JuteError(f"an answer with xid {xid} to no request")
        sent_xid, request = self.in_flight[0]
        if sent_xid != xid:
            raise JuteError(f"an answer with xid {xid} where {sent_xid} was due")
        self._owner.answered(self, request, code, packet)
        if self.in_flight and self.in_flight[0][1] is request:
            self.in_flight.popleft()

    def _greeting(self, packet: bytes) -> None:
        greeting = ConnectResponse.decode(packet)
        session = self.session
        if greeting.expired:
            self._owner.expired(session)
            self.drop("the session has expired")
            return
        session.timeout, session.id, session.password = greeting.timeout_ms, greeting.session_id, greeting.password
        if self._login is None:
            self._introduced()
        else:
            self.phase = Phase.SASL
            self._begin_sasl()

    def log_in(self, tokens: Tokens) -> None:
        """Takes the tokens of the SASL exchange, which begins once the session is accepted as well."""
        self._tokens = tokens
        self._begin_sasl()

    def _begin_sasl(self) -> None:
        if self._tokens is not None and self.phase is Phase.SASL and not self.closed.done():
            self._send_sasl(next(self._tokens))

    def _send_sasl(self, token: bytes) -> None:
        self._sasl_xid = self._xid()
        self._write(encode_request(self._sasl_xid, Sasl(token)))

    def _sasl_answered(self, code: int, packet: bytes) -> None:
        assert self._login is not None
        assert self._tokens is not None
        mechanism = self._login.mechanism
        if code != 0:
            why = f"the server refused SASL user {self._login.user!r} ({mechanism})"
            if code not in _SASL_REFUSED:
                why = f"the server answered SASL with error {code}"
            self.refused(why)
            return
        token, _ = Sasl(b"").decode_result(packet, REPLY_HEADER_SIZE)
        try:
            response = self._tokens.send(token or b"")
        except StopIteration:
            self._introduced()
        except SaslRefused as error:
            # A server without SASL answers with an empty token, as a server does at the end of GSSAPI.
            why = f"SASL: {error}" if token is not None else f"the server does not offer SASL ({mechanism})"
            self.refused(why)
        else:
            self._send_sasl(response)

    def _introduced(self) -> None:
        """The session and the SASL user are accepted: sends identities and watches; requests may follow from now on."""
        while self._auth:
            self.authenticate(*self._auth.popleft(), None)
        for set_watches in self.session.set_watches():
            self._write(encode_request(SET_WATCHES_XID, set_watches))
        self.phase = Phase.READY
        if not self.ready.done():
            self.ready.set_result(None)
        self._owner.connected(self)

    def authenticate(self, scheme: str, auth: bytes, accepted: asyncio.Future[bool] | None) -> None:
        """Sends the server one more identity.

        `accepted` gets whether the server accepted it: False also if the connection ends before the answer.
        """
        self._auth_sent.append((scheme, accepted))
        self._write(encode_request(AUTH_XID, Auth(scheme, auth)))

    def _auth_answered(self, code: int) -> None:
        scheme, accepted = self._auth_sent[0] if self._auth_sent else ("", None)
        if code != 0:
            self.refused(f"the server refused the identity of scheme {scheme}" if scheme else "the server refused us")
            return
        if not self._auth_sent:
            raise JuteError("an answer to no auth")
        self._auth_sent.popleft()
        if accepted is not None and not accepted.done():
            accepted.set_result(True)

    def refused(self, why: str) -> None:
        """Ends a connection whose authentication the server refuses, or for which there are no credentials."""
        self._owner.auth_failed(self.session, why)
        self.drop(why)

    # --- requests ---

    def _xid(self) -> int:
        xid = self._next_xid
        self._next_xid = xid + 1 if xid < 0x7FFF_FFFF else 1
        return xid

    def send(self, requests: list[Request]) -> None:
        """Sends all in one write. A request that is too long for the server, or cannot be encoded (half of a surrogate
        pair, which JSON may contain), fails instead, as it would each time."""
        frames = []
        now_ms = self._clock.monotonic_ms()
        longest = self._owner.request_bytes_max + LENGTH_BYTES
        for request in requests:
            xid = self._xid()
            frame: bytes | None
            try:
                frame = encode_request(xid, self._prepared(request))
            except (UnicodeEncodeError, StructError):
                frame = None
            if frame is None or len(frame) > longest:
                request.future.set_exception(MarshallingError(request.path))
                continue
            request.sent_ms = now_ms
            self.in_flight.append((xid, request))
            frames.append(frame)
        if frames:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _prepared(self, request: Request) -> ZkOperation[Any]:
        """The operation as it is sent: with absolute paths, and a watch if its owner wants one."""
        operation = request.op
        if isinstance(operation, GetData | Exists):
            request.watch = self._owner.watches_node(operation.path)
        elif isinstance(operation, GetChildren | GetChildrenWithoutStat):
            request.watch = operation.watch and self._owner.watches_children(operation.path)
        else:
            return below(operation, request.chroot) if request.chroot else operation
        if not request.chroot and operation.watch == request.watch:
            return operation
        read = below(operation, request.chroot)
        read.watch = request.watch
        return read

    # --- liveness ---

    def _tick(self) -> None:
        """Pings the server when the client is idle; drops it after a silence of two thirds of the session timeout."""
        if self.closed.done():
            return
        now_ms = self._clock.monotonic_ms()
        timeout_ms = self.session.timeout
        silent_max_ms = timeout_ms * 2 // 3
        if now_ms - self.last_received_ms >= silent_max_ms:
            self.drop(f"the server was silent for {now_ms - self.last_received_ms} ms")
            return
        ping_ms = max(1, timeout_ms // 6)
        if self.phase is Phase.READY and now_ms - self.last_sent_ms >= ping_ms:
            self._write(encode_request(PING_XID, Ping()))
        due_ms = min(self.last_received_ms + silent_max_ms, max(self.last_sent_ms, now_ms) + ping_ms)
        self._timer = asyncio.get_running_loop().call_later(max(1, due_ms - now_ms) / 1000, self._tick)

    def drop(self, why: str) -> None:
        """Ends the connection at once; unsent bytes are lost."""
        if not self.closed.done():
            self.why = why
        if self.transport is not None:
            self.transport.abort()
        self._end()

    def _end(self) -> None:
        if self.closed.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self.closed.set_result(None)
        if not self.ready.done():
            self.ready.set_result(None)
        lost, self.in_flight = self.in_flight, deque()
        for _, accepted in self._auth_sent:
            if accepted is not None and not accepted.done():
                accepted.set_result(False)
        self._owner.disconnected(self, [request for _, request in lost])
