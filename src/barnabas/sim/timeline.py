"""Tells a run in Kafka's words: who was controller, who led what with which ISR, where the logs ended, what broke.

`Picture` folds a trace's events into the state of the cluster at one moment. `timeline` is the trace as text: a line
for each event that changed something, with a lane for each broker that shows its part in one partition. A sign tells
its role, and behind it stand its log end offset and high watermark: ``.`` down, ``=`` paused, ``*`` controller, ``L``
leader, ``f`` follower in the ISR, ``o`` follower outside of it. `page` is the same as one HTML file to scrub through.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from barnabas.sim.plans.plan import Plan
from barnabas.sim.world.trace import SECOND, Event, Happening, Violation

_DOWN: Final = ("killed", "power-lost", "down", "died", "exited")
_TOLD: Final = frozenset(Happening) - {Happening.LOG}
"""Events with a line of their own. Log ends change with every record, so only the lanes tell them."""


@dataclass(slots=True)
class PartitionPicture:
    """What ZooKeeper says of a partition."""

    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()

    def __str__(self) -> str:
        leader = "no leader" if self.leader < 0 else f"leader {self.leader}"
        return f"{leader}, leader epoch {self.leader_epoch}, isr {_numbers(self.isr)}"


@dataclass(slots=True)
class ReplicaPicture:
    """What a broker holds of a partition; `role` is what the broker itself believes."""

    role: str = ""
    leader_epoch: int = -1
    log_start_offset: int = 0
    high_watermark: int = 0
    log_end_offset: int = 0


@dataclass(slots=True)
class Picture:
    """The cluster after the events so far."""

    processes: dict[str, str] = field(default_factory=dict)
    controller: str = ""
    controller_epoch: int = 0
    partitions: dict[str, PartitionPicture] = field(default_factory=dict)
    replicas: dict[tuple[str, str], ReplicaPicture] = field(default_factory=dict)
    in_force: dict[int, str] = field(default_factory=dict)
    """The plan's actions that have begun and are not over, by their number."""

    def take(self, event: Event) -> None:
        fields = event.fields
        kind = event.kind
        if kind is Happening.PROCESS:
            self.processes[event.node] = str(fields["what"])
            if fields["what"] in _DOWN:
                for (node, _), replica in self.replicas.items():
                    if node == event.node:
                        replica.role = ""
        elif kind is Happening.CONTROLLER:
            self.controller = event.node
            self.controller_epoch = int(fields["controller_epoch"])
        elif kind is Happening.RESIGNED:
            self.controller = ""
        elif kind is Happening.STATE:
            self.partitions[str(fields["partition"])] = PartitionPicture(
                int(fields["leader"]),
                int(fields["leader_epoch"]),
                int(fields["partition_epoch"]),
                tuple(fields["isr"]),
                tuple(fields.get("replicas") or ()),
            )
            for (node, partition), replica in self.replicas.items():
                if partition == fields["partition"] and broker_id(node) not in fields["replicas"]:
                    replica.role = ""  # it is deleted there
        elif kind is Happening.DELETED:
            self.partitions.pop(str(fields["partition"]), None)
        elif kind in (Happening.LEADING, Happening.FOLLOWING, Happening.LOG, Happening.TRUNCATED):
            self._take_replica(event)
        elif kind is Happening.ACTION and fields.get("duration_ns"):
            self.in_force[int(fields["number"])] = event.words
        elif kind is Happening.UNDONE:
            self.in_force.pop(int(fields["number"]), None)

    def _take_replica(self, event: Event) -> None:
        fields = event.fields
        replica = self.replicas.setdefault((event.node, str(fields["partition"])), ReplicaPicture())
        if event.kind is Happening.TRUNCATED:
            replica.log_end_offset = int(fields["to_offset"])
            return
        if event.kind is not Happening.LOG:
            replica.role = "leader" if event.kind is Happening.LEADING else "follower"
            replica.leader_epoch = int(fields["leader_epoch"])
        replica.log_start_offset = int(fields.get("log_start_offset", replica.log_start_offset))
        replica.high_watermark = int(fields.get("high_watermark", replica.high_watermark))
        replica.log_end_offset = int(fields.get("log_end_offset", replica.log_end_offset))

    def is_down(self, node: str) -> bool:
        return self.processes.get(node, "down") in (*_DOWN, "starts")

    def lane(self, node: str, partition: str) -> str:
        """One broker's part in `partition`, in at most twelve characters."""
        mark = "*" if node == self.controller else " "
        if self.is_down(node):
            return f"{mark}."
        if self.processes.get(node) == "paused":
            return f"{mark}="
        replica = self.replicas.get((node, partition))
        if replica is None or not replica.role:
            return f"{mark}|"
        known = self.partitions.get(partition)
        in_sync = known is not None and broker_id(node) in known.isr
        role = "L" if replica.role == "leader" else "f" if in_sync else "o"
        return f"{mark}{role} {replica.log_end_offset}/{replica.high_watermark}"


def broker_id(node: str) -> int:
    return int(node.rpartition("-")[2])


def brokers_of(plan: Plan) -> list[str]:
    return plan.broker_names


def partition_to_tell(plan: Plan, violations: Sequence[Violation]) -> str:
    """The partition that the first violation is about; without one, the first topic's first."""
    for violation in violations:
        if violation.partition:
            return violation.partition
    return f"{plan.topics[0].name}-0" if plan.topics else ""


def timeline(plan: Plan, trace: Iterable[Event], violations: Sequence[Violation] = ()) -> str:
    """See the module. Where a violation is about one partition, states of others are left out."""
    partition = partition_to_tell(plan, violations)
    told_alone = any(violation.partition for violation in violations)
    brokers = brokers_of(plan)
    lines = [f"{'':>12}  " + " ".join(f"{name:<12}" for name in brokers) + f" {partition}: log end/high watermark"]
    picture = Picture()
    for event in trace:
        picture.take(event)
        if event.kind not in _TOLD:
            continue
        about = event.fields.get("partition")
        if told_alone and about and about != partition and event.kind is not Happening.VIOLATION:
            continue
        lanes = " ".join(f"{picture.lane(name, partition):<12}" for name in brokers)
        words = f">>> {event.words}" if event.kind is Happening.VIOLATION else event.words
        who = event.node if event.node and event.node not in words else ""
        lines.append(f"{event.at_ns / SECOND:>10.4f} s  {lanes} {who + ': ' if who else ''}{words}")
    return "\n".join(lines)


def picture_at(trace: Iterable[Event], at_ns: int) -> Picture:
    picture = Picture()
    for event in trace:
        if event.at_ns > at_ns:
            break
        picture.take(event)
    return picture


def told(picture: Picture, plan: Plan) -> str:
    """The cluster at one moment: controller, brokers, partitions with each replica's offsets, actions in force."""
    controller = f"{picture.controller}, epoch {picture.controller_epoch}" if picture.controller else "nobody"
    lines = [f"controller: {controller}"]
    lines.append("brokers: " + ", ".join(f"{name} {picture.processes.get(name, 'down')}" for name in brokers_of(plan)))
    for partition, known in sorted(picture.partitions.items()):
        lines.append(f"{partition}: {known}")
        for (node, of), replica in sorted(picture.replicas.items()):
            if of == partition:
                lines.append(
                    f"    {node:<10} {replica.role or '-':<8} log {replica.log_start_offset} to "
                    f"{replica.log_end_offset}, high watermark {replica.high_watermark}"
                )
    if picture.in_force:
        lines.append("in force: " + "; ".join(picture.in_force.values()))
    return "\n".join(lines)


def report(
    plan: Plan,
    trace: Sequence[Event],
    violations: Sequence[Violation],
    command: str,
) -> str:
    """What a failure prints: plan, timeline, the cluster at the moment it broke, and how to see it again."""
    parts = [str(plan), timeline(plan, trace, violations)]
    if violations:
        first = violations[0]
        parts.append(f"when {first.invariant} broke, at {first.at_ns / SECOND:.6f} s:")
        parts.append(told(picture_at(trace, first.at_ns), plan))
        parts.append("\n".join(f"WRONG  {violation}" for violation in violations))
        parts.append(f"again: {command}")
    return "\n\n".join(parts)


def page(
    plan: Plan,
    trace: Sequence[Event],
    violations: Sequence[Violation],
    command: str,
    title: str = "",
    story: str = "",
) -> str:
    """One HTML file that loads nothing from elsewhere."""
    data: dict[str, Any] = {
        "title": title or f"seed {plan.seed}, profile {plan.profile}",
        "story": story,
        "command": command,
        "brokers": brokers_of(plan),
        "plan": plan.as_json(),
        "violations": [violation.as_json() for violation in violations],
        "events": [
            [event.at_ns, event.node, str(event.kind), event.words, _without_words(event.fields)] for event in trace
        ],
    }
    template = files("barnabas.sim").joinpath("timeline.html").read_text(encoding="utf-8")
    # A sentence that ends the script element early would end the page.
    embedded = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return template.replace("/*DATA*/null", embedded, 1)


def _without_words(fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "sentence"}


def _numbers(ids: Iterable[int]) -> str:
    return "[" + ", ".join(map(str, ids)) + "]"
