"""Watches what remains of removed replicas and deleted topics (C15).

When a controller removes a replica from an assignment, it tells the broker once to stop it and delete its log. If the
broker is away then, or the controller dies before, the broker keeps the log, as in Kafka. A broker that was there all
the time must not keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.loop import Incarnation
from barnabas.sim.world.world import World, broker_name, broker_number

CALM_NS: Final = 10_000_000_000
"""For so long before the removal nothing may have happened to broker or controller, because a move takes a while."""
DELETED_WITHIN_NS: Final = 20_000_000_000


class Dropped(NamedTuple):
    """A replica that `controller` removed from its partition's assignment."""

    at_ns: int
    node: str
    partition: str
    topic_id: str
    controller: str


class LeftoverWatch:
    def __init__(self, world: World, logs: LogWatch, is_assigned: Callable[[str, int], bool]) -> None:
        """`is_assigned` is asked for a partition and a broker's id."""
        self.world = world
        self.logs = logs
        self._is_assigned = is_assigned
        self._dropped: list[Dropped] = []
        self._may_keep: set[tuple[str, str]] = set()
        """By node and partition: removed replicas whose broker or controller was not there to delete them."""
        self._processes: dict[str, Incarnation | None] = {}
        self.reached_since_ns: dict[str, int] = {}
        """By node: since when it runs and every other node reaches it."""
        self.calm_since_ns: dict[str, int] = {}
        """By node: since when nothing has happened to it or its disk."""

    def dropped(self, partition: str, broker_id: int) -> None:
        """The broker is no replica of the partition any more."""
        node, controller, now_ns = broker_name(broker_id), self.world.controller(), self.world.loop.now_ns
        log = self.logs.of.get((node, partition))
        calm = (now_ns - self.calm_since_ns.get(name, now_ns) >= CALM_NS for name in (node, controller or ""))
        if log is not None and controller is not None and all(calm):
            self._dropped.append(Dropped(now_ns, node, partition, str(log.topic_id), controller))
        else:
            self._may_keep.add((node, partition))

    def look(self) -> None:
        """Runs at least twice a second. A removed log that is gone is fine, and a broker that was disturbed may keep
        it."""
        for name in self.world.broker_names:
            is_reached = self._is_reached(name)
            if not is_reached:
                self.reached_since_ns[name] = self.world.loop.now_ns
            if not is_reached or self.world.is_in_disk_trouble(name):
                self.calm_since_ns[name] = self.world.loop.now_ns
        self._dropped = [dropped for dropped in self._dropped if self._is_left(dropped)]
        self._may_keep -= {kept for kept in self._may_keep if self._is_assigned(kept[1], broker_number(kept[0]))}

    def _is_reached(self, name: str) -> bool:
        world, process = self.world, self.world.nodes[name].process
        before, self._processes[name] = self._processes.get(name), process
        if process is not before or name not in world.brokers or world.disturbed(name):
            return False
        link, others = world.network.link, [other for other in world.broker_names if other != name]
        return not any(link(name, other).hindered or link(other, name).hindered for other in others)

    def _is_left(self, each: Dropped) -> bool:
        world = self.world
        log = self.logs.of.get((each.node, each.partition))
        if self._is_assigned(each.partition, broker_number(each.node)):
            return False
        if log is None or str(log.topic_id) != each.topic_id:
            world.check("C15")
            return False
        calm = (self.calm_since_ns.get(name, 0) < each.at_ns for name in (each.node, each.controller))
        if world.controller() != each.controller or not all(calm):
            self._may_keep.add((each.node, each.partition))
            return False
        if world.loop.now_ns - each.at_ns < DELETED_WITHIN_NS:
            return True
        world.check("C15")
        world.violated(
            "C15", f"{each.node} keeps {each.partition}, of which it is no replica since {each.at_ns / 1e9:.1f} s",
            each.partition, each.node,
        )  # fmt: skip
        return False

    def judge(self) -> None:
        """Nothing remains of a deleted topic, because its deletion waits for each of its replicas."""
        world = self.world
        for name, partition in self.logs.of:
            if (name, partition) in self._may_keep:
                continue
            world.check("C15")
            if name in world.brokers and world.znode(f"/brokers/topics/{partition.rpartition('-')[0]}") is None:
                world.violated("C15", f"{name} keeps {partition} of a topic that is deleted", partition, name)
