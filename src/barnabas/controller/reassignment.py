"""Moves partitions to other brokers while they are used (``KafkaController.onPartitionReassignment``, KIP-455).

ORS is the original replica set, TRS the target, AR the replicas that are added, RR those that are removed. While it
lasts the partition's replicas are TRS and then what remains of ORS.

U. Record the new assignment: (U1) in ZooKeeper, (U2) in memory; (U3) a reassignment that this one replaces may have
   added replicas that are not wanted any more: they are stopped and deleted at once.
A. While TRS is not within the ISR: (A1) LeaderAndIsr in a new leader epoch to ORS and AR, (A2) AR become NewReplica.
B. When TRS is within the ISR: (B1) AR become OnlineReplica; (B2) memory has TRS alone; (B3) a leader within TRS, or
   the same leader in a new epoch that knows the smaller assignment; (B4, B5) RR leave the ISR and are deleted; (B6)
   ZooKeeper has TRS alone; (B7) the legacy znode loses the partition; (B8) UpdateMetadata to all brokers. A deletion
   that waited for this goes on.

A cancelled reassignment is one to ORS, which is within the ISR: it ends at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas.controller.batch import ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.election_plan import (
    OfflinePartitionLeaderElectionStrategy,
    ReassignPartitionLeaderElectionStrategy,
)
from barnabas.controller.partition_state_machine import PartitionStateMachine, StateChangeFailed
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.state_change_log import StateChangeLog, described
from barnabas.controller.states import PartitionAndReplica, PartitionState, ReplicaState
from barnabas.controller.topic_deletion import TopicDeletionManager
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.runtime.turns import SLICE
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReassignPartitionsZNode, ReplicaAssignment

logger = logging.getLogger(__name__)


def validate_replicas(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int]
) -> KafkaError | None:
    """Why `partition` cannot be moved to `target`, None if it can."""

    def invalid(why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)

    def told(replicas: Iterable[int]) -> str:
        """As Scala prints them."""
        return ", ".join(map(str, replicas))

    if not target:
        return invalid("Empty replica list specified in partition reassignment.")
    if len(dict.fromkeys(target)) != len(target):
        return invalid(f"Duplicate replica ids in partition reassignment replica list: ArrayBuffer({told(target)})")
    if any(replica < 0 for replica in target):
        return invalid(f"Invalid broker id in replica list: ArrayBuffer({told(target)})")
    adding = context.partition_full_replica_assignment(partition).reassign_to(tuple(target)).adding_replicas
    if not all(context.is_live_broker(replica) for replica in adding):
        return invalid(
            "Replica assignment has brokers that are not alive. "
            f"Replica list: ArrayBuffer({told(adding)}), live broker list: Set({told(context.live_broker_ids)})"
        )
    return None


def validate_isr_stays(
    context: ControllerContext, partition: TopicPartition, reassignment: ReplicaAssignment
) -> KafkaError | None:
    """Why this move of `partition` would leave its last in-sync replica behind; None if it would not.

    A reassignment that replaces or cancels another may drop all replicas that the other had added, and only these may
    be in sync. Apache Kafka's controller drops them in ZooKeeper mode, and with them committed records; in KRaft mode
    it refuses such a cancellation (``PartitionReassignmentRevert``).
    """
    leadership = context.partition_leadership_info(partition)
    if leadership is None or any(replica in reassignment.replicas for replica in leadership.leader_and_isr.isr):
        return None
    return KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"Of the replicas {list(reassignment.replicas)} none is in sync, and the in-sync replicas "
        f"{list(leadership.leader_and_isr.isr)} of partition {partition} would be dropped.",
    )


def build_reassignment(
    context: ControllerContext, partition: TopicPartition, target: tuple[int, ...] | None
) -> ReplicaAssignment | None:
    """The assignment during the move to `target`; None cancels, and returns None if no reassignment is in progress."""
    assignment = context.partition_full_replica_assignment(partition)
    if target is None:
        return assignment.reassign_to(assignment.origin_replicas) if assignment.is_being_reassigned else None
    return assignment.reassign_to(target)


class Reassignments:
    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZkClient,
        partition_state_machine: PartitionStateMachine,
        replica_state_machine: ReplicaStateMachine,
        topic_deletion: TopicDeletionManager,
        batch: ControllerBrokerRequestBatch,
        log: StateChangeLog,
        *,
        zk_reassignment_gone: Callable[[], None],
        isr_may_change: Callable[[TopicPartition], None],
        isr_may_not_change: Callable[[TopicPartition], None],
    ) -> None:
        self._context = context
        self._zk = zk
        self._partitions = partition_state_machine
        self._replicas = replica_state_machine
        self._deletion = topic_deletion
        self._batch = batch
        self._log = log
        self._zk_reassignment_gone = zk_reassignment_gone
        self._isr_may_change = isr_may_change
        self._isr_may_not_change = isr_may_not_change

    async def trigger_by_znode(self) -> dict[TopicPartition, KafkaError | None]:
        """Begins all reassignments in ``/admin/reassign_partitions``; those that cannot begin leave the znode."""
        built: dict[TopicPartition, ReplicaAssignment] = {}
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for partition, target in sorted((await self._zk.get_partition_reassignment()).items()):
            refused = validate_replicas(self._context, partition, target) if not target else None
            reassignment = build_reassignment(self._context, partition, tuple(target))
            if refused is not None:
                outcomes[partition] = refused
            elif reassignment is not None:
                built[partition] = reassignment
        outcomes.update(await self._trigger(built))
        failed = {partition for partition, error in outcomes.items() if error is not None}
        if failed:
            logger.warning("reassignments from the znode that failed: %s", sorted(failed))
            await self._maybe_remove_from_zk_reassignment(lambda partition, _: partition in failed)
        return outcomes

    async def trigger_by_api(
        self, reassignments: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """AlterPartitionReassignments: the newest request wins, also over one in the legacy znode."""
        built: dict[TopicPartition, ReplicaAssignment] = {}
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for number, (partition, target) in enumerate(reassignments.items(), 1):
            if not number % SLICE:
                await asyncio.sleep(0)
            refused = None if target is None else validate_replicas(self._context, partition, target)
            if refused is not None:
                outcomes[partition] = refused
                continue
            reassignment = build_reassignment(self._context, partition, target)
            if reassignment is None:
                outcomes[partition] = KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            else:
                built[partition] = reassignment
        await self._maybe_remove_from_zk_reassignment(lambda partition, _: partition in built)
        outcomes.update(await self._trigger(built))
        return outcomes

    async def _trigger(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, KafkaError | None]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for number, (partition, reassignment) in enumerate(reassignments.items(), 1):
            if not number % SLICE:
                await asyncio.sleep(0)
            deleted = self._deletion.is_topic_queued_up_for_deletion(partition.topic)
            if deleted or not self._context.partition_replica_assignment(partition):
                outcomes[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
                continue
            refused = validate_isr_stays(self._context, partition, reassignment)
            if refused is not None:
                outcomes[partition] = refused
                continue
            went_on = await self._go_on(partition, reassignment)
            outcomes[partition] = None if went_on else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return outcomes

    async def _go_on(self, partition: TopicPartition, reassignment: ReplicaAssignment) -> bool:
        """Continues it; False if the partition's state does not allow it now, as when it never had a leader."""
        try:
            await self.on_partition_reassignment(partition, reassignment)
        except StateChangeFailed as error:
            self._log.error(f"The reassignment of {partition} to {reassignment} does not go on: {error}")
            return False
        return True

    async def maybe_resume_reassignments(
        self, should_resume: Callable[[TopicPartition, ReplicaAssignment], bool]
    ) -> None:
        """Continues those that `should_resume` names, except of topics whose deletion has begun.

        Apache Kafka 3.9 continues these as well (``onBrokerStartup``), and so recreates replicas that were already
        deleted. The topic is gone a little later and its replicas stay; their broker then refuses a later topic of that
        name, since it has another id.
        """
        context = self._context
        for partition in list(context.partitions_being_reassigned):
            assignment = context.partition_full_replica_assignment(partition)
            if not context.is_topic_deletion_in_progress(partition.topic) and should_resume(partition, assignment):
                await self._go_on(partition, assignment)

    async def maybe_complete_reassignment(self, partition: TopicPartition) -> None:
        """Completes the reassignment of `partition`, whose ISR changed, if all target replicas are now in it."""
        context = self._context
        if partition not in context.partitions_being_reassigned or context.is_topic_deletion_in_progress(
            partition.topic
        ):
            return
        reassignment = self._context.partition_full_replica_assignment(partition)
        if await self._is_reassignment_complete(partition, reassignment):
            await self._go_on(partition, reassignment)

    def list(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        context = self._context
        listed = context.partitions_being_reassigned if partitions is None else partitions
        assignments = {partition: context.partition_full_replica_assignment(partition) for partition in listed}
        return {
            partition: assignment for partition, assignment in assignments.items() if assignment.is_being_reassigned
        }

    async def on_partition_reassignment(self, partition: TopicPartition, reassignment: ReplicaAssignment) -> None:
        context = self._context
        if context.is_led(partition):
            self._deletion.mark_topic_ineligible_for_deletion((partition.topic,), "topic reassignment in progress")
        await self._update_current_reassignment(partition, reassignment)
        deleted = self._deletion.is_topic_queued_up_for_deletion(partition.topic)
        if context.partition_leadership_info(partition) is None and not deleted:
            await self._elect_the_first_leader(partition, reassignment.adding_replicas)
        if not await self._is_reassignment_complete(partition, reassignment):
            await self._update_leader_epoch_and_send_request(partition, reassignment, reassignment.replicas)  # A1
            adding = self._new(partition, reassignment.adding_replicas)
            await self._replicas.handle_state_changes(adding, ReplicaState.NewReplica)  # A2
            return
        await self._replicas.handle_state_changes(  # B1
            _replicas(partition, reassignment.adding_replicas), ReplicaState.OnlineReplica
        )
        completed = ReplicaAssignment(reassignment.target_replicas)
        context.update_partition_full_replica_assignment(partition, completed)  # B2
        if not await self._move_reassigned_partition_leader_if_required(partition, reassignment, completed):  # B3
            context.update_partition_full_replica_assignment(partition, reassignment)
            return
        await self._stop_removed_replicas(partition, reassignment.removing_replicas)  # B4, B5
        await self._update_replica_assignment_for_partition(partition, completed)  # B6
        await self._remove_partition_from_reassigning_partitions(partition, completed)  # B7
        self._batch.new_batch()  # B8
        self._batch.add_update_metadata_request_for_brokers(context.live_or_shutting_down_broker_ids, (partition,))
        self._batch.send_requests_to_brokers(context.epoch)
        await self._deletion.resume_deletion_for_topics((partition.topic,))

    def _new(self, partition: TopicPartition, adding: Sequence[int]) -> Sequence[PartitionAndReplica]:
        """The added replicas that do not exist yet. If the reassignment is resumed, by another controller or for a
        returned broker, they exist (Apache's controller tries all the same, and logs for each an ERROR that it does not
        become new)."""
        replicas = _replicas(partition, adding)
        return [r for r in replicas if self._context.replica_state(r) is ReplicaState.NonExistentReplica]

    async def _update_current_reassignment(self, partition: TopicPartition, reassignment: ReplicaAssignment) -> None:
        context = self._context
        current = context.partition_full_replica_assignment(partition)
        if current != reassignment:
            await self._update_replica_assignment_for_partition(partition, reassignment)  # U1
            context.update_partition_full_replica_assignment(partition, reassignment)  # U2
            unneeded = [replica for replica in current.replicas if replica not in reassignment.replicas]
            await self._stop_removed_replicas(partition, unneeded)  # U3
            if unneeded and context.current_leader(partition) == NO_BROKER:
                # The reassignment that this one replaces added the leader. Apache's controller leaves the partition
                # without a leader, and the newly added replicas out of its ISR, until another failover.
                await self._partitions.handle_state_changes([partition], PartitionState.OfflinePartition)
                await self._partitions.handle_state_changes(
                    [partition], PartitionState.OnlinePartition, OfflinePartitionLeaderElectionStrategy()
                )
        self._isr_may_change(partition)
        context.partitions_being_reassigned[partition] = None

    async def _elect_the_first_leader(self, partition: TopicPartition, adding: Sequence[int]) -> None:
        """The partition never had a leader: its brokers were down when it was created; the added ones may be up.

        Apache's controller fails here (UNKNOWN_SERVER_ERROR), after it has written the assignment.
        """
        await self._replicas.handle_state_changes(self._new(partition, adding), ReplicaState.NewReplica)
        await self._partitions.handle_state_changes([partition], PartitionState.OnlinePartition)

    async def _is_reassignment_complete(self, partition: TopicPartition, reassignment: ReplicaAssignment) -> bool:
        if not reassignment.is_being_reassigned:
            return True
        leadership = (await self._zk.get_topic_partition_states([partition])).get(partition)
        if leadership is None:
            return False
        return all(replica in leadership.leader_and_isr.isr for replica in reassignment.target_replicas)

    async def _move_reassigned_partition_leader_if_required(
        self, partition: TopicPartition, reassignment: ReplicaAssignment, completed: ReplicaAssignment
    ) -> bool:
        """Whether one of the remaining replicas leads now.

        The ISR may meanwhile have shrunk to replicas to be removed. Apache's controller then goes on, and has the only
        replica with the committed records deleted. Here the reassignment waits for the next change of the ISR.
        """
        leader = self._context.current_leader(partition)
        if leader is None:
            return True  # it never had a leader, so there is none to tell
        if leader in completed.replicas and self._context.is_replica_online(leader, partition):
            await self._update_leader_epoch_and_send_request(partition, completed, reassignment.replicas)
        else:
            await self._partitions.handle_state_changes(
                [partition], PartitionState.OnlinePartition, ReassignPartitionLeaderElectionStrategy()
            )
        return self._context.current_leader(partition) in completed.replicas

    async def _stop_removed_replicas(self, partition: TopicPartition, removed: Sequence[int]) -> None:
        """Takes replicas out of the ISR, then has them deleted; does not wait for the brokers' answers."""
        replicas = _replicas(partition, removed)
        for state in (
            ReplicaState.OfflineReplica,
            ReplicaState.ReplicaDeletionStarted,
            ReplicaState.ReplicaDeletionSuccessful,
            ReplicaState.NonExistentReplica,
        ):
            await self._replicas.handle_state_changes(replicas, state)

    async def _update_replica_assignment_for_partition(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        # This changes ZooKeeper's present assignment rather than this controller's copy: another controller may have
        # added partitions a moment ago. Apache Kafka writes its copy, and loses those.
        await self._zk.change_topic_assignment(
            partition.topic, lambda known: {**known, partition: assignment}, self._context.epoch_zk_version
        )
        logger.info("the assignment of %s is now %s", partition, assignment)

    async def _update_leader_epoch_and_send_request(
        self, partition: TopicPartition, assignment: ReplicaAssignment, replicas: Sequence[int]
    ) -> None:
        leadership = await self._update_leader_epoch(partition, replicas)
        self._batch.new_batch()
        # A replica may lie in an offline log directory: with `is_new` its broker recreates it in a good one. That is
        # right for added replicas, and would lose data for the original ones.
        self._batch.add_leader_and_isr_request_for_brokers(
            assignment.origin_replicas, partition, leadership, assignment, is_new=False
        )
        self._batch.add_leader_and_isr_request_for_brokers(
            assignment.adding_replicas, partition, leadership, assignment, is_new=True
        )
        self._batch.send_requests_to_brokers(self._context.epoch)
        self._log.info(f"Told {described(leadership.leader_and_isr)} and {assignment} of {partition}, being reassigned")

    async def _update_leader_epoch(
        self, partition: TopicPartition, replicas: Sequence[int]
    ) -> LeaderIsrAndControllerEpoch:
        """Writes a new leader epoch, so that the leader applies another assignment; only `replicas` stay in its ISR.

        Below inter.broker.protocol.version 2.7 a leader writes its ISR by itself. Between the write that removes a
        replica and this one it may add the replica again, by its old assignment; then the replica would stay until it
        lags, and nothing would be committed before that.
        """
        context = self._context
        while True:
            current = (await self._zk.get_topic_partition_states([partition])).get(partition)
            if current is None:
                raise StateChangeFailed(f"{partition} has no leader and ISR in ZooKeeper: does it exist?")
            if current.controller_epoch > context.epoch:
                raise StateChangeFailed(
                    f"the state of {partition} was written by a controller of epoch {current.controller_epoch}"
                )
            state = current.leader_and_isr
            # A leaderless partition always keeps its last in-sync replica: only that has the committed records.
            isr = tuple(member for member in state.isr if member in replicas) or state.isr
            updated = await self._zk.update_leader_and_isr(
                {partition: state.with_leader(state.leader, isr)}, context.epoch, context.epoch_zk_version
            )
            outcome = updated.finished.get(partition)
            if outcome is None:
                continue  # its leader wrote it meanwhile
            if not isinstance(outcome, LeaderAndIsr):
                raise outcome
            leadership = LeaderIsrAndControllerEpoch(outcome, context.epoch)
            context.put_partition_leadership_info(partition, leadership)
            return leadership

    async def _remove_partition_from_reassigning_partitions(
        self, partition: TopicPartition, completed: ReplicaAssignment
    ) -> None:
        assert partition in self._context.partitions_being_reassigned
        self._isr_may_not_change(partition)
        await self._maybe_remove_from_zk_reassignment(
            lambda other, replicas: other == partition and tuple(replicas) == completed.replicas
        )
        self._context.partitions_being_reassigned.pop(partition)

    async def forget_topic(self, topic: str) -> None:
        """Takes a topic that is deleted during its reassignment out of ``/admin/reassign_partitions``.

        Apache Kafka's controller leaves it there, and the next controller moves a later topic of that name.
        """
        if any(partition.topic == topic for partition in self._context.partitions_being_reassigned):
            await self._maybe_remove_from_zk_reassignment(lambda partition, _: partition.topic == topic)

    async def _maybe_remove_from_zk_reassignment(
        self, should_remove: Callable[[TopicPartition, Sequence[int]], bool]
    ) -> None:
        """Takes partitions out of ``/admin/reassign_partitions``; the last one deletes the znode."""
        if not await self._zk.path_exists(ReassignPartitionsZNode.path):
            return
        reassigning = await self._zk.get_partition_reassignment()
        remaining = {
            partition: target for partition, target in reassigning.items() if not should_remove(partition, target)
        }
        if not remaining:
            await self._zk.delete_partition_reassignment(self._context.epoch_zk_version)
            self._zk_reassignment_gone()
        elif len(remaining) != len(reassigning):
            await self._zk.set_or_create_partition_reassignment(remaining, self._context.epoch_zk_version)


def _replicas(partition: TopicPartition, replicas: Iterable[int]) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(partition, replica) for replica in replicas]
