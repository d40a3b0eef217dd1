"""Jute, the encoding of ZooKeeper's records: big-endian numbers, and buffers, strings and vectors behind a length.

A length of -1 stands for null. Every reader takes a buffer and a position and returns the value and the position
behind it; a length is checked against what is really there before anything is made of it.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from barnabas.runtime.doors import Bytes

INT = Struct(">i")
LONG = Struct(">q")
_read_int = INT.unpack_from
_read_long = LONG.unpack_from
_int = INT.pack

__all__ = [
    "INT",
    "LONG",
    "JuteError",
    "StructError",
    "encode_buffer",
    "encode_string",
    "encode_strings",
    "read_bool",
    "read_buffer",
    "read_count",
    "read_int",
    "read_long",
    "read_string",
    "read_strings",
]


class JuteError(ValueError):
    """The bytes are not the record they should be."""


def read_int(buffer: Bytes, position: int) -> tuple[int, int]:
    try:
        return _read_int(buffer, position)[0], position + 4
    except StructError:
        raise JuteError(f"the record ends at {len(buffer)}, inside an int at {position}") from None


def read_long(buffer: Bytes, position: int) -> tuple[int, int]:
    try:
        return _read_long(buffer, position)[0], position + 8
    except StructError:
        raise JuteError(f"the record ends at {len(buffer)}, inside a long at {position}") from None


def read_bool(buffer: Bytes, position: int) -> tuple[bool, int]:
    if position >= len(buffer):
        raise JuteError(f"the record ends at {len(buffer)}, where a boolean should be")
    return buffer[position] != 0, position + 1


def _read_length(buffer: Bytes, position: int) -> tuple[int, int]:
    """A length and where its bytes begin; -1 for null."""
    try:
        length: int = _read_int(buffer, position)[0]
    except StructError:
        raise JuteError(f"the record ends at {len(buffer)}, inside a length at {position}") from None
    position += 4
    if length < -1 or position + length > len(buffer):
        raise JuteError(f"a length of {length} with {len(buffer) - position} bytes left")
    return length, position


def read_buffer(buffer: Bytes, position: int) -> tuple[bytes | None, int]:
    length, start = _read_length(buffer, position)
    if length == -1:
        return None, start
    end = start + length
    return bytes(buffer[start:end]), end


def read_string(buffer: Bytes, position: int) -> tuple[str, int]:
    """A string; null reads as the empty one, which is no path, scheme or id either."""
    length, start = _read_length(buffer, position)
    if length <= 0:
        return "", start
    end = start + length
    try:
        return str(buffer[start:end], "utf-8"), end
    except UnicodeDecodeError:
        raise JuteError(f"the string at {position} is not UTF-8") from None


def read_count(buffer: Bytes, position: int, element_size_min: int) -> tuple[int, int]:
    """The number of elements of a vector, at most as many as the rest of the buffer can hold; null reads as none."""
    count, position = read_int(buffer, position)
    if count == -1:
        return 0, position
    if count < 0 or count * element_size_min > len(buffer) - position:
        raise JuteError(f"a vector of {count} elements with {len(buffer) - position} bytes left")
    return count, position


def read_strings(buffer: Bytes, position: int) -> tuple[list[str], int]:
    count, position = read_count(buffer, position, 4)
    strings = []
    for _ in range(count):
        string, position = read_string(buffer, position)
        strings.append(string)
    return strings, position


def encode_buffer(data: Bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else _int(len(data)) + data


def encode_string(string: str) -> bytes:
    encoded = string.encode()
    return _int(len(encoded)) + encoded


def encode_strings(strings: list[str]) -> bytes:
    return _int(len(strings)) + b"".join([encode_string(string) for string in strings])
