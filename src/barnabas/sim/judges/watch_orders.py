"""Watches what controllers order (C20). When a leader is announced to one replica it is announced to every live one,
also to one that leads and is shutting down, because clients write to it until it stops. A replica that is removed,
because its move was cancelled or replaced, is told to delete its log."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from barnabas.controller.batch import BrokerRequest, ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.reassignment import Reassignments
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.zk.kafka.znodes import ReplicaAssignment

Order: TypeAlias = tuple[int, int, int | None, TopicPartition]
"""The controller's epoch, the broker, the broker's epoch, and the partition."""
STOPPED: Final = 1 << 40
DELETED: Final = 1 << 41
"""Beyond all leader epochs: a broker that was told to delete its replica need not be told who leads."""


class OrderWatch:
    def __init__(self, world: World, ensemble: ZooKeeperWatch, probes: Probes) -> None:
        self.world = world
        self.ensemble = ensemble
        self._told: dict[Order, int] = {}
        """The leader epoch that was told, or that the replica is to be stopped or deleted."""
        self._leads: dict[Order, bool] = {}
        """Whether the broker was last told that it leads."""
        probes.after(ControllerBrokerRequestBatch, "requests", self._ordered)
        probes.around(Reassignments, "on_partition_reassignment", self._around_reassignment)

    def _context(self) -> ControllerContext | None:
        """The state of the controller that runs on this node."""
        broker = self.world.brokers.get(node())
        reign = None if broker is None else broker.controller.reign
        return None if reign is None else reign.context

    def _ordered(self, requests: list[BrokerRequest], _: object, controller_epoch: int) -> None:
        led: dict[TopicPartition, LeaderAndIsrRequest.LeaderAndIsrPartitionState] = {}
        for each in requests:
            request = each.request
            told = controller_epoch, each.broker_id, request.broker_epoch
            if isinstance(request, LeaderAndIsrRequest):
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        partition = TopicPartition(topic.topic_name, state.partition_index)
                        self._told[*told, partition] = state.leader_epoch
                        self._leads[*told, partition] = state.leader == each.broker_id
                        if partition not in led or state.leader_epoch > led[partition].leader_epoch:
                            led[partition] = state
            elif isinstance(request, StopReplicaRequest):
                for stopped in request.topic_states:
                    for replica in stopped.partition_states:
                        partition = TopicPartition(stopped.topic_name, replica.partition_index)
                        self._told[*told, partition] = DELETED if replica.delete_partition else STOPPED
        context = self._context()
        if context is not None and context.epoch == controller_epoch:
            for partition, state in led.items():
                self.all_are_told(context, partition, state.leader_epoch, state.replicas)

    def all_are_told(
        self, context: ControllerContext, partition: TopicPartition, leader_epoch: int, replicas: list[int]
    ) -> None:
        """Every replica that this controller told of an earlier epoch; a new one is told when it arrives. Excepted are
        topics that are to be deleted, and followers that shut down, which are told only to stop."""
        if partition.topic in context.topics_to_be_deleted:
            return
        self.world.check("C20")
        late: list[int] = []
        for broker_id in self._there(context, partition, replicas):
            order = self._order(context, broker_id, partition)
            is_concerned = broker_id not in context.shutting_down_broker_ids or self._leads.get(order, False)
            if is_concerned and self._told.get(order, leader_epoch) < leader_epoch:
                late.append(broker_id)
        if late:
            self.world.violated(
                "C20", f"{node()} tells some of {replicas} who leads {partition} in epoch {leader_epoch}, and not "
                f"{late}, which are online", str(partition), node(),
            )  # fmt: skip

    def _there(self, context: ControllerContext, partition: TopicPartition, replicas: list[int]) -> list[int]:
        """The replicas whose broker is registered and whose disk works, as the controller knows."""
        alive, lost = context.live_or_shutting_down_broker_ids, context.replicas_on_offline_dirs
        return [each for each in replicas if each in alive and partition not in lost.get(each, ())]

    def _order(self, context: ControllerContext, broker_id: int, partition: TopicPartition) -> Order:
        return context.epoch, broker_id, context.broker_epoch(broker_id), partition

    async def _around_reassignment(
        self, original: Any, moves: Reassignments, partition: TopicPartition, reassignment: ReplicaAssignment
    ) -> None:
        context = self._context()
        before = [] if context is None else [*context.partition_replica_assignment(partition)]
        await original(moves, partition, reassignment)
        if context is not None and context is self._context():
            self.none_keeps_it(context, partition, before)

    def none_keeps_it(self, context: ControllerContext, partition: TopicPartition, before: list[int]) -> None:
        if context.epoch != self.ensemble.controller_epoch:
            return  # another rules, and what this one writes is refused
        self.world.check("C20")
        replicas = context.partition_replica_assignment(partition)
        dropped = [each for each in self._there(context, partition, before) if each not in replicas]
        keep = [each for each in dropped if self._told.get(self._order(context, each, partition)) != DELETED]
        if keep:
            self.world.violated(
                "C20", f"{node()} has removed {keep} from the replicas of {partition}, which are {[*replicas]}, and "
                "has not told them to delete their logs", str(partition), node(),
            )  # fmt: skip
