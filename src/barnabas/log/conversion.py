"""Batches that a leader writes anew: messages of magic 0 and 1, and batches in another compression than the topic's.

Kafka builds both record by record. Here a batch of magic 2 keeps its records' bytes where they stay the same.

Both take long: a megabyte of small messages half a second, a megabyte that zstd packs at its highest level ten seconds.
So they are done in steps, each of which yields its cost: how many bytes could have been unpacked in the same time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from typing import Any, Final, TypeAlias

from barnabas.log.batches import LEGACY_MINIMUM, CorruptBatch, StoredBatch, batches_in, crc_is_valid, parse, prefix
from barnabas.log.refusals import corrupt, invalid, too_large, unpacks_too_far
from barnabas.log.settings import LogSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.runtime import Bytes
from barnabas.wire import records as wire_records
from barnabas.wire.compression import Codec, TooLargeError, compressed_pieces, decompressed_pieces
from barnabas.wire.errors import WireError
from barnabas.wire.records import COMPRESSION_MASK, HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_AT, TRANSACTIONAL
from barnabas.wire.scan import CREATE_TIME, Scanned

_RECOMPRESSED_BYTES_MIN: Final = 8 * 1024 * 1024
_RECOMPRESSED_RATIO: Final = 4
_REBUILT_BYTES_MIN: Final = 1024 * 1024


_SLICE: Final = 256
_RECORD_COST: Final = 8 * 1024
"""10 µs, to read or to write a record."""
_PIECE_COST: Final = 1024 * 1024
_BYTE_COST: Final = 256
"""A millisecond or so, to compress a piece; thirty at the highest level."""

Steps: TypeAlias = Generator[int, None, memoryview]


# Limits of a batch's unpacked size when it is rewritten, in memory and at once. Producers limit their batches before
# they compress them, by the topic's ``max.message.bytes`` or less.


def _recompressed_bytes_max(settings: LogSettings) -> int:
    """The limit if the records' bytes stay as they are."""
    return max(_RECOMPRESSED_BYTES_MIN, _RECOMPRESSED_RATIO * settings.max_message_bytes)


def _rebuilt_bytes_max(settings: LogSettings) -> int:
    """The limit if every record is read and written, 10 µs each."""
    return max(_REBUILT_BYTES_MIN, settings.max_message_bytes)


def converted(topic_partition: TopicPartition, settings: LogSettings, records: Bytes) -> Steps:
    """Messages of magic 0 and 1 as one batch of magic 2, which is what a log holds since 3.0 (KIP-724).

    That batch decides whether the topic accepts their keys and timestamps.
    """
    magic = records[MAGIC_AT]
    view = memoryview(records)
    messages: list[wire_records.Record] = []
    codec = Codec.NONE
    try:
        found = batches_in(view)
        for start, message in found:
            _check_message(topic_partition, settings, view, start, message, magic)
            whole = view[start : start + message.size]
            if message.attributes & COMPRESSION_MASK:
                codec = _wrapping_codec(topic_partition, message, start == 0 and next(found, None) is None)
                messages = yield from _inner_messages(topic_partition, settings, message, whole, codec)
            else:
                messages += wire_records.records_of(whole, 0, len(whole))
                yield _RECORD_COST
    except CorruptBatch as error:
        raise corrupt(topic_partition, str(error)) from None
    except TooLargeError as error:
        raise unpacks_too_far(topic_partition, error) from None
    except WireError as error:
        raise invalid(topic_partition, f"Messages cannot be read ({error})") from None
    if not messages:
        raise invalid(topic_partition, "Record batch has no batches at all")
    wanted = codec if settings.codec is None else Codec(settings.codec)
    slices = (messages[start : start + _SLICE] for start in range(0, len(messages), _SLICE))
    return (yield from _built(slices, wanted, settings))


def _built(slices: Iterator[list[wire_records.Record]], codec: Codec, settings: LogSettings, **of_batch: Any) -> Steps:
    """A batch of the records, at least one, numbered from 0."""
    offsets = count()
    base_timestamp = max_timestamp = None
    body = bytearray(HEADER_BYTES)
    written = 0
    for some in slices:
        numbered = [record._replace(offset=offset) for record, offset in zip(some, offsets, strict=False)]
        written += len(numbered)
        latest = max(record.timestamp for record in numbered)
        if base_timestamp is None or max_timestamp is None:
            base_timestamp, max_timestamp = numbered[0].timestamp, latest
        max_timestamp = max(max_timestamp, latest)
        body += b"".join(wire_records.encoded(numbered, 0, base_timestamp))
        yield len(numbered) * _RECORD_COST
    assert base_timestamp is not None
    assert max_timestamp is not None
    return (
        yield from _packed(
            body, written, codec, settings, base_timestamp=base_timestamp, max_timestamp=max_timestamp, **of_batch
        )
    )


def _packed(body: bytearray, record_count: int, codec: Codec, settings: LogSettings, **of_batch: Any) -> Steps:
    """A batch of the records encoded in `body`, after the room for a header."""
    if codec is not Codec.NONE:
        packed = bytearray(HEADER_BYTES)
        for piece in compressed_pieces(codec, memoryview(body)[HEADER_BYTES:], settings.compression_level):
            packed += piece
            yield min(_PIECE_COST, len(body) * _BYTE_COST)
        body = packed
    attributes = of_batch.pop("attributes", 0) | codec
    return memoryview(wire_records.packed_batch(body, record_count, attributes=attributes, **of_batch))


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


def _wrapping_codec(topic_partition: TopicPartition, message: StoredBatch, is_alone: bool) -> Codec:
    number = message.attributes & COMPRESSION_MASK
    if number >= Codec.ZSTD:
        raise invalid(topic_partition, f"Messages of magic {message.magic} have no compression codec {number}")
    if not is_alone:
        raise invalid(topic_partition, "Compressed outer record has more than one batch")
    return Codec(number)


def _inner_messages(
    topic_partition: TopicPartition, settings: LogSettings, wrapper: StoredBatch, view: memoryview, codec: Codec
) -> Generator[int, None, list[wire_records.Record]]:
    """The messages in the wrapper in `view`; an incomplete last message is omitted, as in Kafka."""
    inner = wire_records.unwrapped(view, wrapper.magic, codec, _rebuilt_bytes_max(settings))
    yield len(inner)
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
        yield _RECORD_COST
    if wrapper.magic and wrapper.last_offset and found and wrapper.last_offset < found[-1].offset:
        raise invalid(topic_partition, f"The wrapper's offset {wrapper.last_offset} is less than the last one in it")
    if wrapper.magic and wrapper.attributes & LOG_APPEND_TIME:
        found = [record._replace(timestamp=wrapper.base_timestamp) for record in found]
    return found


def rewritten(topic_partition: TopicPartition, settings: LogSettings, view: memoryview, found: Scanned) -> Steps:
    """The batch of magic 2 in `view`, whose records were scanned, in the topic's compression."""
    header = wire_records.parse_header(view)
    attributes = header.attributes
    assert settings.codec is not None
    wanted = Codec(settings.codec)
    of_batch = {
        "attributes": attributes & TRANSACTIONAL,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
    try:
        if found.disordered or attributes & LOG_APPEND_TIME:
            slices = wire_records.record_slices(view, _SLICE, limit=_rebuilt_bytes_max(settings))
            batch = yield from _built(slices, wanted, settings, **of_batch)
        else:
            body = bytearray(HEADER_BYTES)
            codec = Codec(attributes & COMPRESSION_MASK)
            for piece in decompressed_pieces(codec, view[HEADER_BYTES:], limit=_recompressed_bytes_max(settings)):
                body += piece
                yield len(piece)
            batch = yield from _packed(
                body, header.record_count, wanted, settings,
                base_timestamp=header.base_timestamp, max_timestamp=found.max_timestamp,
                last_offset_delta=header.last_offset_delta, **of_batch,
            )  # fmt: skip
    except TooLargeError as error:
        raise unpacks_too_far(topic_partition, error) from None
    except WireError as error:
        raise invalid(topic_partition, f"The records of the batch cannot be read ({error})") from None
    if len(batch) > settings.max_message_bytes:
        raise too_large(topic_partition, f"The size {len(batch)} of the batch, compressed anew,", settings)
    return batch
