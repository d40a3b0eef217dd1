"""The embedded coordinator: one ZooKeeper server as its clients see it.

Theory of operation. Everything runs on one event loop, and every request is executed when its bytes arrive; so zxids
have one order, and a session's answers have the order of its requests. Answers and events are collected. At the end of
the loop's turn the transactions of all connections are committed to the write-ahead log together, with one fsync. Only
then answers and events are sent: no client ever learns of a write, its own or another's, that a power loss could still
undo.

A watch event is collected at the moment of the change, so it reaches a client before any answer with the new state. A
failed commit is final: no request of that turn is answered, all connections are dropped, and the server stays down
until its disk is repaired and it is started again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

from barnabas.model.cluster import is_loopback
from barnabas.runtime.descriptors import is_scarce
from barnabas.runtime.doors import Listener, Lock, Runtime
from barnabas.runtime.new_directories import make_directories
from barnabas.runtime.sparing_log import VARYING, SparingLog
from barnabas.runtime.turns import Turns
from barnabas.zk.protocol.acl import permits
from barnabas.zk.protocol.data import NOTIFICATION_XID, OPEN_ACL_UNSAFE, PING_XID, OpCode, ZkPermission
from barnabas.zk.protocol.errors import ZkErrorCode, ZooKeeperError
from barnabas.zk.protocol.frames import (
    ConnectRequest,
    ConnectResponse,
    WatchEvent,
    decode_operation,
    decode_request_header,
    encode_reply,
    framed,
)
from barnabas.zk.protocol.jute import INT, JuteError, encode_buffer
from barnabas.zk.protocol.ops import DeleteContainer, ZkOperation
from barnabas.zk.protocol.session_ops import Auth, CloseSession, Sasl, SetWatches
from barnabas.zk.server.auth import Authentication
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.connection import SecureConnection, ServerConnection
from barnabas.zk.server.four_letter_words import WORDS, answer
from barnabas.zk.server.introductions import Introductions
from barnabas.zk.server.reads import READS
from barnabas.zk.server.recovery import logged_record, recover
from barnabas.zk.server.sessions import Session
from barnabas.zk.server.snapshot import encode_snapshot
from barnabas.zk.server.this_server import ThisServer
from barnabas.zk.server.unsent import UnsentEvents
from barnabas.zk.server.watches import WATCHES_AT_ONCE, Fired

logger = logging.getLogger(__name__)

EXPIRY_CHECK_MIN_MS: Final = 50
WATCHES_MAX: Final = 100_000
"""How many watches all connections may have together, half a kilobyte each; above it the connection with most ends.

ZooKeeper has no such bound.
"""

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


class CoordinatorServer(ThisServer):
    def __init__(
        self,
        runtime: Runtime,
        *,
        host: str,
        port: int | None,
        data_dir: str,
        fsync: bool = True,
        config: CoordinatorConfig | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Without a `port` it listens on the secure one alone. `on_failure` is called once, when a disk failure ends
        the server."""
        config = config or CoordinatorConfig()
        super().__init__(runtime, config, host=host, port=-1 if port is None else port, data_dir=data_dir, fsync=fsync)
        self._speaks_plain = port is not None
        self.fsync = fsync
        words = config.allowed_words
        self.allowed_words = sorted(WORDS) if "*" in words else [word.encode() for word in words]
        self.failure: BaseException | None = None
        self.authentication = Authentication(config)
        self._log_of_strangers = SparingLog(logger, logging.INFO)
        self._introductions = Introductions(config, self.authentication, runtime.entropy, self._log_of_strangers)
        self.turns = Turns()
        self._on_failure = on_failure
        self._listener: Listener | None = None
        self._secure_listener: Listener | None = None
        self._turn_began_ms = 0
        self._lock: Lock | None = None
        self._loop: asyncio.AbstractEventLoop
        self._outgoing: list[ServerConnection] = []
        self.unsent: UnsentEvents[ServerConnection] = UnsentEvents()
        self._flush_is_due = False
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._expiry_due_ms = 0
        self._passing_checked_ms = 0
        self._passing_is_watched = False

    # -- Life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recovers the state and listens. Raises ``OSError`` (port in use, directory not writable or in use)."""
        self._loop = asyncio.get_running_loop()
        disk = self.runtime.disk
        make_directories(disk, self.data_dir)
        try:
            self._lock = disk.lock(f"{self.data_dir}/.lock")
        except BlockingIOError:
            raise OSError(
                errno.EBUSY, "another coordinator is using this directory; stop it or choose another one", self.data_dir
            ) from None
        try:
            recover(self.wal, self.tree, self.sessions, self.monotonic_ms())
            self.tree.extended_types = self.config.extended_types
            if not self.fsync:
                logger.warning("fsync is off: a power loss may cost the last acknowledged writes")
            await self._listen()
        except BaseException:
            self._stop_listening()
            self.wal.close()
            self._lock.release()
            self._lock = None
            raise
        self._passing_checked_ms = self.monotonic_ms()
        self._watch_the_clock()
        if self._speaks_plain and not (is_loopback(self.host) or self.config.sasl_required):
            logger.warning(
                "%s:%d can be reached over the network, and nothing protects it: whoever does may write any znode that "
                "has no ACL, such as /controller",
                self.host,
                self.port,
            )
        logger.info(
            "the coordinator listens on %s:%d, %d znodes and %d sessions at zxid %#x",
            self.host,
            self.port if self._speaks_plain else self.secure_port,
            len(self.tree.nodes),
            len(self.sessions),
            self.tree.last_zxid,
        )

    async def _listen(self) -> None:
        listen = self.runtime.network.listen
        if self._speaks_plain:
            self._listener = await listen(lambda: ServerConnection(self), self.host, self.port)
            self.port = self._listener.port
        if self.config.key_store:
            from barnabas.runtime.tls_transport import TlsTransport
            from barnabas.security.tls.settings import TlsSettings
            from barnabas.security.tls.stores import Store

            config = self.config
            context = TlsSettings(
                Store(config.key_store, "ssl.keyStore.location", password=config.key_store_password),
                Store(config.trust_store, "ssl.trustStore.location", password=config.trust_store_password)
                if config.trust_store
                else None,
                client_auth={"want": "requested", "need": "required"}.get(config.client_auth, "none"),
            ).server_context()
            self._secure_listener = await listen(
                lambda: TlsTransport(SecureConnection(self), context, self.runtime.clock), self.host, self.secure_port
            )
            self.secure_port = self._secure_listener.port

    @property
    def _listens(self) -> bool:
        return self._listener is not None or self._secure_listener is not None

    def _stop_listening(self) -> None:
        for listener in (self._listener, self._secure_listener):
            if listener is not None:
                listener.close()
        self._listener = self._secure_listener = None

    async def close(self) -> None:
        """Commits, answers all requests that are done, and saves a snapshot, which keeps the sessions."""
        if not self._listens:
            return
        self._stop_listening()
        self._stop_the_clock()
        self._flush()
        for connection in list(self.connections):
            connection.closing = True
            if connection.transport is not None:
                connection.transport.close()
        if self.failure is None and self.wal.appended_since_snapshot:
            try:
                self._save_snapshot()
            except OSError as error:
                # The log has every answered transaction; without the snapshot the next start only reads more of it.
                logger.warning("the coordinator ends without a snapshot: %s", error)
        self.wal.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _fail(self, error: OSError) -> None:
        """A write to the log failed: whether a transaction is on disk is unknown, so nothing more may be answered."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("the coordinator stops: its log in %s cannot be written: %s", self.data_dir, error)
        self._stop_listening()
        self._stop_the_clock()
        for connection in list(self.connections):
            connection.abort()
        if self._on_failure is not None:
            self._on_failure(error)

    # -- The turn ------------------------------------------------------------------------------------------------------

    def has_output(self, connection: ServerConnection) -> None:
        self._outgoing.append(connection)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._turn_began_ms = self.monotonic_ms()
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self.failure is not None:
            return
        try:
            self.wal.commit()
        except OSError as error:
            self._fail(error)
            return
        outgoing, self._outgoing = self._outgoing, []
        latency_ms = self.monotonic_ms() - self._turn_began_ms
        answered = 0
        for connection in outgoing:
            before = connection.latency.count
            connection.flush(latency_ms)
            answered += connection.latency.count - before
        self.latency.add(answered, latency_ms)
        if (self.tree.containers or self.tree.ttls) and not self._passing_is_watched:
            self._watch_the_clock()
        config = self.config
        if (
            self.wal.appended_since_snapshot >= max(config.transactions_between_snapshots, len(self.tree.nodes))
            or self.wal.log_bytes >= config.log_bytes_between_snapshots + 2 * self.tree.data_bytes
        ):
            try:
                self._save_snapshot()
            except OSError as error:
                self._fail(error)

    def _log(self, zxid: int, wall_clock_ms: int, session_id: int, op_code: int, record: bytes) -> None:
        """Logs a transaction, which is committed at the end of this turn."""
        self.wal.append(zxid, wall_clock_ms, session_id, op_code, record)
        self._flush_soon()

    def _save_snapshot(self) -> None:
        self.wal.save_snapshot(self.tree.last_zxid, encode_snapshot(self.tree, self.sessions))

    def _tell(self, fired: Sequence[Fired[ServerConnection]], zxid: int) -> None:
        """Sends the watch events of transaction `zxid`; -1 for events that a returning client has missed."""
        given_up, self.tree.watches.given_up = self.tree.watches.given_up, []
        for connection in given_up:
            connection.drop("a transaction has more events than are told to those who watch persistently")
        told: WatchEvent | None = None
        frame = b""
        for connection, event, acl in fired:
            if event is not told:
                frame = encode_reply(NOTIFICATION_XID, zxid, 0, event.encode())
                told = event
            if not connection.closing and permits(acl, ZkPermission.READ, connection.identities):
                connection.send(frame)

    # -- Connections and sessions --------------------------------------------------------------------------------------

    def connected(self, connection: ServerConnection) -> None:
        connection.identities.append(("ip", connection.host))
        if not self._listens or self.failure is not None:
            connection.abort()
            return
        limit = self.config.max_client_connections
        if limit and sum(1 for other in self.connections if other.host == connection.host) >= limit:
            connection.drop(f"{connection.host} has {limit} connections already")
            return
        if connection.transport is not None and is_scarce(connection.transport):
            connection.drop("file descriptors run short (raise `ulimit -n`)")
            return
        self.connections[connection] = None
        connection.established_ms = self.runtime.clock.now_ms()
        connection.await_introduction(self._loop)

    def certified(self, connection: ServerConnection, certificate: bytes) -> None:
        """TLS has verified the client's certificate (DER)."""
        connection.identities += self.authentication.certificate(certificate)

    def note_closing(self, connection: ServerConnection, reason: str) -> None:
        """Logs why the server ends a connection, at most once a minute for each kind of reason."""
        self._log_of_strangers.log(VARYING.sub("", reason), "connection from %s closed: %s", connection.peer, reason)

    def disconnected(self, connection: ServerConnection) -> None:
        self.unsent.note(connection, 0)
        self.connections.pop(connection, None)
        self.packets_received += connection.received
        self.packets_sent += connection.sent
        connection.is_introduced()
        self._forget_watches(self.tree.watches.forgetting(connection))
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection = None

    def handshake(self, connection: ServerConnection, frame: bytes, now_ms: int) -> None:
        request = ConnectRequest.decode(frame)
        if request.last_zxid_seen > self.tree.last_zxid:
            connection.drop(
                f"it has seen zxid {request.last_zxid_seen:#x} and this server is at {self.tree.last_zxid:#x}: "
                "it belongs to another ensemble, or this one lost its data"
            )
            return
        if not self.config.sasl_required:
            connection.is_introduced()
        # Clients that accept a read-only server learn that this is none; the oldest clients do not know the field.
        read_only = None if request.read_only is None else False
        session: Session[ServerConnection] | None
        if request.session_id == 0:
            session = self._open_session(request, now_ms)
        else:
            session = self.sessions.reopen(request.session_id, request.password, request.timeout_ms, now_ms)
        if session is None:
            response = ConnectResponse(0, 0, bytes(16), read_only)
            connection.send(framed(response.encode()))
            connection.close_when_sent()
            return
        before = session.connection
        if before is not None:
            # The client has a new connection: the old one is dead, even if the server has not noticed.
            before.drop(f"session {session.id:#x} goes on over {connection.peer}")
            self._forget_watches(self.tree.watches.forgetting(before))
            before.session = None
        session.connection = connection
        connection.session = session
        if self._expiry_timer is None or session.expires_ms < self._expiry_due_ms:
            self._watch_the_clock()
        response = ConnectResponse(session.timeout_ms, session.id, session.password, read_only)
        connection.send(framed(response.encode()))

    def _open_session(self, request: ConnectRequest, now_ms: int) -> Session[ServerConnection]:
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
        self._log(zxid, wall_clock_ms, session.id, OpCode.CREATE_SESSION, record)
        return session

    def _end_session(self, session: Session[ServerConnection]) -> int:
        """Ends the session and deletes its ephemerals, under one zxid, which is returned."""
        self.sessions.close(session.id)
        zxid = self.tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        _, fired = self.tree.write(CloseSession(), session.id, (), zxid, wall_clock_ms)
        self._log(zxid, wall_clock_ms, session.id, OpCode.CLOSE_SESSION, b"")
        if session.connection is not None:
            self._forget_watches(self.tree.watches.forgetting(session.connection))
        self._tell(fired, zxid)
        return zxid

    def _forget_watches(self, work: Iterator[None], turn: object = None) -> None:
        """Does `work` one slice per turn: one connection may have a hundred thousand watches."""
        for _ in work:
            self.turns.next().add_done_callback(partial(self._forget_watches, work))
            return

    def _stop_the_clock(self) -> None:
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None

    def _watch_the_clock(self) -> None:
        """Sets the timer for the next expiry of a session."""
        self._stop_the_clock()
        due_ms = self.sessions.next_expiry_ms()
        self._passing_is_watched = bool(self.tree.containers or self.tree.ttls)
        if self._passing_is_watched:
            next_check_ms = self._passing_checked_ms + self.config.container_check_ms
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
        if late_ms > self.config.tick_ms // 4:
            # This process was paused, and the clients' pings wait unread: sessions of live clients would expire.
            logger.warning("the coordinator stood still for %d ms; sessions get that time back", late_ms)
            self.sessions.forgive(late_ms)
        for session in self.sessions.expired(now_ms):
            if session.connection is not None and session.connection.waits_for_turn:
                continue  # its pings wait unread for this connection's turn
            logger.info("session %#x expires after %d ms of silence", session.id, now_ms - session.heard_ms)
            self._end_session(session)
            if session.connection is not None:
                session.connection.drop(f"session {session.id:#x} has expired")
        if now_ms - self._passing_checked_ms >= self.config.container_check_ms:
            self._passing_checked_ms = now_ms
            for path in self.tree.outlived(self.runtime.clock.now_ms()):
                self._delete_outlived(path)
        self._watch_the_clock()

    def _delete_outlived(self, path: str) -> None:
        operation = DeleteContainer(path)
        zxid = self.tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        _, fired = self.tree.write(operation, 0, (), zxid, wall_clock_ms)
        self._log(zxid, wall_clock_ms, 0, OpCode.DELETE_CONTAINER, operation.encode())
        self._tell(fired, zxid)

    # -- Requests ------------------------------------------------------------------------------------------------------

    def request(self, connection: ServerConnection, frame: bytes) -> None:
        xid, op_code = decode_request_header(frame)
        connection.last_xid, connection.last_op_code = xid, op_code
        if op_code == _PING:
            connection.send(encode_reply(PING_XID, self.tree.last_zxid, 0))
            return
        if self.config.sasl_required and not self._introductions.allows(connection, op_code):
            connection.send(encode_reply(xid, 0, ZkErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH))
            connection.close_when_sent()
            return
        try:
            operation = decode_operation(op_code, frame, 8)
        except JuteError as error:
            self._log_of_strangers.log(
                op_code, "a request of %s with op code %d is damaged: %s", connection.peer, op_code, error
            )
            connection.send(encode_reply(xid, self.tree.last_zxid, ZkErrorCode.MARSHALLING_ERROR))
            return
        try:
            if op_code in _WRITES:
                self._write(connection, xid, op_code, cast("ZkOperation[Any]", operation), frame)
            elif op_code == OpCode.RECONFIG:
                raise ZooKeeperError(ZkErrorCode.RECONFIG_DISABLED)
            elif operation is None:
                # As ZooKeeper, the server reports the error and closes the connection.
                self._log_of_strangers.log("op code", "%s sent the unknown op code %d", connection.peer, op_code)
                connection.send(encode_reply(xid, self.tree.last_zxid, ZkErrorCode.UNIMPLEMENTED))
                connection.close_when_sent()
            elif type(operation) is Auth:
                self._introductions.authenticate(connection, xid, operation)
            elif type(operation) is Sasl:
                self._introductions.sasl(connection, xid, operation)
            elif type(operation) is SetWatches:
                connection.do_in_turns(self._set_watches(connection, xid, operation))
            elif type(operation) is CloseSession:
                assert connection.session is not None
                zxid = self._end_session(connection.session)
                connection.send(encode_reply(xid, zxid, 0))
                connection.close_when_sent()
            else:
                result = READS[type(operation)](self.tree, connection, operation)
                connection.send(encode_reply(xid, self.tree.last_zxid, 0, operation.encode_result(result)))
        except ZooKeeperError as error:
            connection.send(encode_reply(xid, self.tree.last_zxid, error.code))
        if self.tree.watches.noted > WATCHES_MAX:
            self._end_most_watchful()

    def _end_most_watchful(self) -> None:
        self.tree.watches.most_watchful().drop(f"all clients together watch more than {WATCHES_MAX} znodes")

    def _write(
        self, connection: ServerConnection, xid: int, op_code: int, operation: ZkOperation[Any], frame: bytes
    ) -> None:
        session = connection.session
        assert session is not None
        tree = self.tree
        zxid = tree.last_zxid + 1
        wall_clock_ms = self.runtime.clock.now_ms()
        identities = connection.identities
        result, fired = tree.write(operation, session.id, identities, zxid, wall_clock_ms)
        if tree.last_zxid == zxid:
            self._log(zxid, wall_clock_ms, session.id, op_code, logged_record(operation, identities, frame[8:]))
            if fired:
                self._tell(fired, zxid)
        connection.send(encode_reply(xid, tree.last_zxid, 0, operation.encode_result(result)))

    def _set_watches(self, connection: ServerConnection, xid: int, request: SetWatches) -> Iterator[None]:
        missed: list[Fired[ServerConnection]] = []
        for number, event in enumerate(self.tree.set_watches(request, connection), 1):
            if event is not None:
                missed.append((connection, event, OPEN_ACL_UNSAFE))
            if number % WATCHES_AT_ONCE == 0:
                self._tell(missed, -1)
                missed.clear()
                if self.tree.watches.noted > WATCHES_MAX:
                    self._end_most_watchful()
                yield
        self._tell(missed, -1)
        connection.send(encode_reply(xid, self.tree.last_zxid, 0))

    # -- Four-letter words ---------------------------------------------------------------------------------------------

    def four_letter_word(self, connection: ServerConnection, word: bytes) -> bool:
        """Whether `word` is a four-letter word. It is answered in a turn of its own: some answers list all znodes."""
        if word not in WORDS:
            return False
        self.turns.next().add_done_callback(partial(self._say, connection, word))
        return True

    def _say(self, connection: ServerConnection, word: bytes, turn: object) -> None:
        if connection.closing:
            return
        if word in self.allowed_words:
            text = answer(self, word.decode())
        else:
            text = f"{word.decode()} is not executed because it is not in the whitelist.\n"
        connection.send(text.encode())
        connection.close_when_sent()


__all__ = ["CoordinatorServer", "ServerConnection"]
