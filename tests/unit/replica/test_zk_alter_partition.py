"""Leaders that write their ISR themselves, on a real coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.replica import zk_alter_partition
from barnabas.replica.zk_alter_partition import ZkAlterPartitionManager
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZNodeChildChangeHandler, ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import IsrChangeNotificationZNode, LeaderIsrAndControllerEpoch, TopicPartitionStateZNode
from barnabas.zk.server.server import CoordinatorServer

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = LeaderAndIsr(1, 4, (1, 2, 3))


class Leader:
    def __init__(self, zk: KafkaZkClient, manager: ZkAlterPartitionManager) -> None:
        self.zk = zk
        self.manager = manager

    async def writes(self, sent: LeaderAndIsr, partition: TopicPartition = P0) -> LeaderAndIsr | ErrorCode:
        answer: asyncio.Future[LeaderAndIsr | ErrorCode] = asyncio.get_running_loop().create_future()
        self.manager.submit(partition, ZERO_UUID, sent, 7, answer.set_result)
        return await answer

    async def notifications(self) -> list[str]:
        """Waits for the first."""
        came = asyncio.Event()
        self.zk.register_znode_child_change_handler(ZNodeChildChangeHandler(IsrChangeNotificationZNode.path, came.set))
        numbers = await self.zk.get_all_isr_change_notifications()
        if not numbers:
            await came.wait()
            numbers = await self.zk.get_all_isr_change_notifications()
        return numbers


Play = Callable[[Leader], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Play], None]:
    async def run(story: Play) -> None:
        runtime = real_runtime()
        server = CoordinatorServer(runtime, host="127.0.0.1", port=0, data_dir=str(tmp_path), fsync=False)
        await server.start()
        client = ZooKeeperClient(
            runtime, f"127.0.0.1:{server.port}", session_timeout_ms=6_000, connection_timeout_ms=10_000, name="leader"
        )
        await client.start()
        zk = KafkaZkClient(runtime, client)
        await zk.create_top_level_paths()
        for partition in (P0, P1):
            await zk.create_recursive(
                f"/brokers/topics/t/partitions/{partition.partition}/state",
                b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2,3]}',
            )
        failures: list[BaseException] = []
        tasks = Tasks(lambda _, error: failures.append(error))
        manager = ZkAlterPartitionManager(runtime.clock, zk, tasks)
        try:
            async with asyncio.timeout(60):
                await story(Leader(zk, manager))
        finally:
            manager.close()
            await tasks.end()
            await client.close()
            await server.close()
        assert failures == []

    return lambda story: asyncio.run(run(story))


def test_the_isr_is_written_with_the_epoch_of_the_controller_that_chose_the_leader(
    play: Callable[[Play], None],
) -> None:
    async def story(leader: Leader) -> None:
        written = await leader.writes(replace(STATE, isr=(1, 2)))
        assert written == replace(STATE, isr=(1, 2), partition_epoch=1)
        found = (await leader.zk.get_topic_partition_states([P0])).get(P0)
        assert found == LeaderIsrAndControllerEpoch(written, 7)

    play(story)


def test_a_leader_that_knows_an_older_partition_epoch_changes_nothing(play: Callable[[Play], None]) -> None:
    async def story(leader: Leader) -> None:
        first = await leader.writes(replace(STATE, isr=(1, 2)))
        assert await leader.writes(replace(STATE, isr=(1,))) is ErrorCode.INVALID_UPDATE_VERSION
        found = (await leader.zk.get_topic_partition_states([P0])).get(P0)
        assert found is not None
        assert found.leader_and_isr == first

    play(story)


def test_a_leader_learns_that_another_leads_in_a_later_epoch(play: Callable[[Play], None]) -> None:
    async def story(leader: Leader) -> None:
        await leader.writes(LeaderAndIsr(2, 5, (2, 3)))
        assert await leader.writes(replace(STATE, isr=(1,))) is ErrorCode.FENCED_LEADER_EPOCH

    play(story)


def test_a_state_that_cannot_be_read_is_another_version(play: Callable[[Play], None]) -> None:
    async def story(leader: Leader) -> None:
        await leader.zk.conditional_update_path(TopicPartitionStateZNode.path(P0), b"no state", 0)
        assert await leader.writes(replace(STATE, isr=(1,))) is ErrorCode.INVALID_UPDATE_VERSION
        assert await leader.writes(replace(STATE, isr=(1,)), P1) == replace(STATE, isr=(1,), partition_epoch=1)

    play(story)


def test_a_write_that_was_done_while_its_answer_was_lost_counts(play: Callable[[Play], None]) -> None:
    async def story(leader: Leader) -> None:
        wanted = replace(STATE, isr=(1, 2))
        first = await leader.writes(wanted)
        # The same again, as after an answer that never came: the state is as wanted, only its version is not.
        assert await leader.writes(wanted) == first

    play(story)


def test_what_changed_is_told_in_one_notification_when_it_is_quiet(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zk_alter_partition, "CHECK_INTERVAL_MS", 10)
    monkeypatch.setattr(zk_alter_partition, "LINGER_MS", 30)

    async def story(leader: Leader) -> None:
        await leader.writes(replace(STATE, isr=(1, 2)))
        await leader.writes(replace(STATE, isr=(1, 3)), P1)
        numbers = await leader.notifications()
        assert len(numbers) == 1
        assert await leader.zk.get_partitions_from_isr_change_notifications(numbers) == [P0, P1]

    play(story)
