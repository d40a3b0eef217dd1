"""The headers of record batches in a segment file, whatever their magic.

The records inside are opaque here: appending, reading, indexing and recovering a log need nothing of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

from crc32c import crc32c

from barnabas.model.sentinels import NO_TIMESTAMP, SEQUENCE_MAX
from barnabas.runtime import Bytes
from barnabas.wire.records import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
)

PREFIX: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
LEADER_EPOCH_AT: Final = LOG_OVERHEAD
LAST_OFFSET_AT: Final = 23
LAST_OFFSET_END: Final = 27
_LEGACY: Final = Struct(">qiIbb")
_LEGACY_TIMESTAMP: Final = Struct(">q")
LEGACY_MINIMUM: Final = LOG_OVERHEAD + 14

Header: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""In the order of `HEADER`: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and
largest timestamp, producer id and epoch, base sequence, number of records."""


class CorruptBatch(ValueError):
    """Bytes that are no record batch, or one whose CRC is wrong."""


class StoredBatch:
    """A batch's header and where it stands in its file. For magic 0 and 1 a batch is one message or one wrapper."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(
        self,
        position: int,
        size: int,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & SEQUENCE_MAX

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def parse(buffer: Bytes, start: int, position: int) -> StoredBatch:
    """The header at `start` of `buffer`, which lies at `position` of its file. The buffer must hold all of it."""
    magic = buffer[start + MAGIC_AT]
    if magic == 2:
        (
            base_offset, length, leader_epoch, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, record_count,
        ) = header_at(buffer, start)  # fmt: skip
        if length < HEADER_BYTES - LOG_OVERHEAD or last_offset_delta < 0:
            raise CorruptBatch(f"the batch at position {position} has length {length} and offsets {last_offset_delta}")
        return StoredBatch(
            position, length + LOG_OVERHEAD, base_offset, base_offset + last_offset_delta, leader_epoch, 2, crc,
            attributes, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
        )  # fmt: skip
    if magic > 2:
        raise CorruptBatch(f"the batch at position {position} has magic {magic}")
    offset, length, crc, _, attributes = _LEGACY.unpack_from(buffer, start)
    if length < LEGACY_MINIMUM - LOG_OVERHEAD + 8 * magic:
        raise CorruptBatch(f"the message at position {position} has length {length}")
    timestamp = _LEGACY_TIMESTAMP.unpack_from(buffer, start + 18)[0] if magic else NO_TIMESTAMP
    # A compressed wrapper has the offset of its last message; the first offset requires unpacking.
    return StoredBatch(
        position, length + LOG_OVERHEAD, offset, offset, -1, magic, crc, attributes, timestamp, timestamp, -1, -1, -1, 1
    )


def header_at(buffer: Bytes, start: int) -> Header:
    """The numbers of the header of magic 2 at `start`."""
    numbers: Header = HEADER.unpack_from(buffer, start)
    return numbers


def prefix(buffer: Bytes, start: int) -> tuple[int, int]:
    """Base offset and total size of the batch at `start`."""
    base_offset, length = PREFIX.unpack_from(buffer, start)
    return base_offset, length + LOG_OVERHEAD


def last_offset_delta(buffer: Bytes, start: int) -> int:
    """The last offset delta of the batch of magic 2 at `start`."""
    delta: int = _LAST_OFFSET_DELTA.unpack_from(buffer, start + LAST_OFFSET_AT)[0]
    return delta


def header_bytes(buffer: Bytes, start: int) -> int:
    """How many bytes `parse` needs of the batch at `start`; the buffer already holds the first 17."""
    magic = buffer[start + MAGIC_AT]
    return HEADER_BYTES if magic == 2 else LEGACY_MINIMUM


def crc_is_valid(buffer: memoryview, start: int, batch: StoredBatch) -> bool:
    """Whether the stored CRC matches the bytes: CRC-32C for magic 2, zlib's CRC-32 before."""
    if batch.magic == 2:
        return bool(crc32c(buffer[start + ATTRIBUTES_AT : start + batch.size]) == batch.crc)
    return zlib.crc32(buffer[start + MAGIC_AT : start + batch.size]) == batch.crc


def batches_in(buffer: Bytes) -> Iterator[tuple[int, StoredBatch]]:
    """Every whole batch of `buffer` with its start there; a partial one at the end is omitted."""
    start = 0
    end = len(buffer)
    while end - start >= LEGACY_MINIMUM:
        size = PREFIX.unpack_from(buffer, start)[1] + LOG_OVERHEAD
        if size < LEGACY_MINIMUM:
            raise CorruptBatch(f"the batch at position {start} has length {size - LOG_OVERHEAD}")
        if size > end - start:
            return
        if size < HEADER_BYTES and size < header_bytes(buffer, start):
            raise CorruptBatch(f"the batch at position {start} is shorter than its header")
        yield start, parse(buffer, start, start)
        start += size
