"""Jute, the encoding of ZooKeeper's records: big-endian numbers, and buffers, strings and vectors behind a length.

A length of -1 stands for null. Every reader takes a buffer and a position and returns the value and the position after
it; a length is checked against the buffer before a value is made.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas.runtime.doors import Bytes

INT = Struct(">i")
LONG = Struct(">q")
_read_int = INT.unpack_from
_read_long = LONG.unpack_from
_int = INT.pack


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
    """A length (-1 for null) and the position of its bytes."""
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
    """A string; null reads as empty, which is no valid path, scheme or id either."""
    length, start = _read_length(buffer, position)
    if length <= 0:
        return "", start
    end = start + length
    try:
        return str(buffer[start:end], "utf-8"), end
    except UnicodeDecodeError:
        raise JuteError(f"the string at {position} is not UTF-8") from None


def read_count(buffer: Bytes, position: int, element_size_min: int) -> tuple[int, int]:
    """The number of a vector's elements, at most as many as the rest of the buffer can hold; null reads as 0."""
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


T = TypeVar("T")
U = TypeVar("U")


class JuteKind(NamedTuple, Generic[T]):
    """A type of ZooKeeper's records, read and written."""

    read: Callable[[Bytes, int], tuple[T, int]]
    encode: Callable[[T], bytes]


def _read_bytes(buffer: Bytes, position: int) -> tuple[bytes, int]:
    data, position = read_buffer(buffer, position)
    return data or b"", position


def both(first: JuteKind[T], second: JuteKind[U]) -> JuteKind[tuple[T, U]]:
    """A pair, one after the other."""
    read_first, encode_first = first
    read_second, encode_second = second

    def read(buffer: Bytes, position: int) -> tuple[tuple[T, U], int]:
        one, position = read_first(buffer, position)
        other, position = read_second(buffer, position)
        return (one, other), position

    return JuteKind(read, lambda pair: encode_first(pair[0]) + encode_second(pair[1]))


NOTHING: Final[JuteKind[None]] = JuteKind(lambda buffer, position: (None, position), lambda nothing: b"")
INTEGER: Final[JuteKind[int]] = JuteKind(read_int, INT.pack)
BOOLEAN: Final[JuteKind[bool]] = JuteKind(read_bool, lambda value: b"\x01" if value else b"\x00")
STRING: Final[JuteKind[str]] = JuteKind(read_string, encode_string)
STRINGS: Final[JuteKind[list[str]]] = JuteKind(read_strings, encode_strings)
BUFFER: Final[JuteKind[bytes | None]] = JuteKind(read_buffer, encode_buffer)
BYTES: Final[JuteKind[bytes]] = JuteKind(_read_bytes, encode_buffer)
"""A `BUFFER` whose null reads as empty."""
