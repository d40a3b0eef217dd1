"""Variable-length integers: unsigned for lengths and tags, zigzag for what is inside a record."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import WireError
from barnabas.wire.structs import Bytes


def read_rest(buffer: Bytes, offset: int, first: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, whose `first` byte is already read and has more bytes after it."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint has more than five bytes")
    if value > 0xFFFF_FFFF:
        raise WireError("a varint has more than 32 bits")
    return value, offset


def read_unsigned(buffer: Bytes, offset: int) -> tuple[int, int]:
    """``(value, offset after it)`` of an unsigned varint of at most 32 bits."""
    first = buffer[offset]
    if first < 0x80:
        return first, offset + 1
    return read_rest(buffer, offset + 1, first)


def write_unsigned(buffer: bytearray, value: int) -> None:
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)


def read_signed(buffer: Bytes, offset: int) -> tuple[int, int]:
    """``(value, offset after it)`` of a zigzag varint of at most 64 bits."""
    byte = buffer[offset]
    offset += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), offset
    value = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise WireError("a varint has more than ten bytes")
    if value > 0xFFFF_FFFF_FFFF_FFFF:
        raise WireError("a varint has more than 64 bits")
    return (value >> 1) ^ -(value & 1), offset


def read_signed_int(buffer: Bytes, offset: int) -> tuple[int, int]:
    """As `read_signed`, of 32 bits: at most five bytes, of whose last four bits count (Java's ``readVarint``)."""
    value = shift = 0
    while True:
        byte = buffer[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint has more than five bytes")
    value &= 0xFFFF_FFFF
    return (value >> 1) ^ -(value & 1), offset


def write_signed(buffer: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else (~value << 1) | 1
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)


def wrapped(number: int) -> int:
    """A sum that wraps as Java's ``long``."""
    return (number + (1 << 63) & 0xFFFF_FFFF_FFFF_FFFF) - (1 << 63)


def _signed(value: int) -> bytes:
    buffer = bytearray()
    write_signed(buffer, wrapped(value))
    return bytes(buffer)


_SMALL: Final = tuple(_signed(value) for value in range(512))


def signed(value: int) -> bytes:
    """A zigzag varint; most lengths and deltas are small, and encoded in advance."""
    return _SMALL[value] if 0 <= value < 512 else _signed(value)
