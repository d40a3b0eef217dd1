"""The partitions of an internal topic that this broker leads, as a coordinator sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from barnabas.coordinator.offsets_records import Bytes
from barnabas.model.ids import TopicPartition


class Stretch(NamedTuple):
    """Whole batches of one segment; none reaches beyond `end_offset`, where the next begins (None: it is the last)."""

    data: Bytes
    end_offset: int | None


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
        """Writes one batch and waits for its replication; returns its first offset. Raises `KafkaError`.

        `appended` is called with that offset as soon as the batch is in the leader's own log.
        """
        ...

    def replicated(self, topic_partition: TopicPartition, timeout_ms: int) -> Awaitable[None]:
        """Waits until the log is replicated up to its present end. Raises `KafkaError`."""
        ...

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        """Batches from `offset` on, or from the log's start if that is later; none at the log's end.

        Raises `KafkaError`: CORRUPT_MESSAGE if no batch can be found at `offset`.
        """
        ...

    def start_offset(self, topic_partition: TopicPartition) -> int:
        """The log's start offset. Raises `KafkaError`."""
        ...

    def next_segment(self, topic_partition: TopicPartition, offset: int) -> int | None:
        """The base offset of the first segment after `offset`; None in the last segment. Raises `KafkaError`."""
        ...
