"""StopReplica: the controller has this broker stop replicas, and delete them where it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import Operation, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    if broker.is_stale(request.broker_epoch):
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    response = broker.replicas.stop_replicas(request)
    stopped = {(each.topic_name, each.partition_index) for each in response.partition_errors if not each.error_code}
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition and (topic.topic_name, state.partition_index) in stopped:
                broker.replica_deleted(TopicPartition(topic.topic_name, state.partition_index), state.leader_epoch)
    return response
