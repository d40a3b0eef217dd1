"""Whole reigns: real controllers on a real coordinator, with brokers that only answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from controller_world import AnsweringBroker, Play, World, played

from barnabas.controller import events, topics
from barnabas.controller.controller import KafkaController
from barnabas.controller.election_plan import ControlledShutdownPartitionLeaderElectionStrategy
from barnabas.controller.states import PartitionState
from barnabas.controller.status import controller_status, partition_status
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.kafka.zk_client import BrokerIdInUse, ControllerMoved, KafkaZkClient
from barnabas.zk.kafka.zk_topics import UpdateLeaderAndIsrResult
from barnabas.zk.kafka.znodes import (
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)
from barnabas.zk.protocol.errors import SessionExpired
from barnabas.zk.protocol.ops import Delete, Multi, SetData

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))


@pytest.fixture
def play() -> Callable[[Play], None]:
    return played


def reassigned(response: AlterPartitionReassignmentsResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.responses
        for each in topic.partitions
    }


def reassigning(partition: TopicPartition, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name=partition.topic,
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(
                        partition_index=partition.partition, replicas=replicas
                    )
                ],
            )
        ]
    )


async def _gone(zk: KafkaZkClient, path: str) -> bool:
    return not await zk.path_exists(path)


async def assignment(made: World, partition: TopicPartition) -> ReplicaAssignment:
    zk = await made.zk()
    return (await zk.get_full_replica_assignment_for_topics([partition.topic]))[partition]


def test_the_first_broker_becomes_controller_and_raises_the_epoch(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        assert made.controller.broker_id == 1
        zk = await made.zk()
        epoch = await zk.get_controller_epoch()
        assert epoch is not None
        assert (epoch[0], made.controller.epoch) == (1, 1)
        assert {c.active_controller_id for c in made.controllers.values()} == {1}
        assert (await zk.get_features()) is not None

    play(story)


def test_a_new_topic_gets_its_first_live_replicas_as_leaders(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        topic_id = await made.create("t", (1, 2, 3), (4, 3, 2))
        assert await made.state(P0) == LeaderAndIsr(1, 0, (1, 2, 3))
        assert await made.state(P1) == LeaderAndIsr(3, 0, (3, 2))
        told = made.brokers[2].of(LeaderAndIsrRequest)
        assert len(told) == 1
        (topic,) = told[0].topic_states
        assert (topic.topic_name, topic.topic_id) == ("t", topic_id)
        assert [(each.partition_index, each.is_new) for each in topic.partition_states] == [(0, True), (1, True)]
        assert [leader.broker_id for leader in told[0].live_leaders] == [1, 3]

    play(story)


def test_a_dead_brokers_partitions_get_leaders_from_the_isr_and_it_leaves_the_isr(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (2, 1, 3), (1, 2, 3))
        await made.die(2)
        await made.until(lambda: made.controller.reign.context.live_broker_ids == [1, 3], "2 is gone")  # type: ignore[union-attr]
        await made.settled()
        assert await made.state(P0) == LeaderAndIsr(1, 1, (1, 3), partition_epoch=1)
        assert await made.state(P1) == LeaderAndIsr(1, 1, (1, 3), partition_epoch=1)
        shrunken = made.brokers[1].of(LeaderAndIsrRequest)[-1].topic_states[0].partition_states
        assert {(each.partition_index, tuple(each.isr), each.is_new) for each in shrunken} >= {(1, (1, 3), False)}
        update = made.brokers[3].of(UpdateMetadataRequest)[-1]
        assert [each.id for each in update.live_brokers] == [1, 3]

    play(story)


def test_a_dead_broker_leaves_the_isr_also_where_the_leader_wrote_the_state_just_then(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (2, 3))
        zk = await made.zk()
        path = TopicPartitionStateZNode.path(P0)
        reads = KafkaZkClient.get_topic_partition_states

        async def and_then_it_is_written(self: KafkaZkClient, partitions: Any) -> Any:
            read = await reads(self, partitions)
            monkeypatch.undo()
            data, _ = await zk.get_data_and_stat(path)
            assert data is not None
            await zk.client.handle_requests([SetData(path, data)])
            return read

        monkeypatch.setattr(KafkaZkClient, "get_topic_partition_states", and_then_it_is_written)
        await made.die(3)
        await made.settled()
        assert await made.state(P0) == LeaderAndIsr(2, 1, (2,), partition_epoch=2)
        (told,) = made.brokers[2].of(LeaderAndIsrRequest)[-1].topic_states[0].partition_states
        assert (told.leader_epoch, told.isr) == (1, [2])

    play(story)


def test_everybody_is_told_that_a_broker_is_dead_which_had_no_replica(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2))
        await made.die(3)
        await made.settled()
        for broker_id in (1, 2):
            update = made.brokers[broker_id].of(UpdateMetadataRequest)[-1]
            assert [each.id for each in update.live_brokers] == [1, 2]

    play(story)


def test_a_broker_that_registers_again_forgets_topics_that_were_deleted_meanwhile(
    play: Callable[[Play], None],
) -> None:
    """The controller tells a broker that is new to it of all topics that there are, and of none that is gone."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("kept", (1, 2))
        await made.create("t", (1, 2))
        controller, known = made.controllers[3], made.known[3]
        for request in made.brokers[3].of(UpdateMetadataRequest):
            known.update(request)
        assert {*known.topic_ids()} == {"kept", "t"}
        await made.delete("t")
        await made.until_deleted("t")
        epoch = controller.broker_epoch
        await made.expire(3)
        await made.until(lambda: controller.broker_epoch > epoch, "3 registered again")
        await made.settled()
        assert {*known.topic_ids()} == {"kept"}

    play(story)


def test_a_broker_that_registers_again_is_told_of_topics_that_are_being_deleted(play: Callable[[Play], None]) -> None:
    """Their deletion waits for another broker: ZooKeeper has them, and the others heard that they are gone."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("kept", (1, 2))
        await made.create("t", (1, 2))
        await made.die(2)
        await made.settled()
        controller, known = made.controllers[3], made.known[3]
        made.brokers[3].reachable = False
        await made.delete("t")
        await made.until(lambda: "t" in made.controller.reign.context.topics_ineligible_for_deletion, "t waits for 2")
        for request in made.brokers[3].of(UpdateMetadataRequest):
            known.update(request)
        assert {*known.topic_ids()} == {"kept", "t"}
        made.brokers[3].told.clear()
        epoch = controller.broker_epoch
        await made.expire(3)
        await made.until(lambda: controller.broker_epoch > epoch, "3 registered again")
        made.brokers[3].reachable = True
        await made.until(lambda: made.brokers[3].told, "3 is told")
        await made.settled()
        for request in made.brokers[3].of(UpdateMetadataRequest):
            known.update(request)
        assert {*known.topic_ids()} == {"kept"}

    play(story)


def test_a_broker_that_returns_hears_of_everything_first_and_may_join_the_isr(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        await made.die(2)
        await made.settled()
        made.brokers[2].told.clear()
        await made.start(2)
        await made.settled()
        first, second = made.brokers[2].told[:2]
        assert isinstance(first, UpdateMetadataRequest)
        assert len(first.topic_states) == 1
        assert isinstance(second, LeaderAndIsrRequest)
        assert second.broker_epoch == made.epochs[2]
        _, answer = await made.alter_partition(P0, (1, 3, 2))
        assert answer is not None
        assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 3, 2], 2)

    play(story)


def test_when_the_controller_dies_another_takes_over_and_repairs_what_it_led(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3), (2, 3, 1))
        await made.die(1)
        await made.until(lambda: any(c.is_active for c in made.controllers.values()), "a new controller")
        await made.settled()
        assert made.controller.epoch == 2
        # Out of the ISR first, which leaves it leaderless, and then an election: two leader epochs.
        assert await made.state(P0) == LeaderAndIsr(2, 2, (2, 3), partition_epoch=2)
        assert await made.state(P1) == LeaderAndIsr(2, 1, (2, 3), partition_epoch=1)
        assert {request.controller_epoch for request in made.brokers[3].told} == {1, 2}

    play(story)


def test_somebody_is_elected_when_a_controller_comes_and_goes_before_anybody_looks(
    play: Callable[[Play], None],
) -> None:
    """A watch tells of the first change alone: here that /controller has other data, and not that it is gone."""

    async def story(made: World) -> None:
        await made.start(1, 2)
        other = json.dumps({"version": 2, "brokerid": 9, "timestamp": "0"}).encode()
        zk = await made.zk()
        await zk.client.handle_requests([Multi([SetData("/controller", other), Delete("/controller")])])
        await made.until(lambda: any(c.is_active and c.epoch == 2 for c in made.controllers.values()), "one is elected")
        await made.settled()
        assert {c.active_controller_id for c in made.controllers.values()} == {made.controller.broker_id}

    play(story)


def test_b05_live_brokers_are_told_before_leaders(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        for broker in made.brokers.values():
            broker.told.clear()
        await made.die(1)
        await made.until(lambda: any(c.is_active for c in made.controllers.values()), "a new controller")
        await made.settled()
        for broker_id in (2, 3):
            first = made.brokers[broker_id].told[0]
            assert isinstance(first, UpdateMetadataRequest)
            assert [each.id for each in first.live_brokers] == [2, 3]
            assert first.topic_states == []

    play(story)


def test_controlled_shutdown_moves_leaders_and_returns_what_it_could_not_move(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (3, 2), (2, 3), (3,))
        await made.alter_partition(P1, (2, 3))
        assert await made.controller.controlled_shutdown(3, made.epochs[3]) == []
        assert await made.state(P0) == LeaderAndIsr(2, 1, (2,), partition_epoch=1)
        assert await made.state(P1) == LeaderAndIsr(2, 1, (2,), partition_epoch=1)
        assert (await made.state(P2)).leader == 3  # its only replica
        await made.settled()
        stops = made.brokers[3].of(StopReplicaRequest)
        assert [
            (state.partition_index, state.delete_partition)
            for stop in stops
            for topic in stop.topic_states
            for state in topic.partition_states
        ] == [(1, False), (1, False)]
        # The others are leaving too: nobody is left to lead.
        assert await made.controller.controlled_shutdown(2, made.epochs[2]) == [P0, P1]

    play(story)


def test_controlled_shutdown_is_not_granted_to_who_is_still_in_an_isr(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's session ends while it takes the broker out; its successor is to be asked again."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (2, 3))
        await made.alter_partition(P0, (2, 3))

        async def too_late(self: KafkaZkClient, states: Any, *arguments: Any) -> UpdateLeaderAndIsrResult:
            return UpdateLeaderAndIsrResult(dict.fromkeys(states, SessionExpired()), [])

        monkeypatch.setattr(KafkaZkClient, "update_leader_and_isr", too_late)
        with pytest.raises(KafkaError) as refused:
            await made.controller.controlled_shutdown(3, made.epochs[3])
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert (await made.state(P0)).isr == (2, 3)

    play(story)


def test_what_comes_between_the_end_of_a_session_and_the_news_of_it_is_no_failure(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event in hand had begun to fill a batch when ZooKeeper answered no more."""

    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        reign = made.controller.reign
        assert reign is not None

        async def too_late(self: KafkaZkClient, broker_id: int) -> None:
            assert reign is not None
            reign.batch.add_update_metadata_request_for_brokers((1, 2), ())
            raise SessionExpired

        with monkeypatch.context() as patched:
            patched.setattr(KafkaZkClient, "get_broker", too_late)
            await made.controller.event_manager.put(events.BrokerModifications(2)).await_processing()
            assert await made.controller.controlled_shutdown(2, made.epochs[2]) == []
        assert made.controller.reign is reign

    play(story)


def test_controlled_shutdown_is_refused_to_another_life_of_the_broker(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        with pytest.raises(KafkaError) as stale:
            await made.controller.controlled_shutdown(2, made.epochs[2] - 1)
        assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError) as unknown:
            await made.controller.controlled_shutdown(9, 1)
        assert unknown.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        with pytest.raises(KafkaError) as other:
            await made.controllers[2].controlled_shutdown(2, made.epochs[2])
        assert other.value.code is ErrorCode.NOT_CONTROLLER

    play(story)


def test_b15_a_broker_that_is_leaving_does_not_join_the_isr_again(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        await made.controller.controlled_shutdown(3, made.epochs[3])
        _, answer = await made.alter_partition(P0, (1, 2, 3))
        assert answer is not None
        assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
        assert (await made.state(P0)).isr == (1, 2)

    play(story)


def test_b16_an_alter_partition_whose_answer_was_lost_may_be_sent_again(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        before = await made.state(P0)
        _, first = await made.alter_partition(P0, (1, 2), state=before)
        _, again = await made.alter_partition(P0, (1, 2), state=before)
        assert first is not None
        assert first == again
        assert first.partition_epoch == 1
        _, late = await made.alter_partition(P0, (1, 3), state=before)
        assert late is not None
        assert late.error_code == ErrorCode.INVALID_UPDATE_VERSION

    play(story)


def test_alter_partition_is_judged_in_kafkas_order(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        await made.die(2)
        await made.until(lambda: made.controller.reign.context.live_broker_ids == [1, 3], "2 is gone")  # type: ignore[union-attr]
        await made.settled()
        current = await made.state(P0)

        async def error(isr: tuple[int, ...], **change: Any) -> ErrorCode:
            believed = LeaderAndIsr(
                1,
                change.get("leader_epoch", current.leader_epoch),
                current.isr,
                change.get("recovery", LeaderRecoveryState.RECOVERED),
                change.get("partition_epoch", current.partition_epoch),
            )
            _, answer = await made.alter_partition(P0, isr, state=believed)
            assert answer is not None
            return ErrorCode(answer.error_code)

        assert await error((1,), leader_epoch=current.leader_epoch + 1) is ErrorCode.NOT_CONTROLLER
        assert await error((1,), partition_epoch=current.partition_epoch + 1) is ErrorCode.NOT_CONTROLLER
        assert await error((1,), leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH
        assert await error((1, 3), partition_epoch=0) is ErrorCode.NONE
        assert await error((1,), partition_epoch=0) is ErrorCode.INVALID_UPDATE_VERSION
        assert await error((1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
        assert await error((1,), recovery=LeaderRecoveryState.RECOVERING) is ErrorCode.INVALID_REQUEST
        assert await error((1,)) is ErrorCode.NONE

    play(story)


def test_a_recovery_state_that_is_none_is_refused_and_ends_no_reign(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.create("t", (1,))
        partition = AlterPartitionRequest.PartitionData(partition_index=0, leader_recovery_state=7)
        topic = AlterPartitionRequest.TopicData("t", partitions=[partition])
        controller = made.controller
        answer = await controller.alter_partitions(AlterPartitionRequest(1, made.epochs[1], [topic]), version=1)
        assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert controller.epoch == 1

    play(story)


def test_b06_a_leader_meets_the_truth_after_a_write_that_was_not_told(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        before = await made.state(P0)
        # Somebody's write was done although its answer was lost: the znode is ahead of the controller's picture.
        zk = await made.zk()
        known = (await zk.get_topic_partition_states([P0])).get(P0)
        assert known is not None
        await zk.set_topic_partition_states_raw({P0: known}, 1)
        _, refused = await made.alter_partition(P0, (1, 2), state=before)
        assert refused is not None
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        _, taken = await made.alter_partition(P0, (1, 2))
        assert taken is not None
        assert taken.error_code == 0

    play(story)


def test_a_clean_election_waits_and_an_unclean_one_is_told_loudly(
    play: Callable[[Play], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (3, 2))
        await made.alter_partition(P0, (3,))
        await made.die(3)
        await made.until(lambda: made.controller.reign.context.live_broker_ids == [1, 2], "3 is gone")  # type: ignore[union-attr]
        await made.settled()
        assert await made.state(P0) == LeaderAndIsr(-1, 1, (3,), partition_epoch=2)
        context = made.controller.reign.context  # type: ignore[union-attr]
        assert context.partition_state(P0) is PartitionState.OfflinePartition
        assert context.offline_partition_count() == 1
        request = ElectLeadersRequest(
            election_type=1,
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0, 7])],
        )
        outcomes = await made.controller.elect_leaders(request)
        assert outcomes[P0] == 2
        absent = outcomes[TopicPartition("t", 7)]
        assert isinstance(absent, KafkaError)
        assert absent.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await made.state(P0) == LeaderAndIsr(2, 2, (2,), LeaderRecoveryState.RECOVERING, 3)
        assert "UNCLEAN leader election" in caplog.text

    play(story)


def test_a_topic_that_allows_unclean_elections_gets_one_by_itself(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (3, 2), config={"unclean.leader.election.enable": "true"})
        await made.alter_partition(P0, (3,))
        await made.die(3)
        await made.until(lambda: made.controller.reign.context.live_broker_ids == [1, 2], "3 is gone")  # type: ignore[union-attr]
        await made.settled()
        assert (await made.state(P0)).leader == 2

    play(story)


def test_who_is_leaving_and_leads_leads_until_it_has_left(play: Callable[[Play], None]) -> None:
    """It alone is in sync: neither another broker's end nor an operator takes from it what it can still give."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (3, 1), config={"unclean.leader.election.enable": "true"})
        await made.alter_partition(P0, (3,))
        context = made.controller.reign.context  # type: ignore[union-attr]
        assert await made.controller.controlled_shutdown(3, made.epochs[3]) == [P0]
        await made.die(2)
        await made.until(lambda: context.live_or_shutting_down_broker_ids == [1, 3], "2 is gone")
        await made.settled()
        assert (await made.state(P0)).leader == 3
        request = ElectLeadersRequest(
            election_type=1,
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])],
        )
        outcome = (await made.controller.elect_leaders(request))[P0]
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.ELECTION_NOT_NEEDED
        await made.die(3)
        await made.until(lambda: context.live_or_shutting_down_broker_ids == [1], "3 is gone")
        await made.settled()
        assert (await made.state(P0)).leader == 1

    play(story)


def test_a_preferred_election_gives_leadership_back(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (2, 1), (1, 2))
        await made.die(2)
        await made.settled()
        await made.start(2)
        await made.settled()
        everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
        (refused,) = (await made.controller.elect_leaders(everything)).items()
        assert refused[0] == P0
        assert isinstance(refused[1], KafkaError)
        assert refused[1].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        await made.alter_partition(P0, (1, 2))
        await made.controller.elect_leaders(everything)
        assert (await made.state(P0)).leader == 2

    play(story)


def test_the_legacy_znode_asks_for_preferred_elections_too(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (2, 1))
        await made.die(2)
        await made.settled()
        await made.start(2)
        await made.settled()
        await made.alter_partition(P0, (1, 2))
        zk = await made.zk()
        for _ in range(2):  # twice: the watch has to be set again
            await zk.create_recursive(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([P0]))
            await made.until(lambda: _gone(zk, "/admin/preferred_replica_election"), "the znode is gone")
        assert (await made.state(P0)).leader == 2

    play(story)


@pytest.mark.parametrize("by", ["request", "znode"])
def test_a_partition_without_replicas_ends_no_reign_that_is_to_elect_for_it(
    play: Callable[[Play], None], by: str
) -> None:
    """Old controllers took such an assignment for a reassignment; who leads goes on."""

    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        zk = await made.zk()
        await zk.change_topic_assignment("t", lambda _: {P0: ReplicaAssignment(())})
        await zk.delete_path("/controller")
        await made.until(lambda: any(each.epoch == 2 for each in made.controllers.values()), "another reign")
        await made.settled()
        if by == "znode":
            await zk.create_recursive(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([P0]))
            await made.until(lambda: _gone(zk, "/admin/preferred_replica_election"), "the znode is gone")
        else:
            outcomes = await made.controller.elect_leaders(ElectLeadersRequest(election_type=0, topic_partitions=None))
            refused = outcomes[P0]
            assert isinstance(refused, KafkaError)
            assert refused.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        await made.settled()
        assert made.controller.epoch == 2
        assert (await made.state(P0)).leader == 1

    play(story)


def test_an_election_of_all_leaves_out_what_never_had_a_leader(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await (await made.zk()).create_topic_assignment("t", made.runtime.entropy.uuid(), {P0: (9,), P1: (1,)})
        await made.until(
            lambda: made.controller.reign.context.partition_leadership_info(P1) is not None, "t-1 has a leader"
        )
        everything = ElectLeadersRequest(election_type=1, topic_partitions=None)
        assert await made.controller.elect_leaders(everything) == {}

    play(story)


def test_leaders_are_balanced_when_too_many_partitions_are_led_by_others(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (2, 1), (2, 1))
        await made.die(2)
        await made.settled()
        await made.start(2)
        await made.settled()
        await made.alter_partition(P0, (1, 2))
        made.controller.event_manager.put(events.AutoPreferredReplicaLeaderElection())
        await made.settled()
        assert (await made.state(P0)).leader == 2
        assert (await made.state(P1)).leader == 1  # 2 is not in sync there

    play(story)


def test_a_topic_is_deleted_replica_by_replica_and_may_be_made_again(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        first = await made.create("t", (1, 2), (2, 1))
        await made.delete("t")
        await made.until_deleted("t")
        deletions = [
            (state.partition_index, state.leader_epoch)
            for stop in made.brokers[2].of(StopReplicaRequest)
            for topic in stop.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]
        assert deletions == [(0, -2), (1, -2)]
        second = await made.create("t", (1, 2))
        assert first != second
        assert await made.state(P0) == LeaderAndIsr(1, 0, (1, 2))

    play(story)


def test_a_topic_that_is_deleted_leaves_no_configuration_to_the_next_of_its_name(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        zk = await made.zk()
        await zk.set_or_create_entity_configs("topics", "t", {"cleanup.policy": "compact"})
        await made.delete("t")
        await made.until_deleted("t")
        assert await zk.get_all_entities_with_config("topics") == []

    play(story)


def test_a_deletion_waits_for_a_dead_broker_and_goes_on_when_it_returns(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.delete_without_broker_3()
        assert not await made.deleted("t")
        update = made.brokers[1].of(UpdateMetadataRequest)
        assert any(
            state.leader == -2
            for request in update
            for topic in request.topic_states
            for state in topic.partition_states
        )
        await made.start(3)
        await made.until_deleted("t")
        await made.settled()
        assert made.controller.reign.context.replica_states == {}  # type: ignore[union-attr]
        assert made.controller.reign.context.partition_states == {}  # type: ignore[union-attr]

    play(story)


async def silent(made: World) -> None:
    """Broker 2 is told to delete what it has and says nothing."""
    made.brokers[2].reachable = False


async def refusing(made: World) -> None:
    made.brokers[2].deletion_error = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_in_the_way", [silent, refusing])
def test_a_deletion_that_a_broker_does_not_carry_out_goes_on_with_its_next_life(
    play: Callable[[Play], None], is_in_the_way: Play
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2), (2, 1))
        await made.create("u", (1, 2))
        await is_in_the_way(made)
        for topic in ("t", "u"):
            await made.delete(topic)
        await made.until(lambda: len(made.brokers[1].of(StopReplicaRequest)) > 1, "broker 1 deletes")
        await made.settled()
        assert not await made.deleted("t")
        await made.die(2)
        await made.settled()
        context = made.controller.reign.context  # type: ignore[union-attr]
        assert set(context.topics_ineligible_for_deletion) == {"t", "u"}
        assert not await made.deleted("t")
        made.brokers[2].deletion_error = ErrorCode.NONE
        made.brokers[2].told.clear()
        await made.start(2)
        for topic in ("t", "u"):
            await made.until_deleted(topic)
        deleted = [
            (topic.topic_name, state.partition_index)
            for stop in made.brokers[2].of(StopReplicaRequest)
            for topic in stop.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]
        assert sorted(deleted) == [("t", 0), ("t", 1), ("u", 0)]

    play(story)


def test_a_deletion_that_a_broker_refused_is_asked_for_again_when_another_returns(
    play: Callable[[Play], None],
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        await refusing(made)
        await made.delete("t")
        await made.until(lambda: len(made.brokers[2].of(StopReplicaRequest)) > 1, "broker 2 is to delete")
        await made.settled()
        assert not await made.deleted("t")
        made.brokers[2].deletion_error = ErrorCode.NONE
        await made.die(3)
        await made.start(3)
        await made.until_deleted("t")

    play(story)


def test_a_deletion_in_progress_is_taken_over_by_the_next_controller(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (2, 3))
        await made.die(3)
        await made.settled()
        await made.delete("t")
        await made.until(lambda: "t" in made.controller.reign.context.topics_to_be_deleted, "queued")
        await made.die(1)
        await made.until(lambda: any(c.is_active for c in made.controllers.values()), "a new controller")
        await made.settled()
        assert not await made.deleted("t")
        await made.start(3)
        await made.until_deleted("t")

    play(story)


def test_a_deleted_replica_is_not_made_anew_by_a_reassignment(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        def last_told(broker_id: int) -> type[Any]:
            return type(
                [each for each in made.brokers[broker_id].told if not isinstance(each, UpdateMetadataRequest)][-1]
            )

        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        await made.controller.alter_partition_reassignments(reassigning(P0, [1, 3, 4]))
        await made.delete("t")
        await made.until(lambda: "t" in made.controller.reign.context.topics_to_be_deleted, "queued")
        await made.settled()
        # The first return of a broker lets the deletion begin: 4 is away, all others delete what they have.
        await made.die(4)
        await made.die(3)
        await made.settled()
        await made.start(3)
        await made.until(lambda: last_told(1) is StopReplicaRequest, "the deletion")
        await made.settled()
        # The second one is a target of the reassignment, too.
        await made.start(4)
        await made.until_deleted("t")
        await made.settled()
        assert [last_told(broker_id) for broker_id in (1, 2, 3, 4)] == [StopReplicaRequest] * 4

    play(story)


def test_a_deletion_that_began_does_not_wait_for_a_reassignment_that_nobody_leads(play: Callable[[Play], None]) -> None:
    """The next controller elects no leader for a topic that is to be deleted: its reassignment never ends."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        await made.controller.alter_partition_reassignments(reassigning(P0, [1, 3, 4]))
        await made.delete("t")
        await made.until(lambda: "t" in made.controller.reign.context.topics_to_be_deleted, "queued")
        await made.settled()
        # The return of a broker lets the deletion begin, and another one cannot delete what it has.
        made.brokers[2].deletion_error = ErrorCode.KAFKA_STORAGE_ERROR
        await made.die(4)
        await made.start(4)
        await made.settled()
        assert (await made.state(P0)).leader == -1
        made.brokers[2].deletion_error = ErrorCode.NONE
        await (await made.zk()).delete_path("/controller")
        await made.until_deleted("t")

    play(story)


def test_what_the_znode_asks_of_a_topic_goes_with_the_topic(play: Callable[[Play], None]) -> None:
    """Else the next controller would move a later topic of that name by it, or nobody would ever take it away."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2))
        await made.create("other", (1, 2))
        zk, other = await made.zk(), TopicPartition("other", 0)
        await zk.create_recursive(
            ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({P0: (1, 3), other: (2, 3)})
        )
        await made.until(lambda: len(made.controller.reign.context.partitions_being_reassigned) == 2, "both are moved")
        await made.delete("t")
        await made.until(lambda: "t" in made.controller.reign.context.topics_to_be_deleted, "queued")
        # The return of a broker lets the deletion begin.
        await made.die(3)
        await made.settled()
        await made.start(3)
        await made.until_deleted("t")
        assert {each: list(target) for each, target in (await zk.get_partition_reassignment()).items()} == {
            other: [2, 3]
        }

    play(story)


def test_a_reassignment_by_znode_that_a_request_replaces_is_asked_for_no_more(play: Callable[[Play], None]) -> None:
    """Else the next controller would begin it once more, when the other is long over."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        await made.create("other", (1, 2))
        zk, other = await made.zk(), TopicPartition("other", 0)
        await zk.create_recursive(
            ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({P0: (1, 3), other: (2, 3)})
        )
        await made.until(lambda: len(made.controller.reign.context.partitions_being_reassigned) == 2, "both are moved")
        await made.controller.alter_partition_reassignments(reassigning(P0, [1, 4]))
        await made.settled()
        assert {each: list(target) for each, target in (await zk.get_partition_reassignment()).items()} == {
            other: [2, 3]
        }

    play(story)


@pytest.mark.parametrize("why", ["another controller", "a broker that is back"])
def test_a_reassignment_that_is_resumed_in_order_is_no_error(
    play: Callable[[Play], None], caplog: pytest.LogCaptureFixture, why: str
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (2,))
        await made.controller.alter_partition_reassignments(reassigning(P0, [3, 4]))
        await made.settled()
        if why == "another controller":
            await made.die(1)
            await made.until(lambda: any(each.epoch == 2 for each in made.controllers.values()), "another controller")
        else:
            await made.die(4)
            await made.settled()
            made.brokers[4].told.clear()
            await made.start(4)
            await made.until(
                lambda: any(isinstance(each, LeaderAndIsrRequest) for each in made.brokers[4].told), "it is told"
            )
        await made.settled()
        listed = await made.controller.list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None))
        assert listed.topics[0].partitions[0].adding_replicas == [3, 4]

    play(story)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_topic_that_does_not_exist_leaves_the_deletions(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.delete("nothing")
        await made.until_deleted("nothing")

    play(story)


def test_partitions_are_added_to_a_topic(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        topic_id = await made.create("t", (1, 2))
        zk = await made.zk()
        await zk.set_topic_assignment("t", topic_id, {P0: ReplicaAssignment((1, 2)), P1: ReplicaAssignment((2, 1))})
        context = made.controller.reign.context  # type: ignore[union-attr]
        await made.until(lambda: context.partition_leadership_info(P1) is not None, "the new partition has a leader")
        assert await made.state(P1) == LeaderAndIsr(2, 0, (2, 1))

    play(story)


def test_a_reassignment_adds_waits_for_the_isr_and_removes(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        response = await made.controller.alter_partition_reassignments(reassigning(P0, [3, 4]))
        assert reassigned(response) == {("t", 0): ErrorCode.NONE}
        assert await assignment(made, P0) == ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))
        await made.settled()
        told = made.brokers[3].of(LeaderAndIsrRequest)[-1].topic_states[0].partition_states[0]
        assert (told.is_new, told.replicas, told.adding_replicas) == (True, [3, 4, 1, 2], [3, 4])
        listed = await made.controller.list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None))
        assert listed.topics[0].partitions[0].removing_replicas == [1, 2]
        await made.alter_partition(P0, (1, 2, 3))
        assert (await assignment(made, P0)).is_being_reassigned
        await made.alter_partition(P0, (1, 2, 3, 4))
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((3, 4))
        state = await made.state(P0)
        assert (state.leader, state.isr) == (3, (3, 4))
        for removed in (1, 2):
            stops = [
                state.delete_partition
                for stop in made.brokers[removed].of(StopReplicaRequest)
                for topic in stop.topic_states
                for state in topic.partition_states
            ]
            assert stops[-1] is True
        listed = await made.controller.list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None))
        assert listed.topics == []

    play(story)


def test_a_reassignment_keeps_partitions_that_its_controller_has_not_heard_of(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2))
        zk = await made.zk()
        asked = made.controller.alter_partition_reassignments(reassigning(P0, [3, 2]))
        asking = asyncio.ensure_future(asked)
        await zk.change_topic_assignment("t", lambda known: {**known, P1: ReplicaAssignment((2, 3))})
        await asking
        await made.until(lambda: zk.get_topic_partition_states([P1]), "the added partition has a leader")
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((3, 2, 1), (3,), (1,))
        assert await assignment(made, P1) == ReplicaAssignment((2, 3))

    play(story)


def test_a_cancelled_reassignment_leaves_nothing_behind(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        await made.controller.alter_partition_reassignments(reassigning(P0, [3, 4]))
        await made.alter_partition(P0, (1, 2, 3))
        response = await made.controller.alter_partition_reassignments(reassigning(P0, None))
        assert reassigned(response) == {("t", 0): ErrorCode.NONE}
        await made.settled()
        assert sorted((await assignment(made, P0)).replicas) == [1, 2]
        assert not (await assignment(made, P0)).is_being_reassigned
        state = await made.state(P0)
        assert (state.leader, state.isr) == (1, (1, 2))
        again = await made.controller.alter_partition_reassignments(reassigning(P0, None))
        assert reassigned(again) == {("t", 0): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    play(story)


async def led_by_a_replica_that_a_reassignment_added(made: World) -> None:
    """`P0` was 2's, is on its way to 3 and 4, and 3 alone is in sync: 2 died when 3 had caught up."""
    await made.start(1, 2, 3, 4)
    await made.create("t", (2,))
    await made.controller.alter_partition_reassignments(reassigning(P0, [3, 4]))
    await made.alter_partition(P0, (2, 3))
    await made.die(2)
    await made.settled()
    state = await made.state(P0)
    assert (state.leader, state.isr) == (3, (3,))


def test_a_reassignment_that_drops_the_leader_which_another_one_added_elects(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await led_by_a_replica_that_a_reassignment_added(made)
        await made.start(2)
        await made.alter_partition(P0, (3, 2))
        await made.controller.alter_partition_reassignments(reassigning(P0, [2, 1]))
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((2, 1), (1,))
        state = await made.state(P0)
        assert (state.leader, state.isr) == (2, (2,))

    play(story)


def test_a_reassignment_that_would_drop_the_last_replica_in_sync_is_refused(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await led_by_a_replica_that_a_reassignment_added(made)
        under_way = await assignment(made, P0)
        for target in ([2, 1], None):
            answer = await made.controller.alter_partition_reassignments(reassigning(P0, target))
            (refused,) = answer.responses[0].partitions
            assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert "in-sync replicas [3] of partition t-0 would be dropped" in refused.error_message
        await made.settled()
        assert await assignment(made, P0) == under_way
        state = await made.state(P0)
        assert (state.leader, state.isr) == (3, (3,))

    play(story)


def test_b20_a_reassignment_that_replaces_another_drops_what_only_the_first_wanted(
    play: Callable[[Play], None],
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await made.create("t", (1, 2))
        await made.controller.alter_partition_reassignments(reassigning(P0, [2, 3]))
        await made.alter_partition(P0, (1, 2, 3))
        # Complete: 1 is gone from assignment and ISR. A second round must not bring it back.
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((2, 3))
        await made.controller.alter_partition_reassignments(reassigning(P0, [2, 4]))
        await made.controller.alter_partition_reassignments(reassigning(P0, [2, 1]))
        await made.settled()
        now = await assignment(made, P0)
        assert 4 not in now.replicas
        assert (await made.state(P0)).isr == (2, 3)
        await made.alter_partition(P0, (2, 3, 1))
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((2, 1))
        assert sorted((await made.state(P0)).isr) == [1, 2]

    play(story)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -5], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_bad_reassignment_leaves_the_tree_as_it_was(
    play: Callable[[Play], None], target: list[int], error: ErrorCode
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        zk = await made.zk()
        before = await zk.get_data_and_version(TopicZNode.path("t"))
        response = await made.controller.alter_partition_reassignments(reassigning(P0, target))
        assert reassigned(response) == {("t", 0): error}
        nothing = await made.controller.alter_partition_reassignments(reassigning(TopicPartition("u", 0), [1]))
        assert reassigned(nothing) == {("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await zk.get_data_and_version(TopicZNode.path("t")) == before

    play(story)


def test_the_legacy_znode_reassigns_and_goes_when_it_is_done(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2))
        zk = await made.zk()
        wished = ReassignPartitionsZNode.encode({P0: (1, 3), TopicPartition("nothing", 0): (1,)})
        await zk.create_recursive(ReassignPartitionsZNode.path, wished)
        context = made.controller.reign.context  # type: ignore[union-attr]
        await made.until(lambda: P0 in context.partitions_being_reassigned, "it began")
        await made.settled()
        await made.alter_partition(P0, (1, 2, 3))
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((1, 3))
        assert not await zk.path_exists("/admin/reassign_partitions")

    play(story)


async def _never_led(made: World) -> KafkaZkClient:
    """Two brokers, and a partition whose only replica is down since before it was made."""
    await made.start(1, 2)
    zk = await made.zk()
    await zk.create_topic_assignment("t", made.runtime.entropy.uuid(), {P0: (9,)})
    await made.until(lambda: P0 in made.controller.reign.context.partition_states, "it is known")
    await made.settled()
    return zk


@pytest.mark.parametrize("by", ["request", "znode", "cancellation"])
def test_a_reassignment_of_what_nobody_has_led_yet_ends_no_reign(play: Callable[[Play], None], by: str) -> None:
    """What the znode asks for is met by each next controller again: nobody would reign any more."""

    async def story(made: World) -> None:
        zk = await _never_led(made)
        if by != "request":
            asked_for = (9,) if by == "znode" else (8,)
            await zk.create_recursive(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({P0: asked_for}))
            await made.until(lambda: _gone(zk, ReassignPartitionsZNode.path), "it is done")
        if by == "cancellation":
            assert await assignment(made, P0) == ReplicaAssignment((8, 9), (8,), (9,))
        if by != "znode":
            target = None if by == "cancellation" else [9]
            response = await made.controller.alter_partition_reassignments(reassigning(P0, target))
            assert reassigned(response) == {("t", 0): ErrorCode.NONE}
        await made.settled()
        assert await assignment(made, P0) == ReplicaAssignment((9,))
        assert made.controller.epoch == 1

    play(story)


@pytest.mark.parametrize("target", [[2], [2, 1], [2, 9]])
def test_what_nobody_has_led_yet_is_led_by_the_live_brokers_that_it_is_reassigned_to(
    play: Callable[[Play], None], target: list[int]
) -> None:
    """Its brokers were down when it was made; they may never come back."""

    async def story(made: World) -> None:
        await _never_led(made)
        response = await made.controller.alter_partition_reassignments(reassigning(P0, target))
        assert reassigned(response) == {("t", 0): ErrorCode.NONE}
        await made.settled()
        state = await made.state(P0)
        assert (state.leader, list(state.isr)) == (2, [each for each in target if each != 9])
        moved = await assignment(made, P0)
        assert moved == (ReplicaAssignment((2, 9), (2,)) if 9 in target else ReplicaAssignment(tuple(target)))
        (first, *_) = made.brokers[2].of(LeaderAndIsrRequest)
        assert first.topic_states[0].partition_states[0].is_new
        await made.die(2)
        await made.settled()
        await made.start(2)
        await made.settled()
        assert (await made.state(P0)).leader in (1, 2)

    play(story)


def test_garbage_in_the_legacy_znode_changes_nothing(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.create("t", (1,))
        zk = await made.zk()
        await zk.create_recursive("/admin/reassign_partitions", b"{garbage")
        await made.settled()
        assert made.controller.epoch == 1
        assert await assignment(made, P0) == ReplicaAssignment((1,))

    play(story)


def test_a_failed_log_directory_makes_its_replicas_offline(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (2, 3), (2, 1))
        made.brokers[2].storage_errors = {P0}
        zk = await made.zk()
        await zk.propagate_log_dir_event(2)
        context = made.controller.reign.context  # type: ignore[union-attr]
        await made.until(lambda: context.current_leader(P0) == 3, "another leader")
        await made.settled()
        assert await made.state(P0) == LeaderAndIsr(3, 1, (3,), partition_epoch=1)
        assert (await made.state(P1)).leader == 2
        assert await zk.get_all_log_dir_event_notifications() == []
        update = made.brokers[1].of(UpdateMetadataRequest)[-1]
        assert update.topic_states[0].partition_states[0].offline_replicas == [2]

    play(story)


def test_b08_a_bounced_broker_is_told_apart_by_its_epoch(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (2, 1))
        old_epoch = made.epochs[2]
        made.brokers[2].reachable = False
        await made.alter_partition(P0, (2,))  # queued for 2, which does not answer
        await made.die(2)
        await made.start(2)
        await made.settled()
        assert made.epochs[2] > old_epoch
        context = made.controller.reign.context  # type: ignore[union-attr]
        assert context.broker_epoch(2) == made.epochs[2]
        after = [request.broker_epoch for request in made.brokers[2].told if request.broker_epoch != old_epoch]
        assert after
        assert after == [made.epochs[2]] * len(after)
        last_old = max(
            (index for index, request in enumerate(made.brokers[2].told) if request.broker_epoch == old_epoch),
            default=-1,
        )
        assert all(request.broker_epoch == made.epochs[2] for request in made.brokers[2].told[last_old + 1 :])

    play(story)


def test_a_broker_that_says_where_it_is_now_is_told_there(play: Callable[[Play], None]) -> None:
    """Else it hears nothing any more as soon as the connection to its former address breaks."""

    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (2,))
        made.brokers[7] = AnsweringBroker(2)
        moved = BrokerInfo(2, (Endpoint("PLAINTEXT", "elsewhere", 9007),))
        await made.controllers[2].update_broker_info(moved)
        made.brokers[2].reachable = False
        await made.create("u", (2,))
        await made.until(lambda: made.brokers[7].of(LeaderAndIsrRequest), "it is made leader there")

    play(story)


def test_producer_ids_are_given_out_once(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        requests = [AllocateProducerIdsRequest(broker_id=b, broker_epoch=made.epochs[b]) for b in (1, 2, 1)]
        blocks = [await made.controller.allocate_producer_ids(request) for request in requests]
        assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
            (0, 1000),
            (1000, 1000),
            (2000, 1000),
        ]
        stale = await made.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = await made.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=9, broker_epoch=1))
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        other = await made.controllers[2].allocate_producer_ids(requests[0])
        assert other.error_code == ErrorCode.NOT_CONTROLLER

    play(story)


def test_an_error_that_nobody_foresaw_makes_the_controller_resign(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        failed = made.controllers[1]
        reads = topics.read_topics

        async def fails_once(*arguments: Any) -> Any:
            monkeypatch.setattr(topics, "read_topics", reads)
            raise ZeroDivisionError("nobody foresaw this")

        monkeypatch.setattr(topics, "read_topics", fails_once)
        await (await made.zk()).create_topic_assignment(
            "u", made.runtime.entropy.uuid(), {TopicPartition("u", 0): (1, 2)}
        )
        await made.until(lambda: made.controllers[2].is_active, "the other broker takes over")
        await made.settled()
        assert not failed.is_active
        assert failed.reign is None
        assert failed.active_controller_id == 2
        assert made.controller.epoch == 2
        # The new one does what the failed one did not.
        assert (await made.state(TopicPartition("u", 0))).leader == 1
        assert any("Resigning" in line for _, line in failed.log.since(0))

    play(story)


def test_b01_a_deposed_controller_writes_nothing_more(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.create("t", (1, 2, 3))
        deposed = made.controllers[1]
        reign = deposed.reign
        assert reign is not None
        # Another reign began while this one slept: the epoch moved under it.
        zk = await made.zk()
        await zk.delete_path("/controller")
        await made.until(
            lambda: sum(c.is_active for c in made.controllers.values()) == 1 and made.controller.epoch == 2, "2"
        )
        await made.settled()
        before = await made.state(P0)
        reign.context.shutting_down_broker_ids[1] = None
        with pytest.raises(ControllerMoved):
            await reign.partitions.handle_state_changes(
                [P0], PartitionState.OnlinePartition, ControlledShutdownPartitionLeaderElectionStrategy()
            )
        assert await made.state(P0) == before

    play(story)


def test_b04_a_controller_that_is_elected_again_begins_with_nothing(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.create("t", (1,))
        first = made.controllers[1].reign
        assert first is not None
        await (await made.zk()).delete_path("/controller")
        await made.until(lambda: made.controllers[1].epoch == 2, "it is elected again")
        await made.settled()
        second = made.controllers[1].reign
        assert second is not None
        assert second is not first
        assert second.context is not first.context
        assert first.channels.queue_sizes() == {}

    play(story)


def test_b13_a_new_session_sees_topics_again(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        epoch = made.controllers[1].broker_epoch
        await made.expire(1)
        await made.until(lambda: made.controllers[1].broker_epoch > epoch, "1 registered again")
        made.epochs[1] = made.controllers[1].broker_epoch
        await made.settled()
        assert made.controller.epoch == 2
        await made.create("u", (2, 1), (1, 2))
        assert (await made.state(TopicPartition("u", 1))).leader == 1
        assert sum(controller.is_active for controller in made.controllers.values()) == 1

    play(story)


def test_b11_an_expiry_in_the_middle_of_an_event_does_not_stop_the_queue(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        zk = await made.zk()
        for number in range(30):
            await zk.create_topic_assignment(
                f"t{number}", made.runtime.entropy.uuid(), {TopicPartition(f"t{number}", 0): (1, 2)}
            )
        epoch = made.controllers[1].broker_epoch
        await made.expire(1)
        await made.until(lambda: made.controllers[1].broker_epoch > epoch, "1 registered again")
        await made.settled()
        for number in range(30):
            assert (await made.state(TopicPartition(f"t{number}", 0))).leader in (1, 2)

    play(story)


def test_a_controller_can_be_seen(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2), (2, 9))
        seen = controller_status(made.controller)
        assert json.loads(json.dumps(seen)) == seen
        assert (seen["active"], seen["epoch"], seen["queue"]["size"]) == (True, 1, 0)
        assert seen["reign"]["live_brokers"] == {str(broker_id): made.epochs[broker_id] for broker_id in (1, 2)}
        assert (seen["reign"]["partitions"], seen["reign"]["offline_partitions"]) == (2, 0)
        reign = made.controller.reign
        assert reign is not None
        assert partition_status(reign, "t")[1]["replicas"] == {"2": "OnlineReplica", "9": "OnlineReplica"}
        assert controller_status(made.controllers[2])["reign"] is None
        lines = [line for _, line in made.controller.log.since(0)]
        assert any("event=TopicChange" in line and "t-0 from NewPartition to OnlinePartition" in line for line in lines)

    play(story)


def electing() -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions("gone", list(range(5_000)))])


def reassigning_many() -> AlterPartitionReassignmentsRequest:
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    partitions = [partition(number, [1]) for number in range(5_000)]
    return AlterPartitionReassignmentsRequest(
        topics=[AlterPartitionReassignmentsRequest.ReassignableTopic("gone", partitions)]
    )


def updating_features() -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey
    return UpdateFeaturesRequest(feature_updates=[update(feature=f"f{number}") for number in range(5_000)])


@pytest.mark.parametrize(
    ("method", "request_of"),
    [
        (KafkaController.elect_leaders, electing),
        (KafkaController.alter_partition_reassignments, reassigning_many),
        (KafkaController.update_features, updating_features),
    ],
    ids=["elections", "reassignments", "features"],
)
def test_a_request_about_thousands_of_things_leaves_others_their_turns(
    play: Callable[[Play], None], method: Callable[..., Any], request_of: Callable[[], Any]
) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.settled()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while turns < 5_000 // SLICE:  # and then no more: while somebody wants turns, virtual time stands still
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        response = await method(made.controller, request_of())
        assert not getattr(response, "error_code", 0)
        assert counting.done()

    play(story)


def test_features_are_refused_since_there_are_none(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        update = UpdateFeaturesRequest.FeatureUpdateKey
        response = await made.controller.update_features(
            UpdateFeaturesRequest(
                feature_updates=[
                    update(feature="metadata.version", max_version_level=4),
                    update(feature="gone", max_version_level=0, upgrade_type=2),
                    update(feature="", max_version_level=1),
                ]
            )
        )
        assert {each.feature: (each.error_code, each.error_message) for each in response.results} == {
            "metadata.version": (
                ErrorCode.INVALID_REQUEST,
                "Could not apply finalized feature update because the provided feature is not supported.",
            ),
            "gone": (ErrorCode.INVALID_REQUEST, "Can not delete non-existing finalized feature."),
            "": (ErrorCode.INVALID_REQUEST, "Feature name can not be empty."),
        }

    play(story)


def test_b12_a_registration_that_fails_after_an_expiry_is_tried_again(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        registers = KafkaZkClient.register_broker
        refusals = [BrokerIdInUse("another session has it still")]

        async def refused_once(self: KafkaZkClient, *arguments: Any, **options: Any) -> int:
            if refusals:
                raise refusals.pop()
            return await registers(self, *arguments, **options)

        monkeypatch.setattr(KafkaZkClient, "register_broker", refused_once)
        epoch = made.controllers[1].broker_epoch
        await made.expire(1)
        await made.until(lambda: made.controllers[1].broker_epoch > epoch, "1 registered again")
        assert refusals == []
        await made.settled()
        zk = await made.zk()
        assert [broker.broker_id for broker in await zk.get_all_brokers_in_cluster()] == [1, 2]

    play(story)


def test_an_answer_given_in_an_earlier_life_of_the_broker_is_dropped(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        topic_id = await made.create("t", (2, 1))
        failed = LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrResponse.LeaderAndIsrTopicError(
                    topic_id=topic_id,
                    partition_errors=[
                        LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                            partition_index=0, error_code=int(ErrorCode.KAFKA_STORAGE_ERROR)
                        )
                    ],
                )
            ]
        )
        put = made.controller.event_manager.put
        put(events.LeaderAndIsrResponseReceived(failed, 2, 1, made.epochs[2] - 1))
        put(events.LeaderAndIsrResponseReceived(failed, 2, 0, made.epochs[2]))
        await made.settled()
        assert (await made.state(P0)).leader == 2
        put(events.LeaderAndIsrResponseReceived(failed, 2, 1, made.epochs[2]))
        await made.settled()
        assert (await made.state(P0)).leader == 1

    play(story)


def test_a_controller_that_stops_tells_what_it_decided(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await made.create("t", (1, 2))
        controller = made.controllers[1]
        await controller.controlled_shutdown(1, made.epochs[1])
        await controller.shutdown()
        told = made.brokers[2].of(LeaderAndIsrRequest)[-1]
        assert told.controller_epoch == 1
        assert told.topic_states[0].partition_states[0].leader == 2
        assert not controller.is_active

    play(story)
