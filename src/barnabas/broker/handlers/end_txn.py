"""EndTxn: a producer commits or aborts its transaction."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_VERSION_WITH_PRODUCER_FENCED: Final = 2


async def handle(broker: BrokerParts, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    try:
        await broker.transactions.coordinator.end(
            request.transactional_id, request.producer_id, request.producer_epoch, request.committed
        )
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH) from error
        raise
    return EndTxnResponse()
