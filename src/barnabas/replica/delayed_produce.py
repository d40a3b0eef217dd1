"""A produce request with acks=all between its append and its answer (Kafka's ``DelayedProduce``)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.log.log import AppendInfo
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import DelayedOperation

NO_TIMESTAMP = -1


class Appended:
    """What became of one partition's records. `pending`: appended here, but the followers do not have them yet."""

    __slots__ = (
        "base_offset",
        "error",
        "leading_since_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "message",
        "pending",
        "required_offset",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.error = ErrorCode.NONE
        self.message: str | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.log_start_offset = NO_OFFSET
        self.required_offset = NO_OFFSET
        self.leading_since_epoch = -1
        self.pending = False

    def at(self, partition: Partition, info: AppendInfo, *, pending: bool) -> Appended:
        """The log took the records."""
        self.base_offset = info.first_offset
        self.log_append_time_ms = info.log_append_time
        self.log_start_offset = info.log_start_offset
        if pending:
            self.required_offset = info.last_offset + 1
            self.leading_since_epoch = partition.leading_since_epoch
            self.pending = True
        return self

    def failed(self, error: ErrorCode, message: str | None = None) -> Appended:
        self.error = error
        self.message = message
        self.base_offset = NO_OFFSET
        self.pending = False
        return self

    def __repr__(self) -> str:
        return f"Appended({self.topic_partition}, {self.error.name}, base_offset={self.base_offset})"


class DelayedProduce(DelayedOperation[TopicPartition]):
    """Complete when each partition's high watermark has reached what was appended, or can no longer."""

    __slots__ = ("_find", "_results", "_waiting")

    def __init__(self, results: list[Appended], find: Callable[[TopicPartition], Partition | ErrorCode]) -> None:
        super().__init__()
        self._results = results
        self._find = find
        self._waiting = {each.topic_partition: each for each in results if each.pending}

    @property
    def keys(self) -> list[TopicPartition]:
        return list(self._waiting)

    def try_complete(self, key: TopicPartition | None) -> bool:
        for each in [self._waiting.get(key)] if key is not None else list(self._waiting.values()):
            if each is None:
                continue
            partition = self._find(each.topic_partition)
            if isinstance(partition, ErrorCode):
                enough, error = False, partition
            else:
                enough, error = partition.check_enough_replicas_reach_offset(
                    each.required_offset, each.leading_since_epoch
                )
            if enough or error:
                each.pending = False
                del self._waiting[each.topic_partition]
                if error:
                    each.failed(error)
        return not self._waiting

    def on_expiration(self) -> None:
        for each in self._waiting.values():
            each.failed(ErrorCode.REQUEST_TIMED_OUT)
        self._waiting.clear()
