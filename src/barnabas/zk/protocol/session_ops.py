"""The operations that are about a session and its watches rather than about a znode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from barnabas.runtime.doors import Bytes
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.jute import (
    BUFFER,
    BYTES,
    INT,
    INTEGER,
    LONG,
    STRING,
    JuteKind,
    encode_string,
    encode_strings,
    read_count,
    read_int,
    read_long,
    read_string,
    read_strings,
)
from barnabas.zk.protocol.ops import ZkOperation


@dataclass(slots=True, eq=False, repr=False)
class Ping(ZkOperation[None]):
    op_code: ClassVar[OpCode] = OpCode.PING


@dataclass(slots=True, eq=False, repr=False)
class CloseSession(ZkOperation[None]):
    op_code: ClassVar[OpCode] = OpCode.CLOSE_SESSION


def _read_scheme(buffer: Bytes, position: int) -> tuple[str, int]:
    _, position = read_int(buffer, position)
    return read_string(buffer, position)


_SCHEME: Final[JuteKind[str]] = JuteKind(_read_scheme, lambda scheme: INT.pack(0) + encode_string(scheme))
"""The scheme of an `Auth` packet, after its type, a number that is never used."""


@dataclass(slots=True, eq=False, repr=False)
class Auth(ZkOperation[None]):
    """Adds an identity to the connection, such as ``digest`` with ``user:password``. Sent under `AUTH_XID`."""

    scheme: str
    auth: bytes | None
    op_code: ClassVar[OpCode] = OpCode.AUTH
    record = (_SCHEME, BUFFER)


@dataclass(slots=True, eq=False, repr=False)
class Sasl(ZkOperation["bytes | None"]):
    """One token of a SASL conversation; the result is the server's next token. The client's first one is empty."""

    token: bytes
    op_code: ClassVar[OpCode] = OpCode.SASL
    record = (BYTES,)
    answer = BUFFER


def _read_identities(buffer: Bytes, position: int) -> tuple[list[tuple[str, str]], int]:
    count, position = read_count(buffer, position, 8)
    identities = []
    for _ in range(count):
        scheme, position = read_string(buffer, position)
        user, position = read_string(buffer, position)
        identities.append((scheme, user))
    return identities, position


def _encode_identities(identities: list[tuple[str, str]]) -> bytes:
    return INT.pack(len(identities)) + b"".join([encode_string(s) + encode_string(user) for s, user in identities])


@dataclass(slots=True, eq=False, repr=False)
class WhoAmI(ZkOperation["list[tuple[str, str]]"]):
    """The identities (scheme, user) of this connection."""

    op_code: ClassVar[OpCode] = OpCode.WHO_AM_I
    answer = JuteKind(_read_identities, _encode_identities)


@dataclass(slots=True, eq=False, repr=False)
class AddWatch(ZkOperation[None]):
    """Sets a watch that stays when it fires; a recursive one is about the whole tree below `path`."""

    path: str
    mode: int
    op_code: ClassVar[OpCode] = OpCode.ADD_WATCH
    record = (STRING, INTEGER)
    # The server sends an ErrorResponse with the code 0 for a record.
    answer = JuteKind(lambda buffer, position: (None, min(position + 4, len(buffer))), lambda nothing: INT.pack(0))


@dataclass(slots=True, eq=False, repr=False)
class RemoveWatches(ZkOperation[None]):
    path: str
    watcher_type: int
    op_code: ClassVar[OpCode] = OpCode.REMOVE_WATCHES
    record = (STRING, INTEGER)


@dataclass(slots=True, eq=False, repr=False)
class CheckWatches(ZkOperation[None]):
    """NO_WATCHER unless this connection watches `path` so."""

    path: str
    watcher_type: int
    op_code: ClassVar[OpCode] = OpCode.CHECK_WATCHES
    record = (STRING, INTEGER)


@dataclass(slots=True, eq=False, repr=False)
class SetWatches(ZkOperation[None]):
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
    def op_code(self) -> OpCode:  # type: ignore[override]
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
