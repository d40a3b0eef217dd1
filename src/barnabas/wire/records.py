"""Record batches (magic 2, KIP-98), and the message sets of magic 0 and 1 that old logs still hold.

A batch is a header of 61 bytes and its records, compressed together or not. The first 12 bytes, base offset and length,
and the leader epoch lie outside the CRC, so that the leader stamps them in place (`stamp`) without computing the CRC
again. Brokers need only headers (`batches`, `parse_header`); `records_of` returns the records themselves.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress, mended_lz4
from barnabas.wire.errors import WireError
from barnabas.wire.structs import Bytes
from barnabas.wire.varint import read_signed, read_signed_int, signed, wrapped

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Base offset and length, which the length field does not count."""
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
_PREFIX: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_LEGACY_BYTES_MIN: Final = LOG_OVERHEAD + 14
_UINT32: Final = 0xFFFFFFFF

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class TimestampType(IntEnum):
    """The number that clients print; -1 for magic 0, which has no timestamps."""

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """`length` is the whole batch in bytes, its 12 bytes of prefix included. Magic 0 and 1: one (wrapper) message."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Codec:
        """Raises `WireError` for a number without a codec."""
        try:
            return Codec(self.attributes & COMPRESSION_MASK)
        except ValueError:
            raise WireError(f"a batch has the compression codec {self.attributes & COMPRESSION_MASK}") from None

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME


class Record(NamedTuple):
    """`timestamp` in ms. `headers` keep their order and may repeat a name."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def parse_header(buffer: Bytes, start: int = 0) -> BatchHeader:
    """The header of the batch at `start`. Raises `WireError` if there is none, or it reaches beyond the buffer."""
    left = len(buffer) - start
    if left < _LEGACY_BYTES_MIN:
        raise WireError(f"{left} bytes are no record batch")
    magic = buffer[start + MAGIC_AT]
    if magic == 2:
        if left < HEADER_BYTES:
            raise WireError(f"{left} bytes hold no batch header of {HEADER_BYTES}")
        fields = HEADER.unpack_from(buffer, start)
        length = fields[1] + LOG_OVERHEAD
        if not HEADER_BYTES <= length <= left:
            raise WireError(f"a batch says it has {length} bytes, {left} are there")
        return BatchHeader(fields[0], length, *fields[2:])
    if magic > 2:
        raise WireError(f"a batch has magic {magic}; 0, 1 and 2 are known")
    return _legacy_header(buffer, start, magic, left)


def _legacy_header(buffer: Bytes, start: int, magic: int, left: int) -> BatchHeader:
    offset, size = _PREFIX.unpack_from(buffer, start)
    length = size + LOG_OVERHEAD
    if not _LEGACY_BYTES_MIN + 8 * magic <= length <= left:
        raise WireError(f"a message says it has {length} bytes, {left} are there")
    crc = _INT.unpack_from(buffer, start + LOG_OVERHEAD)[0] & _UINT32
    attributes = buffer[start + MAGIC_AT + 1]
    timestamp = _LONG.unpack_from(buffer, start + MAGIC_AT + 2)[0] if magic else NO_TIMESTAMP
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, 1)


def batches(buffer: Bytes) -> Iterator[tuple[BatchHeader, int, int]]:
    """Each whole batch with its start and end. A truncated one at the buffer's end, as a fetch may have, is left
    out."""
    start, size = 0, len(buffer)
    while size - start >= LOG_OVERHEAD:
        length = _PREFIX.unpack_from(buffer, start)[1] + LOG_OVERHEAD
        if length < _LEGACY_BYTES_MIN:
            raise WireError(f"a batch says it has {length} bytes")
        if length > size - start:
            return
        yield parse_header(buffer, start), start, start + length
        start += length


def check_crc(buffer: Bytes, start: int, end: int) -> None:
    """Raises `WireError` if the batch's bytes do not match its CRC."""
    view = memoryview(buffer)
    if view[start + MAGIC_AT] == 2:
        stored = _INT.unpack_from(view, start + CRC_AT)[0] & _UINT32
        computed = crc32c(view[start + ATTRIBUTES_AT : end])
    else:
        stored = _INT.unpack_from(view, start + LOG_OVERHEAD)[0] & _UINT32
        computed = zlib.crc32(view[start + MAGIC_AT : end])
    if stored != computed:
        raise WireError(f"a batch has the CRC {stored:#010x}, its bytes {computed:#010x}")


def stamp(buffer: bytearray | memoryview, start: int, base_offset: int, partition_leader_epoch: int) -> None:
    """Writes the leader's fields into the batch at `start`; the CRC does not cover them."""
    _LONG.pack_into(buffer, start, base_offset)
    _INT.pack_into(buffer, start + LOG_OVERHEAD, partition_leader_epoch)


# ------------------------------------------------------------------------------------------------ records


def records_of(
    buffer: Bytes, start: int, end: int, *, limit: int = DECOMPRESSED_BYTES_MAX, any_offsets: bool = False
) -> list[Record]:
    """The records of one batch, unpacked. Raises `WireError` for invalid content.

    With `any_offsets` it does not check that the records have the batch's offsets.
    """
    header = parse_header(buffer, start)
    view = memoryview(buffer)[start:end]
    if header.magic < 2:
        return _legacy_records(header, view, limit)
    data = _content(header, view, limit)
    found, position = _records_at(data, 0, header.record_count, header)
    _check_end(data, position)
    if (
        found
        and not any_offsets
        and not header.base_offset <= found[0].offset <= found[-1].offset <= header.last_offset
    ):
        said, has = f"{header.base_offset} to {header.last_offset}", f"{found[0].offset} to {found[-1].offset}"
        raise WireError(f"a batch of offsets {said} has records from {has}")
    return found


def record_slices(batch: Bytes, size: int, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[list[Record]]:
    """The records of a batch of magic 2, with unchecked offsets, at most `size` at a time; an error is raised at its
    record."""
    header = parse_header(batch)
    data = _content(header, memoryview(batch), limit)
    position = 0
    for start in range(0, header.record_count, size):
        found, position = _records_at(data, position, min(size, header.record_count - start), header)
        yield found
    _check_end(data, position)


def _content(header: BatchHeader, view: memoryview, limit: int) -> bytes:
    data = bytes(decompress(header.compression, view[HEADER_BYTES:], limit))
    # A record takes at least seven bytes: a larger count is false, and would only take memory.
    if header.record_count < 0 or header.record_count * 7 > len(data):
        raise WireError(f"a batch of {len(data)} bytes says it has {header.record_count} records")
    return data


def _check_end(data: bytes, position: int) -> None:
    if position != len(data):
        raise WireError(f"{len(data) - position} bytes are left behind a batch's last record")


def _records_at(data: bytes, position: int, count: int, header: BatchHeader) -> tuple[list[Record], int]:
    """`count` records from `position` on, and the position after them."""
    log_append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    found: list[Record] = []
    # The hot loop of every reader: varints of one byte are read in place, and a record's own length is checked once,
    # after its last field.
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_signed_int(data, position)
            record_end = position + length
            timestamp_delta, position = read_signed(data, position + 1)  # one byte of attributes, unused
            if (byte := data[position]) < 0x80:
                offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                offset_delta, position = read_signed_int(data, position)
            key: bytes | None = None
            if (byte := data[position]) < 0x80:
                position += 1
                if not byte & 1:
                    key = data[position : position + (byte >> 1)]
                    position += byte >> 1
            else:
                key, position = _bytes(data, position)
            value: bytes | None = None
            if (byte := data[position]) < 0x80:
                position += 1
                if not byte & 1:
                    value = data[position : position + (byte >> 1)]
                    position += byte >> 1
            else:
                value, position = _bytes(data, position)
            headers: Sequence[tuple[str, bytes | None]] = ()
            if (byte := data[position]) == 0:
                position += 1
            else:
                headers, position = _headers(data, position, record_end)
            if position != record_end or record_end > len(data):
                raise WireError(f"a record of {length} bytes ends {position - record_end} bytes from its end")
            timestamp = base_timestamp + timestamp_delta if log_append_time is None else log_append_time
            if not -(1 << 63) <= timestamp < 1 << 63:
                timestamp = wrapped(timestamp)
            # `tuple.__new__` has a quarter of the price of the class's own constructor.
            found.append(tuple.__new__(Record, (base_offset + offset_delta, timestamp, key, value, headers)))
    except IndexError:
        raise WireError("a record ends too early") from None
    return found, position


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """The bytes end with the batch at the latest; the position does not, so that the caller notices."""
    length, position = read_signed_int(data, position)
    if length < 0:
        return None, position
    return data[position : position + length], position + length


def first_headers(data: bytes, most: int) -> list[tuple[str, bytes | None]]:
    """At most `most` of the headers at the beginning of `data`. Raises ``IndexError`` if `data` is truncated."""
    return _headers(data, 0, len(data), most)[0]


def _headers(
    data: bytes, position: int, end: int, most: int | None = None
) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = read_signed_int(data, position)
    if not 0 <= count <= end - position:
        raise WireError(f"a record says it has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count if most is None else min(count, most)):
        name, position = _bytes(data, position)
        value, position = _bytes(data, position)
        if name is None:
            raise WireError("a record's header has no name")
        headers.append((str(name, "utf-8", "replace"), value))
    return headers, position


def _legacy_records(header: BatchHeader, view: memoryview, limit: int) -> list[Record]:
    """One message of magic 0 or 1, or those inside a wrapper, with their absolute offsets (KIP-31)."""
    if header.compression is Codec.NONE:
        key, position = _legacy_bytes(view, MAGIC_AT + 2 + 8 * header.magic)
        value, _ = _legacy_bytes(view, position)
        return [Record(header.base_offset, header.base_timestamp, key, value)]
    inner = unwrapped(view, header.magic, header.compression, limit)
    found = [record for h, s, e in batches(inner) for record in _inner(h, inner[s:e])]
    if header.magic == 1 and found:
        # Offsets inside a wrapper of magic 1 count from 0; the wrapper's own offset is that of its last message.
        shift = header.base_offset - found[-1].offset
        found = [record._replace(offset=record.offset + shift) for record in found]
        if header.attributes & LOG_APPEND_TIME:
            found = [record._replace(timestamp=header.base_timestamp) for record in found]
    return found


def unwrapped(wrapper: memoryview, magic: int, codec: Codec, limit: int) -> memoryview:
    """The compressed messages inside a message of magic 0 or 1."""
    _, position = _legacy_bytes(wrapper, MAGIC_AT + 2 + 8 * magic)
    value, _ = _legacy_bytes(wrapper, position)
    if value is None:
        raise WireError("a wrapper message has no value")
    if codec is Codec.LZ4 and magic == 0:
        value = mended_lz4(value)
    return decompress(codec, memoryview(value), limit)


def _inner(header: BatchHeader, view: memoryview) -> list[Record]:
    if header.magic > 1 or header.attributes & COMPRESSION_MASK:
        raise WireError("a wrapper message may hold plain messages only")
    return _legacy_records(header, view, 0)


def _legacy_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + 4 > len(view):
        raise WireError("a message ends inside a length")
    (length,) = _INT.unpack_from(view, position)
    position += 4
    if length < 0:
        return None, position
    if position + length > len(view):
        raise WireError(f"a field of {length} bytes reaches beyond its message")
    return bytes(view[position : position + length]), position + length


# ------------------------------------------------------------------------------------------------ writing


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    leader_epoch: int = -1,
    compression: str | Codec = Codec.NONE,
    compression_level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: int | None = None,
    base_timestamp: int | None = None,
) -> bytes:
    """One batch of magic 2. Offsets and timestamps are taken relative to the first record's own by default."""
    if not records:
        raise ValueError("a batch holds at least one record")
    codec = Codec.named(compression) if isinstance(compression, str) else compression
    first = records[0].offset if base_offset is None else base_offset
    base_timestamp = records[0].timestamp if base_timestamp is None else base_timestamp
    body = encoded(records, first, base_timestamp)
    attributes = 0
    max_timestamp = max(record.timestamp for record in records)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    attributes |= (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0)
    return bytes(
        packed_batch(
            bytearray().join((bytes(HEADER_BYTES), *body)),
            len(records),
            base_offset=first,
            last_offset_delta=records[-1].offset - first,
            leader_epoch=leader_epoch,
            compression=codec,
            compression_level=compression_level,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def encoded(records: Iterable[Record], base_offset: int, base_timestamp: int) -> list[bytes]:
    """The bytes of records in a batch of magic 2, in parts."""
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        head = b"\x00" + signed(timestamp - base_timestamp) + signed(offset - base_offset)
        head += b"\x01" if key is None else signed(len(key)) + key
        head += b"\x01" if value is None else signed(len(value))
        tail = _headers_bytes(headers) if headers else b"\x00"
        value = value or b""
        parts += (signed(len(head) + len(value) + len(tail)), head, value, tail)
    return parts


def packed_batch(
    buffer: bytearray | memoryview,
    record_count: int,
    *,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    compression: Codec = Codec.NONE,
    compression_level: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray | memoryview:
    """A batch of magic 2 of the encoded records in `buffer`, after `HEADER_BYTES` of room for the header.

    Without compression it is built in `buffer`, which is returned. `last_offset_delta` None: the record count less one.
    """
    if compression is not Codec.NONE:
        packed = compress(compression, memoryview(buffer)[HEADER_BYTES:], compression_level)
        buffer = bytearray(HEADER_BYTES)
        buffer += packed
    HEADER.pack_into(
        buffer, 0, base_offset, len(buffer) - LOG_OVERHEAD, leader_epoch, 2, 0, attributes | compression,
        record_count - 1 if last_offset_delta is None else last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count,
    )  # fmt: skip
    struct.pack_into(">I", buffer, CRC_AT, crc32c(memoryview(buffer)[ATTRIBUTES_AT:]))
    return buffer


def rewritten(data: Bytes, records: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """The batch `data` with only `records` of it. Magic 2 keeps its offsets, producer, sequence, epoch and timestamps.

    `delete_horizon_ms` replaces the base timestamp (KIP-534). Magic 0 and 1 become magic 2.
    """
    header = parse_header(data)
    if header.magic < 2:
        return build_batch(records, compression=header.compression)
    base_timestamp = header.base_timestamp if delete_horizon_ms is None else delete_horizon_ms
    batch = bytearray(
        build_batch(
            records, base_offset=header.base_offset, base_timestamp=base_timestamp, compression=header.compression
        )
    )
    attributes = header.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON)
    stamped = attributes & LOG_APPEND_TIME
    max_timestamp = header.max_timestamp if stamped else max(record.timestamp for record in records)
    return _with_header(batch, header, attributes, base_timestamp, max_timestamp, len(records))


def emptied(data: Bytes) -> bytes:
    """The batch `data`, magic 2, without its records: it keeps the producer's last sequence."""
    header = parse_header(data)
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    return _with_header(bytearray(HEADER_BYTES), header, attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def _with_header(
    batch: bytearray, header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytes:
    HEADER.pack_into(
        batch, 0, header.base_offset, len(batch) - LOG_OVERHEAD, header.partition_leader_epoch, 2, 0, attributes,
        header.last_offset_delta, base_timestamp, max_timestamp, header.producer_id, header.producer_epoch,
        header.base_sequence, count,
    )  # fmt: skip
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


class ControlType(IntEnum):
    """The type in a control record's key (``ControlRecordType``)."""

    ABORT = 0
    COMMIT = 1


def control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A transaction's end marker (``EndTransactionMarker``), version 0."""
    key = struct.pack(">hh", 0, control_type)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _headers_bytes(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [signed(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (signed(len(encoded)), encoded)
        parts += (b"\x01",) if value is None else (signed(len(value)), value)
    return b"".join(parts)
