"""Watches how far followers really are, beside what their leader believes of them (R19 and R24).

A member of the ISR whose log lacks what its leader's had for longer than ``replica.lag.time.max.ms`` has to leave. Both
logs are looked at twice a second; what the leader was told of its follower plays no part. The time counts while
leader, controller and ZooKeeper are well, and the leader can reach both. Of a follower that had all and is dead the
leader does not know, as in Kafka, until something is appended or its session has ended: so long nothing counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.broker.server import Broker
from barnabas.model.leadership import CommittedIsr
from barnabas.replica.partition import Partition
from barnabas.sim.watch_logs import LogWatch
from barnabas.sim.world import ZOOKEEPER, World, broker_name

SLACK_NS: Final = 4_000_000_000
"""For the look that the leader takes every half of the lag that it allows, and for the ISR to be altered."""

FETCHES_AGAIN_NS: Final = 2_000_000_000
"""No drawn ``replica.fetch.backoff.ms`` is longer."""
LOOKS_NS: Final = 1_000_000_000
"""Twice as much as is between two looks."""


class Behind(NamedTuple):
    """Since when a follower lacks what its leader had then: up to `end`, in `leader_epoch`."""

    since_ns: int
    end: int
    leader_epoch: int


class KeepsUp(NamedTuple):
    """Since when a calm follower has, at each look, what its leader had at the look before."""

    since_ns: int
    looked_ns: int
    end: int
    """Of the leader, at the last look."""
    leader_epoch: int


class LagWatch:
    def __init__(self, world: World, logs: LogWatch, states: Mapping[str, Mapping[str, Any]]) -> None:
        """`states` are those of partitions, as ZooKeeper has them."""
        self.world = world
        self.logs = logs
        self._states = states
        self._behind: dict[tuple[str, str, int], Behind] = {}
        """By leader, partition and follower."""
        self._dead_ns: dict[int, int] = {}
        """By broker: since when it is dead."""
        self._equal_ns: dict[tuple[str, str, int], int] = {}
        """By leader, partition and follower: when they were last seen to have the same, and to know it."""
        self._keeps_up: dict[tuple[str, str, int], KeepsUp] = {}
        self._kept_up_ns: dict[tuple[str, str, int], int] = {}
        """By leader, partition and follower: until when it has kept up for so long that the leader must know it."""
        self.calm_since_ns: Mapping[str, int] = {}
        """By node: since when nothing has happened to it."""
        self._asked_ns: dict[tuple[str, str], int] = {}
        """By leader and partition: when it last had a change of the ISR under way, which nobody may answer for long."""

    def look(self) -> None:
        behind: dict[tuple[str, str, int], Behind] = {}
        controller = self.world.controller()
        dead = [number for number, name in enumerate(self.world.broker_names) if name not in self.world.brokers]
        self._dead_ns = {each: self._dead_ns.get(each, self.world.loop.now_ns) for each in dead}
        for name, broker in self.world.brokers.items():
            if controller is None or self._is_hindered(name, controller):
                continue
            for partition in broker.replicas.partitions:
                if partition.is_leader:
                    self._look_at(name, broker, partition, behind)
        self._behind = behind

    def _is_hindered(self, leader: str, controller: str) -> bool:
        """Whether the ISR may not be altered in time."""
        world = self.world
        there_and_back = [(leader, controller), (controller, leader), (controller, ZOOKEEPER), (ZOOKEEPER, controller)]
        return (
            controller not in world.brokers
            or world.disturbed(leader)
            or world.disturbed(controller)
            or any(
                link.blocked or link.refuses or link.delay_ns or link.jitter_ns
                for link in (world.network.link(*ends) for ends in there_and_back)
            )
            or leader in world.nodes_in_disk_trouble()
        )

    def _look_at(
        self, name: str, broker: Broker, partition: Partition, behind: dict[tuple[str, str, int], Behind]
    ) -> None:
        world, log, known = self.world, partition.log, str(partition.topic_partition)
        state = self._states.get(known)
        if log is None or state is None or broker_name(state["leader"]) != name:
            return
        if state["leader_epoch"] != partition.leader_epoch or state["isr"] == [state["leader"]]:
            return
        world.check("R19")
        if not isinstance(partition.isr_state, CommittedIsr):
            self._asked_ns[name, known] = world.loop.now_ns
        lag_ns = broker.replicas.replica_lag_time_max_ms * 1_000_000
        session_ns = broker.config.number("zookeeper.session.timeout.ms") * 1_000_000
        for member in state["isr"]:
            key, now = (name, known, member), Behind(world.loop.now_ns, log.log_end_offset, partition.leader_epoch)
            missed = now.since_ns - self._dead_ns.get(member, -session_ns) > session_ns
            since = self._behind.get(key, now) if missed else now
            copy = self.logs.of.get((broker_name(member), known))
            end = 0 if copy is None or broker_name(member) not in world.brokers else copy.log_end_offset
            if member != state["leader"] and self._follows(member, partition):
                if end >= now.end:
                    self._equal_ns[key] = world.loop.now_ns
                self._looked_at(key, end, now)
            if member == state["leader"] or end >= since.end or since.leader_epoch != now.leader_epoch:
                continue
            behind[key] = since
            asked_ns = self._asked_ns.get((name, known), since.since_ns)
            if world.loop.now_ns - max(since.since_ns, asked_ns) > 2 * lag_ns + SLACK_NS:
                seconds = (world.loop.now_ns - since.since_ns) / 1e9
                world.violated(
                    "R19", f"{name} keeps {member} in the ISR {state['isr']} of {known}, which has lacked what is "
                    f"before {since.end} for {seconds:.1f} s", known, name,
                )  # fmt: skip
                behind[key] = now

    def _looked_at(self, key: tuple[str, str, int], end: int, now: Behind) -> None:
        """`end` is the follower's log's, `now` what the leader has."""
        before = self._keeps_up.get(key)
        if (
            before is None
            or end < before.end
            or before.leader_epoch != now.leader_epoch
            or now.since_ns - before.looked_ns > LOOKS_NS
        ):
            before = KeepsUp(now.since_ns, now.since_ns, now.end, now.leader_epoch)
        began_ns = max(before.since_ns, self._calm_since(key[0], broker_name(key[2])))
        self._keeps_up[key] = before._replace(looked_ns=now.since_ns, end=now.end)
        # A change of the ISR that is under way may be one that was asked for before.
        if now.since_ns - began_ns >= LOOKS_NS + FETCHES_AGAIN_NS and self._asked_ns.get(key[:2]) != now.since_ns:
            self._kept_up_ns[key] = now.since_ns

    def _calm_since(self, leader: str, member: str) -> int:
        """Since when nothing has happened to either, nor to what one tells the other."""
        network = self.world.network
        if network.waits_in_vain(member, leader):
            network.nobody_told(leader, member)
        untold_ns = network.untold_ns.get(frozenset((leader, member)), 0)
        return max(untold_ns, *(self.calm_since_ns.get(each, 0) for each in (leader, member)))

    def _follows(self, member: int, partition: Partition) -> bool:
        """Whether the member knows whom it follows, in which epoch."""
        broker = self.world.brokers.get(broker_name(member))
        copy = None if broker is None else broker.replicas.partition(partition.topic_partition)
        return copy is not None and not copy.is_leader and copy.leader_epoch == partition.leader_epoch

    def shrunk(self, partition: str, leader: int, member: int) -> None:
        """R24: nobody is taken out for its lag who had all that there is, a while less ago than the lag allows."""
        world, name, broker = self.world, broker_name(leader), self.world.brokers.get(broker_name(leader))
        key = name, partition, member
        equal_ns, kept_up_ns = self._equal_ns.get(key), self._kept_up_ns.get(key, -(10**12))
        if broker is None or equal_ns is None:
            return
        within_ns = broker.replicas.replica_lag_time_max_ms * 1_000_000 - LOOKS_NS
        world.check("R24")
        if world.loop.now_ns - kept_up_ns < within_ns:
            world.violated(
                "R24", f"{name} takes {member} out of the ISR of {partition}, which had all that it has "
                f"{(world.loop.now_ns - kept_up_ns) / 1e9:.1f} s ago; the lag may be {within_ns / 1e9 + 1:.1f} s",
                partition, name,
            )  # fmt: skip
        elif world.loop.now_ns - equal_ns < within_ns or within_ns <= 0:
            world.waive("R24")
