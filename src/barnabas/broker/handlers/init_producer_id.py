"""InitProducerId: an id for an idempotent producer; a transactional one belongs to the transaction coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorize import Operation, ResourceType, authorized, authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_NONE: Final = -1


async def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Producer id and epoch go together: both are given or neither.")
    if request.transactional_id is not None:
        if not authorized(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "This broker coordinates no transactions.")
    if not authorized_cluster(context, Operation.IDEMPOTENT_WRITE) and not _may_write_any_topic(broker, context):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


def _may_write_any_topic(broker: Broker, context: RequestContext) -> bool:
    return any(authorized(context, Operation.WRITE, ResourceType.TOPIC, name) for name in broker.metadata.image.topics)
