"""Replicas that one request deletes: their directory is synced for all of them together."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_ID, state

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import RealDisk
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

COUNT = 20
DELETED = [TopicPartition("flights", number) for number in range(COUNT)]


def lead_all(broker: Broker) -> None:
    states = [state(1, 0, (1,), (1,), 0) for _ in range(COUNT)]
    for number, each in enumerate(states):
        each.partition_index = number
    topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState("flights", TOPIC_ID, states)]
    broker.replicas.become_leader_or_follower(LeaderAndIsrRequest(1, controller_epoch=1, topic_states=topics))


def delete_all(broker: Broker) -> StopReplicaResponse:
    stopped = [StopReplicaRequest.StopReplicaPartitionState(number, -2, True) for number in range(COUNT)]
    topics = [StopReplicaRequest.StopReplicaTopicState("flights", stopped)]
    return broker.replicas.stop_replicas(StopReplicaRequest(1, controller_epoch=1, topic_states=topics))


def test_deletions_are_made_to_last_once_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        lead_all(broker)
        synced: list[tuple[str, int]] = []
        fsync_dir = RealDisk.fsync_dir

        def counted(disk: RealDisk, path: str) -> None:
            synced.append((path, sum(name.endswith("-delete") for name in os.listdir(path))))
            fsync_dir(disk, path)

        monkeypatch.setattr(RealDisk, "fsync_dir", counted)
        answer = delete_all(broker)
        assert [each.error_code for each in answer.partition_errors] == [ErrorCode.NONE] * COUNT
        for path in (broker.a, broker.b):
            first = next(renamed for synced_path, renamed in synced if synced_path == path)
            assert first == sum(name.endswith("-delete") for name in os.listdir(path)) > 1, "all, before checkpoints"
        assert len(synced) < COUNT
        await broker.stop()

    asyncio.run(story())


def test_deletions_that_may_not_last_are_told_to_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        lead_all(broker)
        there = [log is not None and log.log_dir.path == broker.a for log in map(broker.log_dirs.get, DELETED)]
        fsync_dir = RealDisk.fsync_dir

        def failing(disk: RealDisk, path: str) -> None:
            if path == broker.a:
                raise OSError(errno.EIO, "input/output error", path)
            fsync_dir(disk, path)

        monkeypatch.setattr(RealDisk, "fsync_dir", failing)
        answer = delete_all(broker)
        codes = [ErrorCode(each.error_code) for each in answer.partition_errors]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE for failed in there]
        assert not broker.log_dirs.is_online(broker.a)
        await broker.stop()

    asyncio.run(story())
