"""Whole reigns below inter.broker.protocol.version 2.7, where leaders write their partitions' states themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from controller_world import Play, World, played

from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.zk_topics import UpdateLeaderAndIsrResult
from barnabas.zk.kafka.znodes import (
    FeatureZNode,
    IsrChangeNotificationZNode,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)

P0 = TopicPartition("t", 0)


@pytest.fixture
def play() -> Callable[[Play], None]:
    return partial(played, inter_broker_protocol_version="2.6")


async def create_without_id(made: World, *replicas: int) -> None:
    zk = await made.zk()
    await zk.create_topic_assignment("t", None, {P0: replicas})
    await made.until(lambda: zk.get_topic_partition_states([P0]), "t has a leader")
    await made.settled()


async def leader_writes(made: World, *isr: int) -> LeaderAndIsr:
    """As a leader below 2.7-IV2 does: the state, if it still has the version that the leader knows."""
    zk = await made.zk()
    state = await made.state(P0)
    written = replace(state, isr=isr)
    done, version = await zk.conditional_update_path(
        TopicPartitionStateZNode.path(P0),
        TopicPartitionStateZNode.encode(LeaderIsrAndControllerEpoch(written, made.controller.epoch)),
        state.partition_epoch,
    )
    assert done
    return replace(written, partition_epoch=version)


async def reassign(made: World, *replicas: int) -> None:
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[partition])
    response = await made.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=[topic]))
    assert response.responses[0].partitions[0].error_code == 0


def test_neither_features_nor_topic_ids_are_given(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2)
        await create_without_id(made, 1, 2)
        zk = await made.zk()
        feature, _ = await zk.get_data_and_version(FeatureZNode.path)
        assert feature is not None
        assert json.loads(feature) == {"features": {}, "version": 1, "status": 0}
        topic, _ = await zk.get_data_and_version(TopicZNode.path("t"))
        assert topic is not None
        assert "topic_id" not in json.loads(topic)
        assert made.brokers[2].of(LeaderAndIsrRequest)[0].topic_states[0].topic_name == "t"
        refused = await made.controller.update_features(UpdateFeaturesRequest())
        assert refused.error_message == "Feature versioning system is disabled."

    play(story)


def test_the_next_protocol_version_enables_features_and_gives_ids(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await create_without_id(made, 1)
        await made.die(1)
        made.config["inter.broker.protocol.version"] = "3.9"
        await made.start(1)
        await made.settled()
        zk = await made.zk()
        feature, _ = await zk.get_data_and_version(FeatureZNode.path)
        assert feature is not None
        assert json.loads(feature) == {"features": {}, "version": 2, "status": 1}
        assert "t" in await zk.get_topic_ids_for_topics(["t"])

    play(story)


def test_what_a_leader_wrote_reaches_the_brokers_with_its_notification(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await create_without_id(made, 2, 3)
        written = await leader_writes(made, 2)
        zk = await made.zk()
        await zk.propagate_isr_changes([P0])
        await made.until(lambda: _told_isr(made, 1, [2]), "broker 1 knows the new ISR")
        told = made.brokers[1].of(UpdateMetadataRequest)[-1].topic_states[0].partition_states[0]
        assert (told.leader, told.zk_version) == (2, written.partition_epoch)
        await made.settled()
        assert await zk.get_children(IsrChangeNotificationZNode.path) == []

    play(story)


def _told_isr(made: World, broker_id: int, isr: list[int]) -> bool:
    updates = [each for each in made.brokers[broker_id].of(UpdateMetadataRequest) if each.topic_states]
    return bool(updates) and updates[-1].topic_states[0].partition_states[0].isr == isr


def test_a_reassignment_is_complete_when_its_leader_has_written_the_isr(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await create_without_id(made, 1, 2)
        await reassign(made, 1, 3)
        await made.settled()
        await leader_writes(made, 1, 2, 3)
        zk = await made.zk()

        async def assigned() -> bool:
            return (await zk.get_full_replica_assignment_for_topics(["t"]))[P0] == ReplicaAssignment((1, 3))

        # The state is watched: nobody waits for the notification, which comes seconds later.
        await made.until(assigned, "the reassignment is complete")
        await made.settled()
        assert (await made.state(P0)).isr == (1, 3)

    play(story)


def test_a_replica_that_its_leader_takes_back_while_it_is_taken_out_leaves_the_isr(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second reassignment drops what the first one added; the leader hears of that last."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3, 4)
        await create_without_id(made, 1, 2)
        await reassign(made, 1, 2, 3)
        await made.settled()
        update = KafkaZkClient.update_leader_and_isr

        async def after_the_leader(self: KafkaZkClient, *arguments: Any) -> UpdateLeaderAndIsrResult:
            monkeypatch.setattr(KafkaZkClient, "update_leader_and_isr", update)
            await leader_writes(made, 1, 2, 3)
            return await update(self, *arguments)

        monkeypatch.setattr(KafkaZkClient, "update_leader_and_isr", after_the_leader)
        await reassign(made, 1, 2, 4)
        await made.settled()
        assert KafkaZkClient.update_leader_and_isr is update
        assert (await made.state(P0)).isr == (1, 2)

    play(story)


def test_the_only_replica_in_sync_is_not_dropped_where_the_isr_shrinks_as_a_reassignment_ends(
    play: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader writes the ISR between the controller's look at it and the election of one that stays."""

    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await create_without_id(made, 1, 2)
        await reassign(made, 2, 3)
        await made.settled()
        update = KafkaZkClient.update_leader_and_isr

        async def after_the_leader(self: KafkaZkClient, *arguments: Any) -> UpdateLeaderAndIsrResult:
            monkeypatch.setattr(KafkaZkClient, "update_leader_and_isr", update)
            await leader_writes(made, 1)
            return await update(self, *arguments)

        monkeypatch.setattr(KafkaZkClient, "update_leader_and_isr", after_the_leader)
        await leader_writes(made, 1, 2, 3)
        await made.until(lambda: KafkaZkClient.update_leader_and_isr is update, "the leader has written")
        await made.settled()
        zk = await made.zk()
        assert (await zk.get_full_replica_assignment_for_topics(["t"]))[P0] == ReplicaAssignment((2, 3, 1), (3,), (1,))
        state = await made.state(P0)
        assert (state.leader, state.isr) == (1, (1,))
        assert made.brokers[1].of(StopReplicaRequest) == []

        await leader_writes(made, 1, 2, 3)

        async def assigned() -> bool:
            return (await zk.get_full_replica_assignment_for_topics(["t"]))[P0] == ReplicaAssignment((2, 3))

        await made.until(assigned, "the reassignment is complete")

    play(story)


def test_an_unclean_leader_is_not_recovering_where_nobody_knows_of_that(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        zk = await made.zk()
        await zk.set_or_create_entity_configs("topics", "t", {"unclean.leader.election.enable": "true"})
        await create_without_id(made, 2, 3)
        await leader_writes(made, 2)
        await made.die(2)
        await made.until(lambda: _leads(made, 3), "broker 3 leads")
        assert (await made.state(P0)).leader_recovery_state is LeaderRecoveryState.RECOVERED

    play(story)


async def _leads(made: World, broker_id: int) -> bool:
    return (await made.state(P0)).leader == broker_id
