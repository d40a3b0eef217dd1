"""A client that asks one question after the other, with a pause before each, until its action is over."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

Question: TypeAlias = Callable[[Admin], Awaitable[None]]


class Inquirer(ABC):
    def __init__(self, workload: Workload, action: Action, pause_ns: int) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self._pause_ns = pause_ns

    @abstractmethod
    def questions(self) -> Sequence[Question]:
        """One of these is drawn each time; a question that is listed twice is asked twice as often."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        admin, questions = Admin(cluster), self.questions()
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            await asyncio.sleep(self.chance.exponential_ns(self._pause_ns) / 1e9)
            try:
                await self.chance.one_of(questions)(admin)
            except (KafkaError, OSError) as error:
                self.workload.failed(self.client, error)


async def partitions_of(admin: Admin, topic: str) -> list[TopicPartition]:
    """The topic's partitions as of now, by fresh metadata."""
    return (await admin.cluster.refresh([topic])).partitions(topic)
