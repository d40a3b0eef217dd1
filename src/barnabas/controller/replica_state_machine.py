"""Moves replicas between their states (``ZkReplicaStateMachine``); `states` has the table.

NonExistent -> New: LeaderAndIsr to the replica, which may only follow.
New -> Online: only the mark. Online, Offline, DeletionIneligible -> Online: LeaderAndIsr to the replica.
New, Online, Offline, DeletionIneligible -> Offline: StopReplica without deletion to the replica; it leaves the ISR (the
last member stays), and LeaderAndIsr with the shrunken ISR goes to the others.
Offline -> DeletionStarted: StopReplica with deletion. DeletionStarted -> DeletionSuccessful or DeletionIneligible: as
the broker answered. DeletionSuccessful -> NonExistent: it leaves the assignment in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.controller.batch import ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.partition_state_machine import StateChangeFailed
from barnabas.controller.state_change_log import StateChangeLog, described
from barnabas.controller.states import VALID_PREVIOUS_REPLICA_STATES, PartitionAndReplica, ReplicaState
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


def without_replica(leader_and_isr: LeaderAndIsr, replica: int) -> LeaderAndIsr:
    """The partition's state without `replica` in the ISR: leaderless if it led; the ISR's last member stays."""
    leader = NO_BROKER if leader_and_isr.leader == replica else leader_and_isr.leader
    isr = leader_and_isr.isr
    shrunken = isr if len(isr) == 1 else tuple(member for member in isr if member != replica)
    return leader_and_isr.with_leader(leader, shrunken)


class ReplicaStateMachine:
    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZkClient,
        batch: ControllerBrokerRequestBatch,
        log: StateChangeLog,
    ) -> None:
        self._context = context
        self._zk = zk
        self._batch = batch
        self._log = log

    async def startup(self) -> None:
        """At a failover: replicas of live brokers go online, all others offline and out of their ISRs."""
        context = self._context
        online, offline = context.online_and_offline_replicas()
        for replica in online:
            context.put_replica_state(replica, ReplicaState.OnlineReplica)
        for replica in offline:
            # If its topic is being deleted, the deletion cannot go on before the broker is back.
            context.put_replica_state(replica, ReplicaState.ReplicaDeletionIneligible)
        await self.handle_state_changes(online, ReplicaState.OnlineReplica)
        await self.handle_state_changes(offline, ReplicaState.OfflineReplica)

    async def handle_state_changes(self, replicas: Sequence[PartitionAndReplica], target_state: ReplicaState) -> None:
        if not replicas:
            return
        self._batch.new_batch()
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.replica, []).append(replica)
        for broker_id, of_broker in sorted(by_broker.items()):
            await self._do_handle_state_changes(broker_id, of_broker, target_state)
        self._batch.send_requests_to_brokers(self._context.epoch)

    async def _do_handle_state_changes(
        self, broker_id: int, replicas: Sequence[PartitionAndReplica], target_state: ReplicaState
    ) -> None:
        valid, invalid = self._context.check_valid_replica_state_change(replicas, target_state)
        for replica in invalid:
            allowed = ", ".join(map(str, VALID_PREVIOUS_REPLICA_STATES[target_state]))
            self._failed(replica, target_state, f"it must be in one of {allowed} before")
        if target_state is ReplicaState.OfflineReplica:
            await self._go_offline(broker_id, valid)
            return
        for replica in valid:
            if target_state is ReplicaState.NewReplica:
                self._go_new(replica)
            elif target_state is ReplicaState.OnlineReplica:
                self._go_online(replica)
            elif target_state is ReplicaState.ReplicaDeletionStarted:
                self._changed(replica, target_state)
                self._batch.add_stop_replica_request_for_brokers(
                    (broker_id,), replica.topic_partition, delete_partition=True
                )
            elif target_state is ReplicaState.NonExistentReplica:
                self._go_non_existent(replica)
            else:
                self._changed(replica, target_state)

    def _go_new(self, replica: PartitionAndReplica) -> None:
        partition = replica.topic_partition
        leadership = self._context.partition_leadership_info(partition)
        if leadership is not None:
            if leadership.leader_and_isr.leader == replica.replica:
                self._failed(replica, ReplicaState.NewReplica, "a new replica can't be the leader")
                return
            self._batch.add_leader_and_isr_request_for_brokers(
                (replica.replica,),
                partition,
                leadership,
                self._context.partition_full_replica_assignment(partition),
                is_new=True,
            )
        self._changed(replica, ReplicaState.NewReplica)

    def _go_online(self, replica: PartitionAndReplica) -> None:
        context = self._context
        partition = replica.topic_partition
        assignment = context.partition_full_replica_assignment(partition)
        if context.replica_state(replica) is ReplicaState.NewReplica:
            assert replica.replica in assignment.replicas, f"{replica} is not part of {assignment}"
        else:
            leadership = context.partition_leadership_info(partition)
            if leadership is not None:
                self._batch.add_leader_and_isr_request_for_brokers(
                    (replica.replica,), partition, leadership, assignment, is_new=False
                )
        self._changed(replica, ReplicaState.OnlineReplica)

    def _go_non_existent(self, replica: PartitionAndReplica) -> None:
        context = self._context
        assignment = context.partition_full_replica_assignment(replica.topic_partition)
        context.update_partition_full_replica_assignment(
            replica.topic_partition, remove_replica(assignment, replica.replica)
        )
        self._changed(replica, ReplicaState.NonExistentReplica)
        context.remove_replica_state(replica)

    async def _go_offline(self, broker_id: int, replicas: Sequence[PartitionAndReplica]) -> None:
        context = self._context
        for replica in replicas:
            self._batch.add_stop_replica_request_for_brokers(
                (broker_id,), replica.topic_partition, delete_partition=False
            )
        led = [r for r in replicas if context.partition_leadership_info(r.topic_partition) is not None]
        never_led = [r for r in replicas if context.partition_leadership_info(r.topic_partition) is None]
        removed = await self._remove_replicas_from_isr(broker_id, [replica.topic_partition for replica in led])
        for partition, leadership in removed.items():
            if not context.is_topic_queued_up_for_deletion(partition.topic):
                recipients = [r for r in context.partition_replica_assignment(partition) if r != broker_id]
                self._batch.add_leader_and_isr_request_for_brokers(
                    recipients,
                    partition,
                    leadership,
                    context.partition_full_replica_assignment(partition),
                    is_new=False,
                )
            self._changed(
                PartitionAndReplica(partition, broker_id),
                ReplicaState.OfflineReplica,
                f", the partition has {described(leadership.leader_and_isr)}",
            )
        for replica in never_led:
            self._batch.add_update_metadata_request_for_brokers(
                context.live_or_shutting_down_broker_ids, (replica.topic_partition,)
            )
            self._changed(replica, ReplicaState.OfflineReplica)

    async def _remove_replicas_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Tries until each is done or impossible; a partition whose leader wrote ``state`` meanwhile is read again."""
        results: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        remaining = list(partitions)
        while remaining:
            finished, remaining = await self._do_remove_replicas_from_isr(broker_id, remaining)
            for partition, outcome in finished.items():
                if isinstance(outcome, LeaderIsrAndControllerEpoch):
                    results[partition] = outcome
                else:
                    replica = PartitionAndReplica(partition, broker_id)
                    self._failed(replica, ReplicaState.OfflineReplica, str(outcome))
        return results

    async def _do_remove_replicas_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> tuple[
        dict[TopicPartition, LeaderIsrAndControllerEpoch | StateChangeFailed | ZooKeeperError], list[TopicPartition]
    ]:
        context = self._context
        outcomes: dict[TopicPartition, LeaderIsrAndControllerEpoch | StateChangeFailed | ZooKeeperError] = {}
        states = await self._zk.get_topic_partition_states(partitions)
        unchanged: dict[TopicPartition, LeaderAndIsr] = {}
        adjusted: dict[TopicPartition, LeaderAndIsr] = {}
        for partition in partitions:
            known = states.get(partition)
            if known is None:
                if not context.is_topic_queued_up_for_deletion(partition.topic):
                    outcomes[partition] = StateChangeFailed(f"{partition} has no leader and ISR in ZooKeeper")
            elif known.controller_epoch > context.epoch:
                outcomes[partition] = StateChangeFailed(
                    f"the state of {partition} was written by a controller of epoch {known.controller_epoch}, "
                    f"which is newer than this one's {context.epoch}"
                )
            elif broker_id in known.leader_and_isr.isr:
                adjusted[partition] = without_replica(known.leader_and_isr, broker_id)
            else:
                unchanged[partition] = known.leader_and_isr
        retry: list[TopicPartition] = []
        if adjusted:
            updated = await self._zk.update_leader_and_isr(adjusted, context.epoch, context.epoch_zk_version)
            retry = list(updated.updates_to_retry)
            for partition, outcome in updated.finished.items():
                if isinstance(outcome, LeaderAndIsr):
                    unchanged[partition] = outcome
                else:
                    outcomes[partition] = outcome
        for partition, leader_and_isr in unchanged.items():
            leadership = LeaderIsrAndControllerEpoch(leader_and_isr, context.epoch)
            context.put_partition_leadership_info(partition, leadership)
            outcomes[partition] = leadership
        return outcomes, retry

    def _changed(self, replica: PartitionAndReplica, target_state: ReplicaState, detail: str = "") -> None:
        before = self._context.replica_state(replica)
        self._context.put_replica_state(replica, target_state)
        self._log.trace(
            f"Changed replica {replica.replica} of {replica.topic_partition} from {before} to {target_state}{detail}"
        )

    def _failed(self, replica: PartitionAndReplica, target_state: ReplicaState, why: str) -> None:
        before = self._context.replica_state(replica)
        self._log.error(
            f"Failed to change replica {replica.replica} of {replica.topic_partition} from {before} to "
            f"{target_state}: {why}"
        )


def remove_replica(assignment: ReplicaAssignment, replica: int) -> ReplicaAssignment:
    return ReplicaAssignment(
        tuple(kept for kept in assignment.replicas if kept != replica),
        tuple(adding_replica for adding_replica in assignment.adding_replicas if adding_replica != replica),
        tuple(removing_replica for removing_replica in assignment.removing_replicas if removing_replica != replica),
    )
