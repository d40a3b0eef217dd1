"""Handles changes of topics: they are created, extended, deleted, or old leaders wrote new ISRs themselves."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.controller import events
from barnabas.controller.election_plan import OfflinePartitionLeaderElectionStrategy
from barnabas.controller.failover import read_topics, take_in_topics
from barnabas.controller.reign import Reign
from barnabas.controller.states import PartitionState, ReplicaState
from barnabas.model.ids import TopicPartition
from barnabas.zk.kafka.znodes import TopicPartitionsZNode

logger = logging.getLogger(__name__)


async def process_topic_change(reign: Reign, _: events.TopicChange) -> None:
    context = reign.context
    topics = await reign.zk.get_all_topics_in_cluster(register_watch=True)
    existing = frozenset(topics)
    new = [topic for topic in topics if topic not in context.all_topics]
    deleted = [topic for topic in context.all_topics if topic not in existing]
    reign.register_topic_handlers(new)
    added = await read_topics(reign, new)
    for topic in deleted:
        reign.unregister_topic_handler(topic)
        context.remove_topic(topic)
    context.set_all_topics(topics)
    await take_in_topics(reign, added)
    reign.log.step(f"New topics: {', '.join(new) or 'none'}, deleted topics: {', '.join(deleted) or 'none'}")
    await on_new_partition_creation(reign, [partition for topic in added for partition in topic.assignment])


async def on_new_partition_creation(reign: Reign, partitions: Sequence[TopicPartition]) -> None:
    context = reign.context
    await reign.partitions.handle_state_changes(partitions, PartitionState.NewPartition)
    await reign.replicas.handle_state_changes(context.replicas_for_partitions(partitions), ReplicaState.NewReplica)
    await reign.partitions.handle_state_changes(
        partitions, PartitionState.OnlinePartition, OfflinePartitionLeaderElectionStrategy()
    )
    await reign.replicas.handle_state_changes(context.replicas_for_partitions(partitions), ReplicaState.OnlineReplica)


async def process_partition_modifications(reign: Reign, event: events.PartitionModifications) -> None:
    """Processes partitions that a rewritten topic's znode may have added."""
    context = reign.context
    assignment = await reign.zk.get_full_replica_assignment_for_topics([event.topic])
    added = {tp: assigned for tp, assigned in assignment.items() if not context.partition_replica_assignment(tp)}
    if event.topic not in context.all_topics or not added:
        return
    if reign.topic_deletion.is_topic_queued_up_for_deletion(event.topic):
        logger.warning("%s gets no more partitions, since it is being deleted", event.topic)
        await _restore_partition_replica_assignment(reign, event.topic, list(assignment))
        return
    for partition, assigned in added.items():
        context.update_partition_full_replica_assignment(partition, assigned)
    await on_new_partition_creation(reign, list(added))


async def _restore_partition_replica_assignment(reign: Reign, topic: str, partitions: Sequence[TopicPartition]) -> None:
    context = reign.context
    existing = await reign.zk.get_children(TopicPartitionsZNode.path(topic))
    restored = {
        partition: context.partition_full_replica_assignment(partition)
        for partition in partitions
        if str(partition.partition) in existing
    }
    await reign.zk.set_topic_assignment(topic, context.topic_ids.get(topic), restored, context.epoch_zk_version)


async def process_topic_deletion(reign: Reign, _: events.TopicDeletion) -> None:
    context = reign.context
    queued = await reign.zk.get_topic_deletions()
    unknown = [topic for topic in queued if topic not in context.all_topics]
    if unknown:
        logger.warning("can't delete topics that do not exist: %s", unknown)
        await reign.zk.delete_topic_deletions(unknown, context.epoch_zk_version)
    topics = [topic for topic in queued if topic in context.all_topics]
    if not reign.topic_deletion.is_delete_topic_enabled:
        await reign.zk.delete_topic_deletions(topics, context.epoch_zk_version)
        return
    if topics:
        reign.log.step(f"Starting topic deletion for topics {', '.join(topics)}")
    context.queue_topic_deletion(topics)
    being_reassigned = {partition.topic for partition in context.partitions_being_reassigned}
    reign.topic_deletion.mark_topic_ineligible_for_deletion(
        [topic for topic in topics if topic in being_reassigned], "topic reassignment in progress"
    )
    await reign.topic_deletion.enqueue_topics_for_deletion(topics)


async def process_isr_change_notification(reign: Reign, _: events.IsrChangeNotification) -> None:
    """Reads new ISRs that leaders with an inter-broker protocol below 2.7 wrote themselves."""
    context = reign.context
    sequence_numbers = await reign.zk.get_all_isr_change_notifications()
    named = await reign.zk.get_partitions_from_isr_change_notifications(sequence_numbers)
    partitions = [partition for partition in dict.fromkeys(named) if context.has_partition(partition)]
    if partitions:
        await reign.update_leader_and_isr_cache(partitions)
        reign.send_metadata_of(partitions)
        # A controller that supports AlterPartition watches no partition's state: during an upgrade these notifications
        # tell it of leaders that do not support it.
        for partition in partitions:
            await reign.reassignments.maybe_complete_reassignment(partition)
    await reign.zk.delete_isr_change_notifications(context.epoch_zk_version, sequence_numbers)


async def process_unclean_leader_election_enable(
    reign: Reign, event: events.UncleanLeaderElectionEnable | events.TopicUncleanLeaderElectionEnable
) -> None:
    topic = event.topic if isinstance(event, events.TopicUncleanLeaderElectionEnable) else None
    await reign.partitions.trigger_online_partition_state_change(topic)
