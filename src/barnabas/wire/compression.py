"""The compression codecs of record batches, each with a bound on its output.

A batch does not say its unpacked size, and a few bytes may unpack to gigabytes. `decompress` returns the whole output,
up to a limit; `decompressed_pieces` returns it piece by piece, so that a reader that needs each piece once holds only
one piece, whatever the total size.

Snappy comes in two forms: plain, and in the blocks of xerial's Java library, which is what Kafka's own clients write.
LZ4 frames are written with independent blocks, since Kafka's Java reader knows no others (``Lz4BlockInputStream``).
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

import cramjam

from barnabas.wire.errors import WireError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024
_OUTPUT_BYTES_MIN: Final = 4096
_INPUT_BYTES: Final = 16 * 1024
"""How many bytes a decoder gets at a time: each call copies the unconsumed rest."""
_ZSTD_SLOW: Final = 13
_SLOW_INPUT_BYTES: Final = 4 * 1024
"""From this level on zstd takes three to ten milliseconds per KiB."""
_GZIP_WINDOW: Final = 31
"""``zlib``'s number for a gzip header and the largest window."""
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_DEFAULT_LEVEL: Final = -1
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_RATIO_MAX: Final = 64
"""A copy of 64 bytes is encoded in at least two."""
_LENGTH: Final = struct.Struct(">i")
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic; version 1 with independent blocks and no checksums; blocks of 64 KiB; the checksum of these two bytes."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_LZ4_LENGTH: Final = struct.Struct("<I")
_LZ4_MAGIC: Final = _LZ4_HEADER[:4]
_LZ4_PLAIN_FLAGS: Final = 0x60
"""Version 1, independent blocks, only the header's checksum, no dictionary; with or without the content's size."""
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_BLOCK_SIZES: Final = {code: 1 << (8 + 2 * code) for code in (4, 5, 6, 7)}
"""64 KiB to 4 MiB."""


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


def compress(codec: Codec, data: bytes | memoryview, level: int | None = None) -> bytes:
    """`level` as in ``compression.gzip.level`` and ``compression.zstd.level`` (KIP-390), None for the default. The
    library's LZ4 and Snappy have only one level."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=None if level == _GZIP_DEFAULT_LEVEL else level))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    return b"".join(compressed_pieces(codec, data, level))


def compressed_pieces(codec: Codec, data: bytes | memoryview, level: int | None = None) -> Iterator[bytes]:
    """Compresses `data`, and yields a piece for every few KiB of it: a megabyte at the highest level takes seconds, and
    the caller can let other tasks run in between."""
    if codec is Codec.SNAPPY:
        yield from _snappy_blocks(data)
    elif codec is Codec.LZ4:
        yield from _lz4_blocks(data)
    elif codec is Codec.GZIP:
        gzip = zlib.compressobj(_GZIP_DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        yield from (gzip.compress(piece) for piece in _inputs(data))
        yield gzip.flush()
    elif codec is Codec.ZSTD:
        compressor = zstd.ZstdCompressor(level)
        compressor.set_pledged_input_size(len(data))  # else the highest levels allocate a window of a gigabyte
        size = _INPUT_BYTES if level is None or level < _ZSTD_SLOW else _SLOW_INPUT_BYTES
        yield from (compressor.compress(piece, zstd.ZstdCompressor.FLUSH_BLOCK) for piece in _inputs(data, size))
        yield compressor.flush()
    else:
        yield bytes(data)


def _snappy_blocks(data: bytes | memoryview) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        yield _LENGTH.pack(len(block)) + block


def _lz4_blocks(data: bytes | memoryview) -> Iterator[bytes]:
    yield _LZ4_HEADER
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            yield _LZ4_LENGTH.pack(len(block)) + block
        else:
            yield _LZ4_LENGTH.pack(len(plain) | _LZ4_STORED) + plain
    yield _LZ4_LENGTH.pack(0)


def mended_lz4(data: bytes) -> bytes:
    """An LZ4 frame of a message of magic 0, with the header's checksum that LZ4 asks for.

    Kafka's clients before 0.10 included the frame's magic number in the checksum (KAFKA-3160).
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


class TooLargeError(WireError):
    """A batch unpacks to more bytes than its reader allows."""

    def __init__(self, codec: Codec, limit: int) -> None:
        super().__init__(f"a {codec.name.lower()} batch unpacks to more than {limit} bytes")


def decompress(codec: Codec, data: memoryview, limit: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """Decompresses all, at most `limit` bytes. More is a `TooLargeError`, invalid bytes are a `WireError`; neither
    takes much more memory than `limit`."""
    if codec is Codec.NONE:
        return data
    if codec is Codec.SNAPPY:
        return memoryview(b"".join(_snappy_pieces(bytes(data), limit)))
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    # In one call if the output is at most four times the input, as it usually is.
    output = bytearray(min(max(_OUTPUT_BYTES_MIN, 4 * len(data)), limit))
    try:
        return memoryview(output)[: module.decompress_into(data, output)]
    except cramjam.DecompressionError:
        output.clear()  # larger, unusual or invalid: decompression in pieces decides
    for piece in decompressed_pieces(codec, data, limit=limit):
        output += piece
    return memoryview(output)


def decompressed_pieces(
    codec: Codec, data: memoryview, piece_size: int = PIECE_BYTES, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[bytes | memoryview]:
    """The same bytes as `decompress`, piece by piece; an error is raised at its piece.

    A piece of gzip and zstd has at most `piece_size` bytes; an empty member or frame gives an empty piece, since it
    takes time as well. Snappy and LZ4 give whole blocks: those of Kafka's clients have 32 or 64 KiB. LZ4 with linked
    blocks or content checksums, which Kafka's clients do not write, comes in one piece; so does plain snappy, with at
    most some twenty times its input.
    """
    if codec is Codec.NONE:
        if len(data) > limit:
            raise TooLargeError(codec, limit)
        yield from (data[start : start + piece_size] for start in range(0, len(data), piece_size))
        return
    if codec is Codec.SNAPPY:
        yield from _snappy_pieces(bytes(data), limit)
        return
    if codec is Codec.LZ4:
        pieces = _lz4_pieces(data, limit)
    else:
        pieces = _gzip_pieces(data, piece_size) if codec is Codec.GZIP else _zstd_pieces(data, piece_size)
    total = 0
    try:
        for piece in pieces:
            total += len(piece)
            if total > limit:
                raise TooLargeError(codec, limit)
            yield piece
    except (zlib.error, zstd.ZstdError, cramjam.DecompressionError) as error:
        raise WireError(f"a batch is not {codec.name.lower()}: {error}") from None


def _inputs(data: bytes | memoryview, size: int = _INPUT_BYTES) -> Iterator[bytes | memoryview]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _gzip_pieces(data: memoryview, piece_size: int) -> Iterator[bytes]:
    """One gzip member or several. Other bytes after a member are ignored, as by Java's ``GZIPInputStream``."""
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    position = 0
    for chunk in _inputs(data):
        position += len(chunk)
        rest: bytes | memoryview = chunk
        while True:
            if decoder.eof:
                if not rest:
                    break
                start = position - len(rest)
                if bytes(data[start : start + len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
                    return
                decoder = zlib.decompressobj(_GZIP_WINDOW)
            piece = decoder.decompress(rest, piece_size)
            if piece or decoder.eof:
                yield piece
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            if not rest and not decoder.eof and len(piece) < piece_size:
                break
    if not decoder.eof:
        raise WireError("a gzip batch ends in its middle")


def _zstd_pieces(data: memoryview, piece_size: int) -> Iterator[bytes]:
    """One frame or several. A frame's window is bounded by the library: 128 MiB, as in Kafka's."""
    decoder = zstd.ZstdDecompressor()
    for chunk in _inputs(data):
        rest: bytes | memoryview = chunk
        while True:
            if decoder.eof:
                if not rest:
                    break
                decoder = zstd.ZstdDecompressor()
            piece = decoder.decompress(rest, piece_size)
            if piece or decoder.eof:
                yield piece
            rest = decoder.unused_data if decoder.eof else b""
            if not decoder.eof and decoder.needs_input:
                break
    if not decoder.eof:
        raise WireError("a zstd batch ends in its middle")


def _lz4_pieces(data: memoryview, limit: int) -> Iterator[bytes | memoryview]:
    flags = data[4] if len(data) > len(_LZ4_HEADER) and data[:4] == _LZ4_MAGIC else 0
    if flags & ~_LZ4_CONTENT_SIZE != _LZ4_PLAIN_FLAGS or data[5] >> 4 not in _LZ4_BLOCK_SIZES:
        yield _lz4_whole(data, limit)
        return
    block_bytes = _LZ4_BLOCK_SIZES[data[5] >> 4]
    position = 6 + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    if position >= len(data) or _xxh32(bytes(data[4:position])) >> 8 & 0xFF != data[position]:
        raise WireError("an lz4 batch has a header that differs from its checksum")
    position += 1
    output = bytearray(block_bytes)
    view = memoryview(output)
    while True:
        if position + 4 > len(data):
            raise WireError("an lz4 batch ends in its middle")
        (length,) = _LZ4_LENGTH.unpack_from(data, position)
        position += 4
        if length == 0:
            break
        stored, length = length & _LZ4_STORED, length & ~_LZ4_STORED
        if length > block_bytes or position + length > len(data):
            raise WireError(f"an lz4 block of {length} bytes reaches beyond its batch or its frame's block size")
        block = data[position : position + length]
        if stored:
            yield block
        else:
            yield bytes(view[: cramjam.lz4.decompress_block_into(block, output, output_len=block_bytes)])
        position += length


def _lz4_whole(data: memoryview, limit: int) -> memoryview:
    size = max(_OUTPUT_BYTES_MIN, 4 * len(data))
    while True:
        output = bytearray(min(size, limit))
        try:
            return memoryview(output)[: cramjam.lz4.decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if size >= limit:
                raise TooLargeError(Codec.LZ4, limit) from None
        output.clear()
        size *= 2


def _snappy_pieces(data: bytes, limit: int) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _unsnap_block(data, limit, limit)
        return
    position, left = len(_XERIAL_HEADER), limit
    while position + _LENGTH.size <= len(data):
        if data.startswith(_XERIAL_MAGIC, position):  # another stream after the first
            position += len(_XERIAL_HEADER)
            continue
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise WireError(f"a snappy block of {length} bytes reaches beyond its batch")
        block = _unsnap_block(data[position : position + length], left, limit)
        left -= len(block)
        position += length
        yield block


def _unsnap_block(data: bytes, left: int, limit: int) -> bytes:
    try:
        size: Any = cramjam.snappy.decompress_raw_len(data)
        if size > _SNAPPY_RATIO_MAX * len(data):
            raise WireError(f"a snappy block of {len(data)} bytes says that it unpacks to {size}")
        if size > left:
            raise TooLargeError(Codec.SNAPPY, limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise WireError(f"a batch is not snappy: {error}") from None
