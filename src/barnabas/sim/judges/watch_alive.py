"""Watches who counts as alive (C21). When a broker comes or goes in ZooKeeper, the controller learns of it, and then
every broker, whose metadata tell clients where to go. A broker that is back does not count as shutting down. A replica
on a failed disk counts as offline with the controller until its broker has it again. A dead broker is in no ISR with
other members, and a running one is registered. A node that was hindered may be late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World, broker_name, broker_number
from barnabas.zk.client.session import ClientSession

HEARD_NS: Final = 5_000_000_000
"""For the controller to learn of a change."""
REGISTERED_NS: Final = 10_000_000_000
"""For a broker to give up a connection that does not answer, and to begin another session."""
TOLD_NS: Final = 10_000_000_000
"""For the controller to tell a broker, which it may not reach at first."""


class AliveWatch:
    def __init__(
        self, world: World, ensemble: ZooKeeperWatch, reached_since: Callable[[str, str], int], probes: Probes
    ) -> None:
        """`reached_since` is asked for two nodes: since when both run and nothing keeps one from telling the other."""
        self.world = world
        self.ensemble = ensemble
        self._reached_since = reached_since
        self._wrong_ns: dict[tuple[str, int, int], int] = {}
        """By the node that is wrong, the broker that it is wrong about, and the controller's epoch: since when."""
        self._unlike_ns: dict[tuple[str, str, int], int] = {}
        """By broker, replica and controller epoch: since when broker and controller disagree on whether the replica is
        online."""
        self._believed: dict[tuple[str, str, int, int], None] = {}
        """By broker, replica, controller epoch and registration: the offline replicas that the controller knew of at
        the last look."""
        self._in_sync_ns: dict[tuple[str, int, int], int] = {}
        """By partition, dead broker and controller epoch: since when the broker is in the ISR nevertheless."""
        self._leaving_ns: dict[tuple[int, int], int] = {}
        """By returned broker and controller epoch: since when it counts as shutting down nevertheless."""
        self._unregistered_ns: dict[tuple[str, int], int] = {}
        """By broker and its process: since when it could be registered, and is not."""
        probes.around(ReplicaStateMachine, "startup", self._around_startup)
        probes.after(ClientSession, "successor", self._begins_another)

    def look(self) -> None:
        self.look_at_those_who_run()
        world, ensemble, before = self.world, self.ensemble, self._wrong_ns
        self._wrong_ns = {}
        alive = ensemble.alive_to_controller()
        if alive is None:
            return
        ruler = broker_name(ensemble.controller)
        world.check("C21")
        known = {name: [*broker.metadata.image.brokers] for name, broker in world.brokers.items() if name != ruler}
        known[ruler] = alive
        for name, believed in known.items():
            for number in map(broker_number, world.broker_names):
                if (number in believed) != ensemble.is_registered(number):
                    key = name, number, ensemble.controller_epoch
                    self._wrong_ns[key] = before.get(key, world.loop.now_ns)
                    self._look_at(name, ruler, number, self._wrong_ns[key])
        self._look_at_replicas(ruler)
        self._look_at_those_who_leave(ruler)
        self._look_at_isrs()

    def look_at_those_who_run(self) -> None:
        """A broker whose session has ended begins another one and registers again."""
        world, before, self._unregistered_ns = self.world, self._unregistered_ns, {}
        for name, broker in world.brokers.items():
            process = world.nodes[name].process
            if process is None or world.disturbed(name) or self._refuses(name) or broker.state != "RUNNING":
                continue
            world.check("C21")
            if self.ensemble.is_registered(broker.broker_id):
                continue
            key = name, process.number
            since_ns = self._unregistered_ns[key] = before.get(key, world.loop.now_ns)
            if world.loop.now_ns - since_ns > REGISTERED_NS:
                world.violated(
                    "C21", f"{name} runs and reaches ZooKeeper, and is not registered, for {REGISTERED_NS / 1e9:.0f} s",
                    node=name,
                )  # fmt: skip
                del self._unregistered_ns[key]

    def _begins_another(self, *_: object) -> None:
        """C1: a controller rules no longer than its session, and begins another one only when it has resigned."""
        broker = self.world.brokers.get(node())
        self.world.check("C1")
        if broker is None or broker.replicas.is_shutting_down:  # then it handles no more events, and resigns at last
            return
        if (reign := broker.controller.reign) is not None:
            self.world.violated(
                "C1", f"{node()} begins another session, and rules in epoch {reign.context.epoch} as in the one before",
                node=node(),
            )  # fmt: skip

    async def _around_startup(self, original: Any, replicas: ReplicaStateMachine) -> None:
        name, since_ns, dead = node(), self.ensemble.reigns_since_ns, self.ensemble.dead_before_the_reign()
        is_well = not self.world.disturbed(name)
        await original(replicas)
        if is_well and not self.world.disturbed(name):
            self.has_taken_over(name, since_ns, dead)

    def has_taken_over(self, name: str, since_ns: int, dead: list[int]) -> None:
        """A new controller removes from the ISRs the brokers that died before its election: no watch will tell it of
        them."""
        world, ensemble = self.world, self.ensemble
        rules = name == broker_name(ensemble.controller) and since_ns == ensemble.reigns_since_ns
        if not rules or not world.metadata_version.is_alter_partition_supported:
            return
        world.check("C21")
        deleted = world.children("/admin/delete_topics")
        for partition, state in ensemble.states.items():
            left = [each for each in state["isr"] if each in dead and not ensemble.is_registered(each)]
            if len(state["isr"]) > 1 and left and partition.rpartition("-")[0] not in deleted:
                world.violated(
                    "C21", f"{name} has taken over, and {left}, who were dead before, are in the ISR {state['isr']} of "
                    f"{partition}", partition, name,
                )  # fmt: skip

    def _refuses(self, name: str) -> bool:
        """Whether ZooKeeper refuses to authenticate the broker."""
        return self.world.coordinator is None or name in self.world.coordinator.refuse_sessions

    def _look_at_isrs(self) -> None:
        """A leader waits for every member of its ISR, so a dead member is there no longer than the controller needs."""
        world, ensemble, before = self.world, self.ensemble, self._in_sync_ns
        self._in_sync_ns = {}
        if not world.metadata_version.is_alter_partition_supported:
            return  # a leader that writes its ISR itself may add a broker that it does not know to be gone
        deleted = world.children("/admin/delete_topics")
        for partition, state in ensemble.states.items():
            if len(state["isr"]) < 2 or partition.rpartition("-")[0] in deleted:
                continue
            for member in state["isr"]:
                if ensemble.is_registered(member) or not ensemble.is_assigned(partition, member):
                    continue
                key = partition, member, ensemble.controller_epoch
                since_ns = self._in_sync_ns[key] = before.get(key, world.loop.now_ns)
                if world.loop.now_ns - since_ns > HEARD_NS and ensemble.is_known_since(since_ns, HEARD_NS):
                    world.violated(
                        "C21", f"broker {member} is not registered, and is in the ISR {state['isr']} of {partition} "
                        f"for {HEARD_NS / 1e9:.0f} s", partition, broker_name(member),
                    )  # fmt: skip

    def _look_at_those_who_leave(self, ruler: str) -> None:
        """A broker that shut down cleanly and is back may lead and enter ISRs like any other."""
        ensemble, before, reign = self.ensemble, self._leaving_ns, self.world.brokers[ruler].controller.reign
        self._leaving_ns = {}
        leaving = {} if reign is None else reign.context.shutting_down_broker_ids
        alive = [] if reign is None else reign.context.live_or_shutting_down_broker_ids
        if strangers := [each for each in leaving if each not in alive]:
            self.world.violated("C21", f"{ruler} believes that {strangers} shut down, and are dead", node=ruler)
        for number in [each for each in leaving if ensemble.is_back(each)]:
            since_ns = self._leaving_ns[number, ensemble.controller_epoch] = before.get(
                (number, ensemble.controller_epoch), self.world.loop.now_ns
            )
            if self.world.loop.now_ns - since_ns > HEARD_NS and ensemble.is_known_since(since_ns, HEARD_NS):
                self.world.violated(
                    "C21",
                    f"{ruler} believes that broker {number} shuts down, and it is back",
                    node=broker_name(number),
                )

    def _look_at_replicas(self, ruler: str) -> None:
        world, before, reign = self.world, self._unlike_ns, self.world.brokers[ruler].controller.reign
        self._unlike_ns, known, self._believed = {}, self._believed, {}
        if reign is None:
            return
        for name, broker in world.brokers.items():
            lost = dict.fromkeys(broker.replicas.offline_partitions)
            believed = reign.context.replicas_on_offline_dirs.get(broker.broker_id, {})
            registered_ns = self.ensemble.registered_ns(broker.broker_id)
            # Of one that is gone, or registered anew, the controller forgets what it had lost.
            if registered_ns is not None and world.loop.now_ns - registered_ns > HEARD_NS:
                for partition in lost:
                    place = name, str(partition), self.ensemble.controller_epoch, registered_ns
                    if partition in believed:
                        self._believed[place] = None
                    elif place in known and self.ensemble.is_assigned(str(partition), broker.broker_id):
                        self._is_taken_back(name, ruler, str(partition))
            for partition in [each for each in {**lost, **believed} if (each in lost) != (each in believed)]:
                if self.ensemble.is_assigned(str(partition), broker.broker_id):
                    key = name, str(partition), self.ensemble.controller_epoch
                    self._unlike_ns[key] = before.get(key, world.loop.now_ns)
                    self._is_unlike(name, ruler, str(partition), partition in lost, self._unlike_ns[key])

    def _is_taken_back(self, name: str, ruler: str, partition: str) -> None:
        """The controller keeps a replica offline that it was told is offline: only the broker that has it can report it
        back."""
        self.world.violated(
            "C21", f"{name} has lost its replica of {partition}, and {ruler}, which knew it, believes that it has it",
            partition, name,
        )  # fmt: skip

    def _is_unlike(self, name: str, ruler: str, partition: str, is_lost: bool, since_ns: int) -> None:
        world, since_ns = self.world, max(since_ns, self._reached_since(ruler, name))
        if world.loop.now_ns - since_ns <= HEARD_NS or not self.ensemble.is_known_since(since_ns, HEARD_NS):
            return
        has, believes = ("has lost", "has") if is_lost else ("has", "has lost")
        world.violated(
            "C21", f"{name} {has} its replica of {partition}, and {ruler} believes that it {believes} it, for "
            f"{HEARD_NS / 1e9:.0f} s", partition, name,
        )  # fmt: skip

    def _look_at(self, name: str, ruler: str, number: int, since_ns: int) -> None:
        world, within_ns = self.world, HEARD_NS
        if name != ruler:
            within_ns, since_ns = TOLD_NS, max(since_ns, self._reached_since(ruler, name))
        if world.loop.now_ns - since_ns <= within_ns or not self.ensemble.is_known_since(since_ns, within_ns):
            return
        there = "is registered" if self.ensemble.is_registered(number) else "is not registered"
        world.violated(
            "C21",
            f"broker {number} {there}, and {name} has believed the contrary for {within_ns / 1e9:.0f} s",
            node=name,
        )
