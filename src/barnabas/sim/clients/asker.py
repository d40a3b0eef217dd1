"""Somebody who asks, again and again, what operators ask. What the answers may be is known: G6, R5 and R23."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import LATEST, ListedOffset
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 700_000_000
IN_A_ROW: Final = 20
IN_A_ROW_PAUSE_NS: Final = 30_000_000


class Asker:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.group = str(action.arguments["group"])
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        questions: list[Callable[[Admin], Any]] = [
            self._offsets, self._offsets, self._lookup, self._lookup, self._ends, self._ends, self._groups,
            _transactions, self._producers,
        ]  # fmt: skip
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            await asyncio.sleep(self.chance.exponential_ns(PAUSE_NS) / 1e9)
            try:
                await self.chance.one_of(questions)(admin)
            except (KafkaError, OSError) as error:
                self.workload.failed(self.client, error)

    async def _partitions(self, admin: Admin) -> list[TopicPartition]:
        return (await admin.cluster.refresh([self.topic])).partitions(self.topic)

    async def _offsets(self, admin: Admin) -> None:
        """Several times in a row: another broker coordinates the group from one moment to the next."""
        partitions = await self._partitions(admin)
        for _ in range(self.chance.whole(1, IN_A_ROW)):
            told = self.workload.on_asked_offsets(self.group)
            found = await committed_offsets(admin.cluster, self.group, partitions)
            for partition, offset in sorted(found.items()):
                told(str(partition), offset)
            await asyncio.sleep(self.chance.exponential_ns(IN_A_ROW_PAUSE_NS) / 1e9)

    async def _lookup(self, admin: Admin) -> None:
        """By the very time of a record that was acknowledged."""
        history = self.workload.history
        known = [
            sent
            for sent in history.sent.values()
            if sent.topic == self.topic and sent.timestamp >= 0 and sent.offset >= 0 and sent.acks == -1
        ]
        if known:
            sent = self.chance.one_of(known)
            each = TopicPartition(sent.topic, sent.partition)
            told = self.workload.on_looked_up(each, sent)
            found = (await admin.list_offsets({each: sent.timestamp}))[each]
            if isinstance(found, ListedOffset):
                told(found)

    async def _ends(self, admin: Admin) -> None:
        """Several times in a row: an end that goes back does so for a moment, when a leader begins (KIP-207)."""
        partitions = await self._partitions(admin)
        for _ in range(self.chance.whole(1, IN_A_ROW)):
            await admin.list_offsets(dict.fromkeys(partitions, LATEST))
            await asyncio.sleep(self.chance.exponential_ns(IN_A_ROW_PAUSE_NS) / 1e9)

    async def _groups(self, admin: Admin) -> None:
        told = self.workload.on_asked_groups()
        told([known.group for known in await admin.list_groups()])

    async def _producers(self, admin: Admin) -> None:
        await admin.describe_producers(await self._partitions(admin))


async def _transactions(admin: Admin) -> None:
    await admin.list_transactions()
