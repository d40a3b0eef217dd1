"""Watches members that wait for their coordinator (G8): JoinGroup and SyncGroup are answered when a rebalance is over.

A group knows its members. A request of somebody who is no member any more, or of a group that nobody looks at, is known
to nobody but this watch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Join
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World

LATE_MS: Final = 3_000


@dataclass(eq=False, slots=True)
class UnansweredJoin:
    """A JoinGroup or SyncGroup at one process. `since_ns` is when it came, or when the node was disturbed last."""

    node: str
    life: int
    group: str
    what: str
    since_ns: int


class JoinWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self.waiting: dict[UnansweredJoin, None] = {}
        self._longest_ms: dict[str, int] = {}
        """By group: the longest rebalance timeout of any member."""
        probes.around(GroupCoordinator, "join", self._around_join)
        probes.around(GroupCoordinator, "sync", self._around_sync)

    async def _around_join(self, original: Any, groups: GroupCoordinator, group: str, join: Join) -> Any:
        self._longest_ms[group] = max(join.rebalance_timeout_ms, self._longest_ms.get(group, 0))
        return await self._noted(group, "join", original(groups, group, join))

    async def _around_sync(self, original: Any, groups: GroupCoordinator, group: str, sync: Any) -> Any:
        return await self._noted(group, "sync", original(groups, group, sync))

    async def _noted(self, group: str, what: str, story: Any) -> Any:
        waiting = UnansweredJoin(node(), life(), group, what, self.world.loop.now_ns)
        self.waiting[waiting] = None
        try:
            return await story
        finally:
            self.waiting.pop(waiting, None)

    def look(self) -> None:
        for waiting in list(self.waiting):
            world, broker = self.world, self.world.brokers.get(waiting.node)
            process = world.nodes[waiting.node].process
            if broker is None or process is None or process.number != waiting.life:
                del self.waiting[waiting]
                continue
            if world.disturbed(waiting.node) or world.is_in_disk_trouble(waiting.node):
                waiting.since_ns = world.loop.now_ns
                continue
            world.check("G8")
            # What is shared is written first; and the first rebalance of a group is put off.
            settings = "offsets.commit.timeout.ms", "group.initial.rebalance.delay.ms"
            allowed_ms = self._longest_ms.get(waiting.group, 0) + sum(map(broker.config.number, settings)) + LATE_MS
            if world.loop.now_ns - waiting.since_ns > allowed_ms * MS:
                del self.waiting[waiting]
                world.violated(
                    "G8", f"{waiting.node} leaves a {waiting.what} of group {waiting.group} without an answer for "
                    f"{allowed_ms} ms", node=waiting.node,
                )  # fmt: skip
