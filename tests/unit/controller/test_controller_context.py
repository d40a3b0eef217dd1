from __future__ import annotations

import itertools

import pytest

from barnabas.controller.context import ControllerContext
from barnabas.controller.replica_state_machine import without_replica
from barnabas.controller.states import (
    VALID_PREVIOUS_PARTITION_STATES,
    VALID_PREVIOUS_REPLICA_STATES,
    PartitionAndReplica,
    PartitionState,
    ReplicaState,
)
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))


def broker(broker_id: int) -> BrokerInfo:
    return BrokerInfo(broker_id, (Endpoint("PLAINTEXT", "host", 9000 + broker_id),), epoch=100 + broker_id)


@pytest.fixture
def context() -> ControllerContext:
    made = ControllerContext()
    made.set_live_brokers(broker(broker_id) for broker_id in (3, 1, 2))
    made.set_all_topics(["t"])
    made.add_topic_id("t", Uuid(bytes(15) + b"\1"))
    for partition, replicas in ((P0, (1, 2)), (P1, (2, 3)), (P2, (3, 1))):
        made.update_partition_full_replica_assignment(partition, ReplicaAssignment(replicas))
        made.put_partition_leadership_info(
            partition, LeaderIsrAndControllerEpoch(LeaderAndIsr(replicas[0], 5, replicas), 1)
        )
    return made


def test_brokers_are_kept_in_the_order_of_their_ids(context: ControllerContext) -> None:
    assert context.live_broker_ids == [1, 2, 3]
    assert context.broker_epoch(2) == 102


def test_a_broker_that_shuts_down_is_registered_but_not_live(context: ControllerContext) -> None:
    context.shutting_down_broker_ids[2] = None
    assert context.live_broker_ids == [1, 3]
    assert context.live_or_shutting_down_broker_ids == [1, 2, 3]
    assert not context.is_replica_online(2, P0)
    assert context.is_replica_online(2, P0, include_shutting_down_brokers=True)


def test_a_replica_in_a_failed_log_directory_is_not_online(context: ControllerContext) -> None:
    context.replicas_on_offline_dirs[1] = {P0: None}
    assert context.online_replicas((1, 2), P0) == (2,)
    assert context.online_replicas((3, 1), P2) == (3, 1)
    assert context.partitions_with_offline_leader() == [P0]


def test_partitions_of_a_dead_leader_are_those_it_led(context: ControllerContext) -> None:
    context.remove_live_brokers([3])
    assert context.partitions_with_offline_leader() == [P2]
    assert context.replicas_on_brokers([3]) == [PartitionAndReplica(P1, 3), PartitionAndReplica(P2, 3)]


def test_a_topic_that_is_deleted_has_the_sentinel_epoch_and_no_leaders(context: ControllerContext) -> None:
    assert context.leader_epoch(P0) == 5
    context.queue_topic_deletion(["t"])
    assert context.leader_epoch(P0) == -2
    assert context.partitions_with_leaders() == []
    assert context.leader_epoch(TopicPartition("other", 0)) == -1


def test_nothing_of_a_removed_topic_is_kept(context: ControllerContext) -> None:
    context.put_partition_state(P0, PartitionState.OfflinePartition)
    context.put_replica_state(PartitionAndReplica(P0, 1), ReplicaState.OnlineReplica)
    context.replicas_on_offline_dirs[1] = {P0: None}
    context.partitions_being_reassigned[P0] = None
    context.queue_topic_deletion(["t"])
    context.remove_topic("t")
    assert context.partition_states == {}
    assert context.replica_states == {}
    assert context.replicas_on_offline_dirs == {1: {}}
    assert context.partitions_being_reassigned == {}
    assert context.topics_to_be_deleted == {}
    assert list(context.all_partitions()) == []
    assert context.partitions_leadership_info == {}
    assert context.topic_names == {}


def test_one_topic_id_names_one_topic(context: ControllerContext) -> None:
    context.set_all_topics(["t", "u"])
    with pytest.raises(AssertionError, match="is t's already"):
        context.add_topic_id("u", context.topic_ids["t"])
    with pytest.raises(AssertionError, match="has the id"):
        context.add_topic_id("t", Uuid(bytes(15) + b"\2"))


def test_imbalance_counts_partitions_that_others_lead(context: ControllerContext) -> None:
    assert context.preferred_replica_imbalance_count() == 0
    context.put_partition_leadership_info(P0, LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 6, (1, 2)), 1))
    assert context.preferred_replica_imbalance_count() == 1
    # A preferred replica that is still being added is not missed before it is in sync.
    context.update_partition_full_replica_assignment(P0, ReplicaAssignment((3, 1, 2), (3,), (1,)))
    assert context.preferred_replica_imbalance_count() == 0


def test_only_the_transitions_in_the_tables_are_valid(context: ControllerContext) -> None:
    for before, target in itertools.product(PartitionState, PartitionState):
        context.put_partition_state(P0, before)
        valid, invalid = context.check_valid_partition_state_change([P0], target)
        assert (valid == [P0]) is (before in VALID_PREVIOUS_PARTITION_STATES[target])
        assert valid + invalid == [P0]
    replica = PartitionAndReplica(P0, 1)
    for was, wanted in itertools.product(ReplicaState, ReplicaState):
        context.put_replica_state(replica, was)
        allowed, refused = context.check_valid_replica_state_change([replica], wanted)
        assert (allowed == [replica]) is (was in VALID_PREVIOUS_REPLICA_STATES[wanted])
        assert allowed + refused == [replica]


def test_b14_the_last_member_of_an_isr_stays_in_it() -> None:
    assert without_replica(LeaderAndIsr(1, 4, (1,)), 1) == LeaderAndIsr(-1, 5, (1,))
    assert without_replica(LeaderAndIsr(1, 4, (1, 2)), 1) == LeaderAndIsr(-1, 5, (2,))
    assert without_replica(LeaderAndIsr(1, 4, (1, 2)), 2) == LeaderAndIsr(1, 5, (1,))


def test_a_reassignment_knows_whom_it_adds_and_removes() -> None:
    assignment = ReplicaAssignment((1, 2, 3))
    moving = assignment.reassign_to((4, 2))
    assert moving == ReplicaAssignment((4, 2, 1, 3), (4,), (1, 3))
    assert moving.reassign_to(moving.origin_replicas) == ReplicaAssignment((2, 1, 3))
    assert moving.target_replicas == (4, 2)
