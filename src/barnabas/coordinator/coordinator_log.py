"""The partitions of an internal topic that this broker leads, as a coordinator sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from barnabas.coordinator.offsets_records import Bytes
from barnabas.model.ids import TopicPartition


class CoordinatorLog(Protocol):
    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        acks: int,
        timeout_ms: int,
        appended: Callable[[int], None] | None = None,
    ) -> Awaitable[int]:
        """Writes one batch and waits for its replication; its first offset. Raises `KafkaError`.

        `appended` is called with that offset as soon as the batch is in the leader's own log.
        """
        ...

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Bytes:
        """Whole batches from `offset` on, empty at the log's end; from its start where `offset` is before it.

        Raises `KafkaError`.
        """
        ...
