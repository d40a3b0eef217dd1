"""A consumer that seeks back and forth, to the beginning or the end, pauses, and changes its mind on the way."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import READ_COMMITTED, isolation_level
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

GROUP = "wanderers"
CHANGES_ITS_MIND = 0.5
IS_BRIEF = 0.5
"""How often it hardly waits after an assignment before it seeks: just when the consumer is about to learn its group's
offset."""
BRIEF_MS = 3
TO_AN_END = 0.5
"""How often it seeks to the beginning or the end, which have to be looked up."""


class Wanderer:
    """In a group of its own it commits wherever it is, and seeks elsewhere when partitions are assigned to it.

    From each place that it sought it reads as another client of the history, which has what it was given since.
    """

    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.isolation = isolation_level(str(action.arguments.get("isolation", "read_uncommitted")))
        self.in_group = bool(action.arguments.get("in_group"))
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self._times = itertools.count()
        self._known: dict[TopicPartition, int] = {}
        """By partition: the farthest offset that it was at."""
        self._sought: dict[TopicPartition, int | None] = {}
        self._floors: dict[TopicPartition, int] = {}
        """By partition: where it went to, or the end that it knew then; nothing from before may be given to it."""
        self._fresh: list[TopicPartition] = []
        """Newly assigned partitions, which it leaves when its poll is over."""
        self._begins: dict[TopicPartition, None] = {}
        """Partitions whose beginning it sought: it is given the first record there."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        while not self.workload.stopping:
            try:
                await self._wander(cluster)
            except (KafkaError, OSError, ValueError, LookupError):
                await asyncio.sleep(0.5)

    async def _wander(self, cluster: ClusterClient) -> None:
        self._sought.clear()
        self._floors.clear()
        self._begins.clear()
        self._fresh = []
        is_brief = self.in_group and self.chance.happens(IS_BRIEF)
        consumer = Consumer(
            cluster, group=GROUP if self.in_group else None, isolation_level=self.isolation, max_wait_ms=300,
            session_timeout_ms=6_000, max_poll_interval_ms=20_000,
        )  # fmt: skip
        if self.in_group:
            await consumer.subscribe([self.topic], on_assigned=lambda fresh: self._assigned(consumer, fresh, is_brief))
        else:
            partitions = (await cluster.refresh([self.topic])).partitions(self.topic)
            await consumer.assign(dict.fromkeys(partitions, 0))
        while not self.workload.stopping:
            name = self._another_name()
            for _ in range(self.chance.whole(1, 6)):
                await self._take(consumer, name, BRIEF_MS if is_brief else 300)
                if self._fresh:
                    fresh, self._fresh = self._fresh, []
                    self._go(consumer, [place for place in fresh if place in consumer.assignment])
                await asyncio.sleep(self.chance.exponential_ns(50_000_000) / 1e9)
            self._known.update(
                (partition, max(at, self._known.get(partition, 0))) for partition, at in consumer.positions().items()
            )
            if self.in_group and self.chance.happens(0.5):
                await consumer.commit()
            elif consumer.positions():
                place = self.chance.one_of(sorted(consumer.positions()))
                self._go(consumer, [place])
                if self.chance.happens(CHANGES_ITS_MIND):
                    await self._take(consumer, self._another_name(), 1)
                    if place in consumer.assignment:
                        self._go(consumer, [place])
        await consumer.close()

    async def _take(self, consumer: Consumer, name: str, max_ms: int) -> None:
        first = await self.workload.take(consumer, name, "", max_ms, self._sought, self._floors)
        for place in [given for given in first if given in self._begins]:
            del self._begins[place]
            if self.isolation != READ_COMMITTED:
                self.workload.on_begins(self.client, str(place), first[place])

    def _assigned(self, consumer: Consumer, fresh: list[TopicPartition], is_brief: bool) -> None:
        if is_brief:
            self._forget(fresh)
            self._fresh = fresh
        else:
            self._go(consumer, fresh)

    def _another_name(self) -> str:
        name = f"{self.client} {next(self._times)}"
        self.workload.history.reads_committed[name] = self.isolation == READ_COMMITTED
        return name

    def _go(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Seeks between the beginning and its last position; records that were fetched before are not given."""
        self._forget(partitions)
        for partition in partitions:
            if self.chance.happens(TO_AN_END):
                self._go_to_an_end(consumer, partition)
                continue
            offset = self.chance.whole(0, self._known.get(partition, 0))
            self._sought[partition] = self._floors[partition] = offset
            consumer.seek(partition, offset)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """A newly assigned partition begins at its group's offset, wherever it went before."""
        self._sought.clear()
        for partition in partitions:
            self._floors.pop(partition, None)
            self._begins.pop(partition, None)

    def _go_to_an_end(self, consumer: Consumer, partition: TopicPartition) -> None:
        self._sought[partition] = None
        if self.chance.happens(0.5):
            self._begins[partition] = None
            consumer.seek_to_beginning(partition)
        else:
            self._floors[partition] = consumer.high_watermark(partition)
            consumer.seek_to_end(partition)
