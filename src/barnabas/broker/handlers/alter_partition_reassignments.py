"""AlterPartitionReassignments: the controller begins, changes or cancels moves of replicas (KIP-455)."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def handle(
    broker: BrokerParts, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    require_cluster(context, Operation.ALTER)
    return await broker.controller.alter_partition_reassignments(request)


def failed(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
                topic.name,
                [
                    AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                        partition.partition_index, error.code, error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
