"""Somebody who looks after groups and transactions, as operators' tools do: describes them, looks for what hangs,
deletes what nobody seems to use, and fences a producer. What may be deleted, and who is fenced, is judged where it is
decided (G9, T9); that an answer says what the coordinator knows, here: G6."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 600 * MS
STATES: Final = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance")
IDLE_MS: Final = 60_000


class Operator:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.group = str(action.arguments["group"])
        self.topic = str(action.arguments["topic"])
        self.fences = str(action.arguments.get("fences", ""))
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        does: list[Callable[[Admin], Awaitable[None]]] = [
            self._describe, self._describe, self._list, self._delete, self._delete, self._look_for_what_hangs,
        ]  # fmt: skip
        if self.fences:
            does.append(self._fence)
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            await asyncio.sleep(self.chance.exponential_ns(PAUSE_NS) / 1e9)
            try:
                await self.chance.one_of(does)(admin)
            except (KafkaError, OSError) as error:
                self.workload.failed(self.client, error)

    async def _partitions(self, admin: Admin) -> list[TopicPartition]:
        return (await admin.cluster.refresh([self.topic])).partitions(self.topic)

    async def _describe(self, admin: Admin) -> None:
        """Of a group that is at work nobody shares a partition with another."""
        found = await admin.describe_group(self.group)
        owned = [each for member in found.members for each in member.assignment]
        self.workload.world.check("G6")
        if len({*owned}) < len(owned):
            self.workload.world.violated("G6", f"of group {self.group} {self.client} is told that {owned} are owned")

    async def _list(self, admin: Admin) -> None:
        states = self.chance.shuffled(STATES)[: self.chance.whole(1, 2)]
        listed = await admin.list_groups(states)
        self.workload.world.check("G6")
        if others := [known for known in listed if known.state not in states]:
            self.workload.world.violated("G6", f"{self.client} is told of {others}, and has asked for {states}")

    async def _delete(self, admin: Admin) -> None:
        """The group itself, or what it has committed."""
        if self.chance.happens(0.3):
            await admin.delete_group(self.group)
        elif partitions := await self._partitions(admin):
            await admin.delete_group_offsets(self.group, partitions[: self.chance.whole(1, len(partitions))])

    async def _look_for_what_hangs(self, admin: Admin) -> None:
        """Nothing is open for so long that a coordinator would not have ended it."""
        listed = await admin.list_transactions(states=["Ongoing"])
        await admin.describe_transactions(known.transactional_id for known in listed)
        await admin.find_hanging_transactions(await self._partitions(admin), idle_for_ms=IDLE_MS)

    async def _fence(self, admin: Admin) -> None:
        identity = await admin.fence_producer(self.fences)
        self.workload.history.transactional_ids[identity.producer_id] = self.fences
