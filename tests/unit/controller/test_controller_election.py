from __future__ import annotations

from barnabas.controller.election import (
    controlled_shutdown_partition_leader_election,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred_replica,
    leader_for_reassign,
    offline_partition_leader_election,
    preferred_replica_partition_leader_election,
    reassign_partition_leader_election,
)
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState

P = TopicPartition("t", 0)


def test_offline_election_takes_the_first_assigned_replica_that_is_alive_and_in_sync() -> None:
    assert offline_partition_leader_election((2, 4), (2, 4), {4}, False) == 4
    assert offline_partition_leader_election((4, 2), (2, 4), {2, 4}, False) == 4


def test_offline_election_finds_nobody_outside_the_isr() -> None:
    assert offline_partition_leader_election((2, 4), (2,), {4}, False) is None


def test_unclean_election_takes_a_live_replica_outside_the_isr() -> None:
    assert offline_partition_leader_election((2, 4), (2,), {4}, True) == 4


def test_unclean_election_still_prefers_the_isr() -> None:
    assert offline_partition_leader_election((4, 2), (2,), {2, 4}, True) == 2


def test_unclean_election_finds_nobody_when_all_are_dead() -> None:
    assert offline_partition_leader_election((2, 4), (2,), set(), True) is None


def test_reassignment_elects_within_the_targets_in_their_order() -> None:
    assert reassign_partition_leader_election((2, 4), (2, 4), {4}) == 4
    assert reassign_partition_leader_election((4, 2), (2, 4), {2, 4}) == 4
    assert reassign_partition_leader_election((2, 4), (2, 4), set()) is None
    assert reassign_partition_leader_election((2, 4), (), {2, 4}) is None


def test_preferred_election_takes_the_first_replica_or_nobody() -> None:
    assert preferred_replica_partition_leader_election((2, 4), (2, 4), {2, 4}) == 2
    assert preferred_replica_partition_leader_election((2, 4), (4,), {2, 4}) is None
    assert preferred_replica_partition_leader_election((2, 4), (2, 4), {4}) is None
    assert preferred_replica_partition_leader_election((), (2, 4), {2, 4}) is None


def test_controlled_shutdown_elects_nobody_who_is_leaving() -> None:
    assert controlled_shutdown_partition_leader_election((2, 4), (2, 4), {2, 4}, {2}) == 4
    assert controlled_shutdown_partition_leader_election((2, 4), (2,), {2, 4}, {2}) is None
    assert controlled_shutdown_partition_leader_election((2, 4), (2, 4), {2, 4}, {2, 4}) is None


def test_a_clean_leader_begins_a_new_epoch_with_the_live_part_of_the_isr() -> None:
    before = LeaderAndIsr(1, 7, (1, 2, 3), partition_epoch=9)
    elected = leader_for_offline(P, before, (1, 2, 3), (2, 3), unclean_allowed=False)
    assert elected.leader_and_isr == LeaderAndIsr(2, 8, (2, 3), partition_epoch=9)
    assert elected.live_replicas == (2, 3)
    assert not elected.unclean


def test_an_unclean_leader_begins_alone_and_recovering() -> None:
    before = LeaderAndIsr(1, 7, (1,))
    elected = leader_for_offline(P, before, (1, 2, 3), (2, 3), unclean_allowed=True)
    assert elected.leader_and_isr == LeaderAndIsr(2, 8, (2,), LeaderRecoveryState.RECOVERING)
    assert elected.unclean


def test_a_clean_leader_keeps_the_recovery_state() -> None:
    before = LeaderAndIsr(-1, 7, (2,), LeaderRecoveryState.RECOVERING)
    elected = leader_for_offline(P, before, (1, 2), (2,), unclean_allowed=True)
    assert elected.leader_and_isr is not None
    assert elected.leader_and_isr.leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert not elected.unclean


def test_reassignment_keeps_the_isr_and_tells_all_targets() -> None:
    elected = leader_for_reassign(P, LeaderAndIsr(1, 3, (1, 4, 5)), (4, 5), (4, 5))
    assert elected.leader_and_isr == LeaderAndIsr(4, 4, (1, 4, 5))
    assert elected.live_replicas == (4, 5)


def test_preferred_election_keeps_the_isr() -> None:
    elected = leader_for_preferred_replica(P, LeaderAndIsr(2, 3, (2, 1)), (1, 2), (1, 2))
    assert elected.leader_and_isr == LeaderAndIsr(1, 4, (2, 1))


def test_controlled_shutdown_leaves_nobody_in_the_isr_who_is_leaving() -> None:
    elected = leader_for_controlled_shutdown(P, LeaderAndIsr(1, 3, (1, 2, 3)), (1, 2, 3), (1, 2, 3), {1: None, 3: None})
    assert elected.leader_and_isr == LeaderAndIsr(2, 4, (2,))
    assert elected.live_replicas == (1, 2, 3)
