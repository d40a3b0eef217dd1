"""Chooses a partition's next leader: pure functions of the assignment, the ISR and the live brokers
(``Election.scala``).

The four algorithms (``PartitionLeaderElectionAlgorithms``) name a leader or None. The four `leader_for_…` make the
partition's next `LeaderAndIsr` of it, always in a new leader epoch, and name the brokers that must be told.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState


class ElectionTrigger(Enum):
    """What triggered a replica election."""

    AUTO_TRIGGERED = "auto"
    ZK_TRIGGERED = "znode"
    ADMIN_CLIENT_TRIGGERED = "request"


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """`leader_and_isr` is None when no replica may lead. `live_replicas` are the brokers to notify."""

    topic_partition: TopicPartition
    leader_and_isr: LeaderAndIsr | None
    live_replicas: tuple[int, ...]
    unclean: bool = False


def offline_partition_leader_election(
    assignment: Collection[int], isr: Collection[int], live_replicas: Collection[int], unclean_allowed: bool
) -> int | None:
    """The first assigned replica that is alive and in sync; else, if unclean is allowed, the first that is alive."""
    for replica in assignment:
        if replica in live_replicas and replica in isr:
            return replica
    if unclean_allowed:
        for replica in assignment:
            if replica in live_replicas:
                return replica
    return None


def reassign_partition_leader_election(
    target_replicas: Collection[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    return next((replica for replica in target_replicas if replica in live_replicas and replica in isr), None)


def preferred_replica_partition_leader_election(
    assignment: Collection[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    """The first assigned replica, only if it is alive and in sync."""
    preferred = next(iter(assignment), None)
    return preferred if preferred in live_replicas and preferred in isr else None


def controlled_shutdown_partition_leader_election(
    assignment: Collection[int],
    isr: Collection[int],
    live_replicas: Collection[int],
    shutting_down_brokers: Collection[int],
) -> int | None:
    return next(
        (
            replica
            for replica in assignment
            if replica in live_replicas and replica in isr and replica not in shutting_down_brokers
        ),
        None,
    )


def leader_for_offline(
    partition: TopicPartition,
    leader_and_isr: LeaderAndIsr,
    assignment: tuple[int, ...],
    live_replicas: tuple[int, ...],
    unclean_allowed: bool,
    *,
    recovers: bool = True,
) -> ElectionResult:
    """A leader for a new or offline partition. A leader from outside the ISR becomes its only member and, if brokers
    support it (`recovers`), ``RECOVERING``."""
    isr = leader_and_isr.isr
    leader = offline_partition_leader_election(assignment, isr, live_replicas, unclean_allowed)
    if leader is None:
        return ElectionResult(partition, None, live_replicas)
    if leader in isr:
        live_isr = tuple(replica for replica in isr if replica in live_replicas)
        return ElectionResult(partition, leader_and_isr.with_leader(leader, live_isr), live_replicas)
    alone = leader_and_isr.with_leader(leader, (leader,))
    if recovers:
        alone = replace(alone, leader_recovery_state=LeaderRecoveryState.RECOVERING)
    return ElectionResult(partition, alone, live_replicas, unclean=True)


def leader_for_reassign(
    partition: TopicPartition,
    leader_and_isr: LeaderAndIsr,
    target_replicas: tuple[int, ...],
    live_replicas: tuple[int, ...],
) -> ElectionResult:
    """A leader among the target replicas; the ISR stays."""
    leader = reassign_partition_leader_election(target_replicas, leader_and_isr.isr, live_replicas)
    elected = None if leader is None else leader_and_isr.with_leader(leader, leader_and_isr.isr)
    return ElectionResult(partition, elected, target_replicas)


def leader_for_preferred_replica(
    partition: TopicPartition,
    leader_and_isr: LeaderAndIsr,
    assignment: tuple[int, ...],
    live_replicas: tuple[int, ...],
) -> ElectionResult:
    """The preferred replica as leader; the ISR stays."""
    leader = preferred_replica_partition_leader_election(assignment, leader_and_isr.isr, live_replicas)
    elected = None if leader is None else leader_and_isr.with_leader(leader, leader_and_isr.isr)
    return ElectionResult(partition, elected, assignment)


def leader_for_controlled_shutdown(
    partition: TopicPartition,
    leader_and_isr: LeaderAndIsr,
    assignment: tuple[int, ...],
    live_or_shutting_down_replicas: tuple[int, ...],
    shutting_down_brokers: Collection[int],
) -> ElectionResult:
    """A leader that is not leaving; all leaving replicas go out of the ISR."""
    leader = controlled_shutdown_partition_leader_election(
        assignment, leader_and_isr.isr, live_or_shutting_down_replicas, shutting_down_brokers
    )
    if leader is None:
        return ElectionResult(partition, None, live_or_shutting_down_replicas)
    staying = tuple(replica for replica in leader_and_isr.isr if replica not in shutting_down_brokers)
    return ElectionResult(partition, leader_and_isr.with_leader(leader, staying), live_or_shutting_down_replicas)
