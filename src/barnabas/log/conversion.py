"""Batches that a leader writes anew: messages of magic 0 and 1, and batches in another compression than the topic's.

Kafka builds both record by record. A batch of magic 2 keeps its records' bytes here, wherever they say the same in it.
"""

from __future__ import annotations

from typing import Final

from barnabas.log.batches import LEGACY_MINIMUM, CorruptBatch, StoredBatch, batches_in, crc_is_valid, parse, prefix
from barnabas.log.refusals import corrupt, invalid, too_large, unpacks_too_far
from barnabas.log.settings import LogSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.runtime import Bytes
from barnabas.wire import records as wire_records
from barnabas.wire.compression import Codec, TooLargeError, decompressed_pieces
from barnabas.wire.errors import WireError
from barnabas.wire.records import COMPRESSION_MASK, HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_AT, TRANSACTIONAL
from barnabas.wire.scan import CREATE_TIME, Scanned

_RECOMPRESSED_BYTES_MIN: Final = 8 * 1024 * 1024
_RECOMPRESSED_RATIO: Final = 4
_REBUILT_BYTES_MIN: Final = 1024 * 1024


# Bounds of what a batch may unpack to when it is written anew, in memory and in one go. Producers bound their batches
# before they compress them, by what a topic takes (``max.message.bytes``) or less.


def _recompressed_bytes_max(settings: LogSettings) -> int:
    """The bound where the records' bytes stay as they are."""
    return max(_RECOMPRESSED_BYTES_MIN, _RECOMPRESSED_RATIO * settings.max_message_bytes)


def _rebuilt_bytes_max(settings: LogSettings) -> int:
    """The bound where every record is read and written, 10 µs each."""
    return max(_REBUILT_BYTES_MIN, settings.max_message_bytes)


def converted(topic_partition: TopicPartition, settings: LogSettings, records: Bytes) -> memoryview:
    """Messages of magic 0 and 1 as one batch of magic 2, which is what a log holds since 3.0 (KIP-724).

    Whether the topic takes their keys and timestamps is judged by that batch.
    """
    magic = records[MAGIC_AT]
    view = memoryview(records)
    messages: list[wire_records.Record] = []
    codec = Codec.NONE
    try:
        found = list(batches_in(view))
        for start, message in found:
            _check_message(topic_partition, settings, view, start, message, magic)
            whole = view[start : start + message.size]
            if message.attributes & COMPRESSION_MASK:
                codec = _wrapping_codec(topic_partition, message, len(found))
                messages = _inner_messages(topic_partition, settings, message, whole, codec)
            else:
                messages += wire_records.records_of(whole, 0, len(whole))
    except CorruptBatch as error:
        raise corrupt(topic_partition, str(error)) from None
    except TooLargeError as error:
        raise unpacks_too_far(topic_partition, error) from None
    except WireError as error:
        raise invalid(topic_partition, f"Messages cannot be read ({error})") from None
    if not messages:
        raise invalid(topic_partition, "Record batch has no batches at all")
    numbered = [
        wire_records.Record(offset, message.timestamp, message.key, message.value, message.headers)
        for offset, message in enumerate(messages)
    ]
    wanted = codec if settings.codec is None else Codec(settings.codec)
    batch = wire_records.build_batch(numbered, compression=wanted, compression_level=settings.compression_level)
    return memoryview(bytearray(batch))


def _check_message(
    topic_partition: TopicPartition,
    settings: LogSettings,
    view: memoryview,
    start: int,
    message: StoredBatch,
    magic: int,
) -> None:
    if message.size > settings.max_message_bytes:
        raise too_large(topic_partition, f"The message size {message.size}", settings)
    if not crc_is_valid(view, start, message):
        raise corrupt(topic_partition, f"Record is corrupt (stored crc = {message.crc})")
    if message.magic != magic:
        raise invalid(topic_partition, f"Batch magic {message.magic} is not the same as the first batch's {magic}")
    judged = settings.scan_flags & CREATE_TIME and message.base_timestamp != NO_TIMESTAMP
    if magic and message.attributes & LOG_APPEND_TIME and not judged:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime.")


def _wrapping_codec(topic_partition: TopicPartition, message: StoredBatch, messages: int) -> Codec:
    number = message.attributes & COMPRESSION_MASK
    if number >= Codec.ZSTD:
        raise invalid(topic_partition, f"Messages of magic {message.magic} have no compression codec {number}")
    if messages > 1:
        raise invalid(topic_partition, "Compressed outer record has more than one batch")
    return Codec(number)


def _inner_messages(
    topic_partition: TopicPartition, settings: LogSettings, wrapper: StoredBatch, view: memoryview, codec: Codec
) -> list[wire_records.Record]:
    """The messages in the wrapper in `view`; half a message at the end is left out, as Kafka does."""
    inner = wire_records.unwrapped(view, wrapper.magic, codec, _rebuilt_bytes_max(settings))
    found: list[wire_records.Record] = []
    position = 0
    while len(inner) - position >= LEGACY_MINIMUM:
        size = prefix(inner, position)[1]
        if size < LEGACY_MINIMUM:
            raise corrupt(topic_partition, f"Record size {size - LOG_OVERHEAD} is less than the minimum overhead")
        if size > len(inner) - position:
            break
        whole = inner[position : position + size]
        if whole[MAGIC_AT] != wrapper.magic:
            raise invalid(topic_partition, f"A record's magic {whole[MAGIC_AT]} is not its wrapper's {wrapper.magic}")
        message = parse(whole, 0, 0)
        if message.attributes & COMPRESSION_MASK:
            raise invalid(topic_partition, "Inner messages must not be compressed")
        if not crc_is_valid(whole, 0, message):
            raise corrupt(topic_partition, f"Record is corrupt (stored crc = {message.crc})")
        found += wire_records.records_of(whole, 0, size)
        position += size
    if wrapper.magic and wrapper.last_offset and found and wrapper.last_offset < found[-1].offset:
        raise invalid(topic_partition, f"The wrapper's offset {wrapper.last_offset} is less than the last one in it")
    if wrapper.magic and wrapper.attributes & LOG_APPEND_TIME:
        found = [record._replace(timestamp=wrapper.base_timestamp) for record in found]
    return found


def rewritten(topic_partition: TopicPartition, settings: LogSettings, view: memoryview, found: Scanned) -> memoryview:
    """The batch of magic 2 in `view`, whose records were scanned, in the compression that the topic asks for."""
    header = wire_records.parse_header(view)
    attributes = header.attributes
    assert settings.codec is not None
    wanted = Codec(settings.codec)
    try:
        if found.disordered or attributes & LOG_APPEND_TIME:
            records = wire_records.records_of(view, 0, len(view), limit=_rebuilt_bytes_max(settings), any_offsets=True)
            numbered = [record._replace(offset=offset) for offset, record in enumerate(records)]
            batch: Bytes = wire_records.build_batch(
                numbered,
                compression=wanted,
                compression_level=settings.compression_level,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=bool(attributes & TRANSACTIONAL),
            )
        else:
            codec = Codec(attributes & COMPRESSION_MASK)
            pieces = decompressed_pieces(codec, view[HEADER_BYTES:], limit=_recompressed_bytes_max(settings))
            batch = wire_records.packed_batch(
                bytearray().join((bytes(HEADER_BYTES), *pieces)),
                header.record_count,
                base_timestamp=header.base_timestamp,
                max_timestamp=found.max_timestamp,
                last_offset_delta=header.last_offset_delta,
                compression=wanted,
                compression_level=settings.compression_level,
                attributes=attributes & TRANSACTIONAL,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
            )
    except TooLargeError as error:
        raise unpacks_too_far(topic_partition, error) from None
    except WireError as error:
        raise invalid(topic_partition, f"The records of the batch cannot be read ({error})") from None
    if len(batch) > settings.max_message_bytes:
        raise too_large(topic_partition, f"The size {len(batch)} of the batch, compressed anew,", settings)
    return memoryview(bytearray(batch))
