"""FindCoordinator: which broker coordinates a group or a transactional id: its partition's leader."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_FIRST_VERSION_WITH_BATCHES: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_TOPIC_MADE_MS: Final = 1_000
"""How long the first client waits until the coordinators' topic is created. Apache's broker answers at once that there
is no coordinator; clients ask again after a second, though the topic is there after some milliseconds."""


async def handle(
    broker: BrokerParts, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if context.version >= _FIRST_VERSION_WITH_BATCHES:
        coordinators = []
        for key in request.coordinator_keys:
            coordinators.append(await _find(broker, request.key_type, key, context))
            if context.due_after(key):
                await context.turn()
        return FindCoordinatorResponse(coordinators=coordinators)
    found = await _find(broker, request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=text_of(found.error_code),
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def failed(request: FindCoordinatorRequest, error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= _FIRST_VERSION_WITH_BATCHES:
        return FindCoordinatorResponse(
            coordinators=[_refused(key, error.code, text_of(error.code)) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(
        error_code=error.code, error_message=text_of(error.code), node_id=NO_BROKER, host="", port=-1
    )


def _refused(key: str, code: ErrorCode, message: str = "") -> FindCoordinatorResponse.Coordinator:
    """Since version 4 Kafka's answer has no other fields for a coordinator that is not found."""
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=NO_BROKER, host="", port=-1, error_code=code, error_message=message
    )


async def _find(
    broker: BrokerParts, key_type: int, key: str, context: RequestContext
) -> FindCoordinatorResponse.Coordinator:
    if key_type == _TRANSACTION:
        if not authorized(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return _refused(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        name, number = TRANSACTION_STATE_TOPIC, broker.transactions.coordinator.partition_for(key)
        count = broker.transactions.coordinator.partition_count
    elif key_type == _GROUP:
        if not authorized(context, Operation.DESCRIBE, ResourceType.GROUP, key):
            return _refused(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        name, number = GROUP_METADATA_TOPIC, broker.groups.partition_for(key)
        count = broker.groups.partition_count
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {key_type}.")
    if name not in broker.metadata.image.topics:
        mutations = broker.quotas.mutations(context, strict_since=None)
        if await broker.topics.create_automatically(name, mutations) != ErrorCode.LEADER_NOT_AVAILABLE:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await broker.topics.until_created([(name, count)], _TOPIC_MADE_MS)
    image = broker.metadata.image
    topic = image.topics.get(name)
    partition = None if topic is None else topic.partitions.get(number)
    leader = None if partition is None else image.brokers.get(partition.leader)
    endpoint = None if leader is None else leader.endpoint(context.listener)
    if leader is None or endpoint is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port
    )
