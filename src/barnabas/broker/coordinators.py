"""The coordinators of groups and transactions go with the leaders of their topics' partitions."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.transaction_coordinator import TransactionCoordinator
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.replica.partition import Partition
from barnabas.runtime import Tasks


class Coordinators:
    """Tells the coordinators which partitions this broker leads now, and which were deleted
    (``RequestHandlerHelper.onLeadershipChange``).
    """

    def __init__(self, groups: GroupCoordinator, transactions: TransactionCoordinator, tasks: Tasks) -> None:
        self._groups = groups
        self._by_topic: dict[str, GroupCoordinator | TransactionCoordinator] = {
            GROUP_METADATA_TOPIC: groups,
            TRANSACTION_STATE_TOPIC: transactions,
        }
        self._tasks = tasks

    def leadership_changed(self, leaders: list[Partition], followers: list[Partition]) -> None:
        for partition in followers:
            coordinator = self._by_topic.get(partition.topic_partition.topic)
            if coordinator is not None:
                coordinator.resigned(partition.topic_partition.partition, partition.leader_epoch)
        for partition in leaders:
            coordinator = self._by_topic.get(partition.topic_partition.topic)
            if coordinator is not None:
                coordinator.elected(partition.topic_partition.partition, partition.leader_epoch)

    def replica_deleted(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        coordinator = self._by_topic.get(topic_partition.topic)
        if coordinator is not None:
            coordinator.resigned(topic_partition.partition, leader_epoch if leader_epoch >= 0 else None)

    def partitions_deleted(self, deleted: Sequence[TopicPartition]) -> None:
        """Groups forget the offsets of partitions that are deleted."""
        if deleted:
            self._tasks.begin(self._groups.partitions_deleted(deleted), "offsets-of-deleted-topics")
