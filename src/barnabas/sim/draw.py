"""Draws a plan from a seed."""

from __future__ import annotations

from barnabas.sim.chance import Chance
from barnabas.sim.plan import MS, Action, Plan, TopicPlan

TOPIC = "orders"
_FULL_ISR_MS = 14_000
"""By then an expired session's broker is back in every ISR."""


def draw(seed: int, profile: str = "all") -> Plan:
    """Two to six faults, the first the controller's death. Never more than one broker down, so that ISRs recover."""
    chance = Chance(seed, "plan")
    length_ms = chance.whole(20_000, 40_000)
    names = [f"broker-{number}" for number in range(3)]
    actions: list[Action] = []
    at_ms = chance.whole(500, 5_000)
    for number in range(chance.whole(2, 6)):
        if at_ms > length_ms - 8_000:
            break
        name = "kill" if number == 0 else chance.one_of(["kill", "kill", "shutdown", "partition", "power-loss"])
        lasts_ms = chance.whole(20, 9_000)
        node = "controller" if number == 0 else chance.one_of(names)
        arguments: dict[str, object] = {"node": node}
        if name == "partition":
            everyone = [other for other in [*names, "zookeeper"] if other != node]
            arguments["others"] = everyone if chance.happens(0.5) else [chance.one_of(everyone)]
        elif name == "power-loss":
            at_ms += _FULL_ISR_MS
            length_ms = max(length_ms, at_ms + lasts_ms + 5_000)
        actions.append(Action(number + 1, at_ms * MS, name, arguments, lasts_ms * MS))  # type: ignore[arg-type]
        if name == "power-loss":
            break
        at_ms += lasts_ms + chance.whole(500, 6_000)
    produce = Action(0, 0, "produce", {"client": "producer", "records": chance.whole(200, 800)}, length_ms * MS)
    topic = TopicPlan(TOPIC, chance.whole(1, 4), 3, {"min.insync.replicas": "2"})
    return Plan(seed, profile, 3, length_ms * MS, (topic,), (produce, *actions))
