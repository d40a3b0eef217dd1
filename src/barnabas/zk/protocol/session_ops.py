"""The operations that are about a session and its watches rather than about a znode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from barnabas.runtime.doors import Bytes
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.jute import (
    INT,
    LONG,
    encode_buffer,
    encode_string,
    encode_strings,
    read_buffer,
    read_count,
    read_int,
    read_long,
    read_string,
    read_strings,
)
from barnabas.zk.protocol.ops import Operation, encode_nothing


class _WithoutRecord(Operation[None]):
    """An operation that is its op code alone."""

    __slots__ = ()

    def encode(self) -> bytes:
        return b""

    def decode_result(self, buffer: Bytes, position: int) -> tuple[None, int]:
        return None, position

    encode_result = staticmethod(encode_nothing)


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

    encode_result = staticmethod(encode_nothing)


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
