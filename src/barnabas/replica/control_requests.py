"""The controller's requests about replicas: the partitions they name, and the answers, in every version."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_EPOCH, TopicPartition, Uuid
from barnabas.replica.partition import PartitionState
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest


def to_stop(request: StopReplicaRequest) -> list[tuple[TopicPartition, int, bool]]:
    """The replicas to stop, in whichever form they are named, with the leader epoch and whether to delete them."""
    if request.topic_states:
        return [
            (TopicPartition(topic.topic_name, state.partition_index), state.leader_epoch, state.delete_partition)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
    delete = request.delete_partitions
    old = [
        (TopicPartition(named.topic_name, named.partition_index), NO_EPOCH, delete)
        for named in request.ungrouped_partitions
    ]
    return old + [
        (TopicPartition(topic.name, index), NO_EPOCH, delete)
        for topic in request.topics
        for index in topic.partition_indexes
    ]


def leader_and_isr_response(
    topics: Sequence[tuple[str, Uuid, list[PartitionState]]],
    errors: dict[TopicPartition, ErrorCode],
    *,
    by_topic_id: bool,
) -> LeaderAndIsrResponse:
    """The answer; it has topic ids since version 5 of the request, and names before."""
    response = LeaderAndIsrResponse()
    for name, topic_id, states in topics:
        answered = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                name, state.partition_index, errors[TopicPartition(name, state.partition_index)]
            )
            for state in states
        ]
        if by_topic_id:
            response.topics.append(LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id, answered))
        else:
            response.partition_errors.extend(answered)
    return response
