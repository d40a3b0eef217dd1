"""Deletes topics, however often it is interrupted (``TopicDeletionManager``).

A topic in ``/admin/delete_topics`` is queued. It is eligible while no replica is on a dead broker and none of its
partitions is being reassigned. Every replica is stopped and deleted by its broker; when all have said so, the topic's
znodes go, its ``/admin/delete_topics`` entry last. A broker that fails or goes makes its replicas ineligible and halts
the topic until the broker is back or the reassignment is over.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from barnabas.controller.context import ControllerContext
from barnabas.controller.partition_state_machine import PartitionStateMachine
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.states import PartitionAndReplica, PartitionState, ReplicaState
from barnabas.model.config import Config
from barnabas.model.ids import TopicPartition
from barnabas.zk.kafka.zk_client import KafkaZkClient

logger = logging.getLogger(__name__)


class DeletionClient:
    """The part of the controller that the deletion uses (``ControllerDeletionClient``)."""

    def __init__(
        self,
        zk: KafkaZkClient,
        mute_partition_modifications: Callable[[str], None],
        send_metadata_update: Callable[[Sequence[TopicPartition]], None],
        forget_reassignments: Callable[[str], Awaitable[None]],
    ) -> None:
        self._zk = zk
        self._forget_reassignments = forget_reassignments
        self.mute_partition_modifications = mute_partition_modifications
        self.send_metadata_update = send_metadata_update

    async def delete_topic(self, topic: str, epoch_zk_version: int) -> None:
        await self._forget_reassignments(topic)
        await self._zk.delete_topic_znode(topic, epoch_zk_version)
        await self._zk.delete_topic_configs([topic], epoch_zk_version)
        await self._zk.delete_topic_deletions([topic], epoch_zk_version)

    async def delete_topic_deletions(self, topics: Sequence[str], epoch_zk_version: int) -> None:
        await self._zk.delete_topic_deletions(topics, epoch_zk_version)


class TopicDeletionManager:
    def __init__(
        self,
        config: Callable[[], Config],
        context: ControllerContext,
        replica_state_machine: ReplicaStateMachine,
        partition_state_machine: PartitionStateMachine,
        client: DeletionClient,
    ) -> None:
        self._config = config
        self._context = context
        self._replicas = replica_state_machine
        self._partitions = partition_state_machine
        self._client = client

    @property
    def is_delete_topic_enabled(self) -> bool:
        return self._config().flag("delete.topic.enable")

    async def init(self, topics_to_be_deleted: Sequence[str], topics_ineligible: Iterable[str]) -> None:
        """Resumes the deletions in progress at a failover."""
        context = self._context
        if not self.is_delete_topic_enabled:
            await self._client.delete_topic_deletions(topics_to_be_deleted, context.epoch_zk_version)
            return
        context.queue_topic_deletion(topics_to_be_deleted)
        for topic in topics_ineligible:
            if context.is_topic_queued_up_for_deletion(topic):
                context.topics_ineligible_for_deletion[topic] = None

    async def try_topic_deletion(self) -> None:
        if self.is_delete_topic_enabled:
            await self._resume_deletions()

    async def enqueue_topics_for_deletion(self, topics: Iterable[str]) -> None:
        if self.is_delete_topic_enabled:
            self._context.queue_topic_deletion(topics)
            await self._resume_deletions()

    async def resume_deletion_for_topics(self, topics: Iterable[str]) -> None:
        """Tries these topics again: a broker came back or a reassignment is over."""
        context = self._context
        resumed = [topic for topic in dict.fromkeys(topics) if context.is_topic_queued_up_for_deletion(topic)]
        if not self.is_delete_topic_enabled or not resumed:
            return
        logger.info("Topic deletion is resumed for %s", ", ".join(resumed))
        for topic in resumed:
            context.topics_ineligible_for_deletion.pop(topic, None)
        await self._resume_deletions()

    async def fail_replica_deletion(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Halts the topics of replicas whose broker is gone or failed to delete them, until that changes."""
        failed = [replica for replica in replicas if self.is_topic_queued_up_for_deletion(replica.topic)]
        if not failed:
            return
        await self._replicas.handle_state_changes(failed, ReplicaState.ReplicaDeletionIneligible)
        self.mark_topic_ineligible_for_deletion((replica.topic for replica in failed), "replica deletion failure")
        await self._resume_deletions()

    async def complete_replica_deletion(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Notes that the brokers deleted these replicas."""
        deleted = [replica for replica in replicas if self.is_topic_queued_up_for_deletion(replica.topic)]
        await self._replicas.handle_state_changes(deleted, ReplicaState.ReplicaDeletionSuccessful)
        await self._resume_deletions()

    def mark_topic_ineligible_for_deletion(self, topics: Iterable[str], reason: str) -> None:
        if not self.is_delete_topic_enabled:
            return
        context = self._context
        halted = [topic for topic in dict.fromkeys(topics) if context.is_topic_queued_up_for_deletion(topic)]
        context.topics_ineligible_for_deletion.update(dict.fromkeys(halted))
        if halted:
            logger.info("Halted deletion of topics %s due to %s", ", ".join(halted), reason)

    def is_topic_queued_up_for_deletion(self, topic: str) -> bool:
        return self.is_delete_topic_enabled and self._context.is_topic_queued_up_for_deletion(topic)

    def _is_topic_eligible_for_deletion(self, topic: str) -> bool:
        context = self._context
        return (
            context.is_topic_queued_up_for_deletion(topic)
            and not context.is_any_replica_in_state(topic, ReplicaState.ReplicaDeletionStarted)
            and topic not in context.topics_ineligible_for_deletion
        )

    async def _resume_deletions(self) -> None:
        context = self._context
        retried: list[str] = []
        eligible: list[str] = []
        for topic in list(context.topics_to_be_deleted):
            if context.are_all_replicas_in_state(topic, ReplicaState.ReplicaDeletionSuccessful):
                await self._complete_delete_topic(topic)
            elif not context.is_any_replica_in_state(
                topic, ReplicaState.ReplicaDeletionStarted
            ) and context.is_any_replica_in_state(topic, ReplicaState.ReplicaDeletionIneligible):
                retried.append(topic)
            if self._is_topic_eligible_for_deletion(topic):
                eligible.append(topic)
        if retried:
            ineligible = [
                replica
                for topic in retried
                for replica in context.replicas_in_state(topic, ReplicaState.ReplicaDeletionIneligible)
            ]
            await self._replicas.handle_state_changes(ineligible, ReplicaState.OfflineReplica)
        if eligible:
            await self._on_topic_deletion(eligible)

    async def _complete_delete_topic(self, topic: str) -> None:
        # First, so that no event about the old topic's znode reaches a new topic of that name.
        self._client.mute_partition_modifications(topic)
        deleted = self._context.replicas_in_state(topic, ReplicaState.ReplicaDeletionSuccessful)
        await self._replicas.handle_state_changes(deleted, ReplicaState.NonExistentReplica)
        await self._client.delete_topic(topic, self._context.epoch_zk_version)
        self._context.remove_topic(topic)
        logger.info("Deletion of topic %s successfully completed", topic)

    async def _on_topic_deletion(self, topics: Sequence[str]) -> None:
        """Brokers forget the topic first (UpdateMetadata with leader -2), then its replicas are deleted."""
        context = self._context
        logger.info("Topic deletion callback for %s", ", ".join(topics))
        unseen = [topic for topic in topics if not context.is_topic_deletion_in_progress(topic)]
        partitions = [partition for topic in unseen for partition in context.partitions_for_topic(topic)]
        await self._partitions.handle_state_changes(partitions, PartitionState.OfflinePartition)
        await self._partitions.handle_state_changes(partitions, PartitionState.NonExistentPartition)
        context.begin_topic_deletion(unseen)
        self._client.send_metadata_update(
            [partition for topic in topics for partition in context.partitions_for_topic(topic)]
        )
        await self._on_partition_deletion(topics)

    async def _on_partition_deletion(self, topics: Sequence[str]) -> None:
        context = self._context
        dead: list[PartitionAndReplica] = []
        to_delete: list[PartitionAndReplica] = []
        ineligible: list[str] = []
        for topic in topics:
            of_topic = context.replicas_for_topic(topic)
            alive = [r for r in of_topic if context.is_replica_online(r.replica, r.topic_partition)]
            gone = [r for r in of_topic if not context.is_replica_online(r.replica, r.topic_partition)]
            to_delete += [r for r in alive if context.replica_state(r) is not ReplicaState.ReplicaDeletionSuccessful]
            dead += gone
            if gone:
                ineligible.append(topic)
        await self._replicas.handle_state_changes(dead, ReplicaState.ReplicaDeletionIneligible)
        # They are stopped before they are deleted, so that no follower fetches from a deleted leader.
        await self._replicas.handle_state_changes(to_delete, ReplicaState.OfflineReplica)
        await self._replicas.handle_state_changes(to_delete, ReplicaState.ReplicaDeletionStarted)
        self.mark_topic_ineligible_for_deletion(ineligible, "offline replicas")
