"""InitProducerId: an id for an idempotent producer, or from its coordinator that of a transactional one."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import authorized_cluster, authorized_on_any, require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.transactions import ProducerIdAndEpoch
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE: Final = -1
_FIRST_VERSION_WITH_PRODUCER_FENCED: Final = 4


async def handle(
    broker: BrokerParts, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        return await _of_transactional_id(broker, request, request.transactional_id, context)
    if not (
        authorized_cluster(context, Operation.IDEMPOTENT_WRITE, log_denied=False)
        or authorized_on_any(context, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _expected(request)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


def failed(request: InitProducerIdRequest, error: KafkaError, context: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=_NONE, producer_epoch=_NONE)


async def _of_transactional_id(
    broker: BrokerParts, request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> InitProducerIdResponse:
    try:
        given = await broker.transactions.coordinator.init_producer_id(
            transactional_id, request.transaction_timeout_ms, _expected(request)
        )
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH) from error
        raise
    return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.epoch)


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The producer's present id and epoch, if it names them (KIP-360)."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Producer id and epoch go together: both are given or neither.")
    if request.producer_id == _NONE:
        return None
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
