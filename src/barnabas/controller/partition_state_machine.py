"""Moves partitions between their states (``ZkPartitionStateMachine``); `states` has the table.

NonExistent -> New: only the mark.
New -> Online: the first live replica leads, all live ones are the ISR; written to ZooKeeper, told to the brokers.
Online, Offline -> Online: an election by the given strategy; written, told.
New, Online, Offline -> Offline and Offline -> NonExistent: only the mark.

Writes are pipelined: as many multis are in flight as there are partitions, and each checks the controller epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from barnabas.controller.batch import ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.election_plan import (
    OfflinePartitionLeaderElectionStrategy,
    PartitionLeaderElectionStrategy,
    UncleanElections,
    electable,
    plan_elections,
)
from barnabas.controller.state_change_log import StateChangeLog, described
from barnabas.controller.states import VALID_PREVIOUS_PARTITION_STATES, PartitionState
from barnabas.model.config import Config, topic_config
from barnabas.model.errors import ConfigError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.model.metadata_version import LATEST, MetadataVersion
from barnabas.zk.kafka.config_znodes import TOPICS
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


class StateChangeFailed(Exception):
    """A failed transition and its reason; the state stays as it was (``StateChangeFailedException``)."""


ElectionOutcome: TypeAlias = "LeaderAndIsr | StateChangeFailed | ZooKeeperError"

_TRIGGERED = (PartitionState.OfflinePartition, PartitionState.NewPartition)


class PartitionStateMachine:
    """`config` is called anew each time, since the broker's configuration may change while it runs."""

    def __init__(
        self,
        config: Callable[[], Config],
        context: ControllerContext,
        zk: KafkaZkClient,
        batch: ControllerBrokerRequestBatch,
        log: StateChangeLog,
        metadata_version: MetadataVersion = LATEST,
    ) -> None:
        self._config = config
        self._context = context
        self._zk = zk
        self._batch = batch
        self._log = log
        self._metadata_version = metadata_version
        self.unclean_leader_elections = 0

    async def startup(self) -> None:
        """At a failover: finds each partition's state, then a leader for those without one."""
        context = self._context
        for partition in context.all_partitions():
            leader = context.current_leader(partition)
            if leader is None:
                state = PartitionState.NewPartition
            elif context.is_replica_online(leader, partition):
                state = PartitionState.OnlinePartition
            else:
                state = PartitionState.OfflinePartition
            context.put_partition_state(partition, state)
        await self.trigger_online_partition_state_change()

    async def trigger_online_partition_state_change(
        self, topic: str | None = None
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Tries to elect a leader for every partition (of `topic`) that is new or offline and not being deleted."""
        context = self._context
        partitions = [
            partition
            for partition in context.partitions_in_states(_TRIGGERED, topic)
            if not context.is_topic_queued_up_for_deletion(partition.topic)
        ]
        return await self.handle_state_changes(
            partitions, PartitionState.OnlinePartition, OfflinePartitionLeaderElectionStrategy()
        )

    async def handle_state_changes(
        self,
        partitions: Sequence[TopicPartition],
        target_state: PartitionState,
        strategy: PartitionLeaderElectionStrategy | None = None,
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Returns the outcome of each election; a partition that was initialized has none."""
        if not partitions:
            return {}
        self._batch.new_batch()
        outcomes = await self._do_handle_state_changes(partitions, target_state, strategy)
        self._batch.send_requests_to_brokers(self._context.epoch)
        return outcomes

    async def _do_handle_state_changes(
        self,
        partitions: Sequence[TopicPartition],
        target_state: PartitionState,
        strategy: PartitionLeaderElectionStrategy | None,
    ) -> dict[TopicPartition, ElectionOutcome]:
        context = self._context
        valid, invalid = context.check_valid_partition_state_change(partitions, target_state)
        for partition in invalid:
            allowed = ", ".join(map(str, VALID_PREVIOUS_PARTITION_STATES[target_state]))
            self._failed(partition, target_state, f"it must be in one of {allowed} before")
        if target_state is not PartitionState.OnlinePartition:
            for partition in valid:
                self._changed(partition, target_state)
            return {}

        uninitialized = [tp for tp in valid if context.partition_state(tp) is PartitionState.NewPartition]
        to_elect = [tp for tp in valid if context.partition_state(tp) is not PartitionState.NewPartition]
        if uninitialized:
            for partition in await self._initialize_leader_and_isr_for_partitions(uninitialized):
                self._changed(partition, target_state)
        if not to_elect:
            return {}
        assert strategy is not None, "a partition goes online by an election, and that needs a strategy"
        outcomes = await self._elect_leader_for_partitions(to_elect, strategy)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, LeaderAndIsr):
                self._changed(partition, target_state)
        return outcomes

    async def _initialize_leader_and_isr_for_partitions(
        self, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Creates the ``state`` znodes of new partitions; returns the partitions for which it did."""
        context = self._context
        initial: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        for partition in partitions:
            assigned = context.partition_replica_assignment(partition)
            live = context.online_replicas(assigned, partition)
            if not live:
                self._failed(
                    partition,
                    PartitionState.OnlinePartition,
                    f"none of its replicas {assigned} is alive, live brokers are {context.live_broker_ids}",
                )
                continue
            initial[partition] = LeaderIsrAndControllerEpoch(LeaderAndIsr(live[0], 0, live), context.epoch)
        created = await self._zk.create_topic_partition_states_raw(initial, context.epoch_zk_version)
        initialized: list[TopicPartition] = []
        for partition, outcome in created.items():
            if isinstance(outcome, ZooKeeperError):
                self._failed(partition, PartitionState.OnlinePartition, str(outcome))
                continue
            leadership = initial[partition]
            context.put_partition_leadership_info(partition, leadership)
            self._batch.add_leader_and_isr_request_for_brokers(
                leadership.leader_and_isr.isr,
                partition,
                leadership,
                context.partition_full_replica_assignment(partition),
                is_new=True,
            )
            initialized.append(partition)
        return initialized

    async def _elect_leader_for_partitions(
        self, partitions: Sequence[TopicPartition], strategy: PartitionLeaderElectionStrategy
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Elects until each has an outcome: if a leader wrote ``state`` meanwhile, it is read and decided again."""
        outcomes: dict[TopicPartition, ElectionOutcome] = {}
        remaining = list(partitions)
        while remaining:
            finished, remaining = await self._do_elect_leader_for_partitions(remaining, strategy)
            for partition, outcome in finished.items():
                if not isinstance(outcome, LeaderAndIsr):
                    self._failed(partition, PartitionState.OnlinePartition, str(outcome))
            outcomes.update(finished)
            if remaining:
                logger.info("electing again with %s, since their state moved: %s", strategy, _named(remaining))
        return outcomes

    async def _do_elect_leader_for_partitions(
        self, partitions: Sequence[TopicPartition], strategy: PartitionLeaderElectionStrategy
    ) -> tuple[dict[TopicPartition, ElectionOutcome], list[TopicPartition]]:
        context = self._context
        states = await self._zk.get_topic_partition_states(partitions)
        current, failed = electable(context.epoch, partitions, states)
        unclean = UncleanElections(
            await self._unclean_allowed(current, strategy), self._metadata_version.is_leader_recovery_supported
        )
        plan = plan_elections(context, current, strategy, unclean)
        outcomes: dict[TopicPartition, ElectionOutcome] = {
            partition: StateChangeFailed(why) for partition, why in (failed | plan.failed).items()
        }
        if not plan.elected:
            return outcomes, []
        updated = await self._zk.update_leader_and_isr(plan.states, context.epoch, context.epoch_zk_version)
        for partition, outcome in updated.finished.items():
            outcomes[partition] = outcome
            if not isinstance(outcome, LeaderAndIsr):
                continue
            leadership = LeaderIsrAndControllerEpoch(outcome, context.epoch)
            context.put_partition_leadership_info(partition, leadership)
            result = plan.elected[partition]
            if result.unclean:
                self._report_unclean(partition, current[partition], outcome)
            self._batch.add_leader_and_isr_request_for_brokers(
                result.live_replicas,
                partition,
                leadership,
                context.partition_full_replica_assignment(partition),
                is_new=False,
            )
        return outcomes, list(updated.updates_to_retry)

    async def _unclean_allowed(
        self, current: dict[TopicPartition, LeaderAndIsr], strategy: PartitionLeaderElectionStrategy
    ) -> frozenset[TopicPartition]:
        """The partitions without a live in-sync replica for which the operator or the topic accepts losses."""
        context = self._context
        if not strategy.considers_unclean:
            return frozenset()
        without = [tp for tp, state in current.items() if not context.online_replicas(state.isr, tp)]
        if strategy.allow_unclean:
            return frozenset(without)
        if not without:
            return frozenset()
        topics = sorted({partition.topic for partition in without})
        overrides = await self._zk.get_entities_configs(TOPICS, topics)
        by_topic: dict[str, bool] = {}
        for topic in topics:
            try:
                config = topic_config(self._config(), overrides[topic])
            except ConfigError as error:
                logger.warning("no unclean election for topic %s, whose configuration can't be read: %s", topic, error)
            else:
                by_topic[topic] = config.flag("unclean.leader.election.enable")
        return frozenset(partition for partition in without if by_topic.get(partition.topic, False))

    def _report_unclean(self, partition: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr) -> None:
        self.unclean_leader_elections += 1
        text = (
            f"UNCLEAN leader election: {partition} is led by {after.leader}, which was not in the ISR "
            f"{list(before.isr)}; what only those had is lost (leader epoch {after.leader_epoch})"
        )
        logger.warning("%s", text)
        self._log.error(text)

    def _changed(self, partition: TopicPartition, target_state: PartitionState) -> None:
        before = self._context.partition_state(partition)
        self._context.put_partition_state(partition, target_state)
        detail = ""
        if target_state is PartitionState.NewPartition:
            detail = f" with assigned replicas {list(self._context.partition_replica_assignment(partition))}"
        elif target_state is PartitionState.OnlinePartition:
            leadership = self._context.partition_leadership_info(partition)
            assert leadership is not None
            detail = f" with {described(leadership.leader_and_isr)}"
        self._log.info(f"Changed partition {partition} from {before} to {target_state}{detail}")

    def _failed(self, partition: TopicPartition, target_state: PartitionState, why: str) -> None:
        before = self._context.partition_state(partition)
        self._log.error(f"Failed to change partition {partition} from {before} to {target_state}: {why}")


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
