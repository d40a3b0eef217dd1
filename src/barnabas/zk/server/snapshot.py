"""Tree and sessions as bytes and back, exactly: every Stat is the same after a restart. Pure."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any, Final

from barnabas.zk.protocol.data import CONTAINER_OWNER, ACLs, encode_acls, read_acls, ttl_of
from barnabas.zk.protocol.jute import INT, encode_buffer, encode_string, read_buffer, read_int, read_string
from barnabas.zk.protocol.paths import parent_of
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.tree import DataTree, Znode
from barnabas.zk.server.wal import CorruptState

_ZNODE: Final = Struct(">qqqqiiqqii")
_SESSION: Final = Struct(">qi")
_HEAD: Final = Struct(">qq")


def encode_snapshot(tree: DataTree[Any], sessions: Sessions[Any]) -> bytes:
    parts = [_HEAD.pack(tree.last_zxid, sessions.last_id), INT.pack(len(sessions))]
    for session in sessions.live.values():
        parts += (_SESSION.pack(session.id, session.timeout_ms), encode_buffer(session.password))
    numbers: dict[ACLs, int] = {}
    znodes: list[bytes] = []
    for path, node in tree.nodes.items():
        number = numbers.setdefault(node.acl, len(numbers))
        fields = _ZNODE.pack(
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.aversion,
            node.ephemeral_owner,
            node.pzxid,
            node.creations,
            number,
        )
        znodes += (encode_string(path), fields, encode_buffer(node.data))
    parts.append(INT.pack(len(numbers)))
    parts += (encode_acls(acl) for acl in numbers)
    parts.append(INT.pack(len(tree.nodes)))
    return b"".join(parts + znodes)


def restore_snapshot(body: bytes, tree: DataTree[Any], sessions: Sessions[Any], now_ms: int) -> None:
    """Fills a new tree and new sessions, whose timeouts begin at `now_ms`.

    Raises `CorruptState` for a body that no coordinator of this version wrote.
    """
    try:
        _restore(body, tree, sessions, now_ms)
    except (StructError, ValueError, LookupError, OverflowError) as error:
        raise CorruptState(f"a snapshot has a right checksum and a wrong form: {error!r}") from error


def _restore(body: bytes, tree: DataTree[Any], sessions: Sessions[Any], now_ms: int) -> None:
    tree.last_zxid, last_id = _HEAD.unpack_from(body)
    count, position = read_int(body, _HEAD.size)
    for _ in range(count):
        session_id, timeout_ms = _SESSION.unpack_from(body, position)
        password, position = read_buffer(body, position + _SESSION.size)
        sessions.open(session_id, password or b"", timeout_ms, now_ms)
    sessions.last_id = last_id
    count, position = read_int(body, position)
    acls = []
    for _ in range(count):
        acl, position = read_acls(body, position)
        acls.append(acl)
    tree.nodes.clear()
    tree.ephemerals.clear()
    tree.containers.clear()
    tree.ttls.clear()
    tree.data_bytes = 0
    count, position = read_int(body, position)
    for _ in range(count):
        path, position = read_string(body, position)
        czxid, mzxid, ctime, mtime, version, aversion, owner, pzxid, creations, acl_at = _ZNODE.unpack_from(
            body, position
        )
        data, position = read_buffer(body, position + _ZNODE.size)
        node = Znode(data, acls[acl_at], owner, czxid, ctime)
        node.mzxid, node.mtime, node.version, node.aversion = mzxid, mtime, version, aversion
        node.pzxid, node.creations = pzxid, creations
        tree.nodes[path] = node
        tree.data_bytes += len(path) + len(data or b"")
        if node.ephemeral_owner == CONTAINER_OWNER:
            tree.containers[path] = None
        elif ttl_of(node.ephemeral_owner) is not None:
            tree.ttls[path] = None
        elif node.ephemeral_owner:
            tree.ephemerals.setdefault(node.ephemeral_owner, {})[path] = None
        if path != "/":
            # A parent is created before its children, so it precedes them here.
            tree.nodes[parent_of(path)].children[path[path.rindex("/") + 1 :]] = None
