"""A partition of an internal topic as bytes, for coordinators that are elected over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.coordinator.coordinator_log import Stretch
from barnabas.coordinator.offsets_records import KeyValue
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.records import Record, batches, build_batch


class StoredLog:
    """A log of several segments, each a byte string; who is elected reads it, and writes into nowhere."""

    def __init__(self, *segments: bytes, bases: Sequence[int] | None = None) -> None:
        self.segments = segments
        self.bases = [int.from_bytes(segment[:8], "big") for segment in segments] if bases is None else bases
        """What the files' names say."""

    async def append(self, *_: Any, **__: Any) -> int:
        return 0

    async def replicated(self, topic_partition: TopicPartition, timeout_ms: int) -> None:
        pass

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        at = max((index for index, base in enumerate(self.bases) if base <= offset), default=0)
        for base, segment in zip(self.bases[at:], self.segments[at:], strict=True):
            try:
                for header, start, _ in batches(segment):
                    if header.next_offset > offset:
                        return Stretch(segment[start:], self.next_segment(topic_partition, base))
            except ValueError as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        return Stretch(b"", None)

    def start_offset(self, topic_partition: TopicPartition) -> int:
        return self.bases[0]

    def next_segment(self, topic_partition: TopicPartition, offset: int) -> int | None:
        return next((base for base in self.bases if base > offset), None)


def batch_of(offset: int, *records: KeyValue) -> bytes:
    return build_batch([Record(offset + index, 0, key, value) for index, (key, value) in enumerate(records)])


def log_of(*records: KeyValue | bytes) -> StoredLog:
    """One segment; records in batches of their own, or batches as they are."""
    return StoredLog(b"".join(each if isinstance(each, bytes) else batch_of(n, each) for n, each in enumerate(records)))
