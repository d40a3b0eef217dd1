"""Asks controllers for changes of ISRs on behalf of leaders (C24). An ISR is changed only by the present leader, in its
leader epoch, from the present state, and to live brokers. C10: a broker that is shutting down keeps what it leads until
another leader is elected.

Real leaders nearly always ask for what they may have, and nobody sees what ZooKeeper refuses. The controller decides
from values alone and changes none, so each one is asked once for each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from barnabas.controller.alter_partition import judge
from barnabas.controller.context import ControllerContext
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.sim.world.world import World

NOBODY: Final = 9_999
"""A broker that no cluster has."""
VERSION: Final = 3
"""The newest version of AlterPartition."""
Answer = LeaderAndIsr | ErrorCode | None


class ProposalWatch:
    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: dict[tuple[str, int, TopicPartition], None] = {}
        """By controller and its epoch."""
        self._looked_for: dict[tuple[str, int], None] = {}

    def look(self) -> None:
        for name, broker in self.world.brokers.items():
            reign = broker.controller.reign
            if reign is None:
                continue
            context = reign.context
            if context.partitions_leadership_info and (name, context.epoch) not in self._looked_for:
                self._looked_for[name, context.epoch] = None
                self.ask_who_leads_no_more(name, context)
            for partition, leadership in context.partitions_leadership_info.items():
                key = name, context.epoch, partition
                # After a first change there is one before it.
                if key not in self._asked and leadership.leader_and_isr.partition_epoch:
                    self._asked[key] = None
                    self.ask(name, context, partition, leadership.leader_and_isr)

    def ask_who_leads_no_more(self, name: str, context: ControllerContext) -> None:
        """If all who are there were about to leave."""
        self.world.check("C10")
        there, kept = context.live_or_shutting_down_broker_ids, context.shutting_down_broker_ids
        context.shutting_down_broker_ids = dict.fromkeys(there)
        leaderless = context.partitions_with_offline_leader()
        context.shutting_down_broker_ids = kept
        for partition in leaderless:
            leader = context.current_leader(partition)
            if leader in there and partition not in context.replicas_on_offline_dirs.get(leader, ()):
                self.world.violated(
                    "C10", f"{name} would elect another leader of {partition} when {leader}, which leads it, has not "
                    "left yet", str(partition), name,
                )  # fmt: skip

    def ask(self, name: str, context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr) -> None:
        for proposed, right in proposals(context, current):
            self.world.check("C24")
            told = judge(context, partition, proposed, VERSION)
            if told != right:
                self.world.violated(
                    "C24", f"{name} would answer {told} to a leader that proposes {proposed}, where {current} is "
                    f"there; {right} is right", str(partition), name,
                )  # fmt: skip


def proposals(context: ControllerContext, current: LeaderAndIsr) -> Iterator[tuple[LeaderAndIsr, Answer]]:
    """What a leader may ask for, and the right answer; None where it gets that."""
    leader, before = current.leader, current.partition_epoch - 1
    recovered = current.leader_recovery_state is LeaderRecoveryState.RECOVERED
    if not context.is_live_broker(leader) or not recovered:
        return  # a leader that recovers may have no other member in its ISR
    alone = replace(current, isr=(leader,))
    yield current, current
    yield replace(current, partition_epoch=before), current
    yield replace(alone, leader_epoch=current.leader_epoch + 1), ErrorCode.NOT_CONTROLLER
    yield replace(alone, partition_epoch=current.partition_epoch + 1), ErrorCode.NOT_CONTROLLER
    yield replace(alone, leader_epoch=current.leader_epoch - 1), ErrorCode.FENCED_LEADER_EPOCH
    yield replace(current, isr=(leader, NOBODY)), ErrorCode.INELIGIBLE_REPLICA
    yield replace(current, isr=(leader, NOBODY), partition_epoch=before), ErrorCode.INVALID_UPDATE_VERSION
    yield replace(current, leader=NOBODY, isr=(NOBODY,)), ErrorCode.INVALID_REQUEST
    yield replace(current, isr=(NOBODY,)), ErrorCode.INVALID_REQUEST
    for leaving in context.shutting_down_broker_ids:
        yield replace(current, isr=(leader, leaving)), ErrorCode.INELIGIBLE_REPLICA
    yield replace(alone, leader_recovery_state=LeaderRecoveryState.RECOVERING), ErrorCode.INVALID_REQUEST
    if len(current.isr) > 1:
        yield alone, None
