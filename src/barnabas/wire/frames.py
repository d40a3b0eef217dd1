"""Frames: a size, a header, a message. Which header a message has depends on its API and version.

A request header has the api key, the version and the correlation id first, whatever the version, so that a broker can
read far enough to know the rest. Flexible versions have header 2 (responses: 1). Two exceptions are Kafka's own: a
response to ApiVersions always has header 0, since the client does not know yet what the broker speaks; and
ControlledShutdown version 0 has no client id.
"""

from __future__ import annotations

import importlib
import struct
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.wire.api import ApiKey
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.message import Bytes, Message
from barnabas.wire.varint import read_unsigned

_HEADER: Final = struct.Struct(">hhi")
_SHORT: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_RESPONSE_START: Final = struct.Struct(">ii")
_CORRELATION_BYTES: Final = 4


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@cache
def _module(api_key: int) -> Any:
    try:
        return importlib.import_module(f"barnabas.wire.messages.{ApiKey(api_key).name.lower()}")
    except ValueError:
        raise UnsupportedVersionError(f"there is no API with the key {api_key}") from None


@cache
def _class(api_key: int, kind: str) -> type[Message]:
    module = _module(api_key)
    name = "".join(part.capitalize() for part in ApiKey(api_key).name.split("_")) + kind
    found: type[Message] = getattr(module, name)
    return found


def request_class(api_key: int) -> type[Message]:
    """The request of an API, imported when first asked for. Raises `UnsupportedVersionError` for an unknown key."""
    return _class(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    return _class(api_key, "Response")


def decode_request_header(frame: Bytes) -> tuple[RequestHeader, int]:
    """The header of a frame (without its size), and where the body begins. Raises `WireError`.

    An unknown API is `UnsupportedVersionError`; so is an unknown version, except of ApiVersions: its header is read as
    that of version 0 and on, so that the broker can answer what it knows (KIP-511).
    """
    if len(frame) < _HEADER.size:
        raise WireError(f"a frame of {len(frame)} bytes has no room for a request header")
    api_key, version, correlation_id = _HEADER.unpack_from(frame)
    request = request_class(api_key)
    if not request.min_version <= version <= request.max_version:
        if api_key != ApiKey.API_VERSIONS:
            raise UnsupportedVersionError(f"{request.name} has no version {version}")
        return RequestHeader(api_key, version, correlation_id, None), len(frame)
    position = _HEADER.size
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(api_key, version, correlation_id, None), position
    if len(frame) < position + 2:
        raise WireError("a request header ends before its client id")
    (length,) = _SHORT.unpack_from(frame, position)
    position += 2
    client_id: str | None = None
    if length >= 0:
        if len(frame) < position + length:
            raise WireError(f"a client id of {length} bytes reaches beyond its frame")
        # Malformed UTF-8 is replaced, as Java's String does: a client id in Latin-1 is no reason to hang up.
        client_id = str(frame[position : position + length], "utf-8", "replace")
        position += length
    if version >= request.flexible_since:
        position = _skip_tagged_fields(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id), position


def _skip_tagged_fields(frame: Bytes, position: int) -> int:
    try:
        if frame[position] == 0:
            return position + 1
        count, position = read_unsigned(frame, position)
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
    head += _HEADER.pack(message.api_key, version, correlation_id)
    if not (message.api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0):
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
    head = bytearray(_RESPONSE_START.pack(0, correlation_id))
    if version >= message.flexible_since and message.api_key != ApiKey.API_VERSIONS:
        head.append(0)
    return _framed(head, message, version)


def _framed(head: bytearray, message: Message, version: int) -> list[Bytes]:
    parts: list[Bytes] = []
    last = message.encode_into(version, head, parts)
    if not parts:
        _SIZE.pack_into(last, 0, len(last) - 4)
        return [last]
    if last:
        parts.append(last)
    # `head` is the first part: the size is written into it when everything is there.
    _SIZE.pack_into(head, 0, sum(map(len, parts)) - 4)
    return parts


def decode_response(cls: type[Message], version: int, frame: Bytes) -> tuple[int, Any]:
    """Correlation id and message of a frame (without its size). Raises `WireError`."""
    if len(frame) < _CORRELATION_BYTES:
        raise WireError(f"a response of {len(frame)} bytes has no room for its correlation id")
    (correlation_id,) = _SIZE.unpack_from(frame)
    position = _CORRELATION_BYTES
    if version >= cls.flexible_since and cls.api_key != ApiKey.API_VERSIONS:
        position = _skip_tagged_fields(frame, position)
    message, _ = cls.decode(frame, version, position)
    return correlation_id, message
