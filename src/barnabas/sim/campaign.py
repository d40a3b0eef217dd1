"""A run of its own beside `run`: three brokers, clients of one kind, and faults aimed at what these clients depend on.

A `Campaign` is the story that such runs share. The brokers start, topics are created, clients begin, faults strike one
after the other; then everything is healed, and what clients were told is judged. Runs differ in values: the brokers'
configuration, the topics, and the strikes with the words in which the report tells them.
"""

from __future__ import annotations

import asyncio
import gc
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.loop import NS
from barnabas.sim.world.slices import small_slices
from barnabas.sim.world.world import World

RECOVERY_S: Final = 120.0

Strike: TypeAlias = Callable[[float], Awaitable[None]]
"""A fault, from its beginning to its end; it is given how many seconds it lasts."""


@dataclass(frozen=True, kw_only=True)
class CampaignOutcome:
    """`wrong` is empty for a good run; each sentence begins with the invariant."""

    seed: int
    wrong: tuple[str, ...]
    event_hash: str
    faults: tuple[str, ...]
    virtual_s: float

    @property
    def good(self) -> bool:
        return not self.wrong


class Campaign(ABC):
    NAME: ClassVar[str]
    CONFIG: ClassVar[Mapping[str, str]]
    PARTITIONS: ClassVar[Mapping[str, int]]
    """By topic: how many partitions."""
    QUIET_S: ClassVar[int]
    """The least time before the first fault."""

    def __init__(self, seed: int, length_s: float) -> None:
        self.seed = seed
        self.length_s = length_s
        self.world = World(seed, 3, self.CONFIG)
        self.chance = Chance(seed, self.NAME)
        self.wrong: list[str] = []
        self.faults: list[str] = []
        self.stopping = False

    @property
    @abstractmethod
    def strikes(self) -> Mapping[str, Strike]: ...

    @property
    @abstractmethod
    def topics(self) -> list[NewTopic]: ...

    @abstractmethod
    def begin(self) -> None:
        """Clients begin."""

    @abstractmethod
    async def judge(self) -> None: ...

    def run(self) -> dict[str, Any]:
        """The fields of a `CampaignOutcome`."""
        # A collection in the middle of a run would end coroutines of dead processes at a moment that no seed draws.
        collecting = gc.isenabled()
        gc.disable()
        world = self.world
        try:
            with small_slices(self.seed % 3):
                world.loop.run_until_complete(self._story())
        except (AssertionError, KafkaError, OSError, RuntimeError) as error:
            self.wrong.append(f"L1: {type(error).__name__}: {error}")
        finally:
            if collecting:
                gc.enable()
        broken = [f"{violation.invariant}: {violation.sentence}" for violation in world.violations]
        unhandled = [f"S4: nobody handled {error}" for error in world.loop.unhandled]
        return {
            "seed": self.seed,
            "wrong": (*broken, *self.wrong, *unhandled),
            "event_hash": world.hash.hexdigest(),
            "faults": tuple(self.faults),
            "virtual_s": world.loop.now_ns / NS,
        }

    async def _story(self) -> None:
        world = self.world
        await world.start_all()
        await world.until(lambda: self._all_up() and world.controller() is not None, "the brokers' start")
        await world.client(lambda _, cluster: self._create_topics(cluster), "admin")
        self.begin()
        await self._strike()
        await self._heal()
        await self.judge()

    def _all_up(self) -> bool:
        names = self.world.broker_names
        return len(self.world.brokers) == len(names) and all(
            len(broker.metadata.image.brokers) == len(names) for broker in self.world.brokers.values()
        )

    async def _create_topics(self, cluster: ClusterClient) -> None:
        for name, error in (await Admin(cluster).create_topics(self.topics)).items():
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise RuntimeError(f"topic {name} could not be created: {error}")

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(self.PARTITIONS[topic])]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for topic in self.PARTITIONS for partition in self.partitions_of(topic)]

    # Faults

    async def _strike(self) -> None:
        world, chance, strikes = self.world, self.chance, self.strikes
        ends_ns = world.loop.now_ns + round(self.length_s * NS)
        await asyncio.sleep(self.QUIET_S + chance.share() * 3)
        while world.loop.now_ns < ends_ns:
            fault = chance.one_of(list(strikes))
            self.faults.append(fault)
            world.note(fault)
            await strikes[fault](chance.share() * chance.one_of([0.3, 3.0, 9.0]))
            await asyncio.sleep(0.2 + chance.share() * 3)

    def any_broker(self) -> str:
        return self.chance.one_of(self.world.broker_names)

    def leader_of(self, partition: str) -> str | None:
        state = self.world.state(partition)
        return None if not state or state["leader"] < 0 else f"broker-{state['leader']}"

    @staticmethod
    def upon(aim: Callable[[], str | None], fault: Callable[[str, float], Awaitable[None]]) -> Strike:
        """Applies `fault` to the broker that `aim` finds when it strikes; does nothing where it finds none."""

        async def strike(lasts_s: float) -> None:
            broker = aim()
            if broker is not None:
                await fault(broker, lasts_s)

        return strike

    async def kill(self, broker: str, lasts_s: float) -> None:
        if self.world.kill(broker):
            await asyncio.sleep(lasts_s)
            self.world.start(broker)

    async def shut_down(self, broker: str, lasts_s: float) -> None:
        await self.world.shut_down(broker)
        await asyncio.sleep(lasts_s)
        self.world.start(broker)

    async def pause(self, node: str, lasts_s: float) -> None:
        self.world.pause(node)
        await asyncio.sleep(lasts_s)
        self.world.resume(node)

    async def lose_power(self, broker: str, _lasts_s: float) -> None:
        if self.world.lose_power_or_die(broker, self.chance):
            await self.world.start_out_of_sync(broker)

    async def _heal(self) -> None:
        world = self.world
        world.network.heal()
        for name in list(world.nodes):
            world.resume(name)
        for name in world.broker_names:
            world.start(name)
        world.note("all is healed")
        await world.until(self._all_up, "every broker up at the end", RECOVERY_S)
        await world.until(self._all_in_sync, "every replica in sync at the end", RECOVERY_S)

    def _all_in_sync(self) -> bool:
        states = [self.world.state(str(partition)) for partition in self.partitions]
        return all(state is not None and state["leader"] >= 0 and len(state["isr"]) == 3 for state in states)
