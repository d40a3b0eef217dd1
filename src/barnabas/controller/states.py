"""The states of partitions and replicas, and from which state each may be entered.

The two tables are the state machines: a change that is not in them is refused and logged.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from barnabas.model.ids import TopicPartition


class PartitionState(Enum):
    NewPartition = 0
    """It has assigned replicas, but no leader yet."""
    OnlinePartition = 1
    """A leader was elected."""
    OfflinePartition = 2
    """Its leader is gone."""
    NonExistentPartition = 3
    """Never created, or deleted."""

    def __str__(self) -> str:
        return self.name


class ReplicaState(Enum):
    NewReplica = 1
    """Created with its partition or by a reassignment; it may only follow."""
    OnlineReplica = 2
    """Its broker is alive: it may lead or follow."""
    OfflineReplica = 3
    """Its broker or its log directory is gone, or it is stopped on purpose."""
    ReplicaDeletionStarted = 4
    """Its broker was told to delete it."""
    ReplicaDeletionSuccessful = 5
    """Its broker has answered that it did."""
    ReplicaDeletionIneligible = 6
    """It cannot be deleted now: its broker is gone, or failed to delete it."""
    NonExistentReplica = 7

    def __str__(self) -> str:
        return self.name


class PartitionAndReplica(NamedTuple):
    """One replica: a partition on a broker."""

    topic_partition: TopicPartition
    replica: int

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    def __str__(self) -> str:
        return f"[Topic={self.topic},Partition={self.topic_partition.partition},Replica={self.replica}]"


VALID_PREVIOUS_PARTITION_STATES: Final[dict[PartitionState, tuple[PartitionState, ...]]] = {
    PartitionState.NewPartition: (PartitionState.NonExistentPartition,),
    PartitionState.OnlinePartition: (
        PartitionState.NewPartition,
        PartitionState.OnlinePartition,
        PartitionState.OfflinePartition,
    ),
    PartitionState.OfflinePartition: (
        PartitionState.NewPartition,
        PartitionState.OnlinePartition,
        PartitionState.OfflinePartition,
    ),
    PartitionState.NonExistentPartition: (PartitionState.OfflinePartition,),
}

VALID_PREVIOUS_REPLICA_STATES: Final[dict[ReplicaState, tuple[ReplicaState, ...]]] = {
    ReplicaState.NewReplica: (ReplicaState.NonExistentReplica,),
    ReplicaState.OnlineReplica: (
        ReplicaState.NewReplica,
        ReplicaState.OnlineReplica,
        ReplicaState.OfflineReplica,
        ReplicaState.ReplicaDeletionIneligible,
    ),
    ReplicaState.OfflineReplica: (
        ReplicaState.NewReplica,
        ReplicaState.OnlineReplica,
        ReplicaState.OfflineReplica,
        ReplicaState.ReplicaDeletionIneligible,
    ),
    ReplicaState.ReplicaDeletionStarted: (ReplicaState.OfflineReplica,),
    ReplicaState.ReplicaDeletionSuccessful: (ReplicaState.ReplicaDeletionStarted,),
    ReplicaState.ReplicaDeletionIneligible: (ReplicaState.OfflineReplica, ReplicaState.ReplicaDeletionStarted),
    ReplicaState.NonExistentReplica: (ReplicaState.ReplicaDeletionSuccessful,),
}
