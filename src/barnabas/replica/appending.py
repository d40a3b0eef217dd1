"""Producers' records on their way into the logs that this broker leads (``ReplicaManager.appendRecords``).

A partition's error concerns that partition alone. With acks=all a request is answered when the high watermark has
passed the appended records, or no longer can.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from barnabas.log.log import AppendInfo, AppendOrigin
from barnabas.log.refusals import InvalidRecords
from barnabas.log.validation import TakesLong, Unpacking
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.delayed_produce import Appended, DelayedProduce
from barnabas.replica.hosted_partitions import HostedPartitions
from barnabas.replica.partition import Partition
from barnabas.replica.purgatories import Purgatories
from barnabas.runtime import Clock
from barnabas.wire.records import PRODUCER_ID_AT

_SIGN: Final = 0x80
"""The sign bit of a number's first byte."""
_EXPECTED: Final = frozenset(
    (
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR),
        *(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE),
    )
)
"""Errors that ``ReplicaManager`` does not count as failures: nothing is wrong with the broker."""
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that do not tell the log start offset; all others do."""


class Appending:
    def __init__(self, clock: Clock, hosted: HostedPartitions, purgatories: Purgatories) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories

    def append(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        unpacking: Unpacking | None = None,
    ) -> Appended:
        """Appends to the partition that this broker leads, and wakes the operations that wait for that.

        The result holds any error. With acks=all, `replicated` comes next. Raises `TakesLong` only.
        """
        result = Appended(topic_partition)
        try:
            partition, info = self.append_as_leader(
                topic_partition, records, required_acks, origin, internal_topics_allowed, unpacking
            )
        except KafkaError as error:
            return self._refused(result, records, error)
        log = partition.log
        # Enough replicas were in sync, or the append failed: records below the high watermark are replicated.
        pending = required_acks == ACKS_ALL and (log is None or log.high_watermark <= info.last_offset)
        if pending and origin is AppendOrigin.CLIENT:
            result.idempotent = info.duplicate or info.records[PRODUCER_ID_AT] < _SIGN
        return result.at(partition, info, pending=pending)

    def _refused(self, result: Appended, records: bytearray | memoryview, error: KafkaError) -> Appended:
        refusing = self._hosted.online.get(result.topic_partition)
        traffic = self._hosted.former_traffic if refusing is None else refusing.traffic
        # Kafka counts neither produces to unknown partitions, nor a client's own faults as failures.
        traffic.produces += error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        traffic.failed_produces += error.code not in _EXPECTED
        if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            traffic.bytes_rejected += len(records)
        if error.code not in _WITHOUT_LOG_START and refusing is not None and refusing.log is not None:
            result.log_start_offset = refusing.log.log_start_offset
        if not isinstance(error, InvalidRecords):
            # Kafka's leader sends a message for errors of single records, otherwise only the code.
            return result.failed(error.code)
        result.record_errors = error.record_errors
        return result.failed(error.code, error.message)

    async def append_unpacked(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        unpacking: Unpacking,
        turn: Callable[[], Awaitable[object]],
        *,
        internal_topics_allowed: bool = False,
    ) -> Appended:
        """As `append`, for a batch that `TakesLong`: awaits a `turn` before each step."""
        while True:
            log = self._hosted.online[topic_partition].log
            assert log is not None, "its settings said so"
            try:
                await unpacking.judge(topic_partition, log.settings, records, self._clock.now_ms(), turn)
            except KafkaError as error:
                return self._refused(Appended(topic_partition), records, error)
            try:
                return self.append(
                    topic_partition,
                    records,
                    required_acks,
                    internal_topics_allowed=internal_topics_allowed,
                    unpacking=unpacking,
                )
            except TakesLong:
                continue

    def append_as_leader(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        unpacking: Unpacking | None = None,
    ) -> tuple[Partition, AppendInfo]:
        """As `append`, but raises: after any `KafkaError` nothing was appended."""
        partition = self._hosted.online.get(topic_partition)
        if partition is None:
            code = self._hosted.find(topic_partition)
            assert isinstance(code, ErrorCode)
            raise KafkaError(code)
        if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic_partition.topic}"
            )
        clock = self._clock
        # Only followers' progress needs the monotonic clock.
        now_ms = clock.monotonic_ms() if partition.progress else 0
        info, high_watermark_raised = partition.append_as_leader(
            records, required_acks, now_ms=now_ms, wall_ms=clock.now_ms(), origin=origin, unpacking=unpacking
        )
        purgatories = self._purgatories
        if high_watermark_raised:
            purgatories.high_watermark_moved(partition)
        if not info.duplicate and (partition.resting or purgatories.follower_fetch.delayed):
            purgatories.appended(partition, info)
        return partition, info

    def replicating(
        self, results: Sequence[Appended], timeout_ms: int, *, just_now: bool = False
    ) -> DelayedProduce | None:
        """An operation that waits until every result is final: replicated, failed, or REQUEST_TIMED_OUT (acks=all);
        None if nothing is pending. `just_now` means that nothing has run since the append; otherwise the operation may
        be complete already."""
        pending = [appended for appended in results if appended.pending]
        if not pending:
            return None
        operation = DelayedProduce(pending, self._hosted.find)
        if not just_now and operation.try_complete(None):
            operation.force_complete()
        else:
            self._purgatories.produce.watch(operation, operation.keys, timeout_ms)
        return operation

    async def replicated(self, results: Sequence[Appended], timeout_ms: int) -> None:
        """Returns when every result is final (acks=all)."""
        operation = self.replicating(results, timeout_ms)
        if operation is not None:
            await operation.over()
