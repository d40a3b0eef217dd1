"""Writes new ISRs into ZooKeeper for the leaders of this broker (``ZkAlterPartitionManager``).

Leaders do so with ``inter.broker.protocol.version`` below 2.7-IV2. A write is conditional on the partition epoch that
the leader knows, and carries the epoch of the controller that made it leader. The controller and the other brokers
learn of it later, from a notification that gathers the changes of some seconds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.replica.alter_partition import RETRY_BACKOFF_MS, Answered
from barnabas.runtime import Clock, Tasks
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, TopicPartitionStateZNode
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

CHECK_INTERVAL_MS: Final = 2_500
LINGER_MS: Final = 5_000
"""A notification waits until no ISR has changed for this long,"""
MAX_DELAY_MS: Final = 60_000
"""unless the last notification was this long ago (``IsrChangePropagationConfig``)."""


class ZkAlterPartitionManager:
    """Writes one change after the other, in the order in which the leaders of this broker asked for them."""

    def __init__(self, clock: Clock, zk: KafkaZkClient, tasks: Tasks) -> None:
        self._clock = clock
        self._zk = zk
        self._tasks = tasks
        self._unwritten: dict[TopicPartition, tuple[LeaderIsrAndControllerEpoch, Answered]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._changed: dict[TopicPartition, None] = {}
        self._propagating: asyncio.Task[None] | None = None
        self._last_change_ms = self._last_propagation_ms = clock.monotonic_ms()
        self._closed = False

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        sent: LeaderAndIsr,
        controller_epoch: int,
        answered: Answered,
    ) -> None:
        if self._closed:
            return
        # A waiting change was made void by a LeaderAndIsr: nobody waits for its answer any more.
        self._unwritten.pop(topic_partition, None)
        self._unwritten[topic_partition] = (LeaderIsrAndControllerEpoch(sent, controller_epoch), answered)
        if self._writing is None or self._writing.done():
            self._writing = self._tasks.begin(self._write(), "isr-change-writer")

    def close(self) -> None:
        """Writes nothing any more; unanswered changes are never answered."""
        self._closed = True
        self._unwritten.clear()
        for task in (self._writing, self._propagating):
            if task is not None:
                task.cancel()

    async def _write(self) -> None:
        while self._unwritten:
            topic_partition, change = next(iter(self._unwritten.items()))
            wanted, answered = change
            try:
                outcome = await self._update_leader_and_isr(topic_partition, wanted)
            except ZooKeeperError as error:
                # Whether it was written is unknown; if it was, the next attempt finds it so.
                logger.warning("the isr of %s is not written, trying again: %s", topic_partition, error)
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                continue
            if self._unwritten.get(topic_partition) is change:
                del self._unwritten[topic_partition]
            if isinstance(outcome, LeaderAndIsr):
                self._note(topic_partition)
            answered(outcome)

    async def _update_leader_and_isr(
        self, topic_partition: TopicPartition, wanted: LeaderIsrAndControllerEpoch
    ) -> LeaderAndIsr | ErrorCode:
        """``ReplicationUtils.updateLeaderAndIsr``: if the state already has the wanted value, an attempt whose answer
        was lost wrote it.

        A leader that finds a later leader epoch is told that it was deposed, as a controller would. (Apache's learns
        only that the version differs, and leads on if its replica was moved away meanwhile.)
        """
        sent = wanted.leader_and_isr
        path = TopicPartitionStateZNode.path(topic_partition)
        data = TopicPartitionStateZNode.encode(wanted)
        written, version = await self._zk.conditional_update_path(path, data, sent.partition_epoch)
        if written:
            return sent.with_partition_epoch(version)
        states = await self._zk.get_topic_partition_states([topic_partition])
        state = states.get(topic_partition)
        if state is None:  # deleted or unreadable
            return ErrorCode.INVALID_UPDATE_VERSION
        found = state.leader_and_isr
        if TopicPartitionStateZNode.encode(state) == data:
            return sent.with_partition_epoch(found.partition_epoch)
        if found.leader_epoch > sent.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_UPDATE_VERSION

    def _note(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        self._last_change_ms = self._clock.monotonic_ms()
        if self._propagating is None or self._propagating.done():
            self._propagating = self._tasks.begin(self._propagate(), "isr-change-propagation")

    async def _propagate(self) -> None:
        while self._changed:
            await asyncio.sleep(CHECK_INTERVAL_MS / 1000)
            now_ms = self._clock.monotonic_ms()
            if self._last_change_ms + LINGER_MS >= now_ms and self._last_propagation_ms + MAX_DELAY_MS >= now_ms:
                continue
            told, self._changed = self._changed, {}
            try:
                await self._zk.propagate_isr_changes(told)
            except ZooKeeperError as error:
                logger.warning("the controller is not told of new ISRs yet: %s", error)
                self._changed = {**told, **self._changed}
                continue
            self._last_propagation_ms = now_ms
