"""AlterPartition: a leader asks the controller to change its ISR (KIP-497)."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    broker: BrokerParts, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    return await broker.controller.alter_partitions(request, context.version)
