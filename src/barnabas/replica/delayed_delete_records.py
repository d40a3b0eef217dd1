"""A DeleteRecords request until every live replica has raised its log start offset (``DelayedDeleteRecords``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import DelayedOperation


@dataclass(slots=True)
class DeletedRecords:
    """One partition's outcome: `low_watermark` is the smallest log start offset of its live replicas."""

    topic_partition: TopicPartition
    required_offset: int = NO_OFFSET
    low_watermark: int = NO_OFFSET
    error: ErrorCode = ErrorCode.NONE
    pending: bool = False


class DelayedDeleteRecords(DelayedOperation[TopicPartition]):
    """Complete when each partition's low watermark has reached the requested offset."""

    __slots__ = ("_find", "_waiting")

    def __init__(self, results: list[DeletedRecords], find: Callable[[TopicPartition], Partition | ErrorCode]) -> None:
        super().__init__()
        self._find = find
        self._waiting = {result.topic_partition: result for result in results if result.pending}

    @property
    def keys(self) -> list[TopicPartition]:
        return list(self._waiting)

    def try_complete(self, key: TopicPartition | None) -> bool:
        for result in list(self._waiting.values()) if key is None else [self._waiting.get(key)]:
            if result is None:
                continue
            partition = self._find(result.topic_partition)
            low_watermark = NO_OFFSET
            if isinstance(partition, ErrorCode):
                result.error = partition
            else:
                try:
                    low_watermark = partition.low_watermark
                except KafkaError as error:
                    result.error = error.code
            if result.error or low_watermark >= result.required_offset:
                result.low_watermark = low_watermark
                result.pending = False
                del self._waiting[result.topic_partition]
        return not self._waiting

    def on_expiration(self) -> None:
        for result in self._waiting.values():
            result.error = ErrorCode.REQUEST_TIMED_OUT
            result.pending = False
        self._waiting.clear()
