"""ZooKeeper's operations on znodes.

An `ZkOperation` is a record of fields and the kind of its result: the client uses `encode` and `decode_result`, the
server `decode` and `encode_result`. The operations of sessions are in `session_ops`, the framing is in `frames`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from barnabas.runtime.doors import Bytes
from barnabas.zk.protocol.data import (
    ACL_LIST,
    ANY_VERSION,
    OPEN_ACL_UNSAFE,
    STAT,
    ACLs,
    CreateMode,
    OpCode,
    Stat,
    encode_acls,
    encode_stat,
    read_acls,
    read_stat,
)
from barnabas.zk.protocol.errors import ZooKeeperError, error_of
from barnabas.zk.protocol.jute import (
    BOOLEAN,
    BUFFER,
    INT,
    INTEGER,
    LONG,
    NOTHING,
    STRING,
    STRINGS,
    JuteError,
    JuteKind,
    both,
    encode_buffer,
    encode_string,
    read_buffer,
    read_int,
    read_long,
    read_string,
)

R = TypeVar("R")


class ZkOperation(Generic[R]):
    """One request of a client, and the codec of its result `R`."""

    __slots__ = ()

    # Written once here, not generated for each class: a process starts measurably sooner.

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._fields() == self._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"

    def _fields(self) -> list[Any]:
        return [getattr(self, name) for name in self.__match_args__]  # type: ignore[attr-defined]

    path: str
    op_code: ClassVar[OpCode]
    record: ClassVar[tuple[JuteKind[Any], ...]] = ()
    """The kind of each field, in the order of both the dataclass and the wire."""
    answer: ClassVar[JuteKind[Any]] = NOTHING

    def encode(self) -> bytes:
        """The request's record, without header."""
        names = self.__match_args__  # type: ignore[attr-defined]
        return b"".join([kind.encode(getattr(self, name)) for name, kind in zip(names, self.record, strict=True)])

    @classmethod
    def decode(cls, op_code: int, buffer: Bytes, position: int) -> tuple[Self, int]:
        values = []
        for kind in cls.record:
            value, position = kind.read(buffer, position)
            values.append(value)
        return cls(*values), position

    def decode_result(self, buffer: Bytes, position: int) -> tuple[R, int]:
        return self.answer.read(buffer, position)

    def encode_result(self, result: R) -> bytes:
        return self.answer.encode(result)


@dataclass(slots=True, eq=False, repr=False)
class Create(ZkOperation["str | tuple[str, Stat]"]):
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
    def op_code(self) -> OpCode:  # type: ignore[override]
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
            # An invalid mode is kept as one that the server refuses with BAD_ARGUMENTS.
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
class Delete(ZkOperation[None]):
    path: str
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.DELETE
    record = (STRING, INTEGER)


@dataclass(slots=True, eq=False, repr=False)
class DeleteContainer(ZkOperation[None]):
    """Deletes an empty container; servers send it to themselves, and ZooKeeper lets any client send it."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.DELETE_CONTAINER
    record = (STRING,)


@dataclass(slots=True, eq=False, repr=False)
class SetData(ZkOperation[Stat]):
    path: str
    data: bytes | None
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_DATA
    record = (STRING, BUFFER, INTEGER)
    answer = STAT


@dataclass(slots=True, eq=False, repr=False)
class Check(ZkOperation[None]):
    """Fails unless the znode has this version; meant for a part of a `Multi`."""

    path: str
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.CHECK
    record = (STRING, INTEGER)


@dataclass(slots=True, eq=False, repr=False)
class Exists(ZkOperation[Stat]):
    """The znode's Stat; a missing one is the error NO_NODE, and the watch is set all the same."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.EXISTS
    record = (STRING, BOOLEAN)
    answer = STAT


@dataclass(slots=True, eq=False, repr=False)
class GetData(ZkOperation["tuple[bytes | None, Stat]"]):
    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_DATA
    record = (STRING, BOOLEAN)
    answer = both(BUFFER, STAT)


@dataclass(slots=True, eq=False, repr=False)
class GetChildren(ZkOperation["tuple[list[str], Stat]"]):
    """The names of the children, and the parent's own Stat (ZooKeeper's getChildren2, the one Kafka sends)."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_CHILDREN2
    record = (STRING, BOOLEAN)
    answer = both(STRINGS, STAT)


@dataclass(slots=True, eq=False, repr=False)
class GetChildrenWithoutStat(ZkOperation["list[str]"]):
    """ZooKeeper's first getChildren: the names alone."""

    path: str
    watch: bool = False
    op_code: ClassVar[OpCode] = OpCode.GET_CHILDREN
    record = (STRING, BOOLEAN)
    answer = STRINGS


@dataclass(slots=True, eq=False, repr=False)
class GetAllChildrenNumber(ZkOperation[int]):
    """How many znodes there are below this one, at any depth."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.GET_ALL_CHILDREN_NUMBER
    record = (STRING,)
    answer = INTEGER


@dataclass(slots=True, eq=False, repr=False)
class GetEphemerals(ZkOperation["list[str]"]):
    """The ephemeral znodes of this session whose path begins with `path`."""

    path: str = "/"
    op_code: ClassVar[OpCode] = OpCode.GET_EPHEMERALS
    record = (STRING,)
    answer = STRINGS


@dataclass(slots=True, eq=False, repr=False)
class GetACL(ZkOperation["tuple[ACLs, Stat]"]):
    path: str
    op_code: ClassVar[OpCode] = OpCode.GET_ACL
    record = (STRING,)
    answer = both(ACL_LIST, STAT)


@dataclass(slots=True, eq=False, repr=False)
class SetACL(ZkOperation[Stat]):
    """Replaces a znode's ACLs; `version` is about the Stat's aversion."""

    path: str
    acl: ACLs
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_ACL
    record = (STRING, ACL_LIST, INTEGER)
    answer = STAT


@dataclass(slots=True, eq=False, repr=False)
class Sync(ZkOperation[str]):
    """Answered when the server has applied every write before it."""

    path: str
    op_code: ClassVar[OpCode] = OpCode.SYNC
    record = (STRING,)
    answer = STRING


_PART = Struct(">ibi")  # MultiHeader: type, done, err
_END = _PART.pack(-1, 1, -1)


@dataclass(slots=True, eq=False, repr=False)
class Multi(ZkOperation["list[Any]"]):
    """Several writes and checks, all or none of them done, under one zxid.

    The result is a list with each part's own result. When one failed, it is a list of `ZooKeeperError`: code OK for
    those before it (they are undone), its own code, and RUNTIME_INCONSISTENCY for those after it.
    """

    operations: Sequence[ZkOperation[Any]]
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
        allowed = _MULTI_READ_PARTS if op_code == OpCode.MULTI_READ else MULTI_PARTS
        operations: list[ZkOperation[Any]] = []
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


Decoder: TypeAlias = Callable[[int, Bytes, int], tuple[ZkOperation[Any], int]]

MULTI_PARTS: dict[int, Decoder] = {
    OpCode.CREATE: Create.decode,
    OpCode.CREATE2: Create.decode,
    OpCode.CREATE_CONTAINER: Create.decode,
    OpCode.CREATE_TTL: Create.decode,
    OpCode.DELETE: Delete.decode,
    OpCode.SET_DATA: SetData.decode,
    OpCode.CHECK: Check.decode,
}
_MULTI_READ_PARTS: dict[int, Decoder] = {
    OpCode.GET_DATA: GetData.decode,
    OpCode.GET_CHILDREN: GetChildrenWithoutStat.decode,
}
