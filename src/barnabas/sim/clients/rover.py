"""A member of a group with the habits of real applications: it subscribes by a pattern, pauses and resumes partitions,
is busy for longer than its poll interval, seeks back, gives its subscription up and takes another one, and begins again
under its old static name.

G4: a paused partition gives it nothing, nor does any partition from before the place it sought. G6: its group's
committed offsets are no less than what was acknowledged. G8: a member that does not poll for too long leaves its group,
so that others go on. One that stays until all has healed reads to the end (G5), with pauses now and then.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import RANGE
from barnabas.coordinator.groups import Group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.readers import Reader
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

Habit: TypeAlias = Callable[[Consumer], Awaitable[None]]
METADATA_MAX_AGE_MS: Final = 3_000
POLL_MS: Final = 300
RESTS_NS: Final = 100 * MS
FEW: Final = 3
"""Records of some polls; further fetched records wait while their partition is paused."""
SHORT_MS: Final = 5_000
MISSED_MS: Final = 1_500
"""For a busy member to notice, beyond its poll interval and its session timeout."""
FORGETS_TO_CLOSE: Final = 0.15
LOOKS: Final = 10
"""How often it looks, while it is busy, whether its coordinator is far."""
BACK_MAX: Final = 8


class Rover:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        said = action.arguments
        self.client, self.group = str(said["client"]), str(said["group"])
        self.topics = [str(said[each]) for each in ("topic", "also") if each in said]
        self.by_pattern = bool(said.get("pattern"))
        self.name = str(said.get("instance", self.client)) if said.get("static") or "instance" in said else None
        self.assignors = str(said.get("assignors", RANGE)).split()
        self.session_ms = action.whole("session_timeout_ms", 6_000)
        self.poll_interval_ms = action.whole("rebalance_timeout_ms", 20_000)
        self.auto_commit_ms = action.whole("auto_commit_ms", 0) or None
        self.stays = bool(said.get("stays"))
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self._sought: dict[TopicPartition, int | None] | None = None
        """By partition: where it went to in this generation; None where it went nowhere."""
        self._floors: dict[TopicPartition, int] = {}
        self._given: dict[TopicPartition, None] = {}
        """Partitions of which it was given something in this generation."""
        if self.auto_commit_ms is not None:
            workload.history.commit_by_themselves[self.client] = None

    @property
    def _is_over(self) -> bool:
        workload = self.workload
        return workload.stopping or not (self.stays or workload.world.loop.now_ns < self.ends_ns)

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        while not self._is_over:
            consumer = self._consumer(cluster)
            self._forget_where_it_went()
            self._has_to_read(consumer)
            try:
                await self._live(consumer)
                await consumer.close()
            except (KafkaError, OSError, ValueError, LookupError) as error:
                self.workload.failed(self.client, error)
                if not self.chance.happens(FORGETS_TO_CLOSE):
                    with suppress(KafkaError, OSError):
                        await consumer.close()
            await self._rest()

    def _consumer(self, cluster: ClusterClient) -> Consumer:
        return Consumer(
            cluster, group=self.group, max_wait_ms=POLL_MS, session_timeout_ms=self.session_ms,
            max_poll_interval_ms=self.poll_interval_ms, heartbeat_interval_ms=min(3_000, self.session_ms // 3),
            assignors=self.assignors, group_instance_id=self.name, metadata_max_age_ms=METADATA_MAX_AGE_MS,
            auto_commit_interval_ms=self.auto_commit_ms,
        )  # fmt: skip

    async def _live(self, consumer: Consumer) -> None:
        await self._subscribe(consumer)
        habits: list[Habit] = [
            self._read, self._read, self._hold_back, self._hold_back, self._change_subscription, self._unsubscribe,
            self._ask_where_it_is, *([] if self.auto_commit_ms else [self._go_back, self._go_back]),
            *([self._be_busy] if self.poll_interval_ms + self.session_ms <= SHORT_MS else []),
        ]  # fmt: skip
        for _ in range(self.chance.whole(2, 9)):
            if self._is_over or self.workload.healed.is_set():
                break
            await self.chance.one_of(habits)(consumer)
            await self._rest()
        if self.workload.healed.is_set() and self._sought is None:
            await self._read_to_the_end(consumer)

    async def _rest(self) -> None:
        await asyncio.sleep(self.chance.exponential_ns(RESTS_NS) / 1e9)

    # which topics

    async def _subscribe(self, consumer: Consumer) -> None:
        """With a pattern there may be more topics from one moment to the next."""
        wanted = re.compile("|".join([*map(re.escape, self.topics), "new-[12]"])) if self.by_pattern else self.topics
        await consumer.subscribe(wanted, on_assigned=self._assigned)

    def _assigned(self, fresh: list[TopicPartition]) -> None:
        """A newly assigned partition begins at the group's committed offset, wherever it went before."""
        for place in fresh:
            self._floors.pop(place, None)
            if self._sought:
                self._sought.pop(place, None)

    async def _change_subscription(self, consumer: Consumer) -> None:
        await consumer.subscribe(self.topics[: self.chance.whole(1, len(self.topics))], on_assigned=self._assigned)
        await self._read(consumer)
        await self._subscribe(consumer)

    async def _unsubscribe(self, consumer: Consumer) -> None:
        """Without a subscription it has no partition and is given nothing."""
        await consumer.unsubscribe()
        await self._rest()
        given = await self._take(consumer, POLL_MS if self.chance.happens(0.3) else 1)
        self.workload.world.check("G4")
        if given or consumer.assignment:
            self.workload.world.violated("G4", f"{self.client} has no subscription, and is given {given}")
        await self._subscribe(consumer)

    # reading

    async def _take(self, consumer: Consumer, max_ms: int, most: int | None = None) -> dict[TopicPartition, int]:
        assert consumer.member is not None
        generation, held = consumer.member.generation, consumer.paused
        first = await self.workload.take(
            consumer, self.client, self.group, max_ms, self._sought, self._floors, most=most
        )
        self.workload.world.check("G4")
        if given := [place for place in first if place in held and place in consumer.paused]:
            self.workload.world.violated(
                "G4", f"{self.client} has paused {given[0]}, and is given records of it", str(given[0])
            )
        if consumer.member.generation != generation:
            self._forget_where_it_went()
        self._given.update(dict.fromkeys(first))
        return first

    def _forget_where_it_went(self) -> None:
        self._sought = None
        self._floors.clear()
        self._given.clear()

    async def _read(self, consumer: Consumer) -> None:
        for _ in range(self.chance.whole(1, 4)):
            await self._take(consumer, POLL_MS, FEW if self.chance.happens(0.5) else None)
            await self._rest()
        await self._commit(consumer)

    async def _hold_back(self, consumer: Consumer) -> None:
        """Pauses some or all of its partitions; in a rebalance it may lose them."""
        places = consumer.assignment
        if places:
            consumer.pause(*([place for place in places if self.chance.happens(0.6)] or places))
        for _ in range(self.chance.whole(1, 4)):
            await self._take(consumer, POLL_MS // 2)
        if consumer.paused and self.chance.happens(0.9):
            consumer.resume(*consumer.paused)
        await self._read(consumer)

    async def _go_back(self, consumer: Consumer) -> None:
        """Seeks back within what it was given, and commits nothing from before its group's offset."""
        places = [place for place in consumer.positions() if place in self._given]
        if places:
            place = self.chance.one_of(sorted(places))
            at = consumer.position(place)
            offset = max(0, at - self.chance.whole(0, BACK_MAX))
            consumer.seek(place, offset)
            self._sought = {**(self._sought or {}), place: offset}
            self._floors[place] = offset
        await self._take(consumer, POLL_MS, FEW if self.chance.happens(0.5) else None)

    async def _be_busy(self, consumer: Consumer) -> None:
        """For longer than its poll interval and its session timeout."""
        assert consumer.member is not None
        await self._read(consumer)
        member_id, world, before = consumer.member.member_id, self.workload.world, self._coordinated()
        if consumer.member.generation < 0:
            return  # it is let in whether it polls or not, and others may take their time
        begun_ns, away_ms = world.loop.now_ns, self.poll_interval_ms + self.session_ms + MISSED_MS
        is_far = False
        for _ in range(LOOKS):
            await asyncio.sleep(away_ms / LOOKS / 1e3)
            is_far = is_far or any(self._is_far(name) for name in before)
        after = self._coordinated()
        for name in [name for name, group in before.items() if after.get(name) is group and not is_far]:
            calm_ns = self.workload.calm_since_ns.get(name, world.loop.now_ns)
            world.check("G8")
            if calm_ns < begun_ns and self.name is None and member_id in after[name].members:
                world.violated(
                    "G8", f"{self.client} has not polled for {away_ms} ms, and may not be busy for more than "
                    f"{self.poll_interval_ms}; {name} has it in {self.group} still", node=name,
                )  # fmt: skip
        await self._read(consumer)

    def _coordinated(self) -> dict[str, Group]:
        """By broker: its group."""
        brokers = self.workload.world.brokers.items()
        owned = [(name, each) for name, broker in brokers for each in broker.groups.owned]
        return {name: each.groups[self.group] for name, each in owned if self.group in each.groups}

    def _is_far(self, name: str) -> bool:
        network = self.workload.world.network
        return network.link(self.client, name).hindered or network.link(name, self.client).hindered

    # where its group is

    async def _commit(self, consumer: Consumer) -> None:
        """After a seek back it commits nothing before what a member of its group has asked to commit."""
        history, now_ns = self.workload.history, self.workload.world.loop.now_ns
        wanted = {
            place: committed
            for place, committed in consumer.offsets_to_commit().items()
            if self._sought is None
            or committed.offset >= max(history.asked_to_commit.get((self.group, str(place)), {0: 0}))
        }
        if self.auto_commit_ms is not None or not wanted:
            return
        offsets = {str(place): committed.offset for place, committed in wanted.items()}
        history.asks_to_commit(self.group, offsets, now_ns)
        try:
            await consumer.commit(wanted)
        except KafkaError as error:
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            return  # the next poll goes on with what it has then
        history.has_committed(self.group, offsets, self.workload.world.loop.now_ns)

    async def _ask_where_it_is(self, consumer: Consumer) -> None:
        await self._commit(consumer)
        told = self.workload.on_asked_offsets(self.group)
        for place, offset in sorted((await consumer.committed()).items() if consumer.assignment else ()):
            told(str(place), offset)

    def _has_to_read(self, consumer: Consumer) -> None:
        if self.stays:
            topics = tuple(name for name in self.workload.world.children("/brokers/topics") if name in self.topics)
            self.workload.reading[self.client] = Reader(consumer, self.group, topics, committed=False, commits=True)

    async def _read_to_the_end(self, consumer: Consumer) -> None:
        """With some partitions paused for a moment, behind what was fetched of them already."""
        if consumer.paused:
            consumer.resume(*consumer.paused)
        await self._subscribe(consumer)
        while not self._is_over:
            self._has_to_read(consumer)
            await self._take(consumer, POLL_MS, 1 if self.chance.happens(0.5) else None)
            if consumer.positions() and self.chance.happens(0.2):
                held = self.chance.one_of(sorted(consumer.positions()))
                consumer.pause(held)
                await self._take(consumer, POLL_MS // 2)
                consumer.resume(*consumer.paused)
            await self._commit(consumer)
            await asyncio.sleep(0.1)
