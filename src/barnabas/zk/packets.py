"""The client's half of ZooKeeper's wire protocol (jute): requests as bytes, answers as values. Pure.

A packet is a 4-byte length and its payload; here only payloads are made and read. Paths are made absolute with the
chroot on the way out and lose it on the way in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from barnabas.zk.errors import NoNode, ZooKeeperError, error_of
from barnabas.zk.ops import (
    Acl,
    Check,
    Create,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Op,
    SetAcl,
    SetData,
    Stat,
    Sync,
)

WATCH_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

NODE_CREATED: Final = 1
NODE_DELETED: Final = 2
NODE_DATA_CHANGED: Final = 3
NODE_CHILDREN_CHANGED: Final = 4

CREATE: Final = 1
DELETE: Final = 2
EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_ACL: Final = 6
SET_ACL: Final = 7
SYNC: Final = 9
PING: Final = 11
GET_CHILDREN2: Final = 12
CHECK: Final = 13
MULTI: Final = 14
AUTH: Final = 100
SET_WATCHES: Final = 101
CLOSE_SESSION: Final = -11
ERROR: Final = -1

_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_REPLY_HEADER: Final = struct.Struct(">iqi")
_REQUEST_HEADER: Final = struct.Struct(">ii")
_MULTI_HEADER: Final = struct.Struct(">i?i")
_INT: Final = struct.Struct(">i")


class PacketError(ValueError):
    """Bytes that are no answer of ZooKeeper's, or end too early."""


class CloseSession:
    """Ends the session; the last request on a connection."""

    __slots__ = ()


def _buffer(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else _INT.pack(len(value)) + value


def _string(value: str) -> bytes:
    return _buffer(value.encode())


def _strings(values: Iterable[str]) -> bytes:
    encoded = [_string(value) for value in values]
    return _INT.pack(len(encoded)) + b"".join(encoded)


def _acls(acls: Iterable[Acl]) -> bytes:
    encoded = [_INT.pack(acl.permissions) + _string(acl.scheme) + _string(acl.id) for acl in acls]
    return _INT.pack(len(encoded)) + b"".join(encoded)


def _path(chroot: str, path: str) -> bytes:
    return _string((chroot + path if path != "/" else chroot) or "/")


def connect_request(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    return struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id) + _buffer(password) + b"\x00"


def ping_request() -> bytes:
    return _REQUEST_HEADER.pack(PING_XID, PING)


def auth_request(scheme: str, auth: bytes) -> bytes:
    return _REQUEST_HEADER.pack(AUTH_XID, AUTH) + _INT.pack(0) + _string(scheme) + _buffer(auth)


def set_watches_request(
    last_zxid: int, data_paths: Iterable[str], exist_paths: Iterable[str], child_paths: Iterable[str]
) -> bytes:
    """Paths are absolute here, as the server knows them."""
    return (
        _REQUEST_HEADER.pack(SET_WATCHES_XID, SET_WATCHES)
        + struct.pack(">q", last_zxid)
        + _strings(data_paths)
        + _strings(exist_paths)
        + _strings(child_paths)
    )


def request(xid: int, op: Op | CloseSession, chroot: str, watch: bool) -> bytes:
    kind, body = _operation(op, chroot, watch)
    return _REQUEST_HEADER.pack(xid, kind) + body


def _operation(op: Op | CloseSession, chroot: str, watch: bool) -> tuple[int, bytes]:
    """Opcode and record of one operation."""
    if isinstance(op, CloseSession):
        return CLOSE_SESSION, b""
    if isinstance(op, Multi):
        parts = []
        for part in op.ops:
            kind, body = _operation(part, chroot, False)
            parts.append(_MULTI_HEADER.pack(kind, False, -1) + body)
        return MULTI, b"".join(parts) + _MULTI_HEADER.pack(-1, True, -1)
    path = _path(chroot, op.path)
    if isinstance(op, Create):
        flags = int(op.ephemeral) | int(op.sequential) << 1
        return CREATE, path + _buffer(op.data) + _acls(op.acl) + _INT.pack(flags)
    if isinstance(op, SetData):
        return SET_DATA, path + _buffer(op.data) + _INT.pack(op.version)
    if isinstance(op, Delete):
        return DELETE, path + _INT.pack(op.version)
    if isinstance(op, Check):
        return CHECK, path + _INT.pack(op.version)
    if isinstance(op, GetData):
        return GET_DATA, path + bytes([watch])
    if isinstance(op, Exists):
        return EXISTS, path + bytes([watch])
    if isinstance(op, GetChildren):
        return GET_CHILDREN2, path + bytes([watch])
    if isinstance(op, Sync):
        return SYNC, path
    if isinstance(op, GetAcl):
        return GET_ACL, path
    assert isinstance(op, SetAcl)
    return SET_ACL, path + _acls(op.acl) + _INT.pack(op.version)


class _Reader:
    """Reads a packet from front to back and never beyond its end."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        if self._offset + layout.size > len(self._data):
            raise PacketError(f"{len(self._data)} bytes end within a field at {self._offset}")
        values = layout.unpack_from(self._data, self._offset)
        self._offset += layout.size
        return values

    def int(self) -> int:
        (value,) = self.unpack(_INT)
        return int(value)

    def buffer(self) -> bytes | None:
        length = self.int()
        if length < 0:
            return None
        if self._offset + length > len(self._data):
            raise PacketError(f"a field of {length} bytes at {self._offset} of {len(self._data)}")
        value = self._data[self._offset : self._offset + length]
        self._offset += length
        return value

    def string(self) -> str:
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise PacketError(f"a text that is not UTF-8: {error}") from None

    def strings(self) -> list[str]:
        count = self.int()
        if count > (len(self._data) - self._offset) // 4:
            raise PacketError(f"a list of {count} texts in {len(self._data)} bytes")
        return [self.string() for _ in range(count)]

    def stat(self) -> Stat:
        return Stat(*self.unpack(_STAT))


def decode_connect_response(packet: bytes) -> tuple[int, int, bytes]:
    """Negotiated timeout (0 when the session has expired), session id and password."""
    reader = _Reader(packet, 4)
    timeout_ms, session_id = reader.unpack(struct.Struct(">iq"))
    return timeout_ms, session_id, reader.buffer() or bytes(16)


def decode_reply_header(packet: bytes) -> tuple[int, int, int, int]:
    """xid, zxid, error code and where the body begins."""
    xid, zxid, code = _Reader(packet, 0).unpack(_REPLY_HEADER)
    return xid, zxid, code, _REPLY_HEADER.size


def decode_watcher_event(packet: bytes, offset: int) -> tuple[int, int, str]:
    """Kind of event, state of the session, and the absolute path."""
    reader = _Reader(packet, offset)
    kind, state = reader.unpack(_REQUEST_HEADER)
    return kind, state, reader.string()


def result_of(
    op: Op | CloseSession, code: int, packet: bytes, offset: int, chroot: str
) -> tuple[Any, ZooKeeperError | None]:
    """What `op` returns, or its error. A missing znode is no error to `Exists`: its result is None."""
    path = None if isinstance(op, CloseSession | Multi) else op.path
    if code != 0:
        error = error_of(code, path)
        if isinstance(op, Exists) and isinstance(error, NoNode):
            return None, None
        return None, error
    reader = _Reader(packet, offset)
    if isinstance(op, Multi):
        return _multi_result(op, reader, chroot)
    return _result(op, reader, chroot), None


def _result(op: Op | CloseSession, reader: _Reader, chroot: str) -> Any:
    if isinstance(op, Create):
        return reader.string().removeprefix(chroot)
    if isinstance(op, GetData):
        data = reader.buffer()
        return data, reader.stat()
    if isinstance(op, GetChildren):
        return reader.strings()
    if isinstance(op, SetData | Exists | SetAcl):
        return reader.stat()
    if isinstance(op, GetAcl):
        acls = []
        for _ in range(reader.int()):
            permissions = reader.int()
            acls.append(Acl(permissions, reader.string(), reader.string()))
        return acls, reader.stat()
    return None


def _multi_result(op: Multi, reader: _Reader, chroot: str) -> tuple[Any, ZooKeeperError | None]:
    """The results of all operations; or the error of the one that failed, with its index."""
    results: list[Any] = []
    failed: ZooKeeperError | None = None
    while True:
        kind, done, _ = reader.unpack(_MULTI_HEADER)
        if done:
            break
        if len(results) == len(op.ops):
            raise PacketError("a multi with more answers than operations")
        index = len(results)
        if kind == ERROR:
            code = reader.int()
            # Operations before the one that failed have code 0, those after it RUNTIMEINCONSISTENCY.
            if code != 0 and failed is None:
                failed = error_of(code, op.ops[index].path)
                failed.op_index = index
            results.append(None)
        else:
            results.append(_result(op.ops[index], reader, chroot))
    if failed is not None:
        return None, failed
    if len(results) != len(op.ops):
        raise PacketError(f"a multi of {len(op.ops)} operations with {len(results)} answers")
    return results, None
