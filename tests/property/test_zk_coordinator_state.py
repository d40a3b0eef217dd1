"""Random operations from several sessions: the tree against a naive model, and against itself after a restart."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.runtime.real import RealDisk
from barnabas.zk.protocol.data import ACL, OpCode
from barnabas.zk.protocol.errors import ZooKeeperError
from barnabas.zk.protocol.jute import INT, encode_buffer
from barnabas.zk.protocol.ops import Check, Create, Delete, Multi, SetACL, SetData, ZkOperation
from barnabas.zk.protocol.session_ops import CloseSession
from barnabas.zk.server.recovery import logged_record, recover
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import WriteAheadLog

PASSWORD = b"p" * 16
SESSIONS = st.integers(1, 3)
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
DATA = st.none() | st.binary(max_size=4)
VERSIONS = st.integers(-1, 2)
ACLS = st.sampled_from(
    [(ACL(31, "world", "anyone"),), (ACL(31, "auth", ""),), (ACL(31, "auth", ""), ACL(31, "world", "anyone"))]
)
IDENTITIES = (("ip", "127.0.0.1"), ("digest", "alice:x="))
PARTS = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans(), st.booleans(), ACLS),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


class Model:
    """ZooKeeper in as few words as can be: copies everything before it tries anything."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes | None, int, int]] = {}  # data, version, owner
        self.creations: dict[str, int] = {}

    def apply(self, parts: list[ZkOperation[Any]], session: int) -> bool:
        nodes, creations = dict(self.nodes), dict(self.creations)
        if not all(self._one(part, session) for part in parts):
            self.nodes, self.creations = nodes, creations
            return False
        return True

    def _one(self, part: ZkOperation[Any], session: int) -> bool:
        path = part.path
        parent = path.rpartition("/")[0]
        if isinstance(part, Create):
            if parent and (parent not in self.nodes or self.nodes[parent][2]):
                return False
            if part.sequential:
                path = f"{path}{self.creations.get(parent, 0):010d}"
            if path in self.nodes:
                return False
            self.nodes[path] = part.data, 0, session if part.ephemeral else 0
            self.creations[parent] = self.creations.get(parent, 0) + 1
            self.creations.pop(path, None)
            return True
        if path not in self.nodes:
            return False
        _, version, owner = self.nodes[path]
        if part.version not in (-1, version):  # type: ignore[attr-defined]
            return False
        if isinstance(part, SetData):
            self.nodes[path] = part.data, version + 1, owner
        elif isinstance(part, Delete):
            if any(other.startswith(path + "/") for other in self.nodes):
                return False
            del self.nodes[path]
        return True


class CoordinatorState(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="barnabas-zk-")
        self.model = Model()
        self.start()

    def start(self) -> None:
        self.tree: DataTree[int] = DataTree()
        self.sessions: Sessions[None] = Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)
        self.log = WriteAheadLog(RealDisk(), self.directory, fsync=False)
        recover(self.log, self.tree, self.sessions, 0)
        for session in (1, 2, 3):
            if session not in self.sessions.live:
                self.open_session(session)

    def open_session(self, session: int) -> None:
        self.sessions.open(session, PASSWORD, 5_000, 0)
        self.tree.last_zxid += 1
        record = INT.pack(5_000) + encode_buffer(PASSWORD)
        self.log.append(self.tree.last_zxid, 0, session, OpCode.CREATE_SESSION, record)
        self.log.commit()

    def write(self, operation: ZkOperation[Any], session: int) -> bool:
        zxid = self.tree.last_zxid + 1
        try:
            self.tree.write(operation, session, IDENTITIES, zxid, zxid * 1000)
        except ZooKeeperError:
            return False
        if self.tree.last_zxid != zxid:
            return False
        record = logged_record(operation, IDENTITIES, operation.encode())
        self.log.append(zxid, zxid * 1000, session, operation.op_code, record)
        self.log.commit()
        return True

    # A check by itself is no request: it is part of a multi.
    @rule(part=PARTS.filter(lambda part: not isinstance(part, Check)), session=SESSIONS)
    def single(self, part: ZkOperation[Any], session: int) -> None:
        assert self.write(part, session) == self.model.apply([part], session)

    @rule(parts=st.lists(PARTS, min_size=1, max_size=4), session=SESSIONS)
    def multi(self, parts: list[ZkOperation[Any]], session: int) -> None:
        assert self.write(Multi(parts), session) == self.model.apply(parts, session)

    @rule(path=PATHS, acl=ACLS)
    def set_acl(self, path: str, acl: tuple[ACL, ...]) -> None:
        assert self.write(SetACL(path, acl), 1) == (path in self.model.nodes)

    @rule(session=SESSIONS)
    def end_session(self, session: int) -> None:
        self.write(CloseSession(), session)
        self.sessions.close(session)
        self.model.nodes = {path: node for path, node in self.model.nodes.items() if node[2] != session}
        self.open_session(session)

    @rule()
    def snapshot(self) -> None:
        self.log.save_snapshot(self.tree.last_zxid, encode_snapshot(self.tree, self.sessions))

    @rule(torn=st.binary(max_size=20))
    def crash_in_the_next_write_and_restart(self, torn: bytes) -> None:
        before = self.seen()
        self.log.close()
        newest = sorted(name for name in RealDisk().listdir(self.directory) if name.startswith("log."))[-1]
        with open(f"{self.directory}/{newest}", "ab") as file:
            file.write(torn)
        self.start()
        assert self.seen() == before

    def seen(self) -> object:
        nodes = {path: (node.data, node.acl, node.stat()) for path, node in self.tree.nodes.items()}
        ephemerals = {owner: sorted(paths) for owner, paths in self.tree.ephemerals.items()}
        return nodes, ephemerals, self.tree.last_zxid, self.tree.data_bytes, sorted(self.sessions.live)

    @invariant()
    def tree_is_the_models(self) -> None:
        mine = {
            path: (node.data, node.version, node.ephemeral_owner)
            for path, node in self.tree.nodes.items()
            if path != "/" and not path.startswith("/zookeeper")
        }
        assert mine == self.model.nodes

    @invariant()
    def books_are_in_order(self) -> None:
        tree = self.tree
        for path, node in tree.nodes.items():
            below = [other for other in tree.nodes if other != "/" and (other.rpartition("/")[0] or "/") == path]
            assert sorted(node.children) == sorted(other.rpartition("/")[2] for other in below)
            assert node.czxid <= node.mzxid <= tree.last_zxid
            assert node.czxid <= node.pzxid <= tree.last_zxid
        owned = {path for path, node in tree.nodes.items() if node.ephemeral_owner}
        assert owned == {path for paths in tree.ephemerals.values() for path in paths}
        assert tree.data_bytes == sum(len(path) + len(node.data or b"") for path, node in tree.nodes.items())

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory)


TestCoordinatorState = CoordinatorState.TestCase
TestCoordinatorState.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
