"""The compression codecs of record batches, each with a bound on what comes out.

What a batch unpacks to is not said in it, and a few bytes may unpack to gigabytes: output buffers grow by doubling, up
to `DECOMPRESSED_BYTES_MAX` and never beyond. Snappy comes in two forms: plain, and in the blocks of xerial's Java
library, which is what Kafka's own clients write. LZ4 frames are written with independent blocks, since Kafka's Java
reader knows no others (``Lz4BlockInputStream``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import cramjam

from barnabas.wire.errors import WireError

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
_OUTPUT_BYTES_MIN: Final = 4096
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic; version 1 with independent blocks and no checksums; blocks of 64 KiB; the checksum of these two bytes."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_LZ4_LENGTH: Final = struct.Struct("<I")


class Codec(IntEnum):
    """The number in a batch's attributes; names as in ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"{name!r} is no compression codec; there are {known}") from None


def compress(codec: Codec, data: bytes | memoryview) -> bytes:
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec is Codec.LZ4:
        return _lz4_frame(data)
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data))
    blocks = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        blocks += [_LENGTH.pack(len(block)), block]
    return b"".join(blocks)


def _lz4_frame(data: bytes | memoryview) -> bytes:
    blocks: list[bytes | memoryview] = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            blocks += [_LZ4_LENGTH.pack(len(block)), block]
        else:
            blocks += [_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), plain]
    blocks.append(_LZ4_LENGTH.pack(0))
    return b"".join(blocks)


def mended_lz4(data: bytes) -> bytes:
    """An LZ4 frame of a message of magic 0, with the header's checksum that LZ4 asks for.

    Kafka's clients before 0.10 took the frame's magic number into the checksum as well (KAFKA-3160).
    """
    end = 6 + (8 if len(data) > 4 and data[4] & 0x08 else 0)
    if len(data) <= end:
        return data
    return data[:end] + bytes([_xxh32(data[4:end]) >> 8 & 0xFF]) + data[end + 1 :]


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes."""
    hashed = 0x165667B1 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        hashed = (hashed + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D) & 0xFFFFFFFF
        hashed = ((hashed << 17 & 0xFFFFFFFF | hashed >> 15) * 0x27D4EB2F) & 0xFFFFFFFF
    for byte in data[whole:]:
        hashed = (hashed + byte * 0x165667B1) & 0xFFFFFFFF
        hashed = ((hashed << 11 & 0xFFFFFFFF | hashed >> 21) * 0x9E3779B1) & 0xFFFFFFFF
    hashed = ((hashed ^ hashed >> 15) * 0x85EBCA77) & 0xFFFFFFFF
    hashed = ((hashed ^ hashed >> 13) * 0xC2B2AE3D) & 0xFFFFFFFF
    return hashed ^ hashed >> 16


def decompress(codec: Codec, data: memoryview, limit: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """At most `limit` bytes; more, or bytes that the codec did not make, are a `WireError`."""
    if codec is Codec.NONE:
        return data
    if codec is Codec.SNAPPY:
        return _unsnap(bytes(data), limit)
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    return _grown(module.decompress_into, bytes(data), limit, codec)


def _grown(decompress_into: Callable[[bytes, bytearray], int], data: bytes, limit: int, codec: Codec) -> memoryview:
    size = max(_OUTPUT_BYTES_MIN, 4 * len(data))
    while True:
        output = bytearray(min(size, limit))
        try:
            return memoryview(output)[: decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise WireError(f"a batch is not {codec.name.lower()}: {error}") from None
            if size >= limit:
                raise WireError(f"a {codec.name.lower()} batch unpacks to more than {limit} bytes") from None
        size *= 2


def _unsnap(data: bytes, limit: int) -> memoryview:
    if not data.startswith(_XERIAL_MAGIC):
        return memoryview(_unsnap_block(data, limit))
    position, parts, total = len(_XERIAL_HEADER), [], 0
    while position < len(data):
        if position + 4 > len(data):
            raise WireError("a snappy batch ends inside a block's length")
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise WireError(f"a snappy block of {length} bytes reaches beyond its batch")
        block = _unsnap_block(data[position : position + length], limit - total)
        parts.append(block)
        total += len(block)
        position += length
    return memoryview(b"".join(parts))


def _unsnap_block(data: bytes, limit: int) -> bytes:
    try:
        size: Any = cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise WireError(f"a snappy batch unpacks to more than {limit} bytes")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise WireError(f"a batch is not snappy: {error}") from None
