"""Handles changes of brokers: they start, die, restart, shut down, change their listeners or lose a log directory."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.controller import events
from barnabas.controller.election_plan import ControlledShutdownPartitionLeaderElectionStrategy
from barnabas.controller.reign import Reign
from barnabas.controller.states import PartitionAndReplica, PartitionState, ReplicaState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr


def _named(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids)) or "none"


async def process_broker_change(reign: Reign, _: events.BrokerChange) -> None:
    """Processes brokers that came, went, or went and came back between two reads (their epoch grew)."""
    context = reign.context
    live = await reign.zk.get_all_brokers_in_cluster(context.live_or_shutting_down_brokers)
    current = {broker.broker_id: broker for broker in live}
    known = context.live_or_shutting_down_broker_ids
    new = sorted(broker_id for broker_id in current if broker_id not in known)
    dead = sorted(broker_id for broker_id in known if broker_id not in current)
    bounced = sorted(
        broker_id
        for broker_id in known
        if broker_id in current and current[broker_id].epoch > (context.broker_epoch(broker_id) or 0)
    )
    reign.log.step(f"Broker change listener fired for path /brokers/ids with children {_named(sorted(current))}")
    reign.log.step(
        f"Newly added brokers: {_named(new)}, deleted brokers: {_named(dead)}, bounced brokers: {_named(bounced)}, "
        f"all live brokers: {_named(sorted(current))}"
    )
    for broker_id in new:
        reign.channels.add_broker(current[broker_id])
    for broker_id in bounced:
        reign.channels.remove_broker(broker_id)
        reign.channels.add_broker(current[broker_id])
    for broker_id in dead:
        reign.channels.remove_broker(broker_id)
    if new:
        context.add_live_brokers(current[broker_id] for broker_id in new)
        await on_broker_startup(reign, new)
    if bounced:
        context.remove_live_brokers(bounced)
        await on_broker_failure(reign, bounced)
        context.add_live_brokers(current[broker_id] for broker_id in bounced)
        await on_broker_startup(reign, bounced)
    if dead:
        context.remove_live_brokers(dead)
        await on_broker_failure(reign, dead)


async def on_broker_startup(reign: Reign, new_brokers: Sequence[int]) -> None:
    context = reign.context
    reign.log.step(f"New broker startup callback for {_named(new_brokers)}")
    for broker_id in new_brokers:
        context.replicas_on_offline_dirs.pop(broker_id, None)
    existing = [broker_id for broker_id in context.live_or_shutting_down_broker_ids if broker_id not in new_brokers]
    # The old brokers learn of the new; the new learn everything, also deletions in progress: one whose session ended
    # may still know these topics. Apache omits topics queued for deletion; such a broker knows them forever.
    reign.send_update_metadata_request(existing, ())
    reign.send_update_metadata_request(new_brokers, context.partitions_leadership_info)
    replicas = context.replicas_on_brokers(new_brokers)
    await reign.replicas.handle_state_changes(replicas, ReplicaState.OnlineReplica)
    await reign.partitions.trigger_online_partition_state_change()
    await reign.reassignments.maybe_resume_reassignments(
        lambda _, assignment: any(replica in new_brokers for replica in assignment.target_replicas)
    )
    for_deletion = [r for r in replicas if reign.topic_deletion.is_topic_queued_up_for_deletion(r.topic)]
    if for_deletion:
        reign.log.step(
            f"Some replicas {', '.join(map(str, for_deletion))} for topics scheduled for deletion "
            f"{', '.join(context.topics_to_be_deleted)} are on the newly restarted brokers {_named(new_brokers)}. "
            "Signaling restart of topic deletion for these topics"
        )
        await reign.topic_deletion.resume_deletion_for_topics(replica.topic for replica in for_deletion)
    await reign.register_broker_handlers(new_brokers)


async def on_broker_failure(reign: Reign, dead_brokers: Sequence[int]) -> None:
    context = reign.context
    reign.log.step(f"Broker failure callback for {_named(dead_brokers)}")
    shut_down = [broker_id for broker_id in dead_brokers if broker_id in context.shutting_down_broker_ids]
    if shut_down:
        reign.log.step(f"Removed {_named(shut_down)} from list of shutting down brokers.")
    for broker_id in dead_brokers:
        context.replicas_on_offline_dirs.pop(broker_id, None)
        context.shutting_down_broker_ids.pop(broker_id, None)
    await on_replicas_become_offline(reign, context.replicas_on_brokers(dead_brokers))
    for broker_id in dead_brokers:
        reign.unregister_broker_handler(broker_id)


async def on_replicas_become_offline(reign: Reign, offline: Sequence[PartitionAndReplica]) -> None:
    """Elects new leaders where these lead, then takes them out of the ISRs; the deletion of their topics halts."""
    context = reign.context
    for_deletion = [r for r in offline if reign.topic_deletion.is_topic_queued_up_for_deletion(r.topic)]
    not_for_deletion = [r for r in offline if not reign.topic_deletion.is_topic_queued_up_for_deletion(r.topic)]
    await reign.partitions.handle_state_changes(
        context.partitions_with_offline_leader(), PartitionState.OfflinePartition
    )
    elections = await reign.partitions.trigger_online_partition_state_change()
    await reign.replicas.handle_state_changes(not_for_deletion, ReplicaState.OfflineReplica)
    await reign.topic_deletion.fail_replica_deletion(for_deletion)
    elected = any(isinstance(outcome, LeaderAndIsr) for outcome in elections.values())
    if not not_for_deletion and not elected:
        # No other request tells the brokers which are gone.
        reign.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())


async def process_broker_modification(reign: Reign, event: events.BrokerModifications) -> None:
    context = reign.context
    registered = await reign.zk.get_broker(event.broker_id)
    known = context.live_or_shutting_down_broker(event.broker_id)
    if registered is None or known is None or registered.endpoints == known.endpoints:
        return
    if registered.epoch != known.epoch:
        return  # a later registration of that broker: BrokerChange follows
    context.update_broker_metadata(registered)
    reign.channels.update_broker(registered)
    reign.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())


async def process_log_dir_event_notification(reign: Reign, _: events.LogDirEventNotification) -> None:
    """Asks brokers with a failed log directory, by LeaderAndIsr, which replicas they lost."""
    epoch_zk_version = reign.context.epoch_zk_version
    sequence_numbers = await reign.zk.get_all_log_dir_event_notifications()
    named = await reign.zk.get_broker_ids_from_log_dir_events(sequence_numbers)
    broker_ids = [broker_id for broker_id in sorted(set(named)) if reign.context.is_live_broker(broker_id)]
    reign.log.step(f"Handling log directory failure for brokers {_named(broker_ids)}")
    await reign.replicas.handle_state_changes(reign.context.replicas_on_brokers(broker_ids), ReplicaState.OnlineReplica)
    await reign.zk.delete_log_dir_event_notifications(epoch_zk_version, sequence_numbers)


async def process_controlled_shutdown(reign: Reign, event: events.ControlledShutdown) -> list[TopicPartition]:
    context = reign.context
    registered_epoch = context.broker_epoch(event.broker_id)
    if registered_epoch is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {event.broker_id} does not exist.")
    if event.broker_epoch != -1 and event.broker_epoch < registered_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Received controlled shutdown request from an old broker epoch {event.broker_epoch} for broker "
            f"{event.broker_id}. Current broker epoch is {registered_epoch}.",
        )
    reign.log.step(f"Shutting down broker {event.broker_id}")
    context.shutting_down_broker_ids[event.broker_id] = None
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in context.partitions_on_broker(event.broker_id):
        leader = context.current_leader(partition)
        if (
            leader is None
            or len(context.partition_replica_assignment(partition)) < 2
            or reign.topic_deletion.is_topic_queued_up_for_deletion(partition.topic)
        ):
            continue
        (led if leader == event.broker_id else followed).append(partition)
    await reign.partitions.handle_state_changes(
        led, PartitionState.OnlinePartition, ControlledShutdownPartitionLeaderElectionStrategy()
    )
    reign.batch.new_batch()
    for partition in followed:
        reign.batch.add_stop_replica_request_for_brokers((event.broker_id,), partition, delete_partition=False)
    reign.batch.send_requests_to_brokers(context.epoch)
    followers = [PartitionAndReplica(partition, event.broker_id) for partition in followed]
    await reign.replicas.handle_state_changes(followers, ReplicaState.OfflineReplica)
    if any(context.replica_state(replica) is not ReplicaState.OfflineReplica for replica in followers):
        # ZooKeeper refused the write: this reign is over, or about to be. (Apache answers success; then the broker
        # leaves as a member of ISRs, and its leaders wait for it until the next controller has come.)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"Broker {event.broker_id} could not be taken out of the ISR.")
    return context.partition_leaders_on_broker(event.broker_id)
