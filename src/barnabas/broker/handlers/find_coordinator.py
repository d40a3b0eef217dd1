"""FindCoordinator: which broker coordinates a group or a transactional id: its partition's leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorize import Operation, ResourceType, authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_FIRST_VERSION_WITH_BATCHES: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


async def handle(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= _FIRST_VERSION_WITH_BATCHES:
        return FindCoordinatorResponse(
            coordinators=[await _find(broker, request.key_type, key, context) for key in request.coordinator_keys]
        )
    found = await _find(broker, request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def failed(request: FindCoordinatorRequest, error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= _FIRST_VERSION_WITH_BATCHES:
        return FindCoordinatorResponse(
            coordinators=[_refused(key, error.code, error.message) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(
        error_code=error.code, error_message=error.message, node_id=NO_BROKER, host="", port=-1
    )


def _refused(key: str, code: ErrorCode, message: str | None = None) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=NO_BROKER, host="", port=-1, error_code=code, error_message=message or code.name
    )


async def _find(
    broker: Broker, key_type: int, key: str, context: RequestContext
) -> FindCoordinatorResponse.Coordinator:
    if key_type == _TRANSACTION:
        if not authorized(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return _refused(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        name, number = TRANSACTION_STATE_TOPIC, broker.transactions.coordinator.partition_for(key)
    elif key_type == _GROUP:
        if not authorized(context, Operation.DESCRIBE, ResourceType.GROUP, key):
            return _refused(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        name, number = GROUP_METADATA_TOPIC, broker.groups.partition_for(key)
    else:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {key_type}.")
    image = broker.metadata.image
    topic = image.topics.get(name)
    if topic is None:
        await broker.topics.create_automatically(name)
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(number)
    leader = None if partition is None else image.brokers.get(partition.leader)
    endpoint = None if leader is None else leader.endpoint(context.listener)
    if leader is None or endpoint is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port, error_message=None
    )
