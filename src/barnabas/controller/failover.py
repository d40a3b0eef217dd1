"""The first work of a new controller: it reads the cluster and puts it in order (``onControllerFailover``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.controller import events, replica_election
from barnabas.controller.reign import Reign
from barnabas.controller.token_expiry import token_secret
from barnabas.model.ids import TopicPartition
from barnabas.model.metadata_version import MetadataVersion
from barnabas.zk.kafka.znodes import Features, FeatureZNode, TopicIdReplicaAssignment

AUTO_REBALANCE_FIRST_DELAY_MS: Final = 5_000


async def on_controller_failover(reign: Reign) -> None:
    """Begins the reign. The order matters: each step depends on those before it."""
    context = reign.context
    zk = reign.zk
    await _set_up_feature_versioning(reign)
    step = reign.log.step
    step("Registering handlers")
    # The handlers are registered before the reads, so that no later change is missed.
    for handler in reign.child_change_handlers:
        zk.register_znode_child_change_handler(handler)
    for node_handler in (reign.preferred_replica_election_handler, reign.partition_reassignment_handler):
        await zk.register_znode_change_handler_and_check_existence(node_handler)
    step("Deleting log dir event notifications")
    await zk.delete_log_dir_event_notifications(context.epoch_zk_version)
    step("Deleting isr change notifications")
    await zk.delete_isr_change_notifications(context.epoch_zk_version)
    step("Initializing controller context")
    await _initialize_controller_context(reign)
    step("Fetching topic deletions in progress")
    topics_to_be_deleted, topics_ineligible = await _fetch_topic_deletions_in_progress(reign)
    step("Initializing topic deletion manager")
    await reign.topic_deletion.init(topics_to_be_deleted, topics_ineligible)
    step("Sending update metadata request")
    # Brokers must know which brokers are alive before the state machines send them LeaderAndIsr.
    reign.send_metadata_of(())
    step("Initializing replica state machine")
    await reign.replicas.startup()
    step("Initializing partition state machine")
    await reign.partitions.startup()
    step(f"Broker {reign.log.controller_id} is ready to serve as the new controller with epoch {context.epoch}")
    begun = await begin_zk_partition_reassignment(reign)
    await reign.reassignments.maybe_resume_reassignments(lambda partition, _: partition not in begun)
    await reign.topic_deletion.try_topic_deletion()
    await replica_election.elect_by_znode(reign)
    step("Starting the controller scheduler")
    if reign.config().flag("auto.leader.rebalance.enable"):
        step("starting the partition rebalance scheduler")
        reign.schedule(events.AutoPreferredReplicaLeaderElection(), AUTO_REBALANCE_FIRST_DELAY_MS)
    if token_secret(reign.config()):
        step("starting the token expiry check scheduler")
        reign.schedule(events.DelegationTokenExpiry(), 0)


async def _set_up_feature_versioning(reign: Reign) -> None:
    """Creates ``/feature``, and enables it if the brokers support it (KIP-584).

    Kafka 3.9 finalizes no feature in ZooKeeper mode.
    """
    enabled = reign.metadata_version.is_feature_versioning_supported
    form = 2 if reign.metadata_version >= MetadataVersion.IBP_3_3_IV0 else 1
    known = await reign.zk.get_features()
    if known is None:
        if not await reign.zk.path_exists(FeatureZNode.path):
            await reign.zk.create_feature_znode(Features({}, enabled, form))
        return
    existing, _ = known
    wanted = Features(existing.features if existing.enabled and enabled else {}, enabled, form)
    if wanted != existing:
        await reign.zk.update_feature_znode(wanted)


async def _initialize_controller_context(reign: Reign) -> None:
    context = reign.context
    context.set_live_brokers(await reign.zk.get_all_brokers_in_cluster())
    context.set_all_topics(await reign.zk.get_all_topics_in_cluster(register_watch=True))
    reign.register_topic_handlers(context.all_topics)
    topics = await read_topics(reign, context.all_topics)
    await take_in_topics(reign, topics)
    for topic in topics:
        for partition, assignment in topic.assignment.items():
            if assignment.is_being_reassigned:
                context.partitions_being_reassigned[partition] = None
    await reign.register_broker_handlers(context.live_or_shutting_down_broker_ids)
    await reign.update_leader_and_isr_cache(list(context.all_partitions()))
    reign.channels.startup(context.live_or_shutting_down_brokers)
    reign.log.step(
        f"Currently active brokers in the cluster: {list(context.live_broker_ids)}, {len(context.all_topics)} topics, "
        f"{len(context.partitions_leadership_info)} partitions"
    )


async def read_topics(reign: Reign, topics: Iterable[str]) -> list[TopicIdReplicaAssignment]:
    """Assignments and ids; a topic that was deleted since its name was read is omitted."""
    known = await reign.zk.get_replica_assignment_and_topic_id_for_topics(topics)
    return [topic for topic in known.values() if topic.assignment or topic.topic_id is not None]


async def take_in_topics(reign: Reign, topics: Sequence[TopicIdReplicaAssignment]) -> None:
    """Copies ids and assignments into the context; a topic created before Kafka 2.8 gets its id now.

    While the brokers do not support ids, no topic gets one, and existing ids stay (``processTopicIds``).
    """
    context = reign.context
    ids = {topic.topic: topic.topic_id for topic in topics}
    without_id = [topic for topic in topics if topic.topic_id is None]
    if without_id and reign.metadata_version.is_topic_ids_supported:
        for topic in await reign.zk.set_topic_ids(without_id, context.epoch_zk_version):
            ids[topic.topic] = topic.topic_id
    for topic in topics:
        topic_id = ids[topic.topic]
        if topic_id is not None:
            context.add_topic_id(topic.topic, topic_id)
        for partition, assignment in topic.assignment.items():
            context.update_partition_full_replica_assignment(partition, assignment)


async def _fetch_topic_deletions_in_progress(reign: Reign) -> tuple[list[str], list[str]]:
    """Topics to be deleted, and those of them whose deletion has to wait.

    The deletion does not wait for a reassignment without a leader: no leader is elected for a topic to be deleted, so
    the reassignment never ends (Apache Kafka 3.9 waits for it, until a broker starts).
    """
    context = reign.context
    to_be_deleted = await reign.zk.get_topic_deletions()
    being_reassigned = {each.topic for each in context.partitions_being_reassigned if context.is_led(each)}
    ineligible = [
        topic
        for topic in to_be_deleted
        if topic in being_reassigned
        or any(not context.is_replica_online(r.replica, r.topic_partition) for r in context.replicas_for_topic(topic))
    ]
    return to_be_deleted, ineligible


async def begin_zk_partition_reassignment(reign: Reign) -> set[TopicPartition]:
    """Begins the reassignment in ``/admin/reassign_partitions``; the check for the znode sets its watch."""
    if not await reign.zk.register_znode_change_handler_and_check_existence(reign.partition_reassignment_handler):
        return set()
    outcomes = await reign.reassignments.trigger_by_znode()
    return {partition for partition, error in outcomes.items() if error is None}


async def process_zk_partition_reassignment(reign: Reign, _: events.ZkPartitionReassignment) -> None:
    await begin_zk_partition_reassignment(reign)
