"""ElectLeaders: the controller elects preferred leaders, or unclean ones where asked (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import Operation, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    require_cluster(context, Operation.ALTER)
    response = await broker.controller.elect_leaders(request)
    if context.version == 0:
        response.error_code = ErrorCode.NONE  # version 0 has errors of partitions only
    return response


def failed(request: ElectLeadersRequest, error: KafkaError, context: RequestContext) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if context.version == 0 else error.code,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(
                        partition_id=partition, error_code=error.code, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
