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
    """Complete when each partition's low watermark has reached what was asked for."""

    __slots__ = ("_find", "_waiting")

    def __init__(self, results: list[DeletedRecords], find: Callable[[TopicPartition], Partition | ErrorCode]) -> None:
        super().__init__()
        self._find = find
        self._waiting = {each.topic_partition: each for each in results if each.pending}

    @property
    def keys(self) -> list[TopicPartition]:
        return list(self._waiting)

    def try_complete(self, key: TopicPartition | None) -> bool:
        for each in list(self._waiting.values()) if key is None else [self._waiting.get(key)]:
            if each is None:
                continue
            partition = self._find(each.topic_partition)
            if isinstance(partition, ErrorCode):
                each.error = partition
            else:
                try:
                    each.low_watermark = partition.low_watermark
                except KafkaError as error:
                    each.error = error.code
            if each.error or each.low_watermark >= each.required_offset:
                each.pending = False
                if each.error:
                    each.low_watermark = NO_OFFSET
                del self._waiting[each.topic_partition]
        return not self._waiting

    def on_expiration(self) -> None:
        for each in self._waiting.values():
            each.error = ErrorCode.REQUEST_TIMED_OUT
            each.low_watermark = NO_OFFSET
            each.pending = False
        self._waiting.clear()
