"""Faults of ZooKeeper, as a broker's session meets them; `Nemesis` carries them out with all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action
from barnabas.sim.world.world import ZOOKEEPER, World

Strike: TypeAlias = Callable[[Action, Chance], Callable[[], None] | None]
"""Begins a fault; returns how to undo it, where it lasts."""


class ZooKeeperFaults:
    """`node_of` resolves the node of an action."""

    def __init__(self, world: World, node_of: Callable[[Action], str]) -> None:
        self.world = world
        self._node = node_of
        self.by_name: dict[str, Strike] = {
            "zk-loss": self._loss,
            "zk-expire": self._expire,
            "zk-stale": self._stale,
            "zk-late": self._late,
            "zk-auth-fail": self._auth_fail,
        }

    def _loss(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        coordinator, node = self.world.coordinator, self._node(action)
        if coordinator is None or not node:
            return None
        before = coordinator.struck["zk-loss"]
        applied = bool(action.arguments.get("applied", True))
        coordinator.lose_requests[node] = [applied] * max(1, action.whole("count", 1))

        def undo() -> None:
            coordinator.lose_requests.pop(node, None)
            self.world.struck("zk-loss", min(1, coordinator.struck["zk-loss"] - before))

        return undo

    def _expire(self, action: Action, chance: Chance) -> None:
        coordinator, node = self.world.coordinator, self._node(action)
        if coordinator is not None and node and self.world.nodes[ZOOKEEPER].alive:
            self.world.struck("zk-expire", min(1, coordinator.expire(node)))

    def _stale(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        coordinator, node = self.world.coordinator, self._node(action)
        process = self.world.nodes[ZOOKEEPER].process
        if coordinator is None or not node or process is None or not process.alive:
            return None
        before = coordinator.struck["zk-stale"]
        coordinator.fall_behind(node, action.whole("lag_ns", 500 * MS) // MS)

        def undo() -> None:
            for link in self.world.links_to_zookeeper(node):
                link.clear_ns = max(link.clear_ns, self.world.loop.now_ns)  # only now can it hear what it missed
            if process.alive:  # else its front end, and what that had yet to do, ended with it
                coordinator.catch_up(node)
            self.world.struck("zk-stale", min(1, coordinator.struck["zk-stale"] - before))

        return undo

    def _late(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        coordinator = self.world.coordinator
        if coordinator is None:
            return None
        before = coordinator.struck["zk-late"]
        coordinator.ephemerals_late_ms = action.whole("by_ns", 1_000 * MS) // MS
        node = self._node(action)
        if node and self.world.nodes[ZOOKEEPER].alive:
            coordinator.expire(node)

        def undo() -> None:
            if self.world.coordinator is not None:
                self.world.coordinator.ephemerals_late_ms = 0
                self.world.struck("zk-late", min(1, self.world.coordinator.struck["zk-late"] - before))

        return undo

    def _auth_fail(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        coordinator, node = self.world.coordinator, self._node(action)
        if coordinator is None or not node:
            return None
        before = coordinator.struck["zk-auth-fail"]
        coordinator.refuse_sessions[node] = None
        if self.world.nodes[ZOOKEEPER].alive:
            coordinator.expire(node)

        def undo() -> None:
            coordinator.refuse_sessions.pop(node, None)
            self.world.struck("zk-auth-fail", min(1, coordinator.struck["zk-auth-fail"] - before))

        return undo
