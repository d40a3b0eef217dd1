"""The reasons why a leader refuses a batch, in Kafka's codes and words (``RecordValidationException``, KIP-467)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.log.settings import LogSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire import scan
from barnabas.wire.compression import TooLargeError
from barnabas.wire.scan import RecordError, Scanned
from barnabas.wire.varint import wrapped


class InvalidRecords(KafkaError):
    """Single records are invalid: `record_errors` has the number in the batch and a message for the first ones."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[type[InvalidRecords], tuple[ErrorCode, str, Sequence[tuple[int, str]]]]:  # type: ignore[override]
        assert self.message is not None
        return type(self), (self.code, self.message, self.record_errors)


def invalid(topic_partition: TopicPartition, message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"{message} in topic partition {topic_partition}")


def corrupt(topic_partition: TopicPartition, message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{message} in topic partition {topic_partition}")


def too_large(topic_partition: TopicPartition, what: str, settings: LogSettings) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{what} in the append to {topic_partition} exceeds the maximum configured value of "
        f"{settings.max_message_bytes} bytes.",
    )


def beyond_segment(topic_partition: TopicPartition, size: int, settings: LogSettings) -> KafkaError:
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size} bytes in append to partition {topic_partition}, which exceeds the maximum "
        f"configured segment size of {settings.segment_bytes}.",
    )


def unpacks_too_far(topic_partition: TopicPartition, error: TooLargeError) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{error} in topic partition {topic_partition}")


def unfit(
    topic_partition: TopicPartition, settings: LogSettings, found: Scanned, now_ms: int, *, is_partial: bool
) -> InvalidRecords:
    """The refusal for `found.errors`; `is_partial`: the records were compressed, and Kafka skips their fields."""
    told = [
        (error.number, _reason(topic_partition, settings, error, now_ms, is_partial=is_partial))
        for error in found.errors
    ]
    if found.timestamp_errors:
        message = "One or more records have been rejected due to invalid timestamp"
        return InvalidRecords(ErrorCode.INVALID_TIMESTAMP, message, told)
    first = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in told[:3])
    message = (
        f"One or more records have been rejected due to {found.error_count} record errors in total, and only showing "
        f"the first three errors at most: [{first}]"
    )
    return InvalidRecords(ErrorCode.INVALID_RECORD, message, told)


def _reason(
    topic_partition: TopicPartition, settings: LogSettings, error: RecordError, now_ms: int, *, is_partial: bool
) -> str:
    if error.kind == scan.NO_KEY:
        return f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    if error.kind == scan.OUT_OF_RANGE:
        earliest = wrapped(now_ms - settings.timestamp_before_max_ms)
        latest = wrapped(now_ms + settings.timestamp_after_max_ms)
        return (
            f"Timestamp {error.timestamp} of message with offset {error.offset_delta} is out of range. The timestamp "
            f"should be within [{earliest}, {latest}]"
        )
    key_size, value_size = error.key_size, error.value_size
    if not is_partial:
        key_size, value_size = max(key_size, 0), max(value_size, 0)
    return (
        f"Invalid timestamp type in message {'Partial' if is_partial else ''}DefaultRecord(offset={error.offset_delta},"
        f" timestamp={error.timestamp}, key={key_size} bytes, value={value_size} bytes). Producer should not set "
        "timestamp type to LogAppendTime."
    )
