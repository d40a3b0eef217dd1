"""A ZooKeeper client on asyncio: one session, one connection at a time, requests pipelined in order.

Theory of operation. A *session* is the server's: it lives through any number of connections, and only the server ends
it. A *connection* serves one session until it breaks; then everything that was sent and not answered fails with
``ConnectionLoss``, which means "unknown, read again", and the next connection resumes the same session and sets its
watches again. Unsent requests stay in the queue.

When a server answers a reconnect with "session expired", all requests fail with ``SessionExpired``, also later ones,
until the new session has begun. In between the ``before_initializing_session`` hooks run, one after the other. Then the
client establishes a new session, for as long as it takes, and the ``after_initializing_session`` hooks run. Hooks are
awaited in a story of their own. Connections come and go meanwhile, so a hook may use the client; and a story that a
hook waits for (such as the controller's current event) gets its ``SessionExpired`` at once and ends. The client never
waits for a hook's owner to read from ZooKeeper. A server that refuses the credentials ends the session in the same way
(``AuthFailed``), with the ``on_auth_failure`` hooks first; the client tries again and again.

Watches are one-shot, as ZooKeeper's. As in Kafka's ``ZooKeeperClient``, a read sets a watch if a handler is registered
for its path; the handler gets only the kind of event and reads again. Handlers are called while the bytes are received,
before the answers that came after the event. Handlers outlive sessions, their watches do not: after a new session their
owner reads again, in its ``after_initializing_session`` hook. Persistent watches (`add_watch`) are set again on every
connection and in every session; their watchers are notified of a new one, because events in between are lost.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas.runtime import Condition, Runtime, Tasks, cause_of, ended, within
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.zk.client.chroot import absolute, outcome, relative
from barnabas.zk.client.connect_string import parse_connect
from barnabas.zk.client.connection import ClientConnection, ClientSecurity, Phase, Request
from barnabas.zk.client.handlers import (
    Hook,
    PersistentWatcher,
    StateChangeHandler,
    ZNodeChangeHandler,
    ZNodeChildChangeHandler,
)
from barnabas.zk.client.operations import ZooKeeperOperations
from barnabas.zk.client.session import ClientSession
from barnabas.zk.client.states import ConnectionState, ZooKeeperAuthFailed, ZooKeeperTimeout
from barnabas.zk.protocol.data import OPEN_ACL_UNSAFE, ACLs, AddWatchMode, EventType, KeeperState, WatcherType
from barnabas.zk.protocol.errors import (
    AuthFailed,
    ConnectionLoss,
    NodeExists,
    SessionExpired,
    SessionMoved,
    ZooKeeperError,
)
from barnabas.zk.protocol.frames import JUTE_MAX_BUFFER, WatchEvent
from barnabas.zk.protocol.ops import Create, Exists, ZkOperation
from barnabas.zk.protocol.session_ops import AddWatch, CloseSession, RemoveWatches

__all__ = [
    "ClientSecurity",
    "ConnectionState",
    "Hook",
    "PersistentWatcher",
    "StateChangeHandler",
    "ZNodeChangeHandler",
    "ZNodeChildChangeHandler",
    "ZooKeeperAuthFailed",
    "ZooKeeperClient",
    "ZooKeeperTimeout",
    "parse_connect",
]

logger = logging.getLogger(__name__)

QUEUE_MAX: Final = 20_000
"""How many requests may wait to be sent; `handle_requests` submits no more until there is room again."""
OUTSTANDING_MAX: Final = 1_000
"""How many requests `handle_requests` submits before it waits for the first answers."""
RECONNECT_BACKOFF_MS: Final = 50
RECONNECT_BACKOFF_MAX_MS: Final = 1_000
CLOSE_TIMEOUT_MS: Final = 3_000


class ZooKeeperClient(ZooKeeperOperations):
    """See the module's text. `start` it, then any number of stories may use it."""

    def __init__(
        self,
        runtime: Runtime,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        max_in_flight: int = 10,
        request_bytes_max: int = JUTE_MAX_BUFFER,
        name: str = "",
        security: ClientSecurity | None = None,
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.connect = connect
        self.hosts, self.chroot = parse_connect(connect)
        self.session_timeout_ms = session_timeout_ms
        self.connection_timeout_ms = connection_timeout_ms
        self.max_in_flight = max_in_flight
        self.request_bytes_max = request_bytes_max
        self.name = name
        self.security = security if security is not None else ClientSecurity()
        self.disconnects = 0
        self.expires = 0
        self.auth_failures = 0
        self.requests = 0
        """How many requests were answered; beside it the sum of their latencies in ms, from sent to answered."""
        self.latency_total_ms = 0
        self.latency_max_ms = 0
        self.server: tuple[str, int] | None = None
        """The server of the present connection, or of the last."""
        self.own_sessions: dict[int, None] = {}
        """The ids of all sessions that this client ever had."""
        self._on_failure = on_failure if on_failure is not None else self._report
        self._tasks = Tasks(self._on_failure)
        self._auth: dict[tuple[str, bytes], None] = dict.fromkeys(self.security.auth)
        self._session = ClientSession(session_timeout_ms)
        self._connection: ClientConnection | None = None
        self._state = ConnectionState.CONNECTING
        self._changed = Condition()
        self._queued: deque[Request] = deque()
        self._room = Condition()
        self._node_change_handlers: dict[str, ZNodeChangeHandler] = {}
        self._node_child_change_handlers: dict[str, ZNodeChildChangeHandler] = {}
        self._state_change_handlers: dict[str, StateChangeHandler] = {}
        self._persistent_watchers: dict[str, PersistentWatcher] = {}
        self._stories: list[asyncio.Task[None]] = []
        self._last_error = "no attempt was made yet"

    # --- life -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects. Raises `ZooKeeperTimeout` (no server answered in time) or `ZooKeeperAuthFailed` (one refused)."""
        self._stories.append(
            self._tasks.begin(self._keep_session(), f"zookeeper session of {self.name or self.connect}")
        )
        connected = asyncio.get_running_loop().create_task(self.wait_until_connected())
        try:
            if not await within(connected, self.connection_timeout_ms):
                raise ZooKeeperTimeout(self.connect, self.connection_timeout_ms, self._trouble)
            await connected
        except BaseException as error:
            connected.cancel()
            await ended(connected)
            await self.close()
            if isinstance(error, AuthFailed):
                raise ZooKeeperAuthFailed(self.connect, self._last_error) from None
            raise

    async def wait_until_connected(self) -> None:
        """Returns when the client is connected. Raises `SessionExpired` or `AuthFailed` when the session is over."""
        while self._state is not ConnectionState.CONNECTED:
            if self._state is not ConnectionState.CONNECTING:
                raise self._over(None)
            await self._changed

    async def close(self) -> None:
        """Ends the session at the server, so that its ephemeral znodes go at once."""
        if self._state is ConnectionState.CLOSED:
            return
        connection = self._connection
        self._set_state(ConnectionState.CLOSED)
        self._fail(self._taken_queue(), SessionExpired)
        if connection is not None and connection.usable:
            request = Request(CloseSession(), "", asyncio.get_running_loop().create_future())
            connection.send([request])
            await within(request.future, CLOSE_TIMEOUT_MS)
            request.future.cancel()
        self._abort()
        await self._tasks.end()

    def abandon(self) -> None:
        """Leaves the session open, as a killed process would: the server ends it after its timeout."""
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
        self._persistent_watchers.clear()
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
    def outstanding(self) -> int:
        """How many requests are sent and not answered yet."""
        return 0 if self._connection is None else len(self._connection.in_flight)

    def status(self) -> dict[str, Any]:
        """The client's state for display, as plain values."""
        server = self.server if self._state is ConnectionState.CONNECTED else None
        return {
            "state": self._state.value,
            "server": None if server is None else f"{server[0]}:{server[1]}",
            "session_id": f"0x{self._session.id & (1 << 64) - 1:x}",
            "session_timeout_ms": self._session.timeout,
            "outstanding_requests": self.outstanding,
            "queued_requests": len(self._queued),
            "watches": self._session.watch_count,
            "requests": self.requests,
            "latency_total_ms": self.latency_total_ms,
            "latency_ms_avg": round(self.latency_total_ms / self.requests, 3) if self.requests else 0.0,
            "latency_ms_max": self.latency_max_ms,
            "disconnects": self.disconnects,
            "expires": self.expires,
            "auth_failures": self.auth_failures,
            "last_error": None if self._state is ConnectionState.CONNECTED else self._trouble,
        }

    @property
    def _trouble(self) -> str:
        """Why there is no session yet, or no connection."""
        at = None if self._connection is None else self.server
        return self._last_error if at is None else f"{at[0]}:{at[1]}: it takes the connection, and says nothing"

    # --- handlers ---------------------------------------------------------------------------------------------

    def register_node_change_handler(self, handler: ZNodeChangeHandler) -> None:
        """Sends nothing: the next read of the path sets the watch; on a missing znode only `exists` does."""
        self._node_change_handlers[handler.path] = handler

    def unregister_node_change_handler(self, path: str) -> None:
        self._node_change_handlers.pop(path, None)

    def register_node_child_change_handler(self, handler: ZNodeChildChangeHandler) -> None:
        """Sends nothing: the next `children` of the path sets the watch."""
        self._node_child_change_handlers[handler.path] = handler

    def unregister_node_child_change_handler(self, path: str) -> None:
        self._node_child_change_handlers.pop(path, None)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        self._state_change_handlers[handler.name] = handler

    def unregister_state_change_handler(self, name: str) -> None:
        self._state_change_handlers.pop(name, None)

    async def add_watch(self, path: str, watcher: PersistentWatcher, *, recursive: bool = False) -> None:
        """A persistent watch: on a znode and its children, or (`recursive`) on every znode of the tree below it.

        One watcher per path; a second call replaces it. After each new connection the watcher gets an event of the type
        ``NONE``: it may have missed events, so it has to read again.
        """
        self._persistent_watchers[path] = watcher
        mode = AddWatchMode.PERSISTENT_RECURSIVE if recursive else AddWatchMode.PERSISTENT
        await self.submit(AddWatch(path, mode))

    async def remove_watches(self, path: str, kind: WatcherType = WatcherType.ANY) -> None:
        """Removes the session's watches on a znode. Raises `NoWatcher` if there is none."""
        await self.submit(RemoveWatches(path, kind))
        if kind is not WatcherType.DATA and kind is not WatcherType.CHILDREN:
            self._persistent_watchers.pop(path, None)

    async def add_auth(self, scheme: str, auth: bytes) -> None:
        """Adds an identity, for this connection and all later ones. Raises `AuthFailed` if it is refused."""
        self._auth[scheme, auth] = None
        while True:
            await self.wait_until_connected()
            connection = self._connection
            assert connection is not None
            accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            connection.authenticate(scheme, auth, accepted)
            if await accepted:
                return
            if self._state is ConnectionState.AUTH_FAILED:
                del self._auth[scheme, auth]  # else the server would refuse every later connection

    # --- requests ---------------------------------------------------------------------------------------------

    def submit(self, op: ZkOperation[Any]) -> asyncio.Future[Any]:
        """Queues one operation after those submitted before; the future gets its result or `ZooKeeperError`."""
        return self._submit(op, self.chroot)

    def _submit(self, op: ZkOperation[Any], chroot: str) -> asyncio.Future[Any]:
        request = Request(op, chroot, asyncio.get_running_loop().create_future())
        if self._state in (ConnectionState.CONNECTING, ConnectionState.CONNECTED):
            if len(self._queued) >= QUEUE_MAX:
                raise RuntimeError(f"more than {QUEUE_MAX} requests wait for ZooKeeper; use handle_requests")
            self._queued.append(request)
            self._send_queued()
        else:
            self._fail([request], self._over)
        return request.future

    def _over(self, path: str | None) -> ZooKeeperError:
        """The error of every request once the session is over or the client closed."""
        return AuthFailed(path) if self._state is ConnectionState.AUTH_FAILED else SessionExpired(path)

    async def make_chroot(self, acl: ACLs = OPEN_ACL_UNSAFE) -> None:
        """Creates the chroot, with its parents, if it does not exist."""
        path = ""
        for name in filter(None, self.chroot.split("/")):
            path += f"/{name}"
            while True:
                try:
                    if await self._submit(Exists(path), "") is None:
                        await self._submit(Create(path, acl=acl), "")
                except NodeExists:
                    break
                except ConnectionLoss:
                    await self.wait_until_connected()
                else:
                    break

    async def handle_requests(self, ops: Sequence[ZkOperation[Any]]) -> list[Any]:
        """Pipelines `ops`; returns their results in order, with the `ZooKeeperError` of an operation that failed."""
        results: list[Any] = []
        outstanding: deque[asyncio.Future[Any]] = deque()
        for op in ops:
            if len(outstanding) == OUTSTANDING_MAX:
                results.append(await _outcome(outstanding.popleft()))
            while len(self._queued) >= QUEUE_MAX:
                await self._room
            outstanding.append(self.submit(op))
        while outstanding:
            results.append(await _outcome(outstanding.popleft()))
        return results

    def _send_queued(self) -> None:
        connection = self._connection
        if connection is None or not connection.usable:
            return
        queued = self._queued
        # A loop, since requests that are too long are not sent: nothing else would send those after them.
        while queued and connection.usable and (room := self.max_in_flight - len(connection.in_flight)) > 0:
            sending: list[Request] = []
            while queued and len(sending) < room:
                request = queued.popleft()
                if not request.future.cancelled():
                    sending.append(request)
            connection.send(sending)

    def _fail(self, requests: list[Request], kind: Callable[[str | None], ZooKeeperError]) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(kind(request.path))
                request.future.exception()  # the submitter may be gone; asyncio would log an unread exception

    def _taken_queue(self) -> list[Request]:
        queued, self._queued = list(self._queued), deque()
        self._room.notify()
        return queued

    def _set_state(self, state: ConnectionState) -> None:
        if self._state is not state and self._state is not ConnectionState.CLOSED:
            self._state = state
            self._changed.notify()

    # --- the connection's calls (`ConnectionOwner`) ----------------------------------------------------------

    def connected(self, connection: ClientConnection) -> None:
        session = connection.session
        logger.info(
            "%s connected to ZooKeeper at %s, session 0x%x, timeout %d ms",
            self.name,
            self.server,
            session.id & (1 << 64) - 1,
            session.timeout,
        )
        self.own_sessions[session.id] = None
        self._set_state(ConnectionState.CONNECTED)
        for path, watcher in list(self._persistent_watchers.items()):
            self._tell(path, watcher, WatchEvent(EventType.NONE, KeeperState.SYNC_CONNECTED, path))
        self._send_queued()

    def disconnected(self, connection: ClientConnection, lost: list[Request]) -> None:
        if self._state is ConnectionState.CONNECTED and connection.session is self._session:
            self.disconnects += 1
            self._set_state(ConnectionState.CONNECTING)
        over = connection.session.expired or self._closed()
        self._fail(lost, self._over if over else ConnectionLoss)

    def expired(self, session: ClientSession) -> None:
        if session.expired:
            return
        session.expired = True
        self.expires += 1
        logger.warning("%s: ZooKeeper session 0x%x has expired", self.name, session.id & (1 << 64) - 1)
        self._last_error = "the session expired"
        self._set_state(ConnectionState.EXPIRED)
        self._fail(self._taken_queue(), SessionExpired)

    def auth_failed(self, session: ClientSession, why: str) -> None:
        session.expired = True
        self.auth_failures += 1
        logger.error("%s: not authenticated at ZooKeeper %s: %s", self.name, self.server, why)
        self._last_error = why
        self._set_state(ConnectionState.AUTH_FAILED)
        self._fail(self._taken_queue(), AuthFailed)

    def watches_node(self, path: str) -> bool:
        return path in self._node_change_handlers

    def watches_children(self, path: str) -> bool:
        return path in self._node_child_change_handlers

    def answered(self, connection: ClientConnection, request: Request, code: int, packet: bytes) -> None:
        result, error = outcome(request.op, code, packet, request.chroot)
        latency_ms = connection.last_received_ms - request.sent_ms
        self.requests += 1
        self.latency_total_ms += latency_ms
        if latency_ms > self.latency_max_ms:
            self.latency_max_ms = latency_ms
        if error is None:
            self._note_watch(connection.session, request, result)
            if not request.future.done():
                request.future.set_result(result)
            return
        if isinstance(error, SessionMoved):
            # The request was not done: another connection has the session, and the server is about to close this one.
            connection.drop("another connection has taken the session up")
            return
        self._fail([request], lambda path: error)

    def _note_watch(self, session: ClientSession, request: Request, result: Any) -> None:
        op = request.op
        if request.watch:
            assert request.path is not None
            session.watched(op, absolute(request.path, request.chroot), missing=result is None)
        elif isinstance(op, AddWatch):
            session.watch_added(op, absolute(op.path, request.chroot))
        elif isinstance(op, RemoveWatches):
            session.watches_removed(op, absolute(op.path, request.chroot))

    def drained(self, connection: ClientConnection) -> None:
        self._send_queued()
        self._room.notify()

    def fired(self, session: ClientSession, event: WatchEvent) -> None:
        one_shot = session.fired(event.type, event.path)
        path = relative(event.path, self.chroot)
        if one_shot:
            handle = self._handler(event.type, path)
            if handle is not None:
                try:
                    handle()
                except Exception as error:  # a handler's error must not end the connection
                    self._on_failure(f"watch handler of {path}", error)
        for watched in session.persistent_watches_of(event.type, event.path):
            watched = relative(watched, self.chroot)
            watcher = self._persistent_watchers.get(watched)
            if watcher is not None:
                self._tell(watched, watcher, event._replace(path=path))

    def _handler(self, kind: int, path: str) -> Callable[[], None] | None:
        if kind == EventType.NODE_CHILDREN_CHANGED:
            child_handler = self._node_child_change_handlers.get(path)
            return None if child_handler is None else child_handler.handle_child_change
        handler = self._node_change_handlers.get(path)
        if handler is None:
            return None
        match kind:
            case EventType.NODE_CREATED:
                return handler.handle_creation
            case EventType.NODE_DELETED:
                return handler.handle_deletion
            case EventType.NODE_DATA_CHANGED:
                return handler.handle_data_change
        return None

    def _tell(self, path: str, watcher: PersistentWatcher, event: WatchEvent) -> None:
        try:
            watcher(event)
        except Exception as error:
            self._on_failure(f"watcher of {path}", error)

    # --- stories ----------------------------------------------------------------------------------------------

    async def _keep_session(self) -> None:
        """Runs one session after the other, with the hooks in between, until the client is closed."""
        first = True
        while not self._closed():
            session = self._session
            connecting = self._tasks.begin(self._keep_connected(session), f"zookeeper connection of {self.name}")
            self._stories[1:] = [connecting]
            if not first:
                while self._state is ConnectionState.CONNECTING and not session.expired:
                    await self._changed
                if not session.expired:
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
            self._session = session.successor(self.session_timeout_ms)
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

    async def _keep_connected(self, session: ClientSession) -> None:
        """Connects the session to one server after the other, until the session is over."""
        order = list(range(len(self.hosts)))
        self.runtime.entropy.shuffle(order)
        backoff_ms = RECONNECT_BACKOFF_MS
        attempt = 0
        while not session.expired and not self._closed():
            host, port = self.hosts[order[attempt % len(order)]]
            attempt += 1
            began_ms = self.runtime.clock.monotonic_ms()
            if await self._connect_once(session, host, port):
                backoff_ms = RECONNECT_BACKOFF_MS
                if self.runtime.clock.monotonic_ms() - began_ms < RECONNECT_BACKOFF_MS:
                    await asyncio.sleep(RECONNECT_BACKOFF_MS / 1000)  # it accepted the session and hung up at once
            elif attempt % len(order) == 0:
                # All servers were tried. The jitter keeps clients from coming back all at once.
                await asyncio.sleep((backoff_ms + self.runtime.entropy.randrange(0, backoff_ms)) / 1000)
                backoff_ms = min(2 * backoff_ms, RECONNECT_BACKOFF_MAX_MS)

    async def _connect_once(self, session: ClientSession, host: str, port: int) -> bool:
        """Runs one connection to its end; returns whether the server accepted the session."""
        timeout_ms = max(1, session.timeout // len(self.hosts))
        self.server = (host, port)
        clock = self.runtime.clock
        try:
            connection = await self.runtime.network.connect(
                lambda: ClientConnection(self, session, clock, self.security, self._auth),
                host,
                port,
                timeout_ms=timeout_ms,
                tls=self.security.tls,
            )
        except OSError as error:
            self._last_error = f"{host}:{port}: {cause_of(error).removeprefix(f'{host}:{port}: ')}"
            return False
        self._connection = connection
        try:
            await self._log_in(connection, host)
            if not await within(connection.ready, timeout_ms):
                connection.drop("the server did not take up the session in time")
            ready = connection.phase is Phase.READY
            await connection.closed
        finally:
            connection.drop(connection.why)
            self._connection = None
        if not session.expired and not self._closed():
            self._last_error = f"{host}:{port}: {connection.why}"
            logger.info("%s lost ZooKeeper at %s:%d: %s", self.name, host, port, connection.why)
        return ready

    async def _log_in(self, connection: ClientConnection, host: str) -> None:
        login = self.security.sasl
        if login is None or connection.transport is None:
            return
        peer = connection.transport.get_extra_info("peername")
        try:
            tokens = await login.begin(host, peer[0] if peer else host, self.runtime.entropy.token(16).hex())
        except SaslRefused as error:
            connection.refused(f"SASL: {error}")
        else:
            connection.log_in(tokens)

    def _report(self, name: str, error: BaseException) -> None:
        logger.error("%s: %s failed", self.name, name, exc_info=error)


async def _outcome(future: asyncio.Future[Any]) -> Any:
    try:
        return await future
    except ZooKeeperError as error:
        return error.with_traceback(None)  # a traceback would keep the frames of its callers alive
