"""An operator who looks after groups and transactions: describes them, looks for hanging ones, deletes what seems
unused, and fences a producer. Deletions and fencing are judged where they are decided (G9, T9); here is judged that an
answer says what the coordinator knows (G6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.client.admin import Admin
from barnabas.sim.clients.inquirer import Inquirer, Question, partitions_of
from barnabas.sim.plans.plan import MS, Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 600 * MS
STATES: Final = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance")
IDLE_MS: Final = 60_000


class Operator(Inquirer):
    def __init__(self, workload: Workload, action: Action) -> None:
        super().__init__(workload, action, PAUSE_NS)
        self.group = str(action.arguments["group"])
        self.topic = str(action.arguments["topic"])
        self.fences = str(action.arguments.get("fences", ""))

    def questions(self) -> Sequence[Question]:
        return [
            self._describe, self._describe, self._list, self._delete, self._delete, self._look_for_what_hangs,
            *([self._fence] if self.fences else []),
        ]  # fmt: skip

    async def _describe(self, admin: Admin) -> None:
        """In an active group no partition has two owners."""
        found = await admin.describe_group(self.group)
        owned = [each for member in found.members for each in member.assignment]
        self.workload.world.check("G6")
        if len({*owned}) < len(owned):
            self.workload.world.violated(
                "G6", f"{self.client} is told that the members of group {self.group} own {owned}"
            )

    async def _list(self, admin: Admin) -> None:
        states = self.chance.shuffled(STATES)[: self.chance.whole(1, 2)]
        listed = await admin.list_groups(states)
        self.workload.world.check("G6")
        if others := [known for known in listed if known.state not in states]:
            self.workload.world.violated("G6", f"{self.client} is told of {others}, and has asked for {states}")

    async def _delete(self, admin: Admin) -> None:
        """Deletes the group, or its committed offsets."""
        if self.chance.happens(0.3):
            await admin.delete_group(self.group)
        elif partitions := await partitions_of(admin, self.topic):
            await admin.delete_group_offsets(self.group, partitions[: self.chance.whole(1, len(partitions))])

    async def _look_for_what_hangs(self, admin: Admin) -> None:
        """No transaction is open for longer than its coordinator lets it."""
        listed = await admin.list_transactions(states=["Ongoing"])
        await admin.describe_transactions(known.transactional_id for known in listed)
        await admin.find_hanging_transactions(await partitions_of(admin, self.topic), idle_for_ms=IDLE_MS)

    async def _fence(self, admin: Admin) -> None:
        identity = await admin.fence_producer(self.fences)
        self.workload.history.transactional_ids[identity.producer_id] = self.fences
