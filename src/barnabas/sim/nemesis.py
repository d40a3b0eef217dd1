"""Carries out the faults of a plan, and undoes each when its time is over.

A fault counts (`World.struck`) only when it did something: not when a kill met a dead node, or when nobody wrote to a
full disk. Where two actions stop one node, it stays down until both are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE
from barnabas.sim.clients.stranger import intrude, visit
from barnabas.sim.judges.watch_sequences import EXPIRES
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, in_places
from barnabas.sim.plans.plan import MS, Action
from barnabas.sim.world.disk import Loss, covered_by_crc
from barnabas.sim.world.loop import NS
from barnabas.sim.world.network import Link
from barnabas.sim.world.trace import Happening
from barnabas.sim.world.twin import start_twin
from barnabas.sim.world.world import DATA, ZOOKEEPER, World, broker_name
from barnabas.sim.world.zookeeper_faults import ZooKeeperFaults


class Nemesis:
    def __init__(self, world: World) -> None:
        self.world = world
        self._undo: dict[int, Callable[[], None]] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._begin: dict[str, Callable[[Action, Chance], Callable[[], None] | None]] = {
            **dict.fromkeys(("kill", "bounce"), self._kill),
            **dict.fromkeys(("power-loss", "torn-sector", "lost-pages", "lost-rename"), self._power_loss),
            **dict.fromkeys(("eio-read", "eio-write", "eio-fsync", "dir-gone", "slow-fsync"), self._disk_fault),
            "blackout": self._blackout,
            "bit-rot": self._bit_rot,
            "pause": self._pause,
            "slow-start": self._slow_start,
            "shutdown": self._shut_down,
            "twin": self._twin,
            "slow-cpu": self._slow_cpu,
            "partition": self._partition,
            "one-way": self._one_way,
            "delay": partial(self._slow_links, "delay_ns", 100 * MS),
            "jitter": partial(self._slow_links, "jitter_ns", 50 * MS),
            "reset": self._reset,
            "half-open": self._half_open,
            "slow-reader": self._slow_reader,
            "fragment": self._fragment,
            "clog": self._clog,
            "refuse": self._refuse,
            "lose-reply": self._lose_reply,
            "enospc": self._full_disk,
            "clock-jump": self._clock_jump,
            "clock-drift": self._clock_drift,
            **ZooKeeperFaults(world, self._node).by_name,
            "bit-flip": self._bit_flip,
            "stranger": self._stranger,
            "intruder": self._intruder,
        }

    def knows(self, name: str) -> bool:
        return name in self._begin

    def begin(self, action: Action) -> None:
        """Strikes now, or at the event that the action waits for."""
        event = action.arguments.get("when")
        if event is None:
            self._strike(action)
            return
        self._undo[action.number] = self.world.events.wait_for(
            str(event),
            action.whole("nth", 1),
            lambda here, there: self._strike_at(action, {"here": here, "there": there}),
        )

    def _strike_at(self, action: Action, places: Mapping[str, str]) -> None:
        """The event has come. A node that dies amid an operation on its own disk dies at once. Everything else strikes
        one callback later, before anything else arrives anywhere. Clients, whose events count too, are only paused."""
        world, kind = self.world, str(action.arguments["when"]).split()[0]
        struck_node = places.get(str(action.arguments.get("node")), world.broker_names[0])
        if struck_node not in world.broker_names and not (action.name == "pause" and self._may_stand_still):
            return
        said = {key: value for key, value in action.arguments.items() if key not in ("when", "nth", "later_ms")}
        for name in [key for key in ("node", "others", "links") if key in said]:
            said[name] = in_places(said[name], places)
        struck = replace(action, arguments=said)

        def strike() -> None:
            before = sum(world.faults.values())
            self._undo.pop(action.number, None)
            self._strike(struck)
            event = " ".join(str(action.arguments["when"]).split()[:2])
            if sum(world.faults.values()) > before or action.number in self._undo:
                world.events_struck[event] = world.events_struck.get(event, 0) + 1
            if action.duration_ns:
                world.loop.call_later(action.duration_ns / NS, self.undo, action, context=world.context)

        later_ms = action.whole("later_ms", 0)
        if later_ms:
            waiting = world.loop.call_later(later_ms / 1000, strike, context=world.context)
            self._undo[action.number] = waiting.cancel
        elif kind == DISK:
            world.context.copy().run(strike)
        else:
            world.loop.call_soon(strike, context=world.context)

    @property
    def _may_stand_still(self) -> bool:
        """Whether clients may pause: where brokers forget producers, a batch that is repeated late is appended
        twice."""
        return not any(key in self.world.config_of(0, broker_name(0)) for key in EXPIRES)

    def _strike(self, action: Action) -> None:
        world = self.world
        chance = Chance(world.seed, f"action/{action.number}")
        node = self._node(action)
        said = dict(action.arguments)
        if node:
            said["node"] = node
        words = " ".join([action.name, *(f"{key}={value}" for key, value in said.items())])
        world.trace.tell(
            node, Happening.ACTION, words,
            number=action.number, name=action.name, arguments=said, duration_ns=action.duration_ns,
        )  # fmt: skip
        undo = self._begin[action.name](action, chance)
        if undo is not None:
            self._undo[action.number] = undo

    def time_is_over(self, action: Action) -> None:
        """Undoes a fault that struck at a time. A fault that waits for its event goes on waiting, and lasts from
        there."""
        if "when" not in action.arguments:
            self.undo(action)

    def undo(self, action: Action) -> None:
        undo = self._undo.pop(action.number, None)
        if undo is not None:
            self.world.trace.tell(
                "", Happening.UNDONE, f"{action.name} is over", number=action.number, name=action.name
            )
            undo()

    def undo_all(self) -> None:
        for number in list(self._undo):
            self._undo.pop(number)()

    def spawn(self, story: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self.world.loop.create_task(story, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self.world.violated("S4", f"{task.get_name()}: {task.exception()!r}")

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    # Which node is meant

    def _node(self, action: Action) -> str:
        return self.resolve(str(action.arguments.get("node", "")))

    def resolve(self, name: str) -> str:
        """The node that has the role now; a node that does not exist is none."""
        world = self.world
        if name == "controller":
            return world.controller() or world.broker_names[0]
        role, _, partition = name.partition(":")
        if role in ("leader", "follower"):
            state = world.state(partition)
            leader = -1 if state is None else state["leader"]
            if role == "follower":
                others = [member for member in ([] if state is None else state["isr"]) if member != leader]
                leader = others[0] if others else -1
            return broker_name(leader) if leader >= 0 else world.broker_names[0]
        return name if name in world.nodes else ""

    def _links(self, action: Action) -> list[tuple[str, str]]:
        wanted = action.arguments.get("links", [])
        assert isinstance(wanted, list)
        pairs = [str(link).partition(">") for link in wanted]
        return [(self.resolve(source), self.resolve(target)) for source, _, target in pairs]

    def _others(self, action: Action, node: str) -> list[str]:
        others = action.arguments.get("others", [])
        assert isinstance(others, list)
        return [other for other in map(self.resolve, map(str, others)) if other and other != node]

    # Processes

    def _down(self, node: str) -> Callable[[], None]:
        world = self.world
        world.held_down[node] = world.held_down.get(node, 0) + 1

        def up() -> None:
            world.held_down[node] -= 1
            world.start(node)

        return up

    def _kill(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        if not node or not self._may_die(node) or not self.world.kill(node):
            return None
        self.world.struck(action.name)
        return self._down(node)

    def _may_die(self, node: str) -> bool:
        """A client that would not know after its death what it has done is only paused."""
        return node in (ZOOKEEPER, *self.world.broker_names, *self.world.begin_again)

    def _blackout(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        names = [*self.world.broker_names, *([ZOOKEEPER] if action.arguments.get("coordinator") else [])]
        ups = [self._down(name) for name in names if self.world.kill(name)]
        self.world.struck(action.name, min(1, len(ups)))

        def undo() -> None:
            for up in reversed(ups):
                up()

        return undo

    def _power_loss(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        loss = Loss()
        if action.name == "torn-sector":
            loss.page_survives, loss.torn = 0.9, 0.6
        elif action.name == "lost-pages":
            loss.page_survives, loss.torn, loss.size_survives = chance.share() * 0.5, 0.0, 0.5
        elif action.name == "lost-rename":
            loss.name_survives, loss.size_survives = 0.0 if chance.happens(0.5) else 0.5, 0.5
        outcome = self.world.lose_power(node, loss, chance) if node else None
        if outcome is None:
            return None
        self.world.struck("power-loss")
        self.world.struck("torn-sector", min(1, outcome.torn_pages))
        self.world.struck("lost-pages", min(1, outcome.lost_pages))
        self.world.struck("lost-rename", min(1, outcome.lost_names))
        return self._down(node)

    def _pause(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        if not node or not self.world.pause(node):
            return None
        self.world.struck("pause")
        return lambda: self.world.resume(node)

    def _slow_start(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        if not node or not self.world.kill(node):
            return None
        self.world.struck("slow-start")
        self.world.start_slowly(node, 400 * MS, chance)
        return self._down(node)

    def _shut_down(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        if node not in self.world.brokers:
            return None
        self.world.struck("shutdown")
        up = self._down(node)
        down = self.spawn(self.world.shut_down(node), f"shutdown of {node}")

        def undo() -> None:
            if down.done():
                up()
            else:
                down.add_done_callback(lambda _: up())

        return undo

    def _twin(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        original = self._node(action)
        if original not in self.world.brokers:
            return None
        self.world.struck("twin")
        return start_twin(self.world, original, action.number, chance)

    def _slow_cpu(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        process = self.world.nodes[self._node(action)].process
        if process is None:
            return None
        process.stall(action.whole("lag_ns", 200 * MS), chance)

        def undo() -> None:
            process.stall_ns = 0
            self.world.struck("slow-cpu", min(1, process.stalls))

        return undo

    def _stranger(self, action: Action, chance: Chance) -> None:
        self.spawn(visit(self.world, self._node(action), chance), "stranger")

    def _intruder(self, action: Action, chance: Chance) -> None:
        self.world.struck("intruder")
        self.spawn(intrude(self.world, self._node(action), chance), "intruder")

    # Links

    def _partition(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        others = self._others(action, node)
        if not node or not others:
            return None
        self.world.struck("partition")
        self.world.network.partition([node], others)

        def undo() -> None:
            for other in others:
                self.world.network.mend(node, other)
                self.world.network.mend(other, node)

        return undo

    def _one_way(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        others = self._others(action, node)
        if not node or not others:
            return None
        self.world.struck("one-way")
        for other in others:
            self.world.network.cut(node, other)

        def undo() -> None:
            for other in others:
                self.world.network.mend(node, other)

        return undo

    def _each_link(
        self, action: Action, do: Callable[[Link], None], undo: Callable[[Link], None]
    ) -> Callable[[], None]:
        links = [self.world.network.link(source, target) for source, target in self._links(action)]
        for link in links:
            do(link)

        def undo_each() -> None:
            for link in links:
                undo(link)

        return undo_each

    def _slow_links(self, by: str, default_ns: int, action: Action, chance: Chance) -> Callable[[], None]:
        """`by` is the attribute of each link that grows, and the argument that says by how much."""
        more_ns = action.whole(by, default_ns)
        self.world.struck(action.name)
        return self._each_link(
            action,
            lambda link: setattr(link, by, getattr(link, by) + more_ns),
            lambda link: setattr(link, by, max(0, getattr(link, by) - more_ns)),
        )

    def _if_met(self, fault: str, met: Callable[[], int], undo: Callable[[], None]) -> Callable[[], None]:
        """Undoes the fault, which counts if `met` is more by then than it is now."""
        before = met()

        def undo_and_count() -> None:
            undo()
            self.world.struck(fault, min(1, met() - before))

        return undo_and_count

    def _fragment(self, action: Action, chance: Chance) -> Callable[[], None]:
        heal = self._each_link(
            action, lambda link: setattr(link, "fragment", True), lambda link: setattr(link, "fragment", False)
        )
        return self._if_met("fragment", lambda: self.world.network.fragments, heal)

    def _refuse(self, action: Action, chance: Chance) -> Callable[[], None]:
        network = self.world.network
        heal = self._each_link(
            action, lambda link: setattr(link, "refuses", True), lambda link: setattr(link, "refuses", False)
        )
        undo = self._if_met("refuse", lambda: network.refused, heal)
        for source, target in self._links(action):
            network.reset_between(source, target)
        return undo

    def _reset(self, action: Action, chance: Chance) -> None:
        found = sum(self.world.network.reset_between(source, target) for source, target in self._links(action))
        self.world.struck("reset", min(1, found))

    def _half_open(self, action: Action, chance: Chance) -> None:
        found = sum(self.world.network.sever_between(source, target) for source, target in self._links(action))
        self.world.struck("half-open", min(1, found))

    def _slow_reader(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self._node(action)
        if not node:
            return None
        self.world.struck("slow-reader")
        self.world.network.read_slowly(node, True)
        return lambda: self.world.network.read_slowly(node, False)

    def _clog(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        links = self._links(action)
        network = self.world.network
        on = [True]
        wave_ns = max(MS, action.whole("wave_ns", 300 * MS))

        async def waves() -> None:
            clogged = False
            while on:
                clogged = not clogged
                for source, target in links:
                    network.clog(source, target, clogged)
                await asyncio.sleep(chance.exponential_ns(wave_ns) / 1e9)
            for source, target in links:
                network.clog(source, target, False)

        self.world.struck("clog")
        self.spawn(waves(), "waves")
        return on.clear

    def _lose_reply(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node, api = self._node(action), str(action.arguments.get("api", ""))
        network, before = self.world.network, self.world.network.lost_replies
        armed = network.replies_to_lose
        armed[node, api] = action.whole("count", 1)

        def undo() -> None:
            armed.pop((node, api), None)
            self.world.struck("lose-reply", min(1, network.lost_replies - before))

        return undo

    def _bit_flip(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        network, before = self.world.network, self.world.network.flipped
        links = self._links(action)
        network.flips.update(dict.fromkeys(links, action.whole("count", 1)))

        def undo() -> None:
            for link in links:
                network.flips.pop(link, None)
            self.world.struck("bit-flip", min(1, network.flipped - before))

        return undo

    # Disks

    def _disk_fault(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self.world.nodes.get(self._node(action))
        if node is None or node.name == ZOOKEEPER:
            return None
        faults, before, name = node.disk, node.disk.struck, action.name
        faults.prefix = str(action.arguments.get("path", DATA))
        faults.suffix = str(action.arguments.get("suffix", ""))
        if name == "eio-read":
            faults.read_fails = True
        elif name == "eio-write":
            faults.writes_left = action.whole("after", 0)
        elif name == "eio-fsync":
            faults.fsync_failures = 1
        elif name == "slow-fsync":
            faults.fsync_takes_ns = action.whole("takes_ns", 500 * MS)
        else:
            faults.gone = True

        def undo() -> None:
            faults.repair()
            self.world.struck(name, min(1, faults.struck - before))
            if name != "slow-fsync":
                self.start_again_if_offline(node.name)

        return undo

    def _full_disk(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        node = self.world.nodes.get(self._node(action))
        if node is None or node.name == ZOOKEEPER:
            return None
        volume, before = node.volume, node.volume.refused_writes
        volume.free = action.whole("free", 0)

        def undo() -> None:
            volume.free, volume.overflowed = None, False
            self.world.struck("enospc", min(1, volume.refused_writes - before))
            self.start_again_if_offline(node.name)

        return undo

    def start_again_if_offline(self, name: str) -> None:
        """A broker uses a failed log directory again only after a restart."""
        broker = self.world.brokers.get(name)
        if broker is not None and broker.log_dirs.offline_paths:
            self.world.kill(name)
            self.world.start(name)

    def _bit_rot(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        """Flips a bit that recovery will read again; below the recovery point it would be a client's CRC error.

        After a clean shutdown recovery reads nothing, and the marker stays when a broker dies while it waits for
        ZooKeeper.
        """
        world, name = self.world, self._node(action)
        if not name or name == ZOOKEEPER or not world.kill(name):
            return None
        volume = world.nodes[name].volume
        logs: dict[str, list[str]] = {}
        for path in sorted(
            log_path for log_path in volume.names if log_path.startswith(DATA) and log_path.endswith(".log")
        ):
            logs.setdefault(path.rpartition("/")[0], []).append(path)
        active = [
            paths[-1]
            for log, paths in logs.items()
            if len(volume.names[paths[-1]].cached) > 200
            and f"{log.rpartition('/')[0]}/{CLEAN_SHUTDOWN_FILE}" not in volume.names
        ]
        if active:
            world.before_power_loss(name)
            inode = volume.names[chance.one_of(active)]
            at = chance.one_of(covered_by_crc(inode.cached))
            inode.cached[at] ^= 1 << chance.whole(0, 7)
            inode.touch(at, at + 1)
            inode.sync()
            world.after_power_loss(name)
            world.struck("bit-rot")
        return self._down(name)

    # Clocks

    def _clock_jump(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        clock, by_ms = self.world.nodes[self._node(action)].clock, action.whole("by_ms", 60_000)
        self.world.clocks_touched[self._node(action)] = None
        clock.skew_ms += by_ms
        self.world.struck("clock-jump")

        def undo() -> None:
            clock.skew_ms -= by_ms

        return undo

    def _clock_drift(self, action: Action, chance: Chance) -> Callable[[], None] | None:
        clock = self.world.nodes[self._node(action)].clock
        self.world.clocks_touched[self._node(action)] = None
        clock.drift(action.whole("parts_per_million", 10_000))
        self.world.struck("clock-drift")
        return lambda: clock.drift(0)
