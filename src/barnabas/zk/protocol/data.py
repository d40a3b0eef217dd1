"""The parts of ZooKeeper's records: op codes, create modes, events, ACLs, Stats (its package `zookeeper.data`)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias

from barnabas.runtime.doors import Bytes
from barnabas.zk.protocol.jute import INT, JuteError, JuteKind, encode_string, read_count, read_int, read_string


class OpCode(IntEnum):
    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

ANY_VERSION: Final = -1


class CreateMode(IntEnum):
    """The flags of a create on the wire."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


class EventType(IntEnum):
    NONE = -1
    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class KeeperState(IntEnum):
    DISCONNECTED = 0
    SYNC_CONNECTED = 3
    AUTH_FAILED = 4
    CONNECTED_READ_ONLY = 5
    SASL_AUTHENTICATED = 6
    CLOSED = 7
    EXPIRED = -112


class WatcherType(IntEnum):
    """Which watches a `RemoveWatches` or `CheckWatches` is about."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class AddWatchMode(IntEnum):
    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class ZkPermission:
    """The bits of `ACL.permissions`."""

    READ: Final = 1
    WRITE: Final = 2
    CREATE: Final = 4
    DELETE: Final = 8
    ADMIN: Final = 16
    ALL: Final = 31


class ACL(NamedTuple):
    """The permissions of one identity (`scheme`, `id`) on a znode."""

    permissions: int
    scheme: str
    id: str


ACLs: TypeAlias = tuple[ACL, ...]

OPEN_ACL_UNSAFE: Final[ACLs] = (ACL(ZkPermission.ALL, "world", "anyone"),)
READ_ACL_UNSAFE: Final[ACLs] = (ACL(ZkPermission.READ, "world", "anyone"),)
CREATOR_ALL_ACL: Final[ACLs] = (ACL(ZkPermission.ALL, "auth", ""),)


class Stat(NamedTuple):
    """A znode's metadata. Times are wall clock milliseconds."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


_STAT = Struct(">qqqqiiiqiiq")
STAT_SIZE: Final = _STAT.size


def encode_stat(stat: Stat) -> bytes:
    return _STAT.pack(*stat)


def read_stat(buffer: Bytes, position: int) -> tuple[Stat, int]:
    try:
        return Stat._make(_STAT.unpack_from(buffer, position)), position + STAT_SIZE
    except StructError:
        raise JuteError(f"the record ends at {len(buffer)}, inside a stat at {position}") from None


_OPEN_ACL_ENCODED = INT.pack(1) + INT.pack(31) + encode_string("world") + encode_string("anyone")


def encode_acls(acls: ACLs | None) -> bytes:
    if acls is None:
        return b"\xff\xff\xff\xff"
    if acls is OPEN_ACL_UNSAFE:
        return _OPEN_ACL_ENCODED
    return INT.pack(len(acls)) + b"".join(
        [INT.pack(acl.permissions) + encode_string(acl.scheme) + encode_string(acl.id) for acl in acls]
    )


def read_acls(buffer: Bytes, position: int) -> tuple[ACLs, int]:
    end = position + len(_OPEN_ACL_ENCODED)
    if buffer[position:end] == _OPEN_ACL_ENCODED:
        return OPEN_ACL_UNSAFE, end
    count, position = read_count(buffer, position, 12)
    acls = []
    for _ in range(count):
        permissions, position = read_int(buffer, position)
        scheme, position = read_string(buffer, position)
        identity, position = read_string(buffer, position)
        acls.append(ACL(permissions, scheme, identity))
    return tuple(acls), position


STAT: Final[JuteKind[Stat]] = JuteKind(read_stat, encode_stat)
ACL_LIST: Final[JuteKind[ACLs]] = JuteKind(read_acls, encode_acls)

CONTAINER_OWNER: Final = -(1 << 63)
"""The ephemeral owner of a container, kept but never shown: ``EphemeralType.CONTAINER``."""
TTL_OWNER: Final = -(1 << 56)
"""The ephemeral owner of a znode with a time to live is this plus the time, kept but never shown
(``EphemeralType.TTL``)."""
TTL_MS_MAX: Final = (1 << 40) - 1
"""The longest time to live: the ephemeral owner has forty bits for it."""


def ttl_of(owner: int) -> int | None:
    """The time to live in ms that an ephemeral owner stands for; None if it is a session's or a container's."""
    return owner - TTL_OWNER if TTL_OWNER < owner <= TTL_OWNER + TTL_MS_MAX else None


def is_session(owner: int) -> bool:
    """Whether an ephemeral owner is a session, whose end deletes the znode."""
    return owner not in (0, CONTAINER_OWNER) and ttl_of(owner) is None
