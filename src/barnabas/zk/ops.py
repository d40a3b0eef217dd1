"""ZooKeeper's operations and the other records of a session's conversation, in both directions.

A connection opens with one `ConnectRequest` and its `ConnectResponse`; after that the client sends frames of (xid, op
code, the operation's record) and the server answers each, in order, with (xid, zxid, error, the result's record). A
watch event arrives between them under the xid `NOTIFICATION_XID`. Every frame begins with its length, four bytes.

An `Operation` knows its own request and its result: the client uses `encode` and `decode_result`, the server
`decode_operation` and `encode_result`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.runtime.doors import Bytes
from barnabas.zk.errors import ZooKeeperError, error_of
from barnabas.zk.jute import (
    INT,
    LONG,
    JuteError,
    StructError,
    encode_buffer,
    encode_string,
    encode_strings,
    read_bool,
    read_buffer,
    read_count,
    read_int,
    read_long,
    read_string,
    read_strings,
)

R = TypeVar("R")


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


class Permission:
    """The bits of `ACL.permissions`."""

    READ: Final = 1
    WRITE: Final = 2
    CREATE: Final = 4
    DELETE: Final = 8
    ADMIN: Final = 16
    ALL: Final = 31


class ACL(NamedTuple):
    """What one identity (`scheme`, `id`) may do to a znode."""

    permissions: int
    scheme: str
    id: str


ACLs: TypeAlias = tuple[ACL, ...]

OPEN_ACL_UNSAFE: Final[ACLs] = (ACL(Permission.ALL, "world", "anyone"),)
READ_ACL_UNSAFE: Final[ACLs] = (ACL(Permission.READ, "world", "anyone"),)
CREATOR_ALL_ACL: Final[ACLs] = (ACL(Permission.ALL, "auth", ""),)


class Stat(NamedTuple):
    """What ZooKeeper knows about a znode besides its data. Times are wall clock milliseconds."""

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


# -- Operations --------------------------------------------------------------------------------------------------------


class Operation(Generic[R]):
    """One request of a client, and the codec of its result `R`."""

    __slots__ = ()

    # Written once here rather than made anew for each class: a process starts measurably sooner.

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._fields() == self._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"

    def _fields(self) -> list[Any]:
        return [getattr(self, name) for name in self.__match_args__]  # type: ignore[attr-defined]

    path: str

    @property
    @abstractmethod
    def op_code(self) -> OpCode: ...

    @abstractmethod
    def encode(self) -> bytes:
        """The request's record, without header."""

    @abstractmethod
    def decode_result(self, buffer: Bytes, position: int) -> tuple[R, int]: ...

    @abstractmethod
    def encode_result(self, result: R) -> bytes: ...


def _nothing(result: None) -> bytes:
    return b""


@dataclass(slots=True, eq=False, repr=False)
class Create(Operation["str | tuple[str, Stat]"]):
    """Makes a znode; the result is its path (with the sequence number), and its Stat when `with_stat` asks for it.

    A container and a znode with a time to live (`ttl_ms`) always answer with the Stat, as in ZooKeeper.
    """

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    acl: ACLs = OPEN_ACL_UNSAFE
    with_stat: bool = False
    container: bool = False
    ttl_ms: int | None = None

    @property
    def mode(self) -> CreateMode:
        if self.container:
            return CreateMode.CONTAINER
        if self.ttl_ms is not None:
            return CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL if self.sequential else CreateMode.PERSISTENT_WITH_TTL
        return CreateMode(self.ephemeral + 2 * self.sequential)

    @property
    def op_code(self) -> OpCode:
        if self.container:
            return OpCode.CREATE_CONTAINER
        if self.ttl_ms is not None:
            return OpCode.CREATE_TTL
        return OpCode.CREATE2 if self.with_stat else OpCode.CREATE

    def encode(self) -> bytes:
        record = encode_string(self.path) + encode_buffer(self.data) + encode_acls(self.acl) + INT.pack(self.mode)
        return record if self.ttl_ms is None else record + LONG.pack(self.ttl_ms)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Create, int]:
        path, position = read_string(buffer, position)
        data, position = read_buffer(buffer, position)
        acl, position = read_acls(buffer, position)
        mode, position = read_int(buffer, position)
        ttl_ms = None
        if op_code == OpCode.CREATE_TTL:
            ttl_ms, position = read_long(buffer, position)
        if not 0 <= mode <= 6:
            # The server answers BAD_ARGUMENTS; a mode that cannot be is kept as one that it refuses.
            return cls(path, data, acl=acl, ttl_ms=-1), position
        return (
            cls(
                path,
                data,
                ephemeral=mode in (1, 3),
                sequential=mode in (2, 3, 6),
                acl=acl,
                with_stat=op_code != OpCode.CREATE,
                container=mode == 4,
                ttl_ms=ttl_ms if ttl_ms is not None or mode < 5 else -1,
            ),
            position,
        )

    @property
    def answers_with_stat(self) -> bool:
        return self.with_stat or self.container or self.ttl_ms is not None

    def decode_result(self, buffer: Bytes, position: int) -> tuple[str | tuple[str, Stat], int]:
        path, position = read_string(buffer, position)
        if not self.answers_with_stat:
            return path, position
        stat, position = read_stat(buffer, position)
        return (path, stat), position

    def encode_result(self, result: str | tuple[str, Stat]) -> bytes:
        if isinstance(result, str):
            return encode_string(result)
        return encode_string(result[0]) + encode_stat(result[1])


@dataclass(slots=True, eq=False, repr=False)
class Delete(Operation[None]):
    path: str
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.DELETE

    def encode(self) -> bytes:
        return encode_string(self.path) + INT.pack(self.version)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Delete, int]:
        path, position = read_string(buffer, position)
        version, position = read_int(buffer, position)
        return cls(path, version), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(_nothing)


@dataclass(slots=True, eq=False, repr=False)
class DeleteContainer(Operation[None]):
    """Deletes an empty container; servers say this to themselves, and ZooKeeper lets anyone say it."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.DELETE_CONTAINER

    def encode(self) -> bytes:
        return encode_string(self.path)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[DeleteContainer, int]:
        path, position = read_string(buffer, position)
        return cls(path), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(_nothing)


@dataclass(slots=True, eq=False, repr=False)
class SetData(Operation[Stat]):
    path: str
    data: bytes | None
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_DATA

    def encode(self) -> bytes:
        return encode_string(self.path) + encode_buffer(self.data) + INT.pack(self.version)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[SetData, int]:
        path, position = read_string(buffer, position)
        data, position = read_buffer(buffer, position)
        version, position = read_int(buffer, position)
        return cls(path, data, version), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[Stat, int]:
        return read_stat(buffer, position)

    def encode_result(self, result: Stat) -> bytes:
        return _STAT.pack(*result)


@dataclass(slots=True, eq=False, repr=False)
class Check(Operation[None]):
    """Fails unless the znode has this version; meant for a part of a `Multi`."""

    path: str
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.CHECK

    def encode(self) -> bytes:
        return encode_string(self.path) + INT.pack(self.version)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Check, int]:
        path, position = read_string(buffer, position)
        version, position = read_int(buffer, position)
        return cls(path, version), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(_nothing)


@dataclass(slots=True, eq=False, repr=False)
class Exists(Operation[Stat]):
    """The znode's Stat; a missing one is the error NO_NODE, and the watch is set all the same."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.EXISTS

    def encode(self) -> bytes:
        return encode_string(self.path) + (b"\x01" if self.watch else b"\x00")

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Exists, int]:
        path, position = read_string(buffer, position)
        watch, position = read_bool(buffer, position)
        return cls(path, watch), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[Stat, int]:
        return read_stat(buffer, position)

    def encode_result(self, result: Stat) -> bytes:
        return _STAT.pack(*result)


@dataclass(slots=True, eq=False, repr=False)
class GetData(Operation["tuple[bytes | None, Stat]"]):
    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_DATA

    def encode(self) -> bytes:
        return encode_string(self.path) + (b"\x01" if self.watch else b"\x00")

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetData, int]:
        path, position = read_string(buffer, position)
        watch, position = read_bool(buffer, position)
        return cls(path, watch), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[tuple[bytes | None, Stat], int]:
        data, position = read_buffer(buffer, position)
        stat, position = read_stat(buffer, position)
        return (data, stat), position

    def encode_result(self, result: tuple[bytes | None, Stat]) -> bytes:
        return encode_buffer(result[0]) + _STAT.pack(*result[1])


@dataclass(slots=True, eq=False, repr=False)
class GetChildren(Operation["tuple[list[str], Stat]"]):
    """The names of the children, and the parent's own Stat (ZooKeeper's getChildren2, the one Kafka sends)."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_CHILDREN2

    def encode(self) -> bytes:
        return encode_string(self.path) + (b"\x01" if self.watch else b"\x00")

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetChildren, int]:
        path, position = read_string(buffer, position)
        watch, position = read_bool(buffer, position)
        return cls(path, watch), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[tuple[list[str], Stat], int]:
        children, position = read_strings(buffer, position)
        stat, position = read_stat(buffer, position)
        return (children, stat), position

    def encode_result(self, result: tuple[list[str], Stat]) -> bytes:
        return encode_strings(result[0]) + _STAT.pack(*result[1])


@dataclass(slots=True, eq=False, repr=False)
class GetChildrenWithoutStat(Operation["list[str]"]):
    """ZooKeeper's first getChildren: the names alone."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_CHILDREN

    def encode(self) -> bytes:
        return encode_string(self.path) + (b"\x01" if self.watch else b"\x00")

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetChildrenWithoutStat, int]:
        path, position = read_string(buffer, position)
        watch, position = read_bool(buffer, position)
        return cls(path, watch), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[list[str], int]:
        return read_strings(buffer, position)

    def encode_result(self, result: list[str]) -> bytes:
        return encode_strings(result)


@dataclass(slots=True, eq=False, repr=False)
class GetAllChildrenNumber(Operation[int]):
    """How many znodes there are below this one, at any depth."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.GET_ALL_CHILDREN_NUMBER

    def encode(self) -> bytes:
        return encode_string(self.path)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetAllChildrenNumber, int]:
        path, position = read_string(buffer, position)
        return cls(path), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[int, int]:
        return read_int(buffer, position)

    def encode_result(self, result: int) -> bytes:
        return INT.pack(result)


@dataclass(slots=True, eq=False, repr=False)
class GetEphemerals(Operation["list[str]"]):
    """The ephemeral znodes of this session whose path begins with `path`."""

    path: str = "/"
    op_code: ClassVar[OpCode] = OpCode.GET_EPHEMERALS

    def encode(self) -> bytes:
        return encode_string(self.path)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetEphemerals, int]:
        path, position = read_string(buffer, position)
        return cls(path), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[list[str], int]:
        return read_strings(buffer, position)

    def encode_result(self, result: list[str]) -> bytes:
        return encode_strings(result)


@dataclass(slots=True, eq=False, repr=False)
class GetACL(Operation["tuple[ACLs, Stat]"]):
    path: str
    op_code: ClassVar[OpCode] = OpCode.GET_ACL

    def encode(self) -> bytes:
        return encode_string(self.path)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[GetACL, int]:
        path, position = read_string(buffer, position)
        return cls(path), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[tuple[ACLs, Stat], int]:
        acl, position = read_acls(buffer, position)
        stat, position = read_stat(buffer, position)
        return (acl, stat), position

    def encode_result(self, result: tuple[ACLs, Stat]) -> bytes:
        return encode_acls(result[0]) + _STAT.pack(*result[1])


@dataclass(slots=True, eq=False, repr=False)
class SetACL(Operation[Stat]):
    """Replaces a znode's ACLs; `version` is about the Stat's aversion."""

    path: str
    acl: ACLs
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_ACL

    def encode(self) -> bytes:
        return encode_string(self.path) + encode_acls(self.acl) + INT.pack(self.version)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[SetACL, int]:
        path, position = read_string(buffer, position)
        acl, position = read_acls(buffer, position)
        version, position = read_int(buffer, position)
        return cls(path, acl, version), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[Stat, int]:
        return read_stat(buffer, position)

    def encode_result(self, result: Stat) -> bytes:
        return _STAT.pack(*result)


@dataclass(slots=True, eq=False, repr=False)
class Sync(Operation[str]):
    """Answered when the server has seen every write that came before it."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.SYNC

    def encode(self) -> bytes:
        return encode_string(self.path)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Sync, int]:
        path, position = read_string(buffer, position)
        return cls(path), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[str, int]:
        return read_string(buffer, position)

    def encode_result(self, result: str) -> bytes:
        return encode_string(result)


class _WithoutRecord(Operation[None]):
    """An operation that is its op code alone."""

    __slots__ = ()

    def encode(self) -> bytes:
        return b""

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(_nothing)


@dataclass(slots=True, eq=False, repr=False)
class Ping(_WithoutRecord):
    op_code: ClassVar[OpCode] = OpCode.PING

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Ping, int]:
        return cls(), position


@dataclass(slots=True, eq=False, repr=False)
class CloseSession(_WithoutRecord):
    op_code: ClassVar[OpCode] = OpCode.CLOSE_SESSION

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[CloseSession, int]:
        return cls(), position


@dataclass(slots=True, eq=False, repr=False)
class Auth(Operation[None]):
    """Adds an identity to the connection, such as ``digest`` with ``user:password``. Sent under `AUTH_XID`."""

    scheme: str
    auth: bytes
    type: int = 0
    op_code: ClassVar[OpCode] = OpCode.AUTH

    def encode(self) -> bytes:
        return INT.pack(self.type) + encode_string(self.scheme) + encode_buffer(self.auth)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Auth, int]:
        kind, position = read_int(buffer, position)
        scheme, position = read_string(buffer, position)
        auth, position = read_buffer(buffer, position)
        return cls(scheme, auth or b"", kind), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(_nothing)


@dataclass(slots=True, eq=False, repr=False)
class Sasl(Operation["bytes | None"]):
    """One token of a SASL conversation; the result is the server's next token. The client's first one is empty."""

    token: bytes
    op_code: ClassVar[OpCode] = OpCode.SASL

    def encode(self) -> bytes:
        return encode_buffer(self.token)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Sasl, int]:
        token, position = read_buffer(buffer, position)
        return cls(token or b""), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[bytes | None, int]:
        return read_buffer(buffer, position)

    def encode_result(self, result: bytes | None) -> bytes:
        return encode_buffer(result)


@dataclass(slots=True, eq=False, repr=False)
class WhoAmI(Operation["list[tuple[str, str]]"]):
    """The identities (scheme, user) of this connection."""

    op_code: ClassVar[OpCode] = OpCode.WHO_AM_I

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[WhoAmI, int]:
        return cls(), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[list[tuple[str, str]], int]:
        count, position = read_count(buffer, position, 8)
        identities = []
        for _ in range(count):
            scheme, position = read_string(buffer, position)
            user, position = read_string(buffer, position)
            identities.append((scheme, user))
        return identities, position

    def encode_result(self, result: list[tuple[str, str]]) -> bytes:
        return INT.pack(len(result)) + b"".join([encode_string(s) + encode_string(user) for s, user in result])


@dataclass(slots=True, eq=False, repr=False)
class AddWatch(Operation[None]):
    """Sets a watch that stays when it fires; a recursive one is about the whole tree below `path`."""

    path: str
    mode: int
    op_code: ClassVar[OpCode] = OpCode.ADD_WATCH

    def encode(self) -> bytes:
        return encode_string(self.path) + INT.pack(self.mode)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[AddWatch, int]:
        path, position = read_string(buffer, position)
        mode, position = read_int(buffer, position)
        return cls(path, mode), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        # The server sends an ErrorResponse with the code 0 for a record.
        return None, min(position + 4, len(buffer))

    def encode_result(self, result: None) -> bytes:
        return INT.pack(0)


@dataclass(slots=True, eq=False, repr=False)
class RemoveWatches(_WithoutRecord):
    path: str
    watcher_type: int
    op_code: ClassVar[OpCode] = OpCode.REMOVE_WATCHES

    def encode(self) -> bytes:
        return encode_string(self.path) + INT.pack(self.watcher_type)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[RemoveWatches, int]:
        path, position = read_string(buffer, position)
        watcher_type, position = read_int(buffer, position)
        return cls(path, watcher_type), position


@dataclass(slots=True, eq=False, repr=False)
class CheckWatches(_WithoutRecord):
    """NO_WATCHER unless this connection watches `path` so."""

    path: str
    watcher_type: int
    op_code: ClassVar[OpCode] = OpCode.CHECK_WATCHES

    def encode(self) -> bytes:
        return encode_string(self.path) + INT.pack(self.watcher_type)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[CheckWatches, int]:
        path, position = read_string(buffer, position)
        watcher_type, position = read_int(buffer, position)
        return cls(path, watcher_type), position


@dataclass(slots=True, eq=False, repr=False)
class SetWatches(_WithoutRecord):
    """Sets a client's watches again after a reconnect; what changed since `relative_zxid` fires at once.

    Sent under `SET_WATCHES_XID`. With persistent watches it travels as ZooKeeper's setWatches2.
    """

    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]
    persistent_watches: list[str] | None = None
    persistent_recursive_watches: list[str] | None = None

    @property
    def op_code(self) -> OpCode:
        both = self.persistent_watches, self.persistent_recursive_watches
        return OpCode.SET_WATCHES if both == (None, None) else OpCode.SET_WATCHES2

    def encode(self) -> bytes:
        record = (
            LONG.pack(self.relative_zxid)
            + encode_strings(self.data_watches)
            + encode_strings(self.exist_watches)
            + encode_strings(self.child_watches)
        )
        if self.op_code is OpCode.SET_WATCHES:
            return record
        return (
            record
            + encode_strings(self.persistent_watches or [])
            + encode_strings(self.persistent_recursive_watches or [])
        )

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[SetWatches, int]:
        relative_zxid, position = read_long(buffer, position)
        data, position = read_strings(buffer, position)
        exist, position = read_strings(buffer, position)
        child, position = read_strings(buffer, position)
        if op_code == OpCode.SET_WATCHES:
            return cls(relative_zxid, data, exist, child), position
        persistent, position = read_strings(buffer, position)
        recursive, position = read_strings(buffer, position)
        return cls(relative_zxid, data, exist, child, persistent, recursive), position


MultiResult: TypeAlias = "list[Any]"
_PART = Struct(">ibi")  # MultiHeader: type, done, err
_END = _PART.pack(-1, 1, -1)


@dataclass(slots=True, eq=False, repr=False)
class Multi(Operation["list[Any]"]):
    """Several writes and checks, all or none of them done, under one zxid.

    The result is a list with each part's own result. When one failed, it is a list of `ZooKeeperError`: code OK for
    those before it (they are undone), its own code, and RUNTIME_INCONSISTENCY for those after it.
    """

    operations: Sequence[Operation[Any]]
    op_code: ClassVar[OpCode] = OpCode.MULTI

    def encode(self) -> bytes:
        parts = []
        for operation in self.operations:
            parts.append(_PART.pack(operation.op_code, 0, -1))
            parts.append(operation.encode())
        parts.append(_END)
        return b"".join(parts)

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Multi, int]:
        allowed = _MULTI_READ_PARTS if op_code == OpCode.MULTI_READ else _MULTI_PARTS
        operations: list[Operation[Any]] = []
        try:
            while True:
                kind, done, _ = _PART.unpack_from(buffer, position)
                position += 9
                if done:
                    break
                decode = allowed.get(kind)
                if decode is None:
                    raise JuteError(f"op code {kind} inside a multi")
                operation, position = decode(kind, buffer, position)
                operations.append(operation)
        except StructError:
            raise JuteError(f"the record ends at {len(buffer)}, inside a multi") from None
        return (MultiRead if op_code == OpCode.MULTI_READ else cls)(operations), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[list[Any], int]:
        results: list[Any] = []
        try:
            while True:
                kind, done, _ = _PART.unpack_from(buffer, position)
                position += 9
                if done:
                    return results, position
                if len(results) == len(self.operations):
                    raise JuteError(f"a multi of {len(results)} operations with more results")
                operation = self.operations[len(results)]
                if kind == -1:
                    code, position = read_int(buffer, position)
                    results.append(error_of(code, operation.path))
                else:
                    result, position = operation.decode_result(buffer, position)
                    results.append(result)
        except StructError:
            raise JuteError(f"the record ends at {len(buffer)}, inside a multi's results") from None

    def encode_result(self, result: list[Any]) -> bytes:
        parts = []
        for operation, part in zip(self.operations, result, strict=True):
            if isinstance(part, ZooKeeperError):
                parts.append(_PART.pack(-1, 0, part.code) + INT.pack(part.code))
            else:
                parts.append(_PART.pack(operation.op_code, 0, 0) + operation.encode_result(part))
        parts.append(_END)
        return b"".join(parts)


@dataclass(slots=True, eq=False, repr=False)
class MultiRead(Multi):
    """Several reads (getData, getChildren) in one request; each succeeds or fails alone."""

    op_code: ClassVar[OpCode] = OpCode.MULTI_READ


_Decoder: TypeAlias = Callable[[int, Bytes, int], tuple[Operation[Any], int]]

_MULTI_PARTS: dict[int, _Decoder] = {
    OpCode.CREATE: Create.decode,
    OpCode.CREATE2: Create.decode,
    OpCode.CREATE_CONTAINER: Create.decode,
    OpCode.CREATE_TTL: Create.decode,
    OpCode.DELETE: Delete.decode,
    OpCode.SET_DATA: SetData.decode,
    OpCode.CHECK: Check.decode,
}
_MULTI_READ_PARTS: dict[int, _Decoder] = {
    OpCode.GET_DATA: GetData.decode,
    OpCode.GET_CHILDREN: GetChildrenWithoutStat.decode,
}
_DECODERS: dict[int, _Decoder] = {
    **{op_code: decode for op_code, decode in _MULTI_PARTS.items() if op_code != OpCode.CHECK},
    OpCode.DELETE_CONTAINER: DeleteContainer.decode,
    OpCode.EXISTS: Exists.decode,
    OpCode.GET_DATA: GetData.decode,
    OpCode.GET_ACL: GetACL.decode,
    OpCode.SET_ACL: SetACL.decode,
    OpCode.GET_CHILDREN: GetChildrenWithoutStat.decode,
    OpCode.GET_CHILDREN2: GetChildren.decode,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumber.decode,
    OpCode.GET_EPHEMERALS: GetEphemerals.decode,
    OpCode.SYNC: Sync.decode,
    OpCode.PING: Ping.decode,
    OpCode.MULTI: Multi.decode,
    OpCode.MULTI_READ: Multi.decode,
    OpCode.CHECK_WATCHES: CheckWatches.decode,
    OpCode.REMOVE_WATCHES: RemoveWatches.decode,
    OpCode.ADD_WATCH: AddWatch.decode,
    OpCode.AUTH: Auth.decode,
    OpCode.SASL: Sasl.decode,
    OpCode.WHO_AM_I: WhoAmI.decode,
    OpCode.SET_WATCHES: SetWatches.decode,
    OpCode.SET_WATCHES2: SetWatches.decode,
    OpCode.CLOSE_SESSION: CloseSession.decode,
}


def decode_operation(op_code: int, buffer: Bytes, position: int) -> Operation[Any] | None:
    """The operation in a request's record; None when nobody knows the op code. Bad bytes are `JuteError`."""
    decode = _DECODERS.get(op_code)
    return None if decode is None else decode(op_code, buffer, position)[0]


# -- Frames ------------------------------------------------------------------------------------------------------------

_REQUEST = Struct(">iii")  # length, xid, op code
_REQUEST_HEADER = Struct(">ii")
_REPLY = Struct(">iiqi")  # length, xid, zxid, err
_REPLY_HEADER = Struct(">iqi")
REQUEST_HEADER_SIZE: Final = _REQUEST_HEADER.size
REPLY_HEADER_SIZE: Final = _REPLY_HEADER.size


def encode_request(xid: int, operation: Operation[Any]) -> bytes:
    """A request's whole frame, its length first."""
    record = operation.encode()
    return _REQUEST.pack(8 + len(record), xid, operation.op_code) + record


def decode_request_header(frame: Bytes, position: int = 0) -> tuple[int, int]:
    """(xid, op code); the record begins `REQUEST_HEADER_SIZE` further on."""
    try:
        xid, op_code = _REQUEST_HEADER.unpack_from(frame, position)
    except StructError:
        raise JuteError(f"a request of {len(frame) - position} bytes") from None
    return xid, op_code


def encode_reply(xid: int, zxid: int, code: int, record: bytes = b"") -> bytes:
    """An answer's whole frame, its length first."""
    return _REPLY.pack(16 + len(record), xid, zxid, code) + record


class ReplyHeader(NamedTuple):
    xid: int
    zxid: int
    code: int


def decode_reply_header(frame: Bytes, position: int = 0) -> ReplyHeader:
    """The header of an answer (frame without its length); the record begins `REPLY_HEADER_SIZE` further on."""
    try:
        return ReplyHeader._make(_REPLY_HEADER.unpack_from(frame, position))
    except StructError:
        raise JuteError(f"an answer of {len(frame) - position} bytes") from None


class WatchEvent(NamedTuple):
    """What a watch tells: the event, the session's state, the znode."""

    type: int
    state: int
    path: str

    def encode(self) -> bytes:
        """The event's record, to be sent in a reply frame under `NOTIFICATION_XID` with zxid -1."""
        return _REQUEST_HEADER.pack(self.type, self.state) + encode_string(self.path)

    @classmethod
    def decode(cls, buffer: Bytes, position: int) -> tuple[WatchEvent, int]:
        kind, position = read_int(buffer, position)
        state, position = read_int(buffer, position)
        path, position = read_string(buffer, position)
        return cls(kind, state, path), position


@dataclass(slots=True)
class ConnectRequest:
    """The first record of a connection: asks for a new session (`session_id` 0), or for its own one again.

    `read_only` None: a client so old that neither side of the conversation has that field.
    """

    timeout_ms: int
    session_id: int = 0
    password: bytes = bytes(16)
    last_zxid_seen: int = 0
    read_only: bool | None = False
    protocol_version: int = 0

    def encode(self) -> bytes:
        """The record without its length."""
        head = _CONNECT.pack(self.protocol_version, self.last_zxid_seen, self.timeout_ms, self.session_id)
        tail = b"" if self.read_only is None else bytes([self.read_only])
        return head + encode_buffer(self.password) + tail

    @classmethod
    def decode(cls, buffer: Bytes, position: int = 0) -> ConnectRequest:
        try:
            version, last_zxid_seen, timeout_ms, session_id = _CONNECT.unpack_from(buffer, position)
        except StructError:
            raise JuteError(f"a connect request of {len(buffer) - position} bytes") from None
        password, position = read_buffer(buffer, position + _CONNECT.size)
        read_only = read_bool(buffer, position)[0] if position < len(buffer) else None
        return cls(timeout_ms, session_id, password or b"", last_zxid_seen, read_only, version)


_CONNECT = Struct(">iqiq")
_CONNECTED = Struct(">iiq")


@dataclass(slots=True)
class ConnectResponse:
    """The server's answer to a `ConnectRequest`: the session and its negotiated timeout; 0 for one that has expired."""

    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False
    protocol_version: int = 0

    def encode(self) -> bytes:
        """The record without its length."""
        head = _CONNECTED.pack(self.protocol_version, self.timeout_ms, self.session_id)
        tail = b"" if self.read_only is None else bytes([self.read_only])
        return head + encode_buffer(self.password) + tail

    @classmethod
    def decode(cls, buffer: Bytes, position: int = 0) -> ConnectResponse:
        try:
            version, timeout_ms, session_id = _CONNECTED.unpack_from(buffer, position)
        except StructError:
            raise JuteError(f"a connect response of {len(buffer) - position} bytes") from None
        password, position = read_buffer(buffer, position + _CONNECTED.size)
        read_only = read_bool(buffer, position)[0] if position < len(buffer) else None
        return cls(timeout_ms, session_id, password or b"", read_only, version)

    @property
    def expired(self) -> bool:
        return self.timeout_ms <= 0


def framed(record: bytes) -> bytes:
    """The record behind its length."""
    return INT.pack(len(record)) + record
