"""How a leader judges a client's batch before it appends it (Kafka's ``LogValidator``).

`validated` is a function of the bytes, the topic's settings and the time, and writes nothing: a batch that is refused
later, for its sequence, is unchanged. `wire.scan` goes through the single records.

``tests/verdicts`` has Kafka's verdicts on hundreds of valid and invalid batches. Where Kafka fails with an internal
exception (UNKNOWN_SERVER_ERROR), ours is INVALID_RECORD, since sending the same bytes again does not help.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias

from crc32c import crc32c

from barnabas.log.batches import LEGACY_MINIMUM, Header, StoredBatch, header_at, prefix
from barnabas.log.conversion import Steps, converted, rewritten
from barnabas.log.producer_state import EndTxnMarker
from barnabas.log.refusals import beyond_segment, corrupt, invalid, too_large, unfit, unpacks_too_far
from barnabas.log.settings import LogSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, TopicPartition
from barnabas.runtime import Bytes
from barnabas.wire import records as wire_records
from barnabas.wire import scan
from barnabas.wire.compression import Codec, TooLargeError, decompressed_pieces
from barnabas.wire.errors import WireError
from barnabas.wire.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL,
)
from barnabas.wire.scan import Scanned

_CHECK: Final = scan.check
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")
_MAGIC: Final = 2
_LZ4_FLAGS_AT: Final = 4
_LZ4_FLAGS: Final = 0x60
_KEPT_ATTRIBUTES: Final = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
"""Bits without a meaning are cleared when the attributes are rewritten."""

UNPACKED_BYTES_MAX: Final = 100 * 1024 * 1024
"""The unpacked size of one request's batches. A producer's batch has a megabyte or so before compression
(``batch.size``, ``max.message.bytes``). Kafka unpacks any number of bytes, and its other requests wait meanwhile."""
AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""How much is unpacked and scanned before other requests have their turn: some milliseconds."""
_PIECE_OVERHEAD_BYTES: Final = 16 * 1024
"""The fixed cost of a piece, in bytes: 1 to 15 µs, the most for a piece that is a zstd frame."""


class Appendable:
    """A batch of magic 2 as it is to be appended, and its largest timestamp, by these settings."""

    __slots__ = ("max_timestamp", "settings", "view")

    def __init__(self, settings: LogSettings, view: memoryview, max_timestamp: int) -> None:
        self.settings = settings
        self.view = view
        self.max_timestamp = max_timestamp


Judging: TypeAlias = Generator[None, None, Appendable]


class Unpacking:
    """How many bytes a request's batches may still unpack: `left` in all, `at_once` before others have their turn."""

    __slots__ = ("at_once", "judged", "left")

    def __init__(self) -> None:
        self.left = UNPACKED_BYTES_MAX
        self.at_once = AT_ONCE_BYTES
        self.judged: Appendable | None = None
        """The result of `judge` for the batch that is appended next."""

    async def judge(
        self,
        topic_partition: TopicPartition,
        settings: LogSettings,
        records: Bytes,
        now_ms: int,
        turn: Callable[[], Awaitable[object]],
    ) -> None:
        """Validates a batch that `TakesLong`, a step at each `turn`. Raises `KafkaError` as `validated` does."""
        steps = judging(topic_partition, settings, records, now_ms, True, self)
        while True:
            await turn()
            self.at_once = AT_ONCE_BYTES
            try:
                next(steps)
            except StopIteration as end:
                self.judged = end.value
                return

    def taken(self, settings: LogSettings) -> Appendable | None:
        """The result, if it was made with these settings; it is used only once."""
        judged, self.judged = self.judged, None
        return judged if judged is not None and judged.settings is settings else None


class TakesLong(Exception):
    """A batch, with those of its request before it, takes so long that other work has to have its turn first.

    Nothing was done. After `Unpacking.judge` the batch can be appended.
    """


def validated(
    topic_partition: TopicPartition,
    settings: LogSettings,
    records: Bytes,
    now_ms: int,
    is_client: bool = True,
    unpacking: Unpacking | None = None,
    first_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> tuple[memoryview, StoredBatch, bool]:
    """The one batch in `records`, or its messages of magic 0 and 1 as one batch; a partial one at the end is omitted.

    Returns the batch, its header, and a flag. The header is as the log will hold it from `first_offset` on, except the
    CRC. The flag tells that attributes or largest timestamp differ from the bytes, and `stamp_timestamps` has to write
    them. Nothing is written here. Raises `TakesLong`, and `KafkaError`: CORRUPT_MESSAGE, INVALID_RECORD,
    INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    judged = None if unpacking is None or unpacking.judged is None else unpacking.taken(settings)
    if judged is None and len(records) >= HEADER_BYTES and records[MAGIC_AT] == _MAGIC:
        header = header_at(records, 0)
        view = _checked(topic_partition, settings, records, header, is_client)
        attributes, max_timestamp = header[5], header[8]
        takes_judging = True
        if not attributes & COMPRESSION_MASK and (not settings.codec or attributes & CONTROL):
            if unpacking is not None:
                unpacking.at_once -= len(view)
            flags = settings.scan_flags | (attributes & LOG_APPEND_TIME and scan.APPEND_TIMED)
            before_max_ms, after_max_ms = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
            takes_judging = bool(_CHECK(view, now_ms, before_max_ms, after_max_ms, flags))
        if takes_judging:
            unpacking = unpacking or Unpacking()
            steps = _judging_records(topic_partition, settings, view, header, now_ms, unpacking)
            judged = _judged_now(topic_partition, steps, is_client, unpacking)
    elif judged is None:
        unpacking = unpacking or Unpacking()
        steps = judging(topic_partition, settings, records, now_ms, is_client, unpacking)
        judged = _judged_now(topic_partition, steps, is_client, unpacking)
    if judged is not None:
        view, max_timestamp = judged.view, judged.max_timestamp
        header = header_at(view, 0)
    (
        _, length, _, _, crc, attributes, last_offset_delta, base_timestamp, said,
        producer_id, producer_epoch, sequence, count,
    ) = header  # fmt: skip
    size = length + LOG_OVERHEAD
    stamped, max_timestamp = (LOG_APPEND_TIME, now_ms) if settings.log_append_time else (0, max_timestamp)
    restamped = max_timestamp != said or attributes & LOG_APPEND_TIME != stamped
    if restamped:
        attributes = attributes & _KEPT_ATTRIBUTES | stamped
    if size > settings.segment_bytes:
        raise beyond_segment(topic_partition, size, settings)
    batch = StoredBatch(
        0, size, first_offset, first_offset + last_offset_delta, leader_epoch, _MAGIC, crc, attributes,
        base_timestamp, max_timestamp, producer_id, producer_epoch, sequence, count,
    )  # fmt: skip
    return view, batch, restamped


def _checked(
    topic_partition: TopicPartition, settings: LogSettings, records: Bytes, header: Header, is_client: bool
) -> memoryview:
    """The first batch of `records`, writable, if its bytes match its header."""
    size = header[1] + LOG_OVERHEAD
    view = memoryview(records)
    if view.readonly:
        view = memoryview(bytearray(view))
    if size != len(view):
        view = view[: only_batch(records)]
    if header[0] and is_client:
        raise invalid(topic_partition, f"The baseOffset of the record batch should be 0, but it is {header[0]}")
    if size > settings.max_message_bytes:
        raise too_large(topic_partition, f"The record batch size {size}", settings)
    _, _, _, _, crc, attributes, last_offset_delta, _, _, producer_id, _, sequence, count = header
    if size < HEADER_BYTES or crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise corrupt(topic_partition, f"Record is corrupt (stored crc = {crc})")
    if is_client and (
        count <= 0 or count != last_offset_delta + 1 or attributes & CONTROL or (producer_id >= 0 and sequence < 0)
    ):
        raise _misheaded(topic_partition, attributes, last_offset_delta, count, producer_id, sequence)
    return view


def whole_batch(records: Bytes, start: int = 0) -> int:
    """The size of the batch at `start`, 0 if it is incomplete (``ByteBufferLogInputStream``).

    Raises CORRUPT_MESSAGE for an impossible length and for an unknown magic.
    """
    left = len(records) - start
    if left < LOG_OVERHEAD:
        return 0
    size = prefix(records, start)[1]
    if size < LEGACY_MINIMUM:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {size - LOG_OVERHEAD} is less than the minimum record overhead "
            f"({LEGACY_MINIMUM - LOG_OVERHEAD})",
        )
    if left <= MAGIC_AT:
        return 0
    magic = records[start + MAGIC_AT]
    if magic > _MAGIC:
        number = magic if magic < 128 else magic - 256
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {number}")
    return size if size <= left else 0


def only_batch(records: Bytes) -> int:
    """The size of the one batch in `records`. Raises INVALID_RECORD for none and for a second one.

    If the bytes begin no batch, Kafka's answer has a message; otherwise it has only the code.
    """
    size = whole_batch(records)
    if not size:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    try:
        following = whole_batch(records, size)
    except KafkaError as error:
        raise KafkaError(error.code) from None
    if following:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return size


def _misheaded(
    topic_partition: TopicPartition,
    attributes: int,
    last_offset_delta: int,
    record_count: int,
    producer_id: int,
    base_sequence: int,
) -> KafkaError:
    """The error in a batch's header (``LogValidator.validateBatch``)."""
    if record_count <= 0 or record_count != last_offset_delta + 1:
        what = f"Inconsistent last offset {last_offset_delta} and count of records {record_count}"
    elif attributes & CONTROL:
        what = "Clients are not allowed to write control records"
    else:
        what = f"Invalid sequence number {base_sequence} in record batch with producerId {producer_id}"
    return invalid(topic_partition, what)


# ------------------------------------------------------------------------------------------------ records


def _judged_now(topic_partition: TopicPartition, steps: Judging, is_client: bool, unpacking: Unpacking) -> Appendable:
    """Runs all `steps` at once. Raises `TakesLong` if there are more, and the batch comes from a client."""
    left = unpacking.left
    while True:
        try:
            next(steps)
        except StopIteration as end:
            judged: Appendable = end.value
            return judged
        if is_client:
            steps.close()
            unpacking.left = left
            raise TakesLong(topic_partition)


def judging(
    topic_partition: TopicPartition,
    settings: LogSettings,
    records: Bytes,
    now_ms: int,
    is_client: bool,
    unpacking: Unpacking,
) -> Judging:
    """Makes the batch to append from `records`; yields when `unpacking.at_once` is used up. Raises `KafkaError`."""
    if len(records) < HEADER_BYTES or records[MAGIC_AT] != _MAGIC:
        if not whole_batch(records):
            raise invalid(topic_partition, "Record batch has no batches at all")
        if records[MAGIC_AT] == _MAGIC:
            raise corrupt(topic_partition, f"A record batch of {len(records)} bytes is shorter than its header")
        records = yield from _paced(converted(topic_partition, settings, records), unpacking)
    header = header_at(records, 0)
    view = _checked(topic_partition, settings, records, header, is_client)
    judged = yield from _judging_records(topic_partition, settings, view, header, now_ms, unpacking)
    return judged


def _judging_records(
    topic_partition: TopicPartition,
    settings: LogSettings,
    view: memoryview,
    header: Header,
    now_ms: int,
    unpacking: Unpacking,
) -> Judging:
    """As `judging`, for a batch that is `_checked`."""
    codec, attributes = settings.codec, header[5]
    found = yield from scanning(topic_partition, settings, view, now_ms, unpacking)
    if found.fault:
        raise invalid(topic_partition, f"The records cannot be read: {scan.FAULTS[found.fault]},")
    is_kept = codec is None or codec == attributes & COMPRESSION_MASK or bool(attributes & CONTROL)
    if found.error_count:
        is_packed = bool(attributes & COMPRESSION_MASK)
        raise unfit(topic_partition, settings, found, now_ms, is_partial=is_packed and is_kept)
    if is_kept:
        if found.disordered and attributes & COMPRESSION_MASK:
            raise invalid(topic_partition, "The offsets of compressed records do not follow one another")
    else:
        view = yield from _paced(rewritten(topic_partition, settings, view, found), unpacking)
    return Appendable(settings, view, found.max_timestamp)


def _paced(steps: Steps, unpacking: Unpacking) -> Generator[None, None, memoryview]:
    while True:
        try:
            unpacking.at_once -= next(steps)
        except StopIteration as end:
            made: memoryview = end.value
            return made
        if unpacking.at_once < 0:
            yield


def scanning(
    topic_partition: TopicPartition,
    settings: LogSettings,
    view: memoryview,
    now_ms: int,
    unpacking: Unpacking,
) -> Generator[None, None, Scanned]:
    """Scans the records of the batch in `view`; yields when `unpacking.at_once` is used up.

    Raises `KafkaError`: INVALID_RECORD, and MESSAGE_TOO_LARGE beyond `unpacking.left`, after which producers split
    the batch.
    """
    _, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, record_count = HEADER.unpack_from(view)
    number = attributes & COMPRESSION_MASK
    if number >= len(Codec):
        raise invalid(topic_partition, f"There is no compression codec {number}; it stands")
    codec = Codec(number)
    flags = settings.scan_flags
    content = view[HEADER_BYTES:]
    if codec is Codec.LZ4 and (len(content) <= _LZ4_FLAGS_AT or content[_LZ4_FLAGS_AT] & 0xE3 != _LZ4_FLAGS):
        raise invalid(topic_partition, "LZ4 frames need version 1 and independent blocks, as Java reads them,")
    # Kafka skips the fields of compressed records that it stores unchanged, and so does this broker.
    if codec is Codec.NONE or settings.codec not in (None, codec):
        flags |= scan.STRICT
    if attributes & LOG_APPEND_TIME:
        flags |= scan.APPEND_TIMED
    begun = scan.begin(
        scan.Settings(
            base_timestamp,
            max_timestamp,
            now_ms,
            settings.timestamp_before_max_ms,
            settings.timestamp_after_max_ms,
            record_count,
            flags,
        )
    )
    if codec is Codec.NONE:
        begun.feed(content, True)
        return begun.found()
    try:
        for piece in decompressed_pieces(codec, content, limit=unpacking.left):
            work = len(piece) + _PIECE_OVERHEAD_BYTES
            unpacking.left -= work
            unpacking.at_once -= work
            if unpacking.left < 0:
                raise TooLargeError(codec, UNPACKED_BYTES_MAX)
            if begun.feed(piece):
                return begun.found()
            if unpacking.at_once < 0:
                yield
    except TooLargeError as too_large:
        raise unpacks_too_far(topic_partition, too_large) from None
    except WireError as error:
        raise invalid(topic_partition, f"The records cannot be unpacked ({error})") from None
    begun.feed(b"", True)
    return begun.found()


def stamp_timestamps(view: memoryview, attributes: int, max_timestamp: int) -> None:
    """Sets timestamp type and maximum, and the CRC that covers them."""
    _ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(view, MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(view, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))


_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")


def end_txn_marker(view: Bytes) -> EndTxnMarker | None:
    """The marker in the control batch in `view`; None when it holds no record or is no transaction marker.

    Raises `WireError` for an unreadable one.
    """
    for record in wire_records.records_of(memoryview(view), 0, len(view)):
        if record.key is None or record.value is None:
            return None
        try:
            _, kind = _CONTROL_KEY.unpack_from(record.key)
            if kind not in (0, 1):
                return None
            _, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value)
        except StructError:
            raise WireError(f"a control record has {len(record.key)} and {len(record.value)} bytes") from None
        return EndTxnMarker(kind == 0, coordinator_epoch)
    return None
