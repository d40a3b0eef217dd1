"""What a leader does to a client's batch beyond looking at its header (Kafka's ``LogValidator``).

None of it is needed for an ordinary batch of magic 2 in a topic with default settings, which is never unpacked.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from barnabas.log.batches import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LEGACY_MINIMUM,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TRANSACTIONAL,
    CorruptBatch,
    batches_in,
    crc_is_valid,
    prefix,
)
from barnabas.log.producer_state import EndTxnMarker
from barnabas.log.settings import LogSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Bytes
from barnabas.wire import records as wire_records
from barnabas.wire.records import CRC_AT

_MAX_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP_POSITION: Final = 35
_COMPRESSION: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def invalid(topic_partition: TopicPartition, message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"{message} in topic partition {topic_partition}")


def corrupt(topic_partition: TopicPartition, message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{message} in topic partition {topic_partition}")


def only_batch(topic_partition: TopicPartition, view: memoryview, size: int) -> memoryview:
    """The one batch at the start of `view`; fewer bytes than one, or a second batch, is an error."""
    if size < HEADER_BYTES:
        raise corrupt(topic_partition, f"Record batch has the length {size}, less than its header")
    if size > len(view):
        raise invalid(topic_partition, "Record batch has no batches at all")
    rest = len(view) - size
    if rest >= LEGACY_MINIMUM and prefix(view, size)[1] <= rest:
        raise invalid(topic_partition, "Record data has more than one batch")
    return view[:size]


def converted(topic_partition: TopicPartition, settings: LogSettings, records: Bytes) -> memoryview:
    """Messages of magic 0 and 1 as one batch of magic 2, which is what a log holds since 3.0 (KIP-724)."""
    if len(records) < LEGACY_MINIMUM:
        raise invalid(topic_partition, "Record batch has no batches at all")
    magic = records[MAGIC_AT]
    if magic > 2:
        raise invalid(topic_partition, f"Invalid magic {magic}")
    if magic == 2:
        size = prefix(records, 0)[1]
        raise corrupt(topic_partition, f"Record batch of {size} bytes is shorter than its header")
    view = memoryview(records)
    messages: list[wire_records.Record] = []
    compression = "none"
    try:
        for start, message in batches_in(view):
            if message.magic != magic:
                raise invalid(
                    topic_partition, f"Batch magic {message.magic} is not the same as the first batch's {magic}"
                )
            if message.size > settings.max_message_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"The message size {message.size} exceeds the maximum of {settings.max_message_bytes}.",
                )
            if not crc_is_valid(view, start, message):
                raise corrupt(topic_partition, f"Record is corrupt (stored crc = {message.crc})")
            if message.attributes & COMPRESSION_MASK:
                compression = _COMPRESSION[message.attributes & 0x03]
            messages.extend(wire_records.records_of(view, start, start + message.size))
    except CorruptBatch as error:
        raise corrupt(topic_partition, str(error)) from None
    except ValueError as error:
        raise corrupt(topic_partition, f"Messages cannot be read ({error})") from None
    if not messages:
        raise invalid(topic_partition, "Record batch has no batches at all")
    numbered = [
        wire_records.Record(offset, message.timestamp, message.key, message.value, message.headers)
        for offset, message in enumerate(messages)
    ]
    return memoryview(bytearray(wire_records.build_batch(numbered, compression=compression)))


def check_keys(topic_partition: TopicPartition, view: memoryview) -> None:
    try:
        keyless = any(record.key is None for record in wire_records.records_of(view, 0, len(view)))
    except ValueError as error:
        raise invalid(topic_partition, f"The records of the batch cannot be read ({error})") from None
    if keyless:
        raise invalid(topic_partition, "Compacted topic cannot accept message without key")


def recompressed(
    topic_partition: TopicPartition, settings: LogSettings, view: memoryview, attributes: int
) -> memoryview | None:
    """The batch in the topic's own compression; None when it is so already."""
    wanted = settings.compression_type
    wanted = "none" if wanted == "uncompressed" else wanted
    if _COMPRESSION[attributes & COMPRESSION_MASK] == wanted:
        return None
    header = HEADER.unpack_from(view)
    try:
        records = wire_records.records_of(view, 0, len(view))
    except ValueError as error:
        raise invalid(topic_partition, f"The records of the batch cannot be read ({error})") from None
    return memoryview(
        bytearray(
            wire_records.build_batch(
                records,
                compression=wanted,
                producer_id=header[9],
                producer_epoch=header[10],
                base_sequence=header[11],
                is_transactional=bool(attributes & TRANSACTIONAL),
            )
        )
    )


def attributes_of(view: memoryview) -> int:
    attributes: int = _ATTRIBUTES.unpack_from(view, ATTRIBUTES_AT)[0]
    return attributes


def stamp_log_append_time(view: memoryview, attributes: int, now_ms: int) -> None:
    """The topic's timestamps are the broker's: sets type and maximum, and the CRC that covers them."""
    _ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, now_ms)
    _CRC.pack_into(view, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))


_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")


def end_txn_marker(view: Bytes) -> EndTxnMarker | None:
    """What the control batch in `view` says; None when it holds no record or is no transaction marker."""
    for record in wire_records.records_of(memoryview(view), 0, len(view)):
        if record.key is None or record.value is None:
            return None
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind not in (0, 1):
            return None
        _, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value)
        return EndTxnMarker(kind == 0, coordinator_epoch)
    return None
