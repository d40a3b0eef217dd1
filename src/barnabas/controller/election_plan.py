"""Elections planned as a value, before anything is written: each partition's next leader, or why there is none. Pure.

A strategy (Kafka's ``PartitionLeaderElectionStrategy``) says which of `election`'s four rules chooses a leader, and
which facts of the cluster the rule gets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from barnabas.controller.context import ControllerContext
from barnabas.controller.election import (
    ElectionResult,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred_replica,
    leader_for_reassign,
)
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch


@dataclass(frozen=True, slots=True)
class UncleanElections:
    """Which partitions may elect a leader from outside the ISR, and whether brokers know about recovering leaders."""

    allowed: Collection[TopicPartition] = ()
    recovers: bool = True


class PartitionLeaderElectionStrategy:
    __slots__ = ()

    considers_unclean: ClassVar[bool] = False
    """Whether `UncleanElections.allowed` matters to this strategy."""
    allow_unclean: bool = False

    @abstractmethod
    def elect(
        self,
        context: ControllerContext,
        partition: TopicPartition,
        current: LeaderAndIsr,
        unclean: UncleanElections,
    ) -> ElectionResult: ...


@dataclass(frozen=True)
class OfflinePartitionLeaderElectionStrategy(PartitionLeaderElectionStrategy):
    """The leader is gone. `allow_unclean`: an operator accepts a leader from outside the ISR, and its losses."""

    considers_unclean: ClassVar[bool] = True
    allow_unclean: bool = False

    def elect(
        self,
        context: ControllerContext,
        partition: TopicPartition,
        current: LeaderAndIsr,
        unclean: UncleanElections,
    ) -> ElectionResult:
        assignment = context.partition_replica_assignment(partition)
        live = context.online_replicas(assignment, partition)
        return leader_for_offline(
            partition, current, assignment, live, partition in unclean.allowed, recovers=unclean.recovers
        )


@dataclass(frozen=True)
class ReassignPartitionLeaderElectionStrategy(PartitionLeaderElectionStrategy):
    """The leader is not among the target replicas of a reassignment."""

    def elect(
        self,
        context: ControllerContext,
        partition: TopicPartition,
        current: LeaderAndIsr,
        unclean: UncleanElections,
    ) -> ElectionResult:
        targets = context.partition_full_replica_assignment(partition).target_replicas
        return leader_for_reassign(partition, current, targets, context.online_replicas(targets, partition))


@dataclass(frozen=True)
class PreferredReplicaPartitionLeaderElectionStrategy(PartitionLeaderElectionStrategy):
    """The first assigned replica shall lead."""

    def elect(
        self,
        context: ControllerContext,
        partition: TopicPartition,
        current: LeaderAndIsr,
        unclean: UncleanElections,
    ) -> ElectionResult:
        assignment = context.partition_replica_assignment(partition)
        return leader_for_preferred_replica(
            partition, current, assignment, context.online_replicas(assignment, partition)
        )


@dataclass(frozen=True)
class ControlledShutdownPartitionLeaderElectionStrategy(PartitionLeaderElectionStrategy):
    """The leader has asked to leave."""

    def elect(
        self,
        context: ControllerContext,
        partition: TopicPartition,
        current: LeaderAndIsr,
        unclean: UncleanElections,
    ) -> ElectionResult:
        assignment = context.partition_replica_assignment(partition)
        live = context.online_replicas(assignment, partition, include_shutting_down_brokers=True)
        return leader_for_controlled_shutdown(partition, current, assignment, live, context.shutting_down_broker_ids)


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The states to write and send for partitions that get a leader, and a sentence for each that gets none."""

    elected: dict[TopicPartition, ElectionResult] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)

    @property
    def states(self) -> dict[TopicPartition, LeaderAndIsr]:
        """The next ``state`` of each partition that gets a leader."""
        return {
            partition: result.leader_and_isr
            for partition, result in self.elected.items()
            if result.leader_and_isr is not None
        }


def electable(
    controller_epoch: int,
    partitions: Iterable[TopicPartition],
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, str]]:
    """Of the states read from ZooKeeper, those that this controller may change, and for the others why not."""
    current: dict[TopicPartition, LeaderAndIsr] = {}
    failed: dict[TopicPartition, str] = {}
    for partition in partitions:
        known = states.get(partition)
        if known is None:
            failed[partition] = f"{partition} has no leader and ISR in ZooKeeper"
        elif known.controller_epoch > controller_epoch:
            failed[partition] = (
                f"the state of {partition} was written by a controller of epoch {known.controller_epoch}, "
                f"which is newer than this one's {controller_epoch}"
            )
        else:
            current[partition] = known.leader_and_isr
    return current, failed


def plan_elections(
    context: ControllerContext,
    current: Mapping[TopicPartition, LeaderAndIsr],
    strategy: PartitionLeaderElectionStrategy,
    unclean: UncleanElections,
) -> ElectionPlan:
    plan = ElectionPlan()
    for partition, leader_and_isr in current.items():
        result = strategy.elect(context, partition, leader_and_isr, unclean)
        if result.leader_and_isr is None:
            plan.failed[partition] = (
                f"Failed to elect leader for partition {partition} under strategy {type(strategy).__name__}"
            )
        else:
            plan.elected[partition] = result
    return plan
