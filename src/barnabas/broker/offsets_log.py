"""The group coordinator's view of ``__consumer_offsets``: the partitions that this broker leads, as a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.log import AppendOrigin
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.replica.replicas import Replicas

if TYPE_CHECKING:
    from barnabas.runtime import Bytes


class ReplicatedOffsetsLog:
    """Appends like a producer with an origin of its own, and reads to the log's end, committed or not."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    async def append(self, topic_partition: TopicPartition, batch: bytes, *, acks: int, timeout_ms: int) -> int:
        (appended,) = await self._replicas.append_records(
            [(topic_partition, bytearray(batch))],
            acks,
            timeout_ms,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
        )
        if appended.error:
            raise KafkaError(appended.error, appended.message)
        return appended.base_offset

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> bytes:
        log = self._replicas.partition_or_raise(topic_partition).leader_log()
        records: Bytes = log.read(max(offset, log.log_start_offset), max_bytes).records
        return bytes(records)
