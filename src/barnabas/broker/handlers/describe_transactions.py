"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

TransactionState = DescribeTransactionsResponse.TransactionState


async def handle(
    broker: BrokerParts, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    described: dict[str, DescribeTransactionsResponse.TransactionState] = {}
    for transactional_id in request.transactional_ids:
        if transactional_id not in described:
            described[transactional_id] = _describe(broker, transactional_id, context)
        if context.due_after(transactional_id):
            await context.turn()
    # As often as it was named.
    return DescribeTransactionsResponse(
        transaction_states=[described[transactional_id] for transactional_id in request.transactional_ids]
    )


def failed(
    request: DescribeTransactionsRequest, error: KafkaError, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=transactional_id, error_code=error.code)
            for transactional_id in request.transactional_ids
        ]
    )


def _describe(
    broker: BrokerParts, transactional_id: str, context: RequestContext
) -> DescribeTransactionsResponse.TransactionState:
    described = TransactionState(transactional_id=transactional_id)
    if not authorized(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        described.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return described
    try:
        metadata = broker.transactions.coordinator.describe(transactional_id)
    except KafkaError as error:
        described.error_code = error.code
        return described
    described.producer_id = metadata.producer_id
    described.producer_epoch = metadata.producer_epoch
    described.transaction_state = metadata.state.title
    described.transaction_timeout_ms = metadata.timeout_ms
    described.transaction_start_time_ms = metadata.start_ms
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        if authorized(context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    described.topics = [DescribeTransactionsResponse.TopicData(name, partitions) for name, partitions in topics.items()]
    return described
