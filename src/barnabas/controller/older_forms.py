"""The controller's requests as an older ``inter.broker.protocol.version`` sends them.

The controller knows one form of each request, the latest. Older ones hold the same in other fields: partitions are not
grouped by topic, and a StopReplica before version 3 deletes either all of its partitions or none.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final, TypeVar

from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

FIRST_WITH_TOPICS: Final = {LeaderAndIsrRequest: 2, UpdateMetadataRequest: 5}
"""From these versions on partition states are grouped by topic."""
FIRST_STOP_REPLICA_WITH_STATES: Final = 3
"""From this version on each partition has its leader epoch, and tells whether it is deleted (KIP-570)."""

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
T = TypeVar("T")


def form_of(request: ControlRequest, version: int) -> ControlRequest:
    """`request`, which has the latest form, with its content in the fields of `version`."""
    if isinstance(request, StopReplicaRequest):
        return _stop_replica(request, version)
    if version >= FIRST_WITH_TOPICS[type(request)]:
        return request
    if isinstance(request, LeaderAndIsrRequest):
        states = [
            _with(state, topic_name=topic.topic_name)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        return _with(request, topic_states=[], ungrouped_partition_states=states)
    updates = [
        _with(state, topic_name=topic.topic_name) for topic in request.topic_states for state in topic.partition_states
    ]
    return _with(request, topic_states=[], ungrouped_partition_states=updates)


def split_by_deletion(request: StopReplicaRequest) -> list[StopReplicaRequest]:
    """`request` split into one that deletes all its partitions and one that deletes none; an empty part is omitted."""
    parts = []
    for delete in (True, False):
        topics = []
        for topic in request.topic_states:
            states = [state for state in topic.partition_states if state.delete_partition is delete]
            if states:
                topics.append(StopReplicaRequest.StopReplicaTopicState(topic.topic_name, states))
        if topics:
            parts.append(_with(request, topic_states=topics))
    return parts


def _stop_replica(request: StopReplicaRequest, version: int) -> StopReplicaRequest:
    if version >= FIRST_STOP_REPLICA_WITH_STATES:
        return request
    (delete,) = {state.delete_partition for topic in request.topic_states for state in topic.partition_states}
    if version >= 1:
        topics = [
            StopReplicaRequest.StopReplicaTopicV1(
                topic.topic_name, [state.partition_index for state in topic.partition_states]
            )
            for topic in request.topic_states
        ]
        return _with(request, topic_states=[], delete_partitions=delete, topics=topics)
    ungrouped = [
        StopReplicaRequest.StopReplicaPartitionV0(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return _with(request, topic_states=[], delete_partitions=delete, ungrouped_partitions=ungrouped)


def _with(message: T, **fields: Any) -> T:
    """A copy of `message` in which these fields differ; the other fields are shared."""
    changed = copy(message)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
