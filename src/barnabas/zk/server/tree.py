"""The data tree: every znode, its Stat, its ACLs, and the sessions' ephemeral znodes. Pure: no clock, no I/O.

`write` does one operation under a zxid and a time that the caller gives, and returns the watches that it fired. It
either does the whole operation or raises a `ZooKeeperError` and leaves the tree unchanged. Recovery calls the same
`write` with the operations in the log, so it repeats them exactly.

Versions count as ZooKeeper's do. A znode keeps the number of children ever created below it (`creations`): it is the
number of the next sequential child, and the Stat's cversion, which counts deletions as well, is twice that number
less the number of children there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.zk.protocol import acl as acls
from barnabas.zk.protocol.acl import Identity
from barnabas.zk.protocol.data import (
    ANY_VERSION,
    CONTAINER_OWNER,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    TTL_MS_MAX,
    TTL_OWNER,
    ACLs,
    EventType,
    KeeperState,
    Stat,
    ZkPermission,
    is_session,
    ttl_of,
)
from barnabas.zk.protocol.errors import (
    BadArguments,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    RuntimeInconsistency,
    Unimplemented,
    ZkErrorCode,
    ZooKeeperError,
)
from barnabas.zk.protocol.frames import WatchEvent
from barnabas.zk.protocol.ops import Check, Create, Delete, DeleteContainer, Multi, SetACL, SetData, ZkOperation
from barnabas.zk.protocol.paths import is_valid_path, parent_of
from barnabas.zk.protocol.session_ops import CloseSession, SetWatches
from barnabas.zk.server.watches import EVENTS_MAX, Fired, Watches

W = TypeVar("W", bound=Hashable)

_UNDELETABLE: Final = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")

Undo: TypeAlias = Callable[[], None]
Change: TypeAlias = "tuple[Callable[[str, ACLs, ACLs, list[Fired[W]]], None], str, ACLs, ACLs]"
"""The watches to fire when the whole operation has succeeded, with the ACLs of the znode and of its parent."""


class TreeWrite(NamedTuple):
    """One write: its session, its zxid and time, and its resulting `Change`s."""

    session_id: int
    identities: Sequence[Identity]
    zxid: int
    now_ms: int
    changes: list[Any]


def _wrapped(number: int) -> int:
    """Wraps to a signed 32-bit number, as ZooKeeper's versions and sequence numbers do."""
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Znode:
    __slots__ = (
        "acl",
        "aversion",
        "children",
        "creations",
        "ctime",
        "czxid",
        "data",
        "ephemeral_owner",
        "mtime",
        "mzxid",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: ACLs, ephemeral_owner: int, zxid: int, now_ms: int) -> None:
        self.data = data
        self.acl = acl
        self.ephemeral_owner = ephemeral_owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = 0
        self.aversion = 0
        self.creations = 0
        self.children: dict[str, None] = {}

    def stat(self) -> Stat:
        children = len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            _wrapped(self.creations * 2 - children),
            self.aversion,
            self.ephemeral_owner if is_session(self.ephemeral_owner) else 0,
            0 if self.data is None else len(self.data),
            children,
            self.pzxid,
        )


def _checked(current: int, expected: int, path: str) -> int:
    """The next version. Raises `BadVersion` if the current one is not the expected."""
    if expected not in (ANY_VERSION, current):
        raise BadVersion(path)
    return _wrapped(current + 1)


class DataTree(Generic[W]):
    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttls: dict[str, None] = {}
        """Znodes with a time to live."""
        self.extended_types = True
        """Whether such znodes may be created (``extendedTypesEnabled``); those of a log or snapshot are kept anyway."""
        self.watches: Watches[W] = Watches()
        self.last_zxid = 0
        self.data_bytes = 0
        for path in _UNDELETABLE:
            acl = READ_ACL_UNSAFE if path == "/zookeeper/config" else OPEN_ACL_UNSAFE
            self.nodes[path] = Znode(b"", acl, 0, 0, 0)
            self.data_bytes += len(path)
            if path == "/zookeeper/config":
                self.nodes[path].aversion = -1  # as in ZooKeeper, which sets its ACL with this version
            if path != "/":
                self.nodes[parent_of(path)].children[path.rpartition("/")[2]] = None
        self._writes: dict[type, Callable[[Any, TreeWrite], tuple[Any, Undo]]] = {
            Create: self._create,
            Delete: self._delete,
            DeleteContainer: self._delete_container,
            SetData: self._set_data,
            Check: self._check,
            SetACL: self._set_acl,
        }

    # -- Reads ---------------------------------------------------------------------------------------------------------

    def node(self, path: str) -> Znode:
        node = self.nodes.get(path or "/")  # as in ZooKeeper, a read takes the empty path for the root
        if node is None:
            raise NoNode(path)
        return node

    def readable(self, path: str, identities: Sequence[Identity], permission: int = ZkPermission.READ) -> Znode:
        node = self.node(path)
        if node.acl is not OPEN_ACL_UNSAFE:
            acls.check(node.acl, permission, identities, path)
        return node

    def exists(self, path: str, identities: Sequence[Identity] = (), watcher: W | None = None) -> Stat:
        """Sets the watch whether or not the znode exists; a client that may not read does not learn even that."""
        if "\0" in path:
            raise BadArguments(path)
        node = self.nodes.get(path or "/")
        if node is not None:
            acls.check(node.acl, ZkPermission.READ, identities, path)
        if watcher is not None:
            self.watches.watch_data(path, watcher)
        return self.node(path).stat()

    def get_data(
        self, path: str, identities: Sequence[Identity] = (), watcher: W | None = None
    ) -> tuple[bytes | None, Stat]:
        node = self.readable(path, identities)
        if watcher is not None:
            self.watches.watch_data(path, watcher)
        return node.data, node.stat()

    def get_children(
        self, path: str, identities: Sequence[Identity] = (), watcher: W | None = None
    ) -> tuple[list[str], Stat]:
        node = self.readable(path, identities)
        if watcher is not None:
            self.watches.watch_children(path, watcher)
        return list(node.children), node.stat()

    def get_acl(self, path: str, identities: Sequence[Identity] = ()) -> tuple[ACLs, Stat]:
        node = self.readable(path, identities, ZkPermission.READ | ZkPermission.ADMIN)
        return acls.masked(node.acl, identities), node.stat()

    def count_below(self, path: str, identities: Sequence[Identity] = ()) -> int:
        self.readable(path, identities)
        if path == "/":
            return len(self.nodes) - 1
        prefix = path + "/"
        return sum(1 for other in self.nodes if other.startswith(prefix))

    def ephemerals_of(self, session_id: int, prefix: str = "/") -> list[str]:
        return [path for path in self.ephemerals.get(session_id, ()) if path.startswith(prefix)]

    def set_watches(self, request: SetWatches, watcher: W) -> Iterator[WatchEvent | None]:
        """Sets the watches of a reconnected client, one at each step; yields a missed event since `relative_zxid`."""
        state = int(KeeperState.SYNC_CONNECTED)
        for path in request.data_watches:
            node = self.nodes.get(path or "/")
            if node is None:
                yield WatchEvent(EventType.NODE_DELETED, state, path)
            elif node.mzxid > request.relative_zxid:
                yield WatchEvent(EventType.NODE_DATA_CHANGED, state, path)
            else:
                self.watches.watch_data(path, watcher)
                yield None
        for path in request.exist_watches:
            if (path or "/") in self.nodes:
                yield WatchEvent(EventType.NODE_CREATED, state, path)
            else:
                self.watches.watch_data(path, watcher)
                yield None
        for path in request.child_watches:
            node = self.nodes.get(path or "/")
            if node is None:
                yield WatchEvent(EventType.NODE_DELETED, state, path)
            elif node.pzxid > request.relative_zxid:
                yield WatchEvent(EventType.NODE_CHILDREN_CHANGED, state, path)
            else:
                self.watches.watch_children(path, watcher)
                yield None
        for path in request.persistent_watches or ():
            self.watches.watch_persistently(path, watcher, recursive=False)
            yield None
        for path in request.persistent_recursive_watches or ():
            self.watches.watch_persistently(path, watcher, recursive=True)
            yield None

    # -- Writes --------------------------------------------------------------------------------------------------------

    def write(
        self,
        operation: ZkOperation[Any],
        session_id: int,
        identities: Sequence[Identity],
        zxid: int,
        now_ms: int,
    ) -> tuple[Any, list[Fired[W]]]:
        """Does `operation` as transaction `zxid`; returns its result, and the watches it fired, in order.

        A failed `Multi` returns a list of errors, with no exception; it changes nothing, not even `last_zxid`.
        """
        assert zxid > self.last_zxid, f"zxid {zxid} after {self.last_zxid}"
        write = TreeWrite(session_id, identities, zxid, now_ms, [])
        result: Any
        if type(operation) is Multi:
            result = self._multi(operation, write)
            if result and isinstance(result[-1], ZooKeeperError):
                return result, []
        elif type(operation) is CloseSession:
            result = None
            self._close_session(write)
        else:
            result, _ = self._writes[type(operation)](operation, write)
        self.last_zxid = zxid
        fired: list[Fired[W]] = []
        for tell, path, acl, parent_acl in write.changes:
            tell(path, acl, parent_acl, fired)
            if len(fired) > EVENTS_MAX:
                self.watches.give_up_persistent()
        return result, fired

    def _multi(self, multi: Multi, write: TreeWrite) -> list[Any]:
        results: list[Any] = []
        undo: list[Undo] = []
        try:
            for operation in multi.operations:
                result, back = self._writes[type(operation)](operation, write)
                results.append(result)
                undo.append(back)
        except ZooKeeperError as error:
            for back in reversed(undo):
                back()
            done = len(results)
            return [
                *(ZooKeeperError(ZkErrorCode.OK, operation.path) for operation in multi.operations[:done]),
                error,
                *(RuntimeInconsistency(operation.path) for operation in multi.operations[done + 1 :]),
            ]
        return results

    def _create(self, operation: Create, write: TreeWrite) -> tuple[str | tuple[str, Stat], Undo]:
        path = operation.path
        if operation.ttl_ms is not None:
            if operation.ttl_ms >= 0 and not self.extended_types:
                raise Unimplemented(path)
            if not 0 < operation.ttl_ms <= TTL_MS_MAX:
                raise BadArguments(path)
        slash = path.rfind("/")
        if slash == -1 or "\0" in path:
            raise BadArguments(path)
        acl = acls.resolved(operation.acl, write.identities, path)
        parent_path = path[:slash] or "/"
        parent = self.node(parent_path)
        if parent.acl is not OPEN_ACL_UNSAFE:
            acls.check(parent.acl, ZkPermission.CREATE, write.identities, path)
        if operation.sequential:
            path = f"{path}{parent.creations:010d}"
        if not is_valid_path(path):
            raise BadArguments(path)
        if path in self.nodes:
            raise NodeExists(path)
        if is_session(parent.ephemeral_owner):
            raise NoChildrenForEphemerals(path)
        owner = write.session_id if operation.ephemeral else CONTAINER_OWNER if operation.container else 0
        if operation.ttl_ms is not None:
            owner = TTL_OWNER + operation.ttl_ms
        before = parent.creations, parent.pzxid
        node = Znode(operation.data, acl, owner, write.zxid, write.now_ms)
        self.nodes[path] = node
        name = path[slash + 1 :]
        parent.children[name] = None
        parent.creations = _wrapped(parent.creations + 1)
        parent.pzxid = write.zxid
        self._account(path, node, 1)
        write.changes.append((self.watches.created, path, acl, parent.acl))

        def undo() -> None:
            self._account(path, node, -1)
            parent.creations, parent.pzxid = before
            del parent.children[name]
            del self.nodes[path]

        return ((path, node.stat()) if operation.answers_with_stat else path), undo

    def _account(self, path: str, node: Znode, sign: int) -> None:
        """Keeps the indices by owner when a znode is added (`sign` 1) or removed (-1)."""
        self.data_bytes += sign * (len(path) + len(node.data or b""))
        owner = node.ephemeral_owner
        if owner == 0:
            return
        if not is_session(owner):
            passing = self.containers if owner == CONTAINER_OWNER else self.ttls
            if sign > 0:
                passing[path] = None
            else:
                del passing[path]
        elif sign > 0:
            self.ephemerals.setdefault(owner, {})[path] = None
        else:
            paths = self.ephemerals[owner]
            del paths[path]
            if not paths:
                del self.ephemerals[owner]

    def _delete(self, operation: Delete, write: TreeWrite) -> tuple[None, Undo]:
        path = operation.path
        if "/" not in path or "\0" in path or path in _UNDELETABLE:
            raise BadArguments(path)
        parent = self.node(parent_of(path))
        if parent.acl is not OPEN_ACL_UNSAFE:
            acls.check(parent.acl, ZkPermission.DELETE, write.identities, path)
        node = self.node(path)
        _checked(node.version, operation.version, path)
        if node.children:
            raise NotEmpty(path)
        return None, self._take_away(path, node, parent, write)

    def _delete_container(self, operation: DeleteContainer, write: TreeWrite) -> tuple[None, Undo]:
        path = operation.path
        if "/" not in path or "\0" in path or path in _UNDELETABLE:
            raise BadArguments(path)
        node = self.node(path)
        if node.children:
            raise NotEmpty(path)
        if is_session(node.ephemeral_owner):
            raise BadVersion(path)
        return None, self._take_away(path, node, self.node(parent_of(path)), write)

    def _take_away(self, path: str, node: Znode, parent: Znode, write: TreeWrite) -> Undo:
        name = path[path.rindex("/") + 1 :]
        pzxid = parent.pzxid
        self._account(path, node, -1)
        del self.nodes[path]
        del parent.children[name]
        parent.pzxid = write.zxid
        write.changes.append((self.watches.deleted, path, node.acl, parent.acl))

        def undo() -> None:
            parent.pzxid = pzxid
            parent.children[name] = None
            self.nodes[path] = node
            self._account(path, node, 1)

        return undo

    def _named(self, path: str, identities: Sequence[Identity], permission: int) -> Znode:
        """The znode that a write names. Raises as `readable`, and `BadArguments` for an invalid path."""
        if path not in self.nodes and not is_valid_path(path):
            raise BadArguments(path)
        return self.readable(path, identities, permission)

    def _set_data(self, operation: SetData, write: TreeWrite) -> tuple[Stat, Undo]:
        path = operation.path
        node = self._named(path, write.identities, ZkPermission.WRITE)
        version = _checked(node.version, operation.version, path)
        before = node.data, node.version, node.mzxid, node.mtime
        data = operation.data
        self.data_bytes += len(data or b"") - len(node.data or b"")
        node.data = data
        node.version = version
        node.mzxid = write.zxid
        node.mtime = write.now_ms
        write.changes.append((self.watches.data_changed, path, node.acl, node.acl))

        def undo() -> None:
            self.data_bytes += len(before[0] or b"") - len(data or b"")
            node.data, node.version, node.mzxid, node.mtime = before

        return node.stat(), undo

    def _check(self, operation: Check, write: TreeWrite) -> tuple[None, Undo]:
        path = operation.path
        node = self._named(path, write.identities, ZkPermission.READ)
        _checked(node.version, operation.version, path)
        return None, _nothing_to_undo

    def _set_acl(self, operation: SetACL, write: TreeWrite) -> tuple[Stat, Undo]:
        path = operation.path
        if not is_valid_path(path):
            raise BadArguments(path)
        acl = acls.resolved(operation.acl, write.identities, path)
        node = self.node(path)
        acls.check(node.acl, ZkPermission.ADMIN, write.identities, path)
        aversion = _checked(node.aversion, operation.version, path)
        before = node.acl, node.aversion
        node.acl = acl
        node.aversion = aversion

        def undo() -> None:
            node.acl, node.aversion = before

        return node.stat(), undo

    def _close_session(self, write: TreeWrite) -> None:
        for path in list(self.ephemerals.get(write.session_id, ())):
            self._take_away(path, self.nodes[path], self.nodes[parent_of(path)], write)

    def outlived(self, now_ms: int) -> list[str]:
        """The znodes that ZooKeeper deletes by itself: containers whose children are gone, and znodes without children
        that were not changed for their time to live."""
        found = [path for path in self.containers if (node := self.nodes[path]).creations and not node.children]
        for path in self.ttls:
            node = self.nodes[path]
            ttl_ms = ttl_of(node.ephemeral_owner)
            if ttl_ms is not None and not node.children and now_ms - node.mtime > ttl_ms:
                found.append(path)
        return found


def _nothing_to_undo() -> None:
    """A check changes nothing."""
