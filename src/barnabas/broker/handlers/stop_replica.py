"""StopReplica: the controller has this broker stop replicas, and delete them where it says so."""

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
from barnabas.model.ids import NO_EPOCH, TopicPartition
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
    named = [(partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, state.partition_index) for topic in request.topic_states for state in topic.partition_states
    ]
    return StopReplicaResponse(
        error_code=error.code,
        partition_errors=[
            StopReplicaResponse.StopReplicaPartitionError(topic, index, error.code) for topic, index in named
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
    for name, number, leader_epoch in _deletions(request):
        if (name, number) in stopped:
            broker.coordinators.replica_deleted(TopicPartition(name, number), leader_epoch)


def _deletions(request: StopReplicaRequest) -> Iterator[tuple[str, int, int]]:
    """What is to be deleted, in whichever form it is asked for: topic, partition and leader epoch."""
    if request.delete_partitions:  # before version 3
        for partition in request.ungrouped_partitions:
            yield partition.topic_name, partition.partition_index, NO_EPOCH
        for named in request.topics:
            for number in named.partition_indexes:
                yield named.name, number, NO_EPOCH
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                yield topic.topic_name, state.partition_index, state.leader_epoch
