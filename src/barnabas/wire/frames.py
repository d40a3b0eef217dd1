"""Frames: a size, a header, a message. Which header a message has depends on its API and version.

A request header begins with the api key, the version and the correlation id in every version, so that a broker can find
the rest of its layout. Flexible versions have header 2 (responses: 1). Two exceptions are Kafka's own: a response to
ApiVersions always has header 0, since the client does not know the broker's versions yet; and ControlledShutdown
version 0 has no client id.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Generator
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.wire.api import ApiKey
from barnabas.wire.coding import encoded_into, framed
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.kernel import kernel as _kernel
from barnabas.wire.message import Message
from barnabas.wire.messages import APIS
from barnabas.wire.structs import Bytes
from barnabas.wire.varint import read_unsigned

_HEADER_START: Final = struct.Struct(">hhi")
_HEADER: Final = struct.Struct(">hhih")
"""The size including the length of the client id."""
_SHORT: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_RESPONSE_START: Final = struct.Struct(">ii").pack
_FLEXIBLE_RESPONSE_START: Final = struct.Struct(">iix").pack
_CORRELATION_BYTES: Final = 4
_HEADER_BYTES: Final = _HEADER.size
TAGGED_FIELDS_MAX: Final = 1000
"""The limit of a header's tagged fields; Kafka's have none at all."""
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)


_VERSIONS: Final = b"".join(
    bytes(
        (APIS[key].max_version, min(APIS[key].flexible_since, 254))
        if key in APIS and key != _CONTROLLED_SHUTDOWN
        else (255, 255)
    )
    for key in range(max(APIS) + 1)
)
"""For `_kernel.header`, of each API the highest version and the first flexible one; 255: it must not read the API."""


class ReadHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@cache
def _class(api_key: int, kind: str) -> type[Message]:
    api = APIS.get(api_key)
    if api is None:
        raise UnsupportedVersionError(f"there is no API with the key {api_key}")
    module = importlib.import_module(f"barnabas.wire.messages.{api.module}")
    found: type[Message] = getattr(module, api.name + kind)
    return found


def request_class(api_key: int) -> type[Message]:
    """The request of an API, imported when first asked for. Raises `UnsupportedVersionError` for an unknown key."""
    return _class(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    return _class(api_key, "Response")


def decode_request_header(frame: Bytes) -> tuple[ReadHeader, int]:
    """The header of a frame (without its size), and the body's offset. Raises `WireError`.

    An unknown API is `UnsupportedVersionError`; so is an unknown version, except of ApiVersions: a client may ask in a
    future version, and learns the broker's versions (KIP-511).
    """
    frame_bytes = len(frame)
    length: int | None
    if _kernel is not None:
        found: tuple[ReadHeader, int] | None = _kernel.header(_VERSIONS, ReadHeader, frame)
        if found is not None:
            return found
    if frame_bytes >= _HEADER_BYTES:
        api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    elif frame_bytes >= _HEADER_START.size:
        api_key, version, correlation_id = _HEADER_START.unpack_from(frame)
        length = None
    else:
        raise WireError(f"a frame of {frame_bytes} bytes has no room for a request header")
    api = APIS.get(api_key)
    if api is None:
        raise UnsupportedVersionError(f"there is no API with the key {api_key}")
    if not 0 <= version <= api.max_version and api_key != _API_VERSIONS:
        raise UnsupportedVersionError(f"{api.name} has no version {version}")
    if api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return ReadHeader(api_key, version, correlation_id, None), _HEADER_START.size
    if length is None:
        raise WireError("a request header ends before its client id")
    position = _HEADER_BYTES
    client_id: str | None = None
    if length >= 0:
        if frame_bytes < position + length:
            raise WireError(f"a client id of {length} bytes reaches beyond its frame")
        # Malformed UTF-8 is replaced, as by Java's String: a client id in Latin-1 must not end the connection.
        client_id = str(frame[position : position + length], "utf-8", "replace")
        position += length
    # The fields of a future version after the client id are not read.
    if api.flexible_since <= version <= api.max_version:
        position = _skip_tagged_fields(frame, position)
    # `tuple.__new__` takes a quarter of the time of the class's own constructor.
    return tuple.__new__(ReadHeader, (api_key, version, correlation_id, client_id)), position


def _skip_tagged_fields(frame: Bytes, position: int) -> int:
    try:
        if frame[position] == 0:
            return position + 1
        count, position = read_unsigned(frame, position)
        if count > TAGGED_FIELDS_MAX:
            raise WireError(f"a header says it has {count} tagged fields")
        for _ in range(count):
            _, position = read_unsigned(frame, position)
            size, position = read_unsigned(frame, position)
            position += size
            if position > len(frame):
                raise WireError("a tagged field reaches beyond its frame")
    except IndexError:
        raise WireError("a header ends inside its tagged fields") from None
    return position


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Bytes]:
    """The whole frame in parts, its size first; records stay in their own buffers."""
    head = bytearray(4)
    head += _HEADER_START.pack(message.api_key, version, correlation_id)
    if not (message.api_key == _CONTROLLED_SHUTDOWN and version == 0):
        if client_id is None:
            head += _SHORT.pack(-1)
        else:
            encoded = client_id.encode()
            head += _SHORT.pack(len(encoded))
            head += encoded
    if version >= message.flexible_since:
        head.append(0)
    return _framed(head, message, version)


def encode_response(message: Message, version: int, correlation_id: int) -> list[Bytes]:
    """The whole frame in parts, its size first; records stay in their own buffers."""
    flexible = version >= message.flexible_since and message.api_key != _API_VERSIONS
    start = _FLEXIBLE_RESPONSE_START if flexible else _RESPONSE_START
    return _framed(bytearray(start(0, correlation_id)), message, version)


def encode_response_in_turns(message: Message, version: int, correlation_id: int) -> Generator[int, None, list[Bytes]]:
    """As `encode_response`, but yields now and then the number of bytes so far, without those of records."""
    head = bytearray(_RESPONSE_START(0, correlation_id))
    if version >= message.flexible_since and message.api_key != _API_VERSIONS:
        head.append(0)
    parts: list[Bytes] = []
    last = yield from message.encode_into_in_turns(version, head, parts)
    return _sized(head, last, parts)


def _framed(head: bytearray, message: Message, version: int) -> list[Bytes]:
    whole = framed(message, version, head)
    if whole is not None:
        return whole
    parts: list[Bytes] = []
    last = encoded_into(message, version, head, parts)
    return _sized(head, last, parts)


def _sized(head: bytearray, last: bytearray, parts: list[Bytes]) -> list[Bytes]:
    if not parts:
        _SIZE.pack_into(last, 0, len(last) - 4)
        return [last]
    if last:
        parts.append(last)
    # `head` is the first part: the size is written into it at the end.
    _SIZE.pack_into(head, 0, sum(map(len, parts)) - 4)
    return parts


def decode_response(cls: type[Message], version: int, frame: Bytes) -> tuple[int, Any]:
    """Correlation id and message of a frame (without its size). Raises `WireError`."""
    if len(frame) < _CORRELATION_BYTES:
        raise WireError(f"a response of {len(frame)} bytes has no room for its correlation id")
    (correlation_id,) = _SIZE.unpack_from(frame)
    position = _CORRELATION_BYTES
    if version >= cls.flexible_since and cls.api_key != _API_VERSIONS:
        position = _skip_tagged_fields(frame, position)
    message, _ = cls.decode(frame, version, position)
    return correlation_id, message
