"""A session's conversation with a ZooKeeper server, framed.

A connection opens with one `ConnectRequest` and its `ConnectResponse`; after that the client sends frames of (xid, op
code, the operation's record) and the server answers each, in order, with (xid, zxid, error, the result's record). A
watch event arrives between them under the xid `NOTIFICATION_XID`. Every frame begins with its length, four bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from barnabas.runtime.doors import Bytes
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.jute import (
    INT,
    JuteError,
    encode_buffer,
    encode_string,
    read_bool,
    read_buffer,
    read_int,
    read_string,
)
from barnabas.zk.protocol.ops import (
    MULTI_PARTS,
    Decoder,
    DeleteContainer,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenWithoutStat,
    GetData,
    GetEphemerals,
    Multi,
    SetACL,
    Sync,
    ZkOperation,
)
from barnabas.zk.protocol.session_ops import (
    AddWatch,
    Auth,
    CheckWatches,
    CloseSession,
    Ping,
    RemoveWatches,
    Sasl,
    SetWatches,
    WhoAmI,
)

_ONE_FORM: Final[tuple[type[ZkOperation[Any]], ...]] = (
    DeleteContainer,
    Exists,
    GetData,
    GetACL,
    SetACL,
    GetChildren,
    GetChildrenWithoutStat,
    GetAllChildrenNumber,
    GetEphemerals,
    Sync,
    Ping,
    CheckWatches,
    RemoveWatches,
    AddWatch,
    Auth,
    Sasl,
    WhoAmI,
    CloseSession,
)
_DECODERS: Final[dict[int, Decoder]] = {
    **{op_code: decode for op_code, decode in MULTI_PARTS.items() if op_code != OpCode.CHECK},
    **{operation.op_code: operation.decode for operation in _ONE_FORM},
    OpCode.MULTI: Multi.decode,
    OpCode.MULTI_READ: Multi.decode,
    OpCode.SET_WATCHES: SetWatches.decode,
    OpCode.SET_WATCHES2: SetWatches.decode,
}


def decode_operation(op_code: int, buffer: Bytes, position: int) -> ZkOperation[Any] | None:
    """The operation in a request's record; None for an unknown op code. Raises `JuteError` for bad bytes."""
    decode = _DECODERS.get(op_code)
    return None if decode is None else decode(op_code, buffer, position)[0]


JUTE_MAX_BUFFER: Final = 0xFFFFF
"""The longest request that a server accepts by default."""
LENGTH_BYTES: Final = 4
"""The size of the length before a frame, which the length itself does not count."""
_REQUEST = Struct(">iii")  # length, xid, op code
_REQUEST_HEADER = Struct(">ii")
_REPLY = Struct(">iiqi")  # length, xid, zxid, err
_REPLY_HEADER = Struct(">iqi")
REPLY_HEADER_SIZE: Final = _REPLY_HEADER.size


def encode_request(xid: int, operation: ZkOperation[Any]) -> bytes:
    """A request's whole frame, its length first."""
    record = operation.encode()
    return _REQUEST.pack(8 + len(record), xid, operation.op_code) + record


def decode_request_header(frame: Bytes) -> tuple[int, int]:
    """(xid, op code) of a request (frame without its length)."""
    try:
        xid, op_code = _REQUEST_HEADER.unpack_from(frame)
    except StructError:
        raise JuteError(f"a request of {len(frame)} bytes") from None
    return xid, op_code


def encode_reply(xid: int, zxid: int, code: int, record: bytes = b"") -> bytes:
    """An answer's whole frame, its length first."""
    return _REPLY.pack(16 + len(record), xid, zxid, code) + record


class ReplyHeader(NamedTuple):
    xid: int
    zxid: int
    code: int


def decode_reply_header(frame: Bytes) -> ReplyHeader:
    """The header of an answer (frame without its length); the record begins at `REPLY_HEADER_SIZE`."""
    try:
        return ReplyHeader._make(_REPLY_HEADER.unpack_from(frame))
    except StructError:
        raise JuteError(f"an answer of {len(frame)} bytes") from None


class WatchEvent(NamedTuple):
    """The event of a watch: its type, the session's state, the znode."""

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

    def encode(self) -> bytes:
        """The record without its length."""
        head = _CONNECT.pack(_PROTOCOL_VERSION, self.last_zxid_seen, self.timeout_ms, self.session_id)
        tail = b"" if self.read_only is None else bytes([self.read_only])
        return head + encode_buffer(self.password) + tail

    @classmethod
    def decode(cls, buffer: Bytes) -> ConnectRequest:
        try:
            _, last_zxid_seen, timeout_ms, session_id = _CONNECT.unpack_from(buffer)
        except StructError:
            raise JuteError(f"a connect request of {len(buffer)} bytes") from None
        password, position = read_buffer(buffer, _CONNECT.size)
        read_only = read_bool(buffer, position)[0] if position < len(buffer) else None
        return cls(timeout_ms, session_id, password or b"", last_zxid_seen, read_only)


_CONNECT = Struct(">iqiq")
_CONNECTED = Struct(">iiq")
_PROTOCOL_VERSION: Final = 0


@dataclass(slots=True)
class ConnectResponse:
    """The server's answer to a `ConnectRequest`: the session and its negotiated timeout; 0 for one that has expired."""

    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False

    def encode(self) -> bytes:
        """The record without its length."""
        head = _CONNECTED.pack(_PROTOCOL_VERSION, self.timeout_ms, self.session_id)
        tail = b"" if self.read_only is None else bytes([self.read_only])
        return head + encode_buffer(self.password) + tail

    @classmethod
    def decode(cls, buffer: Bytes) -> ConnectResponse:
        try:
            _, timeout_ms, session_id = _CONNECTED.unpack_from(buffer)
        except StructError:
            raise JuteError(f"a connect response of {len(buffer)} bytes") from None
        password, position = read_buffer(buffer, _CONNECTED.size)
        read_only = read_bool(buffer, position)[0] if position < len(buffer) else None
        return cls(timeout_ms, session_id, password or b"", read_only)

    @property
    def expired(self) -> bool:
        return self.timeout_ms <= 0


def framed(record: bytes) -> bytes:
    """The record, after its length."""
    return INT.pack(len(record)) + record
