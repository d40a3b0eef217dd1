"""AllocateProducerIds: a broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def handle(
    broker: BrokerParts, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    return await broker.controller.allocate_producer_ids(request)
