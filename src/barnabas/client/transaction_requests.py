"""The requests of a transaction, and the meaning of their answers, for asyncio and blocking producers. Pure.

Transactional id, producer id and epoch identify a transaction: any process that has these three may add to it and end
it. Brokers need no other fact of a producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.client.offsets import CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, numbers_by_topic
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

TRANSACTION_TIMEOUT_MS: Final = 60_000
REQUEST_RETRY_MS: Final = 5
"""The first pause: the coordinator is often still completing the previous transaction."""
LAST_CLIENT_VERSION_OF_ADD_PARTITIONS: Final = 3

ONGOING: Final = "Ongoing"
"""A broker's name for the state of a transaction that has partitions and has not ended."""

FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""The coordinator's errors after which a producer is unusable."""


class TransactionIdentity(NamedTuple):
    """The identity of a transaction; -1 until the coordinator has given a producer id and an epoch."""

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """The group, and the member of it, if any, for which offsets are committed (KIP-447).

    A member's commit counts only in its current generation, so that a consumer that has lost its partitions cannot
    commit for them.
    """

    group: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class PartitionProducer(NamedTuple):
    """A producer's state in a partition: its last sequence, and the start of its open transaction (-1: none)."""

    last_sequence: int
    transaction_start_offset: int


def init_producer_id_request(identity: TransactionIdentity, timeout_ms: int) -> InitProducerIdRequest:
    """Asks for a producer id, or, with an id, for another epoch (KIP-360)."""
    return InitProducerIdRequest(identity.transactional_id, timeout_ms, identity.producer_id, identity.epoch)


def add_partitions_request(
    identity: TransactionIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ],
    )


def add_offsets_request(identity: TransactionIdentity, group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(identity.transactional_id, identity.producer_id, identity.epoch, group)


def txn_offset_commit_request(
    identity: TransactionIdentity, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[Any]] = {}
    for partition, committed in offsets.items():
        topics.setdefault(partition.topic, []).append(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group.group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )


def end_request(identity: TransactionIdentity, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(identity.transactional_id, identity.producer_id, identity.epoch, committed)


def version_for(request: Any, best: int) -> int:
    """The version to send: from version 4 on AddPartitionsToTxn is a request between brokers."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return min(best, LAST_CLIENT_VERSION_OF_ADD_PARTITIONS)
    return best


_OF_SOME: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Errors of absent topics, and of partitions not attempted for their sake; any other error comes first."""


def errors_of(response: Any) -> list[ErrorCode]:
    """All errors in the answer to one of the requests above, or to an OffsetCommit. Errors of the whole request, such
    as its coordinator's, come first; then absent topics, and partitions not attempted for their sake."""
    if hasattr(response, "results_by_topic_v3_and_below"):
        numbers = [
            partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]
    elif hasattr(response, "topics"):
        numbers = [partition.error_code for topic in response.topics for partition in topic.partitions]
    else:
        numbers = [response.error_code]
    found = [ErrorCode(number) for number in numbers if number]
    return sorted(found, key=lambda code: _OF_SOME.index(code) if code in _OF_SOME else -1)


def describe_producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in numbers_by_topic(partitions).items()
        ]
    )


def read_describe_producers(
    response: Any, identity: TransactionIdentity
) -> dict[TopicPartition, PartitionProducer | KafkaError | None]:
    """By partition what `identity` has written there, None if nothing."""
    found: dict[TopicPartition, PartitionProducer | KafkaError | None] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                text = partition.error_message or code.name
                found[topic_partition] = KafkaError(code, f"{topic_partition}: {text}")
                continue
            found[topic_partition] = next(
                (
                    PartitionProducer(state.last_sequence, state.current_txn_start_offset)
                    for state in partition.active_producers
                    if (state.producer_id, state.producer_epoch) == (identity.producer_id, identity.epoch)
                    and state.last_sequence >= 0
                ),
                None,
            )
    return found


def read_describe_transactions(response: Any, identity: TransactionIdentity) -> list[TopicPartition] | KafkaError:
    """The partitions of the open transaction of `identity`; none if it is not open, or another producer's."""
    found = response.transaction_states[0]
    code = ErrorCode(found.error_code)
    if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return []
    if code is not ErrorCode.NONE:
        return KafkaError(code, f"transactional id {identity.transactional_id!r}: {code.name}")
    if found.transaction_state != ONGOING or (found.producer_id, found.producer_epoch) != identity[1:]:
        return []
    return [TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions]
