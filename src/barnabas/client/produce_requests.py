"""Produce requests and their answers, for the asyncio producer and the blocking one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.structs import Bytes

BATCH_BYTES: Final = 512 * 1024
BUFFER_BYTES: Final = 32 * 1024 * 1024
RECORD_OVERHEAD_BYTES: Final = 32
DELIVERY_TIMEOUT_MS: Final = 120_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_REQUEST_BYTES: Final = 1024 * 1024
"""Kafka's ``max.request.size``, the limit of a record, and of a request with several batches."""


class Produced(NamedTuple):
    """A partition's answer. `base_offset` is -1 where the broker does not say; `append_time` -1 for CreateTime."""

    error: ErrorCode
    base_offset: int = -1
    append_time: int = -1
    message: str | None = None

    @property
    def acknowledged(self) -> bool:
        """True also for a batch that the log has from an earlier attempt, whose answer was lost."""
        return self.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    def refusal(self, topic_partition: TopicPartition) -> KafkaError:
        return KafkaError(self.error, f"{topic_partition}: {self.message or self.error.name}")


def not_acknowledged(topic_partition: TopicPartition, timeout_ms: int, last: Exception | None) -> KafkaError:
    """The error of an expired batch: REQUEST_TIMED_OUT, with the error of the `last` attempt in its text and as its
    cause."""
    text = f"{topic_partition}: not acknowledged within {timeout_ms} ms"
    if isinstance(last, KafkaError):
        name = last.code.name
        told = str(last).removeprefix(f"{topic_partition}: ")
        text += f"; the last attempt: {told if name in told else f'{name}: {told}'}"
    elif last is not None:
        text += f"; the last attempt: {last}"
    late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
    late.__cause__ = last
    return late


def without_leader(topic_partition: TopicPartition, metadata: ClusterMetadata) -> KafkaError:
    """Why a partition whose leader `metadata` does not know gets no batch."""
    topic = metadata.topics.get(topic_partition.topic)
    if topic is not None and topic.error is not ErrorCode.NONE:
        return KafkaError(topic.error, f"{topic_partition}: {topic.error.name}")
    if topic is not None and topic_partition.partition not in topic.partitions:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")


def record_bytes(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> int:
    """A record's size in a batch: an upper estimate, before compression."""
    size = len(value or b"") + len(key or b"") + RECORD_OVERHEAD_BYTES
    for name, content in headers:
        size += len(name) + len(content or b"") + 4
    return size


def produce_request(
    batches: Iterable[tuple[TopicPartition, Bytes]],
    *,
    acks: int = ACKS_ALL,
    timeout_ms: int = REQUEST_TIMEOUT_MS,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Sends one batch to each partition; one broker leads them all."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), encoded in batches:
        topics.setdefault(topic, []).append(ProduceRequest.PartitionProduceData(index=partition, records=encoded))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()],
    )


def read_produce(response: Any) -> dict[TopicPartition, Produced]:
    return {
        TopicPartition(topic.name, partition_response.index): Produced(
            ErrorCode(partition_response.error_code),
            partition_response.base_offset if not partition_response.error_code else -1,
            partition_response.log_append_time_ms,
            getattr(partition_response, "error_message", None),
        )
        for topic in response.responses
        for partition_response in topic.partition_responses
    }
