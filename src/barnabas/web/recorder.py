"""Looks at a broker four times a second, and writes its changes into the history.

The cluster's image is replaced as a whole and shares its unchanged parts, so a look at a quiet cluster costs nothing.
Offsets are read less often if many of them change, since an hour of changes must fit into the ring, or if there are
many partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.model.cluster import ClusterImage
from barnabas.model.ids import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.runtime.turns import SLICE
from barnabas.web.group_lag import GroupLag
from barnabas.web.history import SeenHistory, leader_fact, partition_fact, registered_fact

LOOK_INTERVAL_S: Final = 0.25
OFFSETS_INTERVAL_MS: Final = 1_000
OFFSETS_A_SECOND: Final = 20
"""Partitions whose offsets are written per second, on average: an hour of them is a megabyte, a quarter of the ring."""
OFFSETS_LOOKED_AT_A_SECOND: Final = 2_000
"""Partitions that are looked at per second, on average, while no offset changes. It limits the cost for a broker with
10,000 idle partitions."""
LAGS_MAX: Final = 1_000
"""The most groups whose lag is written."""


class BrokerRecorder:
    """Records the changes of `broker` in `history`. Calls `changed` after each look that found a change."""

    def __init__(self, broker: Broker, history: SeenHistory, lag: GroupLag, changed: Callable[[], None]) -> None:
        self.history = history
        self._broker = broker
        self._lag = lag
        self._changed = changed
        self._image = ClusterImage()
        self._lines = 0
        self._offsets: dict[TopicPartition, tuple[int, ...]] = {}
        self._offsets_due_ms = 0
        self._lag_looked_ms: int | None = None
        self._channels: set[int] = set()
        self._groups: set[str] = set()
        self._turn: Callable[[], Awaitable[None]] = broker.request_channel.long_requests.turns.next

    async def run(self) -> None:
        while True:
            written = self.history.written
            await self.look()
            if self.history.written != written:
                self._changed()
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def look(self) -> None:
        broker, history = self._broker, self.history
        ms = broker.runtime.clock.now_ms()
        self._look_at_controller(ms)
        history.note(ms, "session", broker.zookeeper_status()["state"])
        if self._image is not broker.metadata.image:
            await self._look_at_image(ms)
        monotonic_ms = broker.runtime.clock.monotonic_ms()
        if monotonic_ms >= self._offsets_due_ms:
            looked_at, moved = await self._look_at_offsets(ms)
            self._offsets_due_ms = monotonic_ms + max(
                OFFSETS_INTERVAL_MS,
                moved * 1_000 // OFFSETS_A_SECOND,
                looked_at * 1_000 // OFFSETS_LOOKED_AT_A_SECOND,
            )
        self._look_at_lag(ms)

    def _look_at_controller(self, ms: int) -> None:
        broker, history = self._broker, self.history
        controller = broker.controller
        log = controller.log
        for line_ms, line in log.since(self._lines):
            history.line(line_ms, line)
        self._lines = log.written
        active = controller.active_controller_id
        epoch = max(controller.epoch, broker.replicas.controller_epoch)
        history.note(ms, "controller", {"id": active, "epoch": epoch} if active >= 0 else None)
        queue = controller.event_manager.status()
        seen = {"state": str(queue.state), "event": queue.event, "size": queue.queue_size}
        history.note(ms, "queue", seen if controller.is_active else None)
        waiting = {} if controller.reign is None else controller.reign.channels.queue_sizes()
        for broker_id, size in waiting.items():
            history.note(ms, f"requests/{broker_id}", size)
        for broker_id in self._channels - waiting.keys():
            history.note(ms, f"requests/{broker_id}", None)
        self._channels = set(waiting)

    async def _look_at_image(self, ms: int) -> None:
        """Records the changes of metadata that the controller sent since the last look."""
        before, image, history = self._image, self._broker.metadata.image, self.history
        self._image = image
        for broker_id, info in image.brokers.items():
            history.note(ms, f"broker/{broker_id}", registered_fact(info, up=True))
        for broker_id, info in before.brokers.items():
            if broker_id not in image.brokers:
                history.note(ms, f"broker/{broker_id}", registered_fact(info, up=False))
        since = 0
        for name, topic in image.topics.items():
            known = before.topics.get(name)
            if known is topic:
                continue
            for number, partition in topic.partitions.items():
                if known is None or known.partitions.get(number) is not partition:
                    fact = partition_fact(partition.leader, partition.leader_epoch, partition.isr, partition.replicas)
                    history.note(ms, f"partition/{name}-{number}", fact)
                    since += 1
                    if not since % SLICE:
                        await self._turn()
        for name, topic in before.topics.items():
            left = image.topics.get(name)
            for number in topic.partitions:
                if left is None or number not in left.partitions:
                    history.note(ms, f"partition/{name}-{number}", None)
                    history.note(ms, f"offsets/{name}-{number}", None)
                    self._offsets.pop(TopicPartition(name, number), None)

    async def _look_at_offsets(self, ms: int) -> tuple[int, int]:
        """Records changed offsets. Returns the number of partitions, and how many of them have changed."""
        at = moved = 0
        for at, partition in enumerate(self._broker.replicas.partitions, 1):
            seen = _offsets(partition)
            key = partition.topic_partition
            if seen != self._offsets.get(key):
                self._offsets[key] = seen
                if seen and key.topic in self._image.topics:
                    self.history.note(ms, f"offsets/{key}", _told_offsets(partition))
                    moved += 1
            if not at % SLICE:
                await self._turn()
        return at, moved

    def _look_at_lag(self, ms: int) -> None:
        if self._lag.looked_ms == self._lag_looked_ms:
            return
        self._lag_looked_ms = self._lag.looked_ms
        lags: dict[str, int] = {}
        for lag in self._lag.known:
            if lag.records is not None:
                lags[lag.group] = lags.get(lag.group, 0) + lag.records
        told = dict(islice(lags.items(), LAGS_MAX))
        for group, records in told.items():
            self.history.note(ms, f"lag/{group}", records)
        for group in self._groups - told.keys():
            self.history.note(ms, f"lag/{group}", None)
        self._groups = set(told)


def _offsets(partition: Partition) -> tuple[int, ...]:
    """A partition's changing values, for comparison; empty if it has no log."""
    log = partition.log
    if log is None:
        return ()
    if not partition.is_leader:
        return 0, log.high_watermark, log.log_end_offset
    return (
        1,
        log.high_watermark,
        log.log_end_offset,
        *(progress.log_end_offset for progress in partition.progress.values()),
    )


def _told_offsets(partition: Partition) -> dict[str, Any]:
    log = partition.local_log()
    if partition.is_leader:
        followers = {broker_id: progress.log_end_offset for broker_id, progress in partition.progress.items()}
        return leader_fact(log.high_watermark, log.log_end_offset, followers)
    return {"role": "follower", "high_watermark": log.high_watermark, "log_end_offset": log.log_end_offset}
