"""Elections on request: of an operator, of the legacy znode, or of the controller itself to balance leaders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from barnabas.controller import events
from barnabas.controller.context import ControllerContext
from barnabas.controller.election import ElectionTrigger, preferred_replica_partition_leader_election
from barnabas.controller.election_plan import (
    OfflinePartitionLeaderElectionStrategy,
    PartitionLeaderElectionStrategy,
    PreferredReplicaPartitionLeaderElectionStrategy,
)
from barnabas.controller.partition_state_machine import ElectionOutcome, PartitionStateMachine
from barnabas.controller.reign import Reign
from barnabas.controller.states import PartitionState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import ElectionType, LeaderAndIsr
from barnabas.runtime.turns import SLICE

logger = logging.getLogger(__name__)


async def on_replica_election(
    partition_state_machine: PartitionStateMachine,
    partitions: Sequence[TopicPartition],
    election_type: ElectionType,
    trigger: ElectionTrigger,
) -> dict[TopicPartition, ElectionOutcome]:
    """Elects leaders; unclean ones only at an operator's request, never for a znode or the balance."""
    strategy: PartitionLeaderElectionStrategy
    if election_type is ElectionType.PREFERRED:
        strategy = PreferredReplicaPartitionLeaderElectionStrategy()
    else:
        strategy = OfflinePartitionLeaderElectionStrategy(
            allow_unclean=trigger is ElectionTrigger.ADMIN_CLIENT_TRIGGERED
        )
    if partitions:
        logger.info("%s election of %d partitions, by %s", election_type.name, len(partitions), trigger.value)
    return await partition_state_machine.handle_state_changes(partitions, PartitionState.OnlinePartition, strategy)


async def elect_leaders(
    context: ControllerContext,
    partition_state_machine: PartitionStateMachine,
    partitions: Iterable[TopicPartition],
    election_type: ElectionType,
    trigger: ElectionTrigger,
) -> dict[TopicPartition, int | KafkaError]:
    """Each partition's leader, or why none was elected."""
    outcomes: dict[TopicPartition, int | KafkaError] = {}
    electable: list[TopicPartition] = []
    for number, partition in enumerate(partitions, 1):
        if not number % SLICE:
            await asyncio.sleep(0)
        if not context.has_partition(partition):
            outcomes[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif context.is_topic_queued_up_for_deletion(partition.topic):
            outcomes[partition] = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        elif not _needs_election(context, partition, election_type):
            outcomes[partition] = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            electable.append(partition)
    elected = await on_replica_election(partition_state_machine, electable, election_type, trigger)
    not_available = (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if election_type is ElectionType.PREFERRED
        else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    )
    for partition in electable:
        outcome = elected.get(partition)
        leader = context.current_leader(partition)
        if isinstance(outcome, LeaderAndIsr):
            outcomes[partition] = outcome.leader
        elif outcome is None and leader is not None:
            outcomes[partition] = leader  # a new partition, which got its first leader
        else:
            outcomes[partition] = KafkaError(not_available, None if outcome is None else str(outcome))
    return outcomes


def _needs_election(context: ControllerContext, partition: TopicPartition, election_type: ElectionType) -> bool:
    leader = context.current_leader(partition)
    if election_type is ElectionType.PREFERRED:
        return leader is not None and context.partition_replica_assignment(partition)[:1] != (leader,)
    return leader is None or leader not in context.live_or_shutting_down_broker_ids


def imbalanced_partitions(context: ControllerContext, percentage: int) -> list[TopicPartition]:
    """Partitions to return to their preferred leaders, which lead too few of the partitions that they should lead.

    A broker counts when other brokers lead more than `percentage` of its partitions (``leader.imbalance.*``).
    """
    preferred: dict[int, list[TopicPartition]] = {}
    for partition in context.all_partitions():
        assignment = context.partition_replica_assignment(partition)
        if assignment and not context.is_topic_queued_up_for_deletion(partition.topic):
            preferred.setdefault(assignment[0], []).append(partition)
    candidates: list[TopicPartition] = []
    for broker_id, partitions in sorted(preferred.items()):
        led_by_others = [tp for tp in partitions if context.current_leader(tp) not in (None, broker_id)]
        if len(led_by_others) * 100 > percentage * len(partitions):
            candidates += [tp for tp in led_by_others if _can_preferred_replica_be_leader(context, tp)]
    return candidates


def _can_preferred_replica_be_leader(context: ControllerContext, partition: TopicPartition) -> bool:
    leadership = context.partition_leadership_info(partition)
    assert leadership is not None
    assignment = context.partition_replica_assignment(partition)
    live = context.online_replicas(assignment, partition)
    return preferred_replica_partition_leader_election(assignment, leadership.leader_and_isr.isr, live) is not None


async def process_replica_leader_election(
    reign: Reign, event: events.ReplicaLeaderElection
) -> dict[TopicPartition, int | KafkaError]:
    partitions = reign.context.partitions_with_leaders() if event.partitions is None else event.partitions
    trigger = ElectionTrigger.ADMIN_CLIENT_TRIGGERED
    outcomes = await elect_leaders(reign.context, reign.partitions, list(partitions), event.election_type, trigger)
    if event.partitions is not None:
        return outcomes
    return {
        partition: outcome
        for partition, outcome in outcomes.items()
        if not (isinstance(outcome, KafkaError) and outcome.code is ErrorCode.ELECTION_NOT_NEEDED)
    }


async def process_zk_replica_leader_election(reign: Reign, _: events.ZkReplicaLeaderElection) -> None:
    await elect_by_znode(reign)


async def elect_by_znode(reign: Reign) -> None:
    """Processes ``/admin/preferred_replica_election`` and deletes it; the check for it sets its watch."""
    while await reign.zk.register_znode_change_handler_and_check_existence(reign.preferred_replica_election_handler):
        partitions = await reign.zk.get_preferred_replica_election()
        await elect_leaders(
            reign.context, reign.partitions, sorted(partitions), ElectionType.PREFERRED, ElectionTrigger.ZK_TRIGGERED
        )
        await reign.zk.delete_preferred_replica_election(reign.context.epoch_zk_version)


async def process_auto_preferred_replica_leader_election(
    reign: Reign, _: events.AutoPreferredReplicaLeaderElection
) -> None:
    percentage = reign.config().number("leader.imbalance.per.broker.percentage")
    candidates = imbalanced_partitions(reign.context, percentage)
    await on_replica_election(reign.partitions, candidates, ElectionType.PREFERRED, ElectionTrigger.AUTO_TRIGGERED)
    interval_ms = 1000 * reign.config().number("leader.imbalance.check.interval.seconds")
    reign.schedule(events.AutoPreferredReplicaLeaderElection(), interval_ms)
