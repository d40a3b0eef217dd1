"""A partition's leader and its in-sync replicas.

``LeaderAndIsr`` is the content of the partition's ``state`` znode and of the requests about it. ``IsrState`` is the
leader's own view of its ISR: while a proposed change is in flight, two sets count. The ``maximal_isr`` holds back the
high watermark; ``isr`` is known to be in sync (KIP-497, Kafka's ``PartitionState`` in ``Partition.scala``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias


class ElectionType(IntEnum):
    """The kinds of election that an operator may request (ElectLeaders); the values are those of the request."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderRecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True)
class LeaderAndIsr:
    """`partition_epoch` is the version of the partition's ``state`` znode. `leader` is -1 when there is none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = 0

    def with_leader(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """A new leader (or none) in a new leader epoch. Kafka's ``newLeaderAndIsr``."""
        return LeaderAndIsr(leader, self.leader_epoch + 1, isr, self.leader_recovery_state, self.partition_epoch)

    def with_partition_epoch(self, partition_epoch: int) -> LeaderAndIsr:
        return LeaderAndIsr(self.leader, self.leader_epoch, self.isr, self.leader_recovery_state, partition_epoch)


@dataclass(frozen=True)
class CommittedIsr:
    """The ISR as ZooKeeper has it; no change is in flight."""

    isr: frozenset[int]
    partition_epoch: int

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.isr

    @property
    def in_flight(self) -> bool:
        return False


@dataclass(frozen=True)
class PendingExpandIsr:
    """`new_in_sync` was proposed; it already holds back the high watermark but does not yet count as in sync."""

    new_in_sync: frozenset[int]
    committed: CommittedIsr

    @property
    def isr(self) -> frozenset[int]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.committed.isr | self.new_in_sync

    @property
    def in_flight(self) -> bool:
        return True


@dataclass(frozen=True)
class PendingShrinkIsr:
    """`out_of_sync` was proposed for removal; until that is committed it still holds back the high watermark."""

    out_of_sync: frozenset[int]
    committed: CommittedIsr

    @property
    def isr(self) -> frozenset[int]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.committed.isr

    @property
    def in_flight(self) -> bool:
        return True


IsrState: TypeAlias = CommittedIsr | PendingExpandIsr | PendingShrinkIsr
