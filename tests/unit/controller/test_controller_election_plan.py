"""An election is a value before anything is written: who leads next, and why others get no leader."""

from __future__ import annotations

import pytest

from barnabas.controller.context import ControllerContext
from barnabas.controller.election_plan import (
    ControlledShutdownPartitionLeaderElectionStrategy,
    OfflinePartitionLeaderElectionStrategy,
    PartitionLeaderElectionStrategy,
    PreferredReplicaPartitionLeaderElectionStrategy,
    ReassignPartitionLeaderElectionStrategy,
    UncleanElections,
    electable,
    plan_elections,
)
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment

P0, P1 = (TopicPartition("t", index) for index in range(2))


def context(*live: int, shutting_down: int | None = None) -> ControllerContext:
    """P0 is on 1, 2, 3; P1 moves from 1, 2 to 2, 3."""
    made = ControllerContext()
    made.set_live_brokers(BrokerInfo(broker_id, (Endpoint("PLAINTEXT", "host", 9092),)) for broker_id in live)
    made.set_all_topics(["t"])
    made.update_partition_full_replica_assignment(P0, ReplicaAssignment((1, 2, 3)))
    made.update_partition_full_replica_assignment(P1, ReplicaAssignment((2, 3, 1), (3,), (1,)))
    if shutting_down is not None:
        made.shutting_down_broker_ids[shutting_down] = None
    return made


@pytest.mark.parametrize(
    ("live", "shutting_down", "strategy", "leaders"),
    [
        ((2, 3), None, OfflinePartitionLeaderElectionStrategy(), {P0: 2, P1: 2}),
        ((1, 2, 3), None, PreferredReplicaPartitionLeaderElectionStrategy(), {P0: 1, P1: 2}),
        ((3,), None, ReassignPartitionLeaderElectionStrategy(), {P1: 3}),
        ((1, 2, 3), 1, ControlledShutdownPartitionLeaderElectionStrategy(), {P0: 2, P1: 2}),
        ((), None, OfflinePartitionLeaderElectionStrategy(), {}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PartitionLeaderElectionStrategy) else "",
)
def test_every_partition_gets_a_leader_or_a_sentence(
    live: tuple[int, ...],
    shutting_down: int | None,
    strategy: PartitionLeaderElectionStrategy,
    leaders: dict[TopicPartition, int],
) -> None:
    isr = {P0: (1, 2), P1: (1, 2, 3)}
    current = {partition: LeaderAndIsr(1, 7, isr[partition]) for partition in (P0, P1)}
    plan = plan_elections(context(*live, shutting_down=shutting_down), current, strategy, UncleanElections())
    assert {partition: state.leader for partition, state in plan.states.items()} == leaders
    assert all(state.leader_epoch == 8 for state in plan.states.values())
    assert plan.failed == {
        partition: f"Failed to elect leader for partition {partition} under strategy {type(strategy).__name__}"
        for partition in current
        if partition not in leaders
    }


def test_only_where_losses_are_allowed_leads_one_from_outside_the_isr() -> None:
    current = {partition: LeaderAndIsr(1, 7, (1,)) for partition in (P0, P1)}
    unclean = UncleanElections(frozenset({P0}))
    plan = plan_elections(context(2, 3), current, OfflinePartitionLeaderElectionStrategy(), unclean)
    assert list(plan.failed) == [P1]
    assert plan.elected[P0].unclean
    assert plan.states[P0] == LeaderAndIsr(2, 8, (2,), LeaderRecoveryState.RECOVERING, 0)


def test_a_state_that_a_newer_controller_wrote_is_left_alone() -> None:
    state = LeaderAndIsr(1, 7, (1, 2))
    current, failed = electable(4, [P0, P1], {P0: LeaderIsrAndControllerEpoch(state, 4)})
    assert (current, list(failed)) == ({P0: state}, [P1])
    current, failed = electable(3, [P0], {P0: LeaderIsrAndControllerEpoch(state, 4)})
    assert current == {}
    assert failed[P0].endswith("by a controller of epoch 4, which is newer than this one's 3")
