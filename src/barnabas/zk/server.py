"""The embedded coordinator: one ZooKeeper server as its clients see it.

Theory of operation. Everything runs on one event loop, and every request is carried out, in the order in which it came,
at the moment its bytes arrive; so zxids have one order, and a session's answers have the order of its requests. What
is to be sent is collected. At the end of the loop's turn the transactions of all connections are committed to the
write-ahead log together, with one fsync, and only then anything is sent: no client ever hears of a write, its own or
another's, that a power loss could still undo.

A watch event is collected at the moment of the change, and so it reaches a client before any answer that shows it the
new state. A failed commit is final: nothing of that turn is answered, all connections are dropped, and the server is
down until its disk is looked after.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, cast

from barnabas.runtime.doors import Disk, Listener, Lock, Runtime
from barnabas.zk.acl import SUPER, Identity, digest_of, permits
from barnabas.zk.errors import ErrorCode, MarshallingError, NoWatcher, ZooKeeperError
from barnabas.zk.four_letter_words import WORDS, answer
from barnabas.zk.jute import INT, JuteError, encode_buffer
from barnabas.zk.ops import (
    AUTH_XID,
    NOTIFICATION_XID,
    OPEN_ACL_UNSAFE,
    PING_XID,
    AddWatch,
    AddWatchMode,
    Auth,
    CheckWatches,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    DeleteContainer,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenWithoutStat,
    GetData,
    GetEphemerals,
    MultiRead,
    OpCode,
    Operation,
    Permission,
    RemoveWatches,
    SetWatches,
    Sync,
    WatcherType,
    WatchEvent,
    WhoAmI,
    decode_operation,
    encode_reply,
    framed,
)
from barnabas.zk.recovery import logged_record, recover
from barnabas.zk.sessions import Session, Sessions
from barnabas.zk.snapshot import encode_snapshot
from barnabas.zk.tree import DataTree
from barnabas.zk.wal import WriteAheadLog
from barnabas.zk.watches import Fired, parent_of

logger = logging.getLogger(__name__)

JUTE_MAX_BUFFER: Final = 0xFFFFF
"""ZooKeeper's default for the longest request."""
TRANSACTIONS_BETWEEN_SNAPSHOTS: Final = 10_000
"""Bounds what a start has to do again."""
LOG_BYTES_BETWEEN_SNAPSHOTS: Final = 32 * 1024 * 1024
OUT_BYTES_MAX: Final = 1024 * 1024
"""Answers collected for one connection in one turn; the rest of its requests wait for the next turn."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for a client that does not read, before it is dropped: in the end its watch events."""
HANDSHAKE_TIMEOUT_MS: Final = 10_000
CONTAINER_CHECK_MS: Final = 60_000
EXPIRY_CHECK_MIN_MS: Final = 50

_HEADER: Final = Struct(">ii")
_WRITES: Final = frozenset(
    int(code)
    for code in (
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.DELETE_CONTAINER,
        OpCode.SET_ACL,
        OpCode.MULTI,
    )
)
_PING: Final = int(OpCode.PING)


class Connection(asyncio.Protocol):
    """One client's connection: takes frames apart, and collects what is to be sent to it."""

    __slots__ = (
        "_held",
        "_out",
        "_out_bytes",
        "_rest",
        "_server",
        "_writing_is_paused",
        "closing",
        "identities",
        "opened_ms",
        "peer",
        "received",
        "sent",
        "session",
        "timer",
        "transport",
    )

    def __init__(self, server: CoordinatorServer) -> None:
        self._server = server
        self._held = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._rest = b""
        self._writing_is_paused = False
        self.closing = False
        self.identities: list[Identity] = []
        self.opened_ms = 0
        self.peer = "?"
        self.received = 0
        self.sent = 0
        self.session: Session[Connection] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else "?"
        self.peer = f"{host}:{peer[1]}" if peer else "?"
        self.identities.append(("ip", host))
        self._server.connected(self, host)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self._server.disconnected(self)
        self.transport = None

    def pause_writing(self) -> None:
        self._writing_is_paused = True
        self._hold()

    def resume_writing(self) -> None:
        self._writing_is_paused = False
        self._go_on()

    def _hold(self) -> None:
        """A slow reader gets no more answers, and so its requests wait as well."""
        if not self._held and self.transport is not None and not self.closing:
            self._held = True
            self.transport.pause_reading()

    def _go_on(self) -> None:
        if not self._held or self._writing_is_paused or self.transport is None or self.closing:
            return
        self._held = False
        self.transport.resume_reading()
        rest, self._rest = self._rest, b""
        self._take(rest)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Carries out the whole requests in `data` and keeps the rest."""
        position = 0
        size = len(data)
        server = self._server
        now_ms = server.monotonic_ms()
        while size - position >= 4 and not self.closing:
            if self._out_bytes > OUT_BYTES_MAX:
                self._hold()
            if self._held:
                break
            (length,) = INT.unpack_from(data, position)
            start = position + 4
            if not 0 <= length <= server.jute_max_buffer:
                if self.session is None and data[position:start] in WORDS:
                    server.four_letter_word(self, data[position:start].decode())
                else:
                    self.drop(f"a frame of {length} bytes, more than jute.maxbuffer allows")
                return
            if start + length > size:
                break
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
                self.drop(str(error))
        self._rest = data[position:] if position < size else b""

    def send(self, frame: bytes) -> None:
        """Collects a frame for the end of this turn."""
        if not self._out:
            self._server.has_output(self)
        self._out.append(frame)
        self._out_bytes += len(frame)
        self.sent += 1

    def flush(self) -> None:
        transport = self.transport
        out, self._out = self._out, []
        self._out_bytes = 0
        if transport is None:
            return
        if out:
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self.closing:
            transport.close()
        elif transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.drop("it does not read what is sent to it")
        elif self._held:
            self._go_on()

    def close_when_sent(self) -> None:
        """Takes no more requests; closes after this turn's output."""
        self.closing = True
        self._server.has_output(self)

    def drop(self, reason: str) -> None:
        """Closes at once. The session, where there is one, lives on."""
        logger.info("connection from %s closed: %s", self.peer, reason)
        self.abort()

    def abort(self) -> None:
        self.closing = True
        if self.transport is not None:
            self.transport.abort()


class CoordinatorServer:
    def __init__(
        self,
        runtime: Runtime,
        *,
        host: str,
        port: int,
        data_dir: str,
        fsync: bool = True,
        tick_ms: int = 2000,
        session_timeout_min_ms: int = 1000,
        session_timeout_max_ms: int | None = None,
        jute_max_buffer: int = JUTE_MAX_BUFFER,
        max_client_connections: int = 0,
        super_digest: str | None = None,
        allowed_words: Iterable[str] | None = None,
        tls: ssl.SSLContext | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`max_client_connections` counts per address, 0 is no limit; no `allowed_words`: all four-letter words.

        `on_failure` is told once when the disk has failed and the server with it.
        """
        self.runtime = runtime
        self.host = host
        self.port = port
        self.data_dir = data_dir
        self.fsync = fsync
        self.tick_ms = tick_ms
        self.jute_max_buffer = jute_max_buffer
        self.max_client_connections = max_client_connections
        self.allowed_words = sorted(WORDS) if allowed_words is None else [word.encode() for word in allowed_words]
        self.tree: DataTree[Connection] = DataTree()
        self.sessions: Sessions[Connection] = Sessions(
            timeout_min_ms=session_timeout_min_ms, timeout_max_ms=session_timeout_max_ms or 20 * tick_ms
        )
        self.connections: dict[Connection, None] = {}
        self.failure: BaseException | None = None
        self.packets_received = 0
        self.packets_sent = 0
        self.monotonic_ms = runtime.clock.monotonic_ms
        self._super_digest = super_digest
        self._tls = tls
        self._on_failure = on_failure
        self._wal = WriteAheadLog(runtime.disk, data_dir, fsync=fsync)
        self._listener: Listener | None = None
        self._lock: Lock | None = None
        self._loop: asyncio.AbstractEventLoop
        self._outgoing: list[Connection] = []
        self._flush_is_due = False
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._expiry_due_ms = 0
        self._containers_checked_ms = 0
        self._reads: dict[type, Callable[[Connection, Any], Any]] = {
            Exists: self._exists,
            GetData: self._get_data,
            GetChildren: self._get_children,
            GetChildrenWithoutStat: self._get_children_without_stat,
            GetACL: lambda connection, op: self.tree.get_acl(op.path, connection.identities),
            GetAllChildrenNumber: lambda connection, op: self.tree.count_below(op.path, connection.identities),
            GetEphemerals: self._get_ephemerals,
            Sync: lambda connection, op: op.path,
            WhoAmI: lambda connection, op: [(scheme, who.partition(":")[0]) for scheme, who in connection.identities],
            MultiRead: self._multi_read,
            SetWatches: self._set_watches,
            AddWatch: self._add_watch,
            RemoveWatches: self._remove_watches,
            CheckWatches: self._check_watches,
        }

    # -- Life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recovers the state and listens. Raises ``OSError`` (port in use, directory not writable or in use)."""
        self._loop = asyncio.get_running_loop()
        disk = self.runtime.disk
        made = _missing_directories(disk, self.data_dir)
        disk.makedirs(self.data_dir)
        for directory in made:
            # The name of a new directory is as easily lost as a file's.
            disk.fsync_dir(parent_of(directory))
        try:
            self._lock = disk.lock(f"{self.data_dir}/.lock")
        except BlockingIOError:
            raise OSError(
                errno.EBUSY, "another coordinator is using this directory; stop it or choose another one", self.data_dir
            ) from None
        try:
            recover(self._wal, self.tree, self.sessions, self.monotonic_ms())
            if not self.fsync:
                logger.warning("fsync is off: a power loss may cost the last acknowledged writes")
            self._listener = await self.runtime.network.listen(
                lambda: Connection(self), self.host, self.port, tls=self._tls
            )
        except BaseException:
            self._wal.close()
            self._lock.release()
            self._lock = None
            raise
        self.port = self._listener.port
        self._containers_checked_ms = self.monotonic_ms()
        self._watch_the_clock()
        logger.info(
            "the coordinator listens on %s:%d, %d znodes and %d sessions at zxid %#x",
            self.host,
            self.port,
            len(self.tree.nodes),
            len(self.sessions),
            self.tree.last_zxid,
        )

    async def close(self) -> None:
        """Commits, answers what is done, and keeps a snapshot; the sessions live on in it."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        self._flush()
        for connection in list(self.connections):
            connection.closing = True
            if connection.transport is not None:
                connection.transport.close()
        if self.failure is None and self._wal.appended_since_snapshot:
            self._save_snapshot()
        self._wal.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _fail(self, error: OSError) -> None:
        """The disk did not take a transaction: whether it is there is unknown, so nothing may be answered any more."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("the coordinator stops: its log in %s cannot be written: %s", self.data_dir, error)
        if self._listener is not None:
            self._listener.close()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        for connection in list(self.connections):
            connection.abort()
        if self._on_failure is not None:
            self._on_failure(error)

    # -- The turn ------------------------------------------------------------------------------------------------------

    def has_output(self, connection: Connection) -> None:
        self._outgoing.append(connection)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self.failure is not None:
            return
        try:
            self._wal.commit()
        except OSError as error:
            self._fail(error)
            return
        outgoing, self._outgoing = self._outgoing, []
        for connection in outgoing:
            connection.flush()
        if (
            self._wal.appended_since_snapshot >= max(TRANSACTIONS_BETWEEN_SNAPSHOTS, len(self.tree.nodes))
            or self._wal.log_bytes >= LOG_BYTES_BETWEEN_SNAPSHOTS + 2 * self.tree.data_bytes
        ):
            try:
                self._save_snapshot()
            except OSError as error:
                self._fail(error)

    def _save_snapshot(self) -> None:
        self._wal.save_snapshot(self.tree.last_zxid, encode_snapshot(self.tree, self.sessions))

    def _tell(self, fired: Sequence[Fired[Connection]], zxid: int) -> None:
        """Sends the watch events of transaction `zxid`; -1 for those that a returning client had missed."""
        told: WatchEvent | None = None
        frame = b""
        for connection, event, acl in fired:
            if event is not told:
                frame = encode_reply(NOTIFICATION_XID, zxid, 0, event.encode())
                told = event
            if not connection.closing and permits(acl, Permission.READ, connection.identities):
                connection.send(frame)

    # -- Connections and sessions --------------------------------------------------------------------------------------

    def connected(self, connection: Connection, host: str) -> None:
        if self._listener is None or self.failure is not None:
            connection.abort()
            return
        if self.max_client_connections:
            same = sum(1 for other in self.connections if other.identities[0][1] == host)
            if same >= self.max_client_connections:
                connection.drop(f"{host} has {same} connections already")
                return
        self.connections[connection] = None
        connection.opened_ms = self.monotonic_ms()
        connection.timer = self._loop.call_later(HANDSHAKE_TIMEOUT_MS / 1000, connection.drop, "it said nothing")

    def disconnected(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.packets_received += connection.received
        self.packets_sent += connection.sent
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        self.tree.watches.forget(connection)
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection = None

    def handshake(self, connection: Connection, frame: bytes, now_ms: int) -> None:
        request = ConnectRequest.decode(frame)
        if request.last_zxid_seen > self.tree.last_zxid:
            connection.drop(
                f"it has seen zxid {request.last_zxid_seen:#x} and this server is at {self.tree.last_zxid:#x}: "
                "it belongs to another ensemble, or this one lost its data"
            )
            return
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        session: Session[Connection] | None
        if request.session_id == 0:
            session = self._open_session(request, now_ms)
        else:
            session = self.sessions.reopen(request.session_id, request.password, request.timeout_ms, now_ms)
        if session is None:
            response = ConnectResponse(0, 0, bytes(16), request.read_only)
            connection.send(framed(response.encode()))
            connection.close_when_sent()
            return
        before = session.connection
        if before is not None:
            # The client has a new connection, so the old one is dead, whether or not this side knows it.
            before.drop(f"session {session.id:#x} goes on over {connection.peer}")
            self.tree.watches.forget(before)
            before.session = None
        session.connection = connection
        connection.session = session
        if self._expiry_timer is None or session.expires_ms < self._expiry_due_ms:
            self._watch_the_clock()
        response = ConnectResponse(session.timeout_ms, session.id, session.password, request.read_only)
        connection.send(framed(response.encode()))

    def _open_session(self, request: ConnectRequest, now_ms: int) -> Session[Connection]:
        wall_clock_ms = self.runtime.clock.now_ms()
        session = self.sessions.open(
            self.sessions.next_id(wall_clock_ms),
            self.runtime.entropy.token(16),
            self.sessions.negotiate(request.timeout_ms),
            now_ms,
        )
        zxid = self.tree.last_zxid + 1
        self.tree.last_zxid = zxid
        record = INT.pack(session.timeout_ms) + encode_buffer(session.password)
        self._wal.append(zxid, wall_clock_ms, session.id, OpCode.CREATE_SESSION, record)
        self._flush_soon()
        return session

    def _end_session(self, session: Session[Connection]) -> int:
        """The session is over: its ephemerals go, under one zxid."""
        self.sessions.close(session.id)
        zxid = self.tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        _, fired = self.tree.write(CloseSession(), session.id, (), zxid, wall_clock_ms)
        self._wal.append(zxid, wall_clock_ms, session.id, OpCode.CLOSE_SESSION, b"")
        self._flush_soon()
        if session.connection is not None:
            self.tree.watches.forget(session.connection)
        self._tell(fired, zxid)
        return zxid

    def _watch_the_clock(self) -> None:
        """Sets the timer for the next session that would expire."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        due_ms = self.sessions.next_expiry_ms()
        if self.tree.containers:
            next_check_ms = self._containers_checked_ms + CONTAINER_CHECK_MS
            due_ms = next_check_ms if due_ms is None else min(due_ms, next_check_ms)
        if due_ms is None:
            return
        now_ms = self.monotonic_ms()
        self._expiry_due_ms = max(due_ms, now_ms + EXPIRY_CHECK_MIN_MS)
        self._expiry_timer = self._loop.call_later((self._expiry_due_ms - now_ms) / 1000, self._expire_sessions)

    def _expire_sessions(self) -> None:
        self._expiry_timer = None
        now_ms = self.monotonic_ms()
        late_ms = now_ms - self._expiry_due_ms
        if late_ms > self.tick_ms // 4:
            # This process stood still, and the clients' pings wait unread: it would expire who is alive.
            logger.warning("the coordinator stood still for %d ms; sessions get that time back", late_ms)
            self.sessions.forgive(late_ms)
        for session in self.sessions.expired(now_ms):
            logger.info("session %#x expires after %d ms of silence", session.id, now_ms - session.heard_ms)
            self._end_session(session)
            if session.connection is not None:
                session.connection.drop(f"session {session.id:#x} has expired")
        if now_ms - self._containers_checked_ms >= CONTAINER_CHECK_MS:
            self._containers_checked_ms = now_ms
            for path in self.tree.empty_containers():
                self._delete_container(path)
        self._watch_the_clock()

    def _delete_container(self, path: str) -> None:
        operation = DeleteContainer(path)
        zxid = self.tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        _, fired = self.tree.write(operation, 0, (), zxid, wall_clock_ms)
        self._wal.append(zxid, wall_clock_ms, 0, OpCode.DELETE_CONTAINER, operation.encode())
        self._flush_soon()
        self._tell(fired, zxid)

    # -- Requests ------------------------------------------------------------------------------------------------------

    def request(self, connection: Connection, frame: bytes) -> None:
        if len(frame) < 8:
            raise JuteError(f"a request of {len(frame)} bytes")
        xid, op_code = _HEADER.unpack_from(frame)
        if op_code == _PING:
            connection.send(encode_reply(PING_XID, self.tree.last_zxid, 0))
            return
        try:
            operation = decode_operation(op_code, frame, 8)
        except JuteError as error:
            logger.info("a request of %s with op code %d is damaged: %s", connection.peer, op_code, error)
            connection.send(encode_reply(xid, self.tree.last_zxid, ErrorCode.MARSHALLING_ERROR))
            return
        try:
            if op_code in _WRITES:
                self._write(connection, xid, op_code, cast("Operation[Any]", operation), frame)
            elif op_code == OpCode.RECONFIG:
                raise ZooKeeperError(ErrorCode.RECONFIG_DISABLED)
            elif operation is None:
                # As ZooKeeper does, which says so and hangs up.
                logger.info("%s sent the unknown op code %d", connection.peer, op_code)
                connection.send(encode_reply(xid, self.tree.last_zxid, ErrorCode.UNIMPLEMENTED))
                connection.close_when_sent()
            elif type(operation) is Auth:
                self._authenticate(connection, operation)
            elif type(operation) is CloseSession:
                assert connection.session is not None
                zxid = self._end_session(connection.session)
                connection.send(encode_reply(xid, zxid, 0))
                connection.close_when_sent()
            else:
                result = self._reads[type(operation)](connection, operation)
                connection.send(encode_reply(xid, self.tree.last_zxid, 0, operation.encode_result(result)))
        except ZooKeeperError as error:
            connection.send(encode_reply(xid, self.tree.last_zxid, error.code))

    def _write(self, connection: Connection, xid: int, op_code: int, operation: Operation[Any], frame: bytes) -> None:
        session = connection.session
        assert session is not None
        tree = self.tree
        zxid = tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        identities = connection.identities
        result, fired = tree.write(operation, session.id, identities, zxid, wall_clock_ms)
        if tree.last_zxid == zxid:
            self._wal.append(zxid, wall_clock_ms, session.id, op_code, logged_record(operation, identities, frame[8:]))
            if fired:
                self._tell(fired, zxid)
        connection.send(encode_reply(xid, tree.last_zxid, 0, operation.encode_result(result)))

    def _authenticate(self, connection: Connection, request: Auth) -> None:
        identity: Identity | None = None
        if request.scheme == "digest":
            identity = ("digest", digest_of(request.auth))
        elif request.scheme == "ip":
            identity = connection.identities[0]
        if identity is None:
            logger.info("%s failed to authenticate under the scheme %r", connection.peer, request.scheme)
            connection.send(encode_reply(AUTH_XID, 0, ErrorCode.AUTH_FAILED))
            connection.close_when_sent()
            return
        if identity not in connection.identities:
            connection.identities.append(identity)
        if identity[1] == self._super_digest and SUPER not in connection.identities:
            connection.identities.append(SUPER)
        connection.send(encode_reply(AUTH_XID, 0, 0))

    def _exists(self, connection: Connection, request: Exists) -> Any:
        return self.tree.exists(request.path, connection.identities, connection if request.watch else None)

    def _get_data(self, connection: Connection, request: GetData) -> Any:
        return self.tree.get_data(request.path, connection.identities, connection if request.watch else None)

    def _get_children(self, connection: Connection, request: GetChildren) -> Any:
        return self.tree.get_children(request.path, connection.identities, connection if request.watch else None)

    def _get_children_without_stat(self, connection: Connection, request: GetChildrenWithoutStat) -> Any:
        watcher = connection if request.watch else None
        return self.tree.get_children(request.path, connection.identities, watcher)[0]

    def _get_ephemerals(self, connection: Connection, request: GetEphemerals) -> list[str]:
        assert connection.session is not None
        # As in ZooKeeper, a prefix of blanks is none.
        return self.tree.ephemerals_of(connection.session.id, request.path if request.path.strip() else "/")

    def _multi_read(self, connection: Connection, request: MultiRead) -> list[Any]:
        """As in ZooKeeper, a read among several sets no watch, whatever its flag says."""
        results: list[Any] = []
        for operation in request.operations:
            try:
                if type(operation) is GetData:
                    results.append(self.tree.get_data(operation.path, connection.identities))
                else:
                    results.append(self.tree.get_children(operation.path, connection.identities)[0])
            except ZooKeeperError as error:
                results.append(error)
        return results

    def _set_watches(self, connection: Connection, request: SetWatches) -> None:
        self._tell([(connection, event, OPEN_ACL_UNSAFE) for event in self.tree.set_watches(request, connection)], -1)

    def _add_watch(self, connection: Connection, request: AddWatch) -> None:
        if request.mode not in (AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE):
            raise MarshallingError(request.path)
        recursive = request.mode == AddWatchMode.PERSISTENT_RECURSIVE
        self.tree.watches.watch_persistently(request.path, connection, recursive=recursive)

    def _remove_watches(self, connection: Connection, request: RemoveWatches) -> None:
        _known_kind(request)
        if not self.tree.watches.remove(request.path, connection, request.watcher_type):
            raise NoWatcher(request.path)

    def _check_watches(self, connection: Connection, request: CheckWatches) -> None:
        _known_kind(request)
        if not self.tree.watches.contains(request.path, connection, request.watcher_type):
            raise NoWatcher(request.path)

    # -- Four-letter words ---------------------------------------------------------------------------------------------

    def four_letter_word(self, connection: Connection, word: str) -> None:
        if word.encode() in self.allowed_words:
            text = answer(self, word)
        else:
            text = f"{word} is not executed because it is not in the whitelist.\n"
        connection.send(text.encode())
        connection.close_when_sent()

    @property
    def log_bytes(self) -> int:
        return self._wal.log_bytes


def _known_kind(request: RemoveWatches | CheckWatches) -> None:
    if not WatcherType.CHILDREN <= request.watcher_type <= WatcherType.PERSISTENT_RECURSIVE:
        raise MarshallingError(request.path)


def _missing_directories(disk: Disk, path: str) -> list[str]:
    """`path` and its parents as far as they are not there, outermost first."""
    missing = []
    while path != "/" and not disk.is_dir(path):
        missing.append(path)
        path = parent_of(path)
    return missing[::-1]
