"""What will be done to a cluster in one run: a list of timed actions, drawn from the seed before anything happens.

A plan is a value: it can be printed, shortened and run again without the seed that drew it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas.sim.chance import Chance


class Kind(StrEnum):
    KILL_CONTROLLER = "kill the controller"
    KILL = "kill"
    LOSE_POWER = "lose power"
    SHUT_DOWN = "shut down under control"
    START = "start"
    PARTITION = "cut off"
    HEAL = "heal all links"


@dataclass(frozen=True, slots=True)
class Action:
    """At `at_ms` of virtual time after the workload began; `node` is empty where the kind needs none."""

    at_ms: int
    kind: Kind
    node: str = ""
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        target = f" {self.node}" if self.node else ""
        return f"{self.at_ms:>6} ms  {self.kind}{target}" + (f" from {', '.join(self.others)}" if self.others else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """`brokers` of them, `partitions` in the one topic, a workload of `length_ms`; then all is healed and started."""

    seed: int
    brokers: int
    partitions: int
    length_ms: int
    records: int
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}: {self.brokers} brokers, {self.partitions} partitions, {self.length_ms} ms"
        return "\n".join([head, *map(str, self.actions)])


_FULL_ISR_MS = 14_000
"""By then an expired session's broker is back in every ISR."""


def draw(seed: int) -> Plan:
    """Two to six faults, the first the controller's death. Never more than one broker down, so that ISRs recover.

    Power is lost only by a broker among three that are in sync, and as the last fault. A member of an ISR that lost its
    page cache is elected all the same if the others can't be reached meanwhile, in Kafka's ZooKeeper mode as here: that
    loss is what KIP-966 was written about, and no fault of ours.
    """
    chance = Chance(seed, "plan")
    length_ms = chance.whole(20_000, 40_000)
    names = [f"broker-{number}" for number in range(3)]
    actions: list[Action] = []
    at_ms = chance.whole(500, 5_000)
    for number in range(chance.whole(2, 6)):
        if at_ms > length_ms - 8_000:
            break
        kinds = [Kind.KILL, Kind.KILL_CONTROLLER, Kind.SHUT_DOWN, Kind.PARTITION, Kind.LOSE_POWER]
        kind = Kind.KILL_CONTROLLER if number == 0 else chance.one_of(kinds)
        lasts_ms = chance.whole(20, 9_000)
        if kind is Kind.PARTITION:
            node = chance.one_of(names)
            everyone = [other for other in [*names, "zookeeper"] if other != node]
            others = everyone if chance.happens(0.5) else [chance.one_of(everyone)]
            actions.append(Action(at_ms, kind, node, tuple(others)))
            actions.append(Action(at_ms + lasts_ms, Kind.HEAL))
        else:
            if kind is Kind.LOSE_POWER:
                at_ms += _FULL_ISR_MS
                length_ms = max(length_ms, at_ms + lasts_ms + 5_000)
            node = "" if kind is Kind.KILL_CONTROLLER else chance.one_of(names)
            actions.append(Action(at_ms, kind, node))
            actions.append(Action(at_ms + lasts_ms, Kind.START))
            if kind is Kind.LOSE_POWER:
                break
        at_ms += lasts_ms + chance.whole(500, 6_000)
    return Plan(seed, 3, chance.whole(1, 4), length_ms, chance.whole(200, 800), tuple(actions))
