"""Message sets of magic 0 and 1, written for clients that know no record batches (Fetch 0 to 3).

A log holds batches of magic 2. For such a client their records are written one message each, without their headers
and, in magic 0, without their timestamps. They are not compressed again: a wrapper's offsets differ between the two
magics, and LZ4's frames in magic 0 have a checksum that only Kafka of that age makes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from barnabas.wire.message import Bytes
from barnabas.wire.records import LOG_APPEND_TIME, Record, batches, records_of

_PREFIX: Final = struct.Struct(">qi")
_HEAD: Final = struct.Struct(">bb")
_HEAD_WITH_TIMESTAMP: Final = struct.Struct(">bbq")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")


def build_message_set(records: Sequence[Record], magic: int, *, log_append_time: bool = False) -> bytes:
    """One message a record, with the records' own offsets."""
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


def down_converted(buffer: Bytes, magic: int, first_offset: int) -> bytes:
    """The records of `buffer` from `first_offset` on, as messages (Kafka's ``RecordsUtil.downConvert``).

    Control records are left out. A batch that is cut off stays where it is the only one: an old client reads in its
    first twelve bytes, which are the same in every magic, that the next message is larger than what it asked for.
    Raises `WireError` for what is not a batch's content.
    """
    converted: list[bytes] = []
    whole = 0
    for header, start, end in batches(buffer):
        whole = end
        if header.magic <= magic:
            converted.append(bytes(buffer[start:end]))
        elif not header.is_control:
            # An uncompressed message before the offset that was asked for would be handed to the application.
            records = [record for record in records_of(buffer, start, end) if record.offset >= first_offset]
            append_time = bool(header.attributes & LOG_APPEND_TIME)
            converted.append(build_message_set(records, magic, log_append_time=append_time))
    return b"".join(converted) if whole else bytes(buffer)
