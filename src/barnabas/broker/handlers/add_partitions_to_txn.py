"""AddPartitionsToTxn: a producer adds partitions to its transaction (up to version 3), or a leader verifies them.

From version 4 on only brokers send it: for several transactions at once, each of which is added to or only verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.broker.authorize import authorized, authorized_topics, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.transactions import partitions_of, topic_results, transaction_result
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

_FIRST_VERSION_OF_BROKERS: Final = 4
_FIRST_VERSION_WITH_PRODUCER_FENCED: Final = 2


async def handle(
    broker: BrokerParts, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.version < _FIRST_VERSION_OF_BROKERS:
        errors = await _from_client(broker, request, context)
        if context.due(len(errors)):
            await context.turn()
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(errors))
    require_cluster(context, Operation.CLUSTER_ACTION)
    results = []
    for transaction in request.transactions:
        partitions = partitions_of(transaction.topics)
        errors = _unknown(broker, partitions)
        if not errors and transaction.verify_only:
            errors = broker.transactions.coordinator.verify_partitions(
                transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, partitions
            )
        elif not errors:
            errors = await _add(
                broker, transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, partitions
            )
        results.append(transaction_result(transaction.transactional_id, errors))
        if context.due(1 + len(partitions)):
            await context.turn()
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _from_client(
    broker: BrokerParts, request: AddPartitionsToTxnRequest, context: RequestContext
) -> dict[TopicPartition, ErrorCode]:
    transactional_id = request.v3_and_below_transactional_id
    partitions = partitions_of(request.v3_and_below_topics)
    if not authorized(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = [topic.name for topic in request.v3_and_below_topics if topic.name not in INTERNAL_TOPICS]
    allowed = authorized_topics(context, Operation.WRITE, topics)
    errors = {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED for partition in partitions if partition.topic not in allowed
    }
    if context.due(len(partitions)):
        await context.turn()
    errors.update(_unknown(broker, [partition for partition in partitions if partition.topic in allowed]))
    if context.due(len(partitions)):
        await context.turn()
    if errors:
        # If one partition cannot be added, none is.
        return {partition: errors.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
    errors = await _add(
        broker, transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, partitions
    )
    if context.version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
        return {
            partition: ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
            for partition, code in errors.items()
        }
    return errors


def _unknown(broker: BrokerParts, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Errors for all partitions if one of them does not exist."""
    known = [broker.metadata.partition(partition) is not None for partition in partitions]
    if all(known):
        return {}
    return {
        partition: ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition, is_known in zip(partitions, known, strict=True)
    }


async def _add(
    broker: BrokerParts,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    try:
        await broker.transactions.coordinator.add_partitions(transactional_id, producer_id, producer_epoch, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return dict.fromkeys(partitions, ErrorCode.NONE)


def failed(
    request: AddPartitionsToTxnRequest, error: KafkaError, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.version < _FIRST_VERSION_OF_BROKERS:
        partitions = partitions_of(request.v3_and_below_topics)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=topic_results(dict.fromkeys(partitions, error.code))
        )
    return AddPartitionsToTxnResponse(error_code=error.code)
