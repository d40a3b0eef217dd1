"""Message sets of magic 0 and 1, written for clients that know no record batches (Fetch 0 to 3).

A log holds batches of magic 2. For such a client their records are written one message each, without their headers
and, in magic 0, without their timestamps. They are not compressed again: a wrapper's offsets differ between the two
magics, and LZ4's frames in magic 0 have a checksum that only Kafka of that age makes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from barnabas.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, TooLargeError, decompressed_pieces
from barnabas.wire.errors import WireError
from barnabas.wire.records import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, Record, batches, first_headers, records_of
from barnabas.wire.structs import Bytes
from barnabas.wire.varint import read_signed, wrapped

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
FIRST_BATCH_BYTES: Final = 64 * 1024
_TURN: Final = 127
"""A mask: after every 128 records other tasks may run."""

_PREFIX: Final = struct.Struct(">qi")
_HEAD: Final = struct.Struct(">bb")
_HEAD_WITH_TIMESTAMP: Final = struct.Struct(">bbq")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")


class UnsupportedCompressionError(WireError):
    """Clients that know no record batches get nothing that zstd compressed, as Kafka has it."""


def build_message_set(records: Sequence[Record], magic: int, *, log_append_time: bool = False) -> bytes:
    """One message for each record, with the record's own offset."""
    assert magic in (0, 1)
    parts: list[bytes] = []
    for offset, timestamp, key, value, _ in records:
        if magic:
            head = _HEAD_WITH_TIMESTAMP.pack(1, LOG_APPEND_TIME if log_append_time else 0, timestamp)
        else:
            head = _HEAD.pack(0, 0)
        body = head + _sized(key) + _sized(value)
        parts += (_PREFIX.pack(offset, _CRC.size + len(body)), _CRC.pack(zlib.crc32(body)), body)
    return b"".join(parts)


def _sized(field: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if field is None else _LENGTH.pack(len(field)) + field


def down_converting(
    buffer: Bytes, magic: int, first_offset: int, limit: int, *, at_least_one: bool = True
) -> Generator[None, None, bytes]:
    """The records of `buffer` from `first_offset` on, as messages (Kafka's ``RecordsUtil.downConvert``), up to about
    `limit` bytes of them: the client asks for the rest next. If there has to be at least one, the first message comes
    whole, with up to `FIRST_BATCH_BYTES` of its batch; ``LazyDownConversionRecords`` gives the whole batch.

    A few bytes may unpack to gigabytes of records. They are unpacked piece by piece, up to the limit; this yields now
    and then, so that other tasks may run. A record above `RECORD_BYTES_MAX` and the limit is a `TooLargeError`.

    Control records are left out. Batches of zstd are not converted: only those before the first of them are returned,
    and if there are none an `UnsupportedCompressionError` is raised. A truncated batch stays if it is the only one:
    from its first twelve bytes, which are the same in every magic, an old client sees that the next message is larger
    than it asked for. Raises `WireError` for invalid content of a batch.
    """
    converted: list[bytes] = []
    size = 0
    allowed = max(limit, FIRST_BATCH_BYTES) if at_least_one else limit
    whole = 0
    for header, start, end in batches(buffer):
        whole = end
        if header.magic <= magic:
            if size + end - start > limit and (converted or not at_least_one):
                break
            converted.append(bytes(buffer[start:end]))
            size += end - start
        elif not header.is_control:
            if header.compression is Codec.ZSTD:
                if converted:
                    break
                raise UnsupportedCompressionError("a batch is compressed by zstd")
            append_time = bool(header.attributes & LOG_APPEND_TIME)
            for record in records_in_turns(header, memoryview(buffer)[start:end], max(limit, RECORD_BYTES_MAX)):
                if record is None:
                    yield
                # An old client would give its application an uncompressed message before the requested offset.
                elif record.offset >= first_offset:
                    message = build_message_set([record], magic, log_append_time=append_time)
                    if size + len(message) > allowed and (converted or not at_least_one):
                        return b"".join(converted)
                    converted.append(message)
                    size += len(message)
        if converted:
            allowed = limit
    return b"".join(converted) if whole else bytes(buffer)


def records_in_turns(
    header: BatchHeader, batch: memoryview, limit: int = DECOMPRESSED_BYTES_MAX, *, headers_max: int = 0
) -> Iterator[Record | None]:
    """The records of one batch, none of them longer than `limit`, with their first `headers_max` headers; None now and
    then, so that other tasks may run."""
    if header.magic < 2:
        yield from records_of(batch, 0, len(batch), limit=limit)
        return
    held = bytearray()
    found = 0
    for count, piece in enumerate(decompressed_pieces(header.compression, batch[HEADER_BYTES:])):
        held += piece
        position = 0
        while True:
            try:
                length, begins = read_signed(held, position)
            except IndexError:
                break  # the length is incomplete yet
            if not 0 <= length <= limit:
                raise (
                    WireError(f"a record has {length} bytes")
                    if length < 0
                    else TooLargeError(header.compression, limit)
                )
            if begins + length > len(held):
                break
            yield _record(header, held, begins, begins + length, headers_max)
            position = begins + length
            found += 1
            if not found & _TURN:
                yield None
        del held[:position]
        if not count & 3:
            yield None
    if held or found != header.record_count:
        raise WireError(f"a batch says it has {header.record_count} records, and has {found} and {len(held)} bytes")


def _record(header: BatchHeader, data: bytearray, position: int, end: int, headers_max: int) -> Record:
    """The record whose attributes are at `position`."""
    fields: list[bytes | None] = []
    try:
        timestamp_delta, position = read_signed(data, position + 1)
        offset_delta, position = read_signed(data, position)
        for _ in ("key", "value"):
            length, position = read_signed(data, position)
            fields.append(None if length < 0 else bytes(data[position : position + length]))
            position += max(length, 0)
        headers = first_headers(bytes(data[position:end]), headers_max) if headers_max else ()
    except IndexError:
        raise WireError("a record ends too early") from None
    if position >= end:
        raise WireError(f"a record has fields that reach {position + 1 - end} bytes beyond it")
    stamped = header.attributes & LOG_APPEND_TIME
    timestamp = header.max_timestamp if stamped else wrapped(header.base_timestamp + timestamp_delta)
    return Record(header.base_offset + offset_delta, timestamp, fields[0], fields[1], headers)
