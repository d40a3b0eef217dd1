"""A ZooKeeper client on asyncio: one session, one connection at a time, requests pipelined in order.

Theory of operation. A *session* is the server's: it lives through any number of connections, and only the server ends
it. A *connection* serves one session until it breaks; then everything that was sent and not answered fails with
``ConnectionLoss``, which means "unknown, read again", and the next connection takes up the same session and sets its
watches again. What was never sent stays in the queue.

When a server answers a reconnect with "that session is over", everything fails with ``SessionExpired`` from then on,
also what is submitted later, until the new session has begun. In between the ``before_initializing_session`` hooks run,
one after the other; then a new session is made, for as long as it takes, and the ``after_initializing_session`` hooks
run. Hooks are awaited in a story of their own: connections come and go meanwhile, so a hook may use the client, and a
story that a hook waits for (the controller's event that is being processed) gets its ``SessionExpired`` at once and
ends. Nothing here ever waits for a hook's owner to read from ZooKeeper.

Watches are one-shot, as ZooKeeper's. A read of a path sets one when a handler is registered for that path, as Kafka's
``ZooKeeperClient`` does it; the handler is told the kind of event only and reads again. Handlers are called while the
bytes are taken in, before the answers that came after the event.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias, cast

from barnabas.model.errors import ConfigError
from barnabas.runtime import Condition, Runtime, Tasks, ended, within
from barnabas.zk.chroot import absolute, below, outcome, relative
from barnabas.zk.errors import ConnectionLoss, NodeExists, SessionExpired, ZooKeeperError
from barnabas.zk.jute import JuteError
from barnabas.zk.ops import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    REPLY_HEADER_SIZE,
    SET_WATCHES_XID,
    Check,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Create,
    Delete,
    EventType,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Operation,
    Ping,
    SetData,
    SetWatches,
    Stat,
    Sync,
    WatchEvent,
    decode_reply_header,
    encode_request,
    framed,
)

logger = logging.getLogger(__name__)

Hook: TypeAlias = Callable[[], "Awaitable[None] | None"]

QUEUE_MAX: Final = 20_000
"""Requests that may wait to be sent. Reads of many znodes go through `handle_requests`, which never needs as many."""
OUTSTANDING_MAX: Final = 1_000
"""Requests that `handle_requests` submits before it waits for the first answers."""
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest packet taken from a server: children of a znode may be many more bytes than ``jute.maxbuffer``."""
SET_WATCHES_BYTES_MAX: Final = 128 * 1024
"""Watches are set again in packets of about this length, so that none exceeds the server's ``jute.maxbuffer``."""
RECONNECT_BACKOFF_MS: Final = 50
RECONNECT_BACKOFF_MAX_MS: Final = 1_000
CLOSE_TIMEOUT_MS: Final = 3_000


class ZooKeeperTimeout(ZooKeeperError):
    """No connection came about within the connection timeout."""

    def __init__(self, connect: str, timeout_ms: int, cause: str) -> None:
        super().__init__(ConnectionLoss.code)
        self.connect = connect
        self.timeout_ms = timeout_ms
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"No ZooKeeper server answered at {self.connect} within {self.timeout_ms} ms ({self.cause}). "
            "Check zookeeper.connect and that the ensemble (or `barnabas coordinator`) is running."
        )


class ConnectionState(Enum):
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    EXPIRED = "EXPIRED"
    AUTH_FAILED = "AUTH_FAILED"
    CLOSED = "CLOSED"


def _nothing() -> None:
    """A handler for what does not matter to its owner."""


@dataclass(frozen=True, slots=True)
class ZNodeChangeHandler:
    """Told when the znode at `path` is made, deleted or rewritten."""

    path: str
    handle_creation: Callable[[], None] = _nothing
    handle_deletion: Callable[[], None] = _nothing
    handle_data_change: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class ZNodeChildChangeHandler:
    """Told when a child of `path` comes or goes."""

    path: str
    handle_child_change: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class StateChangeHandler:
    """Told of an expired session: before a new one is made, and after. Hooks may be coroutine functions."""

    name: str
    before_initializing_session: Hook = _nothing
    after_initializing_session: Hook = _nothing
    on_auth_failure: Hook = _nothing


def parse_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """Hosts and chroot of ``zookeeper.connect``, ``h1:p1,h2:p2/chroot``. Raises `ConfigError`."""
    addresses, slash, rest = connect.strip().partition("/")
    chroot = f"/{rest.strip('/')}" if slash and rest.strip("/") else ""
    hosts: list[tuple[str, int]] = []
    for address in filter(None, (part.strip() for part in addresses.split(","))):
        if address.startswith("["):
            host, bracket, port = address[1:].partition("]")
            port = port.removeprefix(":") if bracket else "?"
        elif address.count(":") > 1:
            host, port = address, ""
        else:
            host, _, port = address.partition(":")
        port = port or "2181"
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"Invalid value {connect!r} for configuration zookeeper.connect: {address!r} is not host:port."
            )
        hosts.append((host, int(port)))
    if not hosts:
        raise ConfigError(
            f"Invalid value {connect!r} for configuration zookeeper.connect: it takes host:port[,host:port..][/chroot]."
        )
    return hosts, chroot


class _Session:
    """What lives as long as the server's session: its identity, and the watches that stand at the server."""

    __slots__ = ("child_watches", "data_watches", "exist_watches", "expired", "id", "last_zxid", "password", "timeout")

    def __init__(self, timeout_ms: int) -> None:
        self.id = 0
        self.password = bytes(16)
        self.timeout = timeout_ms
        self.last_zxid = 0
        self.expired = False
        # Dicts, because the order in which they are set again must not depend on hashes.
        self.data_watches: dict[str, None] = {}
        self.exist_watches: dict[str, None] = {}
        self.child_watches: dict[str, None] = {}

    def watched(self, op: Operation[Any], path: str, missing: bool) -> None:
        """A read that set a watch was answered: note which one the server now holds. `path` is absolute."""
        if isinstance(op, GetChildren):
            self.child_watches[path] = None
        elif missing:
            self.exist_watches[path] = None
        else:
            self.data_watches[path] = None

    def fired(self, kind: int, path: str) -> None:
        """An event came: the watch that made it is gone at the server."""
        if kind == EventType.NODE_CHILDREN_CHANGED:
            self.child_watches.pop(path, None)
            return
        self.data_watches.pop(path, None)
        self.exist_watches.pop(path, None)
        if kind == EventType.NODE_DELETED:
            self.child_watches.pop(path, None)


class _Request:
    """One operation on its way: queued, then sent, then answered."""

    __slots__ = ("chroot", "future", "op", "path", "watch")

    def __init__(self, op: Operation[Any], chroot: str, future: asyncio.Future[Any]) -> None:
        self.op = op
        self.path: str | None = getattr(op, "path", None)
        self.chroot = chroot
        self.future = future
        self.watch = False


class _Connection(asyncio.Protocol):
    """One TCP connection to one server: the handshake, then packets matched to requests in order."""

    def __init__(self, client: ZooKeeperClient, session: _Session) -> None:
        self.client = client
        self.session = session
        self.transport: asyncio.Transport | None = None
        self.greeted = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.in_flight: deque[tuple[int, _Request]] = deque()
        self.next_xid = 1
        self.last_received_ms = client.runtime.clock.monotonic_ms()
        self.last_sent_ms = self.last_received_ms
        self.why = "the server closed the connection"
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are not asyncio's subclasses
        session = self.session
        self._write(framed(ConnectRequest(session.timeout, session.id, session.password, session.last_zxid).encode()))
        self._tick()

    def data_received(self, data: bytes) -> None:
        self.last_received_ms = self.client.runtime.clock.monotonic_ms()
        buffer = self._buffer
        buffer += data
        position = 0
        while len(buffer) - position >= 4 and not self.closed.done():
            length = int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if not 0 <= length <= FRAME_BYTES_MAX:
                self.drop(f"the server sent a packet of {length} bytes")
                return
            if len(buffer) - position - 4 < length:
                break
            packet = bytes(buffer[position + 4 : position + 4 + length])
            position += 4 + length
            try:
                self._packet(packet)
            except JuteError as error:
                self.drop(f"the server sent what cannot be read: {error}")
                return
        del buffer[:position]

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.why = str(error) or type(error).__name__
        self._end()

    # --- packets ---

    def _write(self, frame: bytes) -> None:
        assert self.transport is not None
        self.last_sent_ms = self.client.runtime.clock.monotonic_ms()
        self.transport.write(frame)

    def _packet(self, packet: bytes) -> None:
        if not self.greeted:
            self._greeting(packet)
            return
        xid, zxid, code = decode_reply_header(packet)
        if xid == NOTIFICATION_XID:
            event, _ = WatchEvent.decode(packet, REPLY_HEADER_SIZE)
            self.client._fired(self.session, event.type, event.path)
            return
        if zxid > 0:
            self.session.last_zxid = zxid
        if xid in (PING_XID, SET_WATCHES_XID, AUTH_XID):
            if xid == AUTH_XID and code != 0:
                self.client._auth_failed(self.session)
            return
        if not self.in_flight:
            raise JuteError(f"an answer with xid {xid} to no request")
        sent_xid, request = self.in_flight.popleft()
        if sent_xid != xid:
            self.in_flight.appendleft((sent_xid, request))
            raise JuteError(f"an answer with xid {xid} where {sent_xid} was due")
        self.client._answered(self.session, request, code, packet)
        self.client._send_queued()

    def _greeting(self, packet: bytes) -> None:
        greeting = ConnectResponse.decode(packet)
        self.greeted = True
        session = self.session
        if greeting.expired:
            self.client._expired(session)
            self.drop("the session has expired")
            return
        session.timeout, session.id, session.password = greeting.timeout_ms, greeting.session_id, greeting.password
        for set_watches in self._set_watches():
            self._write(encode_request(SET_WATCHES_XID, set_watches))
        if not self.ready.done():
            self.ready.set_result(None)
        self.client._connected(self)

    def _set_watches(self) -> list[SetWatches]:
        """What sets the session's watches again; the server fires those whose znode changed meanwhile."""
        session = self.session
        requests = []
        chunk: tuple[list[str], list[str], list[str]] = ([], [], [])
        length = 0
        for kind, paths in enumerate((session.data_watches, session.exist_watches, session.child_watches)):
            for path in paths:
                chunk[kind].append(path)
                length += len(path) + 4
                if length >= SET_WATCHES_BYTES_MAX:
                    requests.append(SetWatches(session.last_zxid, *chunk))
                    chunk, length = ([], [], []), 0
        if length:
            requests.append(SetWatches(session.last_zxid, *chunk))
        return requests

    def send(self, request: _Request) -> None:
        xid = self.next_xid
        self.next_xid = xid + 1 if xid < 0x7FFF_FFFF else 1
        self.in_flight.append((xid, request))
        self._write(encode_request(xid, self.client._prepared(request)))

    # --- liveness ---

    def _tick(self) -> None:
        """Pings an idle server, and gives up one that has been silent for two thirds of the session timeout."""
        if self.closed.done():
            return
        now_ms = self.client.runtime.clock.monotonic_ms()
        timeout_ms = self.session.timeout
        if now_ms - self.last_received_ms > timeout_ms * 2 // 3:
            self.drop(f"the server was silent for {now_ms - self.last_received_ms} ms")
            return
        interval_ms = max(1, timeout_ms // 6)
        if self.greeted and now_ms - self.last_sent_ms >= interval_ms:
            self._write(encode_request(PING_XID, Ping()))
        self._timer = asyncio.get_running_loop().call_later(interval_ms / 1000, self._tick)

    def drop(self, why: str) -> None:
        """Ends the connection at once; unsent bytes are lost."""
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
        self.client._disconnected(self, [request for _, request in lost])


class ZooKeeperClient:
    """See the module's text. `start` it, then any number of stories may use it."""

    def __init__(
        self,
        runtime: Runtime,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        max_in_flight: int = 10,
        name: str = "",
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.connect = connect
        self.hosts, self.chroot = parse_connect(connect)
        self.session_timeout_ms = session_timeout_ms
        self.connection_timeout_ms = connection_timeout_ms
        self.max_in_flight = max_in_flight
        self.name = name
        self.disconnects = 0
        self.expires = 0
        self.server: tuple[str, int] | None = None
        """The server that is connected, or was last."""
        self._on_failure = on_failure if on_failure is not None else self._report
        self._tasks = Tasks(self._on_failure)
        self._session = _Session(session_timeout_ms)
        self._connection: _Connection | None = None
        self._state = ConnectionState.CONNECTING
        self._changed = Condition()
        self._queued: deque[_Request] = deque()
        self._node_change_handlers: dict[str, ZNodeChangeHandler] = {}
        self._node_child_change_handlers: dict[str, ZNodeChildChangeHandler] = {}
        self._state_change_handlers: dict[str, StateChangeHandler] = {}
        self._stories: list[asyncio.Task[None]] = []
        self._last_error = "no attempt was made yet"

    # --- life -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects. Raises `ZooKeeperTimeout` when no server answered within the connection timeout."""
        self._stories.append(
            self._tasks.begin(self._keep_session(), f"zookeeper session of {self.name or self.connect}")
        )
        connected = asyncio.get_running_loop().create_task(self.wait_until_connected())
        try:
            if not await within(connected, self.connection_timeout_ms):
                raise ZooKeeperTimeout(self.connect, self.connection_timeout_ms, self._last_error)
            await connected
        except BaseException:
            connected.cancel()
            await ended(connected)
            await self.close()
            raise

    async def wait_until_connected(self) -> None:
        """Returns when there is a connection. Raises `SessionExpired` when the session is over."""
        while self._state is not ConnectionState.CONNECTED:
            if self._state is not ConnectionState.CONNECTING:
                raise SessionExpired(None)
            await self._changed

    async def close(self) -> None:
        """Ends the session at the server, so that its ephemeral znodes go at once."""
        if self._state is ConnectionState.CLOSED:
            return
        connection = self._connection
        self._set_state(ConnectionState.CLOSED)
        self._fail(self._taken_queue(), SessionExpired)
        if connection is not None and connection.greeted and not connection.closed.done():
            request = _Request(CloseSession(), "", asyncio.get_running_loop().create_future())
            connection.send(request)
            await within(request.future, CLOSE_TIMEOUT_MS)
            request.future.cancel()
        self._abort()
        await self._tasks.end()

    def abandon(self) -> None:
        """Lets the session be, as a killed process would: the server ends it when its timeout has passed."""
        if self._state is ConnectionState.CLOSED:
            return
        self._set_state(ConnectionState.CLOSED)
        self._fail(self._taken_queue(), SessionExpired)
        self._abort()
        for task in self._stories:
            task.cancel()

    def _abort(self) -> None:
        self._node_change_handlers.clear()
        self._node_child_change_handlers.clear()
        self._state_change_handlers.clear()
        if self._connection is not None:
            self._connection.drop("the client was closed")

    def _closed(self) -> bool:
        return self._state is ConnectionState.CLOSED

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def session_id(self) -> int:
        """0 before the first connection."""
        return self._session.id

    @property
    def negotiated_timeout_ms(self) -> int:
        return self._session.timeout

    # --- handlers ---------------------------------------------------------------------------------------------

    def register_node_change_handler(self, handler: ZNodeChangeHandler) -> None:
        """Local only: the next read of the path sets the watch; of a missing znode only `exists` does."""
        self._node_change_handlers[handler.path] = handler

    def unregister_node_change_handler(self, path: str) -> None:
        self._node_change_handlers.pop(path, None)

    def register_node_child_change_handler(self, handler: ZNodeChildChangeHandler) -> None:
        """Local only: the next `children` of the path sets the watch."""
        self._node_child_change_handlers[handler.path] = handler

    def unregister_node_child_change_handler(self, path: str) -> None:
        self._node_child_change_handlers.pop(path, None)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        self._state_change_handlers[handler.name] = handler

    def unregister_state_change_handler(self, name: str) -> None:
        self._state_change_handlers.pop(name, None)

    # --- requests ---------------------------------------------------------------------------------------------

    async def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Returns the path, which a sequential znode's number has been added to."""
        made: str = await self.submit(Create(path, data, ephemeral=ephemeral, sequential=sequential))
        return made

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        found: tuple[bytes | None, Stat] = await self.submit(GetData(path))
        return found

    async def exists(self, path: str) -> Stat | None:
        found: Stat | None = await self.submit(Exists(path))
        return found

    async def children(self, path: str) -> list[str]:
        """Names in no order."""
        found: list[str] = await self.submit(GetChildren(path, True))
        return found

    async def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        stat: Stat = await self.submit(SetData(path, data, version))
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self.submit(Delete(path, version))

    async def multi(self, ops: Sequence[Create | SetData | Delete | Check]) -> list[Any]:
        """All or nothing; the results in the order of `ops`. The error says by `op_index` which of them failed."""
        results: list[Any] = await self.submit(Multi(list(ops)))
        return results

    async def sync(self, path: str) -> None:
        """Waits until the connected server knows all that the leader knew."""
        await self.submit(Sync(path))

    def submit(self, op: Operation[Any]) -> asyncio.Future[Any]:
        """Queues one operation behind those submitted before; the future has its result or `ZooKeeperError`."""
        return self._submit(op, self.chroot)

    def _submit(self, op: Operation[Any], chroot: str) -> asyncio.Future[Any]:
        request = _Request(op, chroot, asyncio.get_running_loop().create_future())
        if self._state in (ConnectionState.CONNECTING, ConnectionState.CONNECTED):
            if len(self._queued) >= QUEUE_MAX:
                raise RuntimeError(f"more than {QUEUE_MAX} requests wait for ZooKeeper; use handle_requests")
            self._queued.append(request)
            self._send_queued()
        else:
            self._fail([request], SessionExpired)
        return request.future

    async def make_chroot(self) -> None:
        """Makes the chroot, with its parents, where it does not exist."""
        path = ""
        for name in filter(None, self.chroot.split("/")):
            path += f"/{name}"
            while True:
                try:
                    await self._submit(Create(path), "")
                except NodeExists:
                    break
                except ConnectionLoss:
                    await self.wait_until_connected()
                else:
                    break

    async def handle_requests(self, ops: Sequence[Operation[Any]]) -> list[Any]:
        """Pipelines `ops`; the results in their order, an operation's `ZooKeeperError` standing in its place."""
        results: list[Any] = []
        outstanding: deque[asyncio.Future[Any]] = deque()
        for op in ops:
            if len(outstanding) == OUTSTANDING_MAX:
                results.append(await _outcome(outstanding.popleft()))
            outstanding.append(self.submit(op))
        while outstanding:
            results.append(await _outcome(outstanding.popleft()))
        return results

    def _send_queued(self) -> None:
        connection = self._connection
        if connection is None or not connection.greeted or connection.closed.done():
            return
        while self._queued and len(connection.in_flight) < self.max_in_flight:
            request = self._queued.popleft()
            if not request.future.cancelled():
                connection.send(request)

    def _prepared(self, request: _Request) -> Operation[Any]:
        """The operation as it is sent. Here, as late as can be, it is decided whether it sets a watch."""
        operation = below(request.op, request.chroot)
        if isinstance(operation, GetChildren):
            operation.watch = request.watch = operation.watch and request.path in self._node_child_change_handlers
        elif isinstance(operation, GetData | Exists):
            operation.watch = request.watch = request.path in self._node_change_handlers
        return operation

    def _answered(self, session: _Session, request: _Request, code: int, packet: bytes) -> None:
        result, error = outcome(request.op, code, packet, request.chroot)
        if request.watch and error is None:
            assert request.path is not None
            session.watched(request.op, absolute(request.path, request.chroot), missing=result is None)
        if request.future.done():
            return
        if error is None:
            request.future.set_result(result)
        else:
            request.future.set_exception(error)
            request.future.exception()  # whoever submitted it may have gone; that is no unhandled error

    def _fail(self, requests: list[_Request], kind: Callable[[str | None], ZooKeeperError]) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(kind(request.path))
                request.future.exception()

    def _taken_queue(self) -> list[_Request]:
        queued, self._queued = list(self._queued), deque()
        return queued

    # --- what a connection tells ------------------------------------------------------------------------------

    def _set_state(self, state: ConnectionState) -> None:
        if self._state is not state and self._state is not ConnectionState.CLOSED:
            self._state = state
            self._changed.notify()

    def _connected(self, connection: _Connection) -> None:
        logger.info(
            "%s connected to ZooKeeper at %s, session 0x%x, timeout %d ms",
            self.name,
            self.server,
            connection.session.id & (1 << 64) - 1,
            connection.session.timeout,
        )
        self._set_state(ConnectionState.CONNECTED)
        self._send_queued()

    def _disconnected(self, connection: _Connection, lost: list[_Request]) -> None:
        if self._state is ConnectionState.CONNECTED:
            self.disconnects += 1
            self._set_state(ConnectionState.CONNECTING)
        self._fail(lost, SessionExpired if connection.session.expired else ConnectionLoss)

    def _expired(self, session: _Session) -> None:
        if session.expired:
            return
        session.expired = True
        self.expires += 1
        logger.warning("%s: ZooKeeper session 0x%x has expired", self.name, session.id & (1 << 64) - 1)
        self._set_state(ConnectionState.EXPIRED)
        self._fail(self._taken_queue(), SessionExpired)

    def _auth_failed(self, session: _Session) -> None:
        session.expired = True
        self._set_state(ConnectionState.AUTH_FAILED)
        self._fail(self._taken_queue(), SessionExpired)

    def _fired(self, session: _Session, kind: int, path: str) -> None:
        session.fired(kind, path)
        path = relative(path, self.chroot)
        if kind == EventType.NODE_CHILDREN_CHANGED:
            child_handler = self._node_child_change_handlers.get(path)
            handle = child_handler.handle_child_change if child_handler is not None else None
        else:
            handler = self._node_change_handlers.get(path)
            handle = None
            if handler is not None:
                if kind == EventType.NODE_CREATED:
                    handle = handler.handle_creation
                elif kind == EventType.NODE_DELETED:
                    handle = handler.handle_deletion
                elif kind == EventType.NODE_DATA_CHANGED:
                    handle = handler.handle_data_change
        if handle is not None:
            try:
                handle()
            except Exception as error:  # the handler's owner decides what that means; the connection goes on
                self._on_failure(f"watch handler of {path}", error)

    # --- stories ----------------------------------------------------------------------------------------------

    async def _keep_session(self) -> None:
        """One session after the other, with the hooks in between, until the client is closed."""
        first = True
        while not self._closed():
            session = self._session
            connecting = self._tasks.begin(self._keep_connected(session), f"zookeeper connection of {self.name}")
            self._stories[1:] = [connecting]
            if not first:
                while self._state is ConnectionState.CONNECTING and not session.expired:
                    await self._changed
                await self._call_hooks("after_initializing_session")
            first = False
            while not session.expired and not self._closed():
                await self._changed
            await ended(connecting)
            if self._closed():
                return
            if self._state is ConnectionState.AUTH_FAILED:
                await self._call_hooks("on_auth_failure")
                await asyncio.sleep(RECONNECT_BACKOFF_MAX_MS / 1000)
            await self._call_hooks("before_initializing_session")
            self._session = _Session(self.session_timeout_ms)
            self._set_state(ConnectionState.CONNECTING)

    async def _call_hooks(self, which: str) -> None:
        """Runs one hook of every handler, in the order of their registration; one that fails does not stop the rest."""
        for handler in list(self._state_change_handlers.values()):
            try:
                outcome = getattr(handler, which)()
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:
                self._on_failure(f"{which} of {handler.name}", error)

    async def _keep_connected(self, session: _Session) -> None:
        """Connects this session again and again, to one server after the other, until it is over."""
        order = list(range(len(self.hosts)))
        self.runtime.entropy.shuffle(order)
        backoff_ms = RECONNECT_BACKOFF_MS
        attempt = 0
        while not session.expired and not self._closed():
            host, port = self.hosts[order[attempt % len(order)]]
            attempt += 1
            if await self._connect_once(session, host, port):
                backoff_ms = RECONNECT_BACKOFF_MS
            elif attempt % len(order) == 0:
                # All servers were tried. Jitter, so that clients do not come back all at once.
                await asyncio.sleep((backoff_ms + self.runtime.entropy.randrange(0, backoff_ms)) / 1000)
                backoff_ms = min(2 * backoff_ms, RECONNECT_BACKOFF_MAX_MS)

    async def _connect_once(self, session: _Session, host: str, port: int) -> bool:
        """One connection from its beginning to its end; whether it was ever taken up by the server."""
        timeout_ms = max(1, session.timeout // len(self.hosts))
        self.server = (host, port)
        try:
            connection = await self.runtime.network.connect(
                lambda: _Connection(self, session), host, port, timeout_ms=timeout_ms
            )
        except OSError as error:
            self._last_error = f"{host}:{port}: {error or type(error).__name__}"
            return False
        self._connection = connection
        try:
            if not await within(connection.ready, timeout_ms):
                connection.drop("the server did not take up the session")
            greeted = connection.greeted
            await connection.closed
        finally:
            connection.drop(connection.why)
            self._connection = None
        if not session.expired and not self._closed():
            self._last_error = f"{host}:{port}: {connection.why}"
            logger.info("%s lost ZooKeeper at %s:%d: %s", self.name, host, port, connection.why)
        return greeted

    def _report(self, name: str, error: BaseException) -> None:
        logger.error("%s: %s failed", self.name, name, exc_info=error)


async def _outcome(future: asyncio.Future[Any]) -> Any:
    try:
        return await future
    except ZooKeeperError as error:
        return error
