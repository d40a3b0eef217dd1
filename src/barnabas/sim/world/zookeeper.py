"""The simulated ensemble: the product's own coordinator as one logical server, with the effects of several.

An ensemble has several front ends. One may be behind: its clients then read an older state, and their watches fire
late, until they ask for `sync`. A client always sees its own writes, because its front end answers only when it has
applied them. `FrontEnd` is such a server for the clients of one node. Sessions end by the server's decision alone;
their ephemeral znodes may be deleted late; a connection may break with its request done or not; a session may be
refused as not authenticated. Every transaction is told to `on_commit`, by which the checkers watch ZooKeeper.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final

from barnabas.runtime.doors import Listener, Network, Runtime
from barnabas.zk.protocol.acl import Identity
from barnabas.zk.protocol.data import AUTH_XID, NOTIFICATION_XID, OpCode
from barnabas.zk.protocol.errors import ZkErrorCode
from barnabas.zk.protocol.frames import decode_request_header, encode_reply
from barnabas.zk.protocol.ops import ZkOperation
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.server import CoordinatorServer, ServerConnection
from barnabas.zk.server.sessions import Session
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.watches import Watches

MS: Final = 1_000_000
_READS: Final = frozenset(
    int(code)
    for code in (
        OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2, OpCode.GET_ACL, OpCode.SET_WATCHES,
        OpCode.SET_WATCHES2, OpCode.MULTI_READ, OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER,
        OpCode.ADD_WATCH,
    )
)  # fmt: skip
_WRITES: Final = frozenset(
    int(code)
    for code in (
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.MULTI,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
    )
)

OnCommit = Callable[[ZkOperation[Any], int, Any, int], None]
"""Called with every committed transaction: the operation, the session, its result, the zxid."""


class CommittedTree(DataTree[ServerConnection]):
    """The ensemble's tree; its writes are told to the front ends and to `on_commit`."""

    def __init__(self) -> None:
        super().__init__()
        self.front_ends: dict[str, FrontEnd] = {}
        self.on_commit: OnCommit | None = None

    def write(
        self, operation: ZkOperation[Any], session_id: int, identities: Sequence[Identity], zxid: int, now_ms: int
    ) -> tuple[Any, list[Any]]:
        before = self.last_zxid
        result, fired = super().write(operation, session_id, identities, zxid, now_ms)
        if self.last_zxid != before and self.on_commit is not None:
            for front_end in self.front_ends.values():
                front_end.learn(operation, session_id, tuple(identities), zxid, now_ms)
            self.on_commit(operation, session_id, result, zxid)
        return result, fired


class FrontEnd:
    """A server of the ensemble that is `lag_ms` behind, for the clients of one node."""

    def __init__(self, ensemble: Ensemble, lag_ms: int) -> None:
        self.ensemble = ensemble
        self.lag_ms = lag_ms
        self.stale_reads = 0
        watches, ensemble.committed.watches = ensemble.committed.watches, Watches()
        on_commit, ensemble.committed.on_commit = ensemble.committed.on_commit, None
        front_ends, ensemble.committed.front_ends = ensemble.committed.front_ends, {}
        copied = copy.deepcopy(ensemble.committed)
        ensemble.committed.watches, ensemble.committed.on_commit = watches, on_commit
        ensemble.committed.front_ends = front_ends
        self.tree: DataTree[ServerConnection] = copied
        self._backlog: deque[tuple[ZkOperation[Any], int, tuple[Identity, ...], int, int]] = deque()
        self._answers: deque[tuple[int, ServerConnection, bytes]] = deque()
        """Answers that wait until the transaction is applied here."""
        self._due: dict[ServerConnection, int] = {}
        """By connection: how many answers wait."""
        self._requests: dict[ServerConnection, deque[bytes]] = {}
        """Requests that wait for the answers to earlier ones."""

    def learn(
        self, operation: ZkOperation[Any], session_id: int, identities: tuple[Identity, ...], zxid: int, now_ms: int
    ) -> None:
        self._backlog.append((operation, session_id, identities, zxid, now_ms))
        self.ensemble.later(self.lag_ms, self.apply_up_to, zxid)

    def apply_up_to(self, zxid: int) -> None:
        while self._backlog and self._backlog[0][3] <= zxid:
            operation, session_id, identities, at_zxid, now_ms = self._backlog.popleft()
            _, fired = self.tree.write(operation, session_id, identities, at_zxid, now_ms)
            for connection, event, _ in fired:
                if not connection.closing:
                    connection.send(encode_reply(NOTIFICATION_XID, at_zxid, 0, event.encode()))
        while self._answers and self._answers[0][0] <= zxid:
            _, connection, frame = self._answers.popleft()
            self._due[connection] -= 1
            if not connection.closing:
                connection.send(frame)
            requests = self._requests.get(connection)
            while requests and not self._due[connection] and not connection.closing:
                self.ensemble.request(connection, requests.popleft())

    def postponed(self, connection: ServerConnection, frame: bytes) -> bool:
        """Whether the request has to wait for answers to earlier requests; it is then carried out after them."""
        if not self._due.get(connection):
            return False
        self._requests.setdefault(connection, deque()).append(frame)
        return True

    def answer(self, connection: ServerConnection, frame: bytes) -> None:
        """Sends `frame` when everything committed by now is applied here."""
        if not self._backlog and not self._answers:
            connection.send(frame)
            return
        zxid = max(self.ensemble.committed.last_zxid, self._answers[-1][0] if self._answers else 0)
        self._due[connection] = self._due.get(connection, 0) + 1
        self._answers.append((zxid, connection, frame))
        self.ensemble.later(self.lag_ms, self.apply_up_to, zxid)


class CollectedConnection(ServerConnection):
    """A connection whose answers can be collected and sent later."""

    __slots__ = ("answers",)

    def __init__(self, server: CoordinatorServer) -> None:
        super().__init__(server)
        self.answers: list[bytes] | None = None

    def send(self, frame: bytes) -> None:
        if self.answers is not None:
            self.answers.append(frame)
        else:
            super().send(frame)


class _Door:
    """The coordinator's network, whose connections are `CollectedConnection`s."""

    def __init__(self, network: Network, ensemble: Ensemble) -> None:
        self._network = network
        self._ensemble = ensemble
        self.connect = network.connect
        self.address_of = network.address_of

    async def listen(self, protocol_factory: object, host: str, port: int, *, tls: Any = None) -> Listener:
        return await self._network.listen(lambda: CollectedConnection(self._ensemble), host, port, tls=tls)


class Ensemble(CoordinatorServer):
    """The coordinator, with an ensemble's faults. Nodes are told apart by their host names."""

    def __init__(
        self, runtime: Runtime, *, host: str, port: int, data_dir: str, config: CoordinatorConfig | None = None
    ) -> None:
        door = replace(runtime, network=_Door(runtime.network, self))
        super().__init__(door, host=host, port=port, data_dir=data_dir, config=config)
        self.committed = CommittedTree()
        self.tree = self.committed
        self.lose_requests: dict[str, list[bool]] = {}
        """By node: its next writes break their connection, with the write done (True) or not."""
        self.refuse_sessions: dict[str, None] = {}
        self.ephemerals_late_ms = 0
        self._ending_late: dict[int, Session[ServerConnection]] = {}
        self.struck = {"zk-loss": 0, "zk-expire": 0, "zk-stale": 0, "zk-late": 0, "zk-auth-fail": 0}
        self.session_nodes: dict[int, str] = {}
        self._process = copy_context()

    def inherit(self, before: Ensemble) -> None:
        """Takes over from the former process what is remembered of clients."""
        self.session_nodes = before.session_nodes
        self.struck = before.struck
        self.ephemerals_late_ms = before.ephemerals_late_ms
        self.refuse_sessions = before.refuse_sessions

    def later(self, delay_ms: int, callback: Callable[..., object], *arguments: Any) -> None:
        """Runs a callback in the ensemble's own process, which may be dead by then, and not in that of the fault."""
        self._loop.call_later(delay_ms / 1000, callback, *arguments, context=self._process)

    def node_of(self, connection: ServerConnection) -> str:
        return str(connection.identities[0][1])

    # Faults

    def expire(self, node: str) -> int:
        """Ends the node's sessions, as if it had been silent."""
        ended = [owned for owned in self.sessions.live.values() if self.session_nodes.get(owned.id) == node]
        for session in ended:
            self._end_session(session)
            if session.connection is not None:
                session.connection.drop("expired by decree")
        self.struck["zk-expire"] += len(ended)
        return len(ended)

    def fall_behind(self, node: str, lag_ms: int) -> None:
        """From now on the node is served by a front end that is behind."""
        if node in self.committed.front_ends:
            return
        self._drop_connections(node)
        self.committed.front_ends[node] = FrontEnd(self, lag_ms)

    def catch_up(self, node: str) -> None:
        front_end = self.committed.front_ends.pop(node, None)
        if front_end is not None:
            front_end.apply_up_to(1 << 62)
            self.struck["zk-stale"] += front_end.stale_reads
            self._drop_connections(node)

    def _drop_connections(self, node: str) -> None:
        for connection in list(self.connections):
            if self.node_of(connection) == node:
                connection.drop("its server is gone")

    # The server

    def disconnected(self, connection: ServerConnection) -> None:
        super().disconnected(connection)
        for front_end in self.committed.front_ends.values():
            front_end.tree.watches.forget(connection)

    def handshake(self, connection: ServerConnection, frame: bytes, now_ms: int) -> None:
        node = self.node_of(connection)
        if node in self.refuse_sessions:
            self.struck["zk-auth-fail"] += 1
            super().handshake(connection, frame, now_ms)
            if connection.session is not None:
                connection.send(encode_reply(AUTH_XID, 0, ZkErrorCode.AUTH_FAILED))
                connection.close_when_sent()
            return
        super().handshake(connection, frame, now_ms)
        if connection.session is not None:
            self.session_nodes[connection.session.id] = node

    def _end_session(self, session: Session[ServerConnection]) -> int:
        if not self.ephemerals_late_ms:
            return super()._end_session(session)
        # The client is told at its next connect that the session is over, while its znodes are still there.
        self.struck["zk-late"] += 1
        self.sessions.close(session.id)
        self._ending_late[session.id] = session
        self.later(self.ephemerals_late_ms, self._end_late, session)
        return self.tree.last_zxid

    def _end_late(self, session: Session[ServerConnection]) -> None:
        if self.failure is None:
            del self._ending_late[session.id]
            super()._end_session(session)

    def _save_snapshot(self) -> None:
        """Includes sessions that are over for their clients only: after a crash nothing else would delete their
        znodes."""
        live = self.sessions.live
        self.sessions.live = {**live, **self._ending_late}
        try:
            super()._save_snapshot()
        finally:
            self.sessions.live = live

    def request(self, connection: ServerConnection, frame: bytes) -> None:
        _, op_code = decode_request_header(frame) if len(frame) >= 8 else (0, 0)
        node = self.node_of(connection)
        losses = self.lose_requests.get(node)
        if losses and op_code in _WRITES:
            applied = losses.pop(0)
            self.struck["zk-loss"] += 1
            if applied:
                super().request(connection, frame)
            connection.drop("lost")
            return
        front_end = self.committed.front_ends.get(node)
        if front_end is None:
            super().request(connection, frame)
        elif not front_end.postponed(connection, frame):
            self._request_behind(front_end, connection, op_code, frame)

    def _request_behind(self, front_end: FrontEnd, connection: ServerConnection, op_code: int, frame: bytes) -> None:
        if op_code in _READS:
            front_end.stale_reads += front_end.tree.last_zxid < self.committed.last_zxid
            self.tree = front_end.tree
            try:
                super().request(connection, frame)
            finally:
                self.tree = self.committed
            return
        assert isinstance(connection, CollectedConnection)
        answers: list[bytes] = []
        connection.answers = answers
        try:
            super().request(connection, frame)
        finally:
            connection.answers = None
        for answer in answers:
            front_end.answer(connection, answer)
