"""A client that asks what operators ask, again and again. Its answers are judged by G6, R5 and R23."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.client.admin import Admin
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import LATEST, ListedOffset
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.inquirer import Inquirer, Question, partitions_of
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 700_000_000
IN_A_ROW: Final = 20
IN_A_ROW_PAUSE_NS: Final = 30_000_000


class Asker(Inquirer):
    def __init__(self, workload: Workload, action: Action) -> None:
        super().__init__(workload, action, PAUSE_NS)
        self.topic = str(action.arguments["topic"])
        self.group = str(action.arguments["group"])

    def questions(self) -> Sequence[Question]:
        return [
            self._offsets, self._offsets, self._lookup, self._lookup, self._ends, self._ends, self._groups,
            _transactions, self._producers,
        ]  # fmt: skip

    async def _offsets(self, admin: Admin) -> None:
        """Asks several times in a row, since another broker may coordinate the group a moment later."""
        partitions = await partitions_of(admin, self.topic)
        for _ in range(self.chance.whole(1, IN_A_ROW)):
            told = self.workload.on_asked_offsets(self.group)
            found = await committed_offsets(admin.cluster, self.group, partitions)
            for partition, offset in sorted(found.items()):
                told(str(partition), offset)
            await asyncio.sleep(self.chance.exponential_ns(IN_A_ROW_PAUSE_NS) / 1e9)

    async def _lookup(self, admin: Admin) -> None:
        """Looks up an acknowledged record by its timestamp."""
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
        """Asks several times in a row: an end goes back only for a moment, when a leader begins (KIP-207)."""
        partitions = await partitions_of(admin, self.topic)
        for _ in range(self.chance.whole(1, IN_A_ROW)):
            await admin.list_offsets(dict.fromkeys(partitions, LATEST))
            await asyncio.sleep(self.chance.exponential_ns(IN_A_ROW_PAUSE_NS) / 1e9)

    async def _groups(self, admin: Admin) -> None:
        told = self.workload.on_asked_groups()
        told([known.group for known in await admin.list_groups()])

    async def _producers(self, admin: Admin) -> None:
        await admin.describe_producers(await partitions_of(admin, self.topic))


async def _transactions(admin: Admin) -> None:
    await admin.list_transactions()
