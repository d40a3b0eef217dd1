"""Coordinators learn that a replica is deleted, in whichever form the controller asks for it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.handlers import stop_replica
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

GROUPS = "__consumer_offsets"
STATE = StopReplicaRequest.StopReplicaTopicState
REQUESTS = {
    0: StopReplicaRequest(
        delete_partitions=True, ungrouped_partitions=[StopReplicaRequest.StopReplicaPartitionV0(GROUPS, 1)]
    ),
    1: StopReplicaRequest(delete_partitions=True, topics=[StopReplicaRequest.StopReplicaTopicV1(GROUPS, [1])]),
    3: StopReplicaRequest(
        topic_states=[STATE(GROUPS, [StopReplicaRequest.StopReplicaPartitionState(1, -1, delete_partition=True)])]
    ),
}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH])
@pytest.mark.parametrize("version", REQUESTS)
def test_who_coordinates_is_told_of_what_is_deleted(
    monkeypatch: pytest.MonkeyPatch, version: int, error: ErrorCode
) -> None:
    told: list[tuple[TopicPartition, int]] = []
    partition_errors = [StopReplicaResponse.StopReplicaPartitionError(GROUPS, 1, error)]
    broker: Any = SimpleNamespace(
        is_stale=lambda epoch, of_kraft: False,
        replicas=SimpleNamespace(
            stop_replicas=lambda request: StopReplicaResponse(partition_errors=[*partition_errors])
        ),
        coordinators=SimpleNamespace(replica_deleted=lambda *deleted: told.append(deleted)),
    )
    monkeypatch.setattr(stop_replica, "require_cluster", lambda *_: None)
    context: Any = None
    asyncio.run(stop_replica.handle(broker, REQUESTS[version], context))
    assert told == ([] if error else [(TopicPartition(GROUPS, 1), -1)])
