"""A coordinator's view of its internal topic: the partitions that this broker leads, as a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.coordinator.coordinator_log import Stretch
from barnabas.log.log import AppendOrigin
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.delayed_produce import Appended
from barnabas.replica.replicas import Replicas

if TYPE_CHECKING:
    pass


class ReplicatedLog:
    """Appends like a producer with an origin of its own, and reads to the log's end, committed or not."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    async def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        acks: int,
        timeout_ms: int,
        appended: Callable[[int], None] | None = None,
    ) -> int:
        result = self._replicas.appending.append(
            topic_partition,
            bytearray(batch),
            acks,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
        )
        if appended is not None and not result.error:
            appended(result.base_offset)
        if acks == ACKS_ALL:
            await self._replicas.appending.replicated([result], timeout_ms)
        if result.error:
            raise KafkaError(result.error, result.message)
        return result.base_offset

    async def replicated(self, topic_partition: TopicPartition, timeout_ms: int) -> None:
        partition = self._replicas.partition_or_raise(topic_partition)
        end = Appended(topic_partition).up_to(partition, partition.leader_log().log_end_offset)
        await self._replicas.appending.replicated([end], timeout_ms)
        if end.error:
            raise KafkaError(end.error, end.message)

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        log = self._replicas.partition_or_raise(topic_partition).leader_log()
        begin = max(offset, log.log_start_offset)
        records = bytes(log.read(begin, max_bytes))
        # The segment that holds `begin`, or the following one if compaction removed the rest of that.
        segment = log.offset_metadata(begin).segment_base_offset
        return Stretch(records, self.next_segment(topic_partition, segment))

    def start_offset(self, topic_partition: TopicPartition) -> int:
        return self._replicas.partition_or_raise(topic_partition).leader_log().log_start_offset

    def next_segment(self, topic_partition: TopicPartition, offset: int) -> int | None:
        segments = self._replicas.partition_or_raise(topic_partition).leader_log().segments
        return next((segment.base_offset for segment in segments if segment.base_offset > offset), None)
