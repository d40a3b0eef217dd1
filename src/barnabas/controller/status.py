"""A controller's state for status pages and metrics: plain values, Kafka's names (``kafka.controller:type=…``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.controller.states import PartitionAndReplica, ReplicaState

if TYPE_CHECKING:
    from barnabas.controller.controller import KafkaController
    from barnabas.controller.reign import Reign


def controller_status(controller: KafkaController) -> dict[str, Any]:
    queue = controller.event_manager.status()
    return {
        "broker_id": controller.broker_id,
        "active_controller_id": controller.active_controller_id,
        "active": controller.is_active,
        "epoch": controller.epoch,
        "queue": {
            "state": str(queue.state),
            "event": queue.event,
            "event_ms": queue.event_ms,
            "size": queue.queue_size,
            "oldest_ms": queue.oldest_ms,
            "waiting": list(queue.waiting),
        },
        "events": {
            str(state): {
                "count": figures.count,
                "total_ms": figures.total_ms,
                "max_ms": figures.max_ms,
                "queue_total_ms": figures.queue_total_ms,
                "queue_max_ms": figures.queue_max_ms,
            }
            for state, figures in controller.event_manager.figures.items()
            if figures.count
        },
        "reign": None if controller.reign is None else reign_status(controller.reign),
    }


def reign_status(reign: Reign) -> dict[str, Any]:
    """Figures only; `partition_status` has the partitions, which may be many."""
    context = reign.context
    queued = [replica for topic in context.topics_to_be_deleted for replica in context.replicas_for_topic(topic)]
    states = [context.replica_state(replica) for replica in queued]
    return {
        "live_brokers": {str(broker.broker_id): broker.epoch for broker in context.live_or_shutting_down_brokers},
        "shutting_down_brokers": list(context.shutting_down_broker_ids),
        "topics": len(context.all_topics),
        "partitions": len(context.partitions_leadership_info),
        "offline_partitions": context.offline_partition_count(),
        "preferred_replica_imbalance": context.preferred_replica_imbalance_count(),
        "unclean_leader_elections": reign.partitions.unclean_leader_elections,
        "partitions_being_reassigned": [str(partition) for partition in context.partitions_being_reassigned],
        "topics_to_be_deleted": list(context.topics_to_be_deleted),
        "topics_ineligible_for_deletion": list(context.topics_ineligible_for_deletion),
        "replicas_to_be_deleted": sum(state is not ReplicaState.ReplicaDeletionSuccessful for state in states),
        "replicas_ineligible_for_deletion": sum(state is ReplicaState.ReplicaDeletionIneligible for state in states),
        "channels": {str(broker_id): size for broker_id, size in reign.channels.queue_sizes().items()},
    }


def partition_status(reign: Reign, topic: str) -> list[dict[str, Any]]:
    """Every partition of `topic` with its state, its leadership and the state of each replica."""
    context = reign.context
    listed = []
    for partition in context.partitions_for_topic(topic):
        assignment = context.partition_full_replica_assignment(partition)
        leadership = context.partition_leadership_info(partition)
        leader_and_isr = None if leadership is None else leadership.leader_and_isr
        listed.append(
            {
                "topic": topic,
                "partition": partition.partition,
                "state": str(context.partition_state(partition)),
                "leader": None if leader_and_isr is None else leader_and_isr.leader,
                "leader_epoch": None if leader_and_isr is None else leader_and_isr.leader_epoch,
                "isr": [] if leader_and_isr is None else list(leader_and_isr.isr),
                "partition_epoch": None if leader_and_isr is None else leader_and_isr.partition_epoch,
                "adding_replicas": list(assignment.adding_replicas),
                "removing_replicas": list(assignment.removing_replicas),
                "replicas": {
                    str(replica): str(context.replica_state(PartitionAndReplica(partition, replica)))
                    for replica in assignment.replicas
                },
            }
        )
    return listed
