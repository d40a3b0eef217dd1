"""ListPartitionReassignments: the moves that are under way; only the controller knows them."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    broker: BrokerParts, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    require_cluster(context, Operation.DESCRIBE)
    return await broker.controller.list_partition_reassignments(request)
