"""StopReplica: the controller tells this broker to stop replicas, and to delete some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.shares import shares
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.control_requests import to_stop
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(broker: BrokerParts, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    answer = StopReplicaResponse()
    for number, share in enumerate(_shares(request)):
        if number:
            await asyncio.sleep(0)
        if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
            return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        part = broker.replicas.stop_replicas(share)
        if part.error_code:
            return part
        answer.partition_errors += part.partition_errors
        _tell_deletions(broker, share, part)
    return answer


def failed(request: StopReplicaRequest, error: KafkaError, context: RequestContext) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=error.code,
        partition_errors=[
            StopReplicaResponse.StopReplicaPartitionError(named.topic, named.partition, error.code)
            for named, _, _ in to_stop(request)
        ],
    )


def _shares(request: StopReplicaRequest) -> Iterator[StopReplicaRequest]:
    if not request.topic_states:  # before version 3
        yield request
        return
    for share_of_topics in shares(request.topic_states):
        share = copy(request)
        share.topic_states = share_of_topics
        yield share


def _tell_deletions(broker: BrokerParts, request: StopReplicaRequest, answer: StopReplicaResponse) -> None:
    stopped = {
        (partition.topic_name, partition.partition_index)
        for partition in answer.partition_errors
        if not partition.error_code
    }
    for named, leader_epoch, delete in to_stop(request):
        if delete and named in stopped:
            broker.coordinators.replica_deleted(named, leader_epoch)
