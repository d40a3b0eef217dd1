"""Widens a drawn plan by clients of other makes and ages: consumers that fetch within sessions, as Kafka's own do, or
as those did that knew no sessions, no leader epochs or no record batches, and a producer that writes messages of magic
0 and 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action, Argument, Plan, with_actions, with_arguments

_AGES: Final = (2, 3, 3, 4, 6, 8, 9, 10, 11, 11, 12)
"""Versions of Fetch: 2 and 3 are given messages of magic 1."""
_NO_BATCHES: Final = (2, 3)


def in_sessions(plan: Plan, chance: Chance) -> Plan:
    """Consumers fetch within sessions, alone or in groups."""

    def keeps() -> dict[str, Argument]:
        return {"sessions": True} if chance.happens(0.7) else {}

    if not chance.happens(0.6):
        return plan
    return with_arguments(with_arguments(plan, "consume", keeps), "group", keeps)


def of_an_age(plan: Plan, chance: Chance) -> Plan:
    """Some consumers are old, and some of those very old."""
    packed = {str(each.arguments["topic"]) for each in plan.actions if each.arguments.get("compression") == "zstd"}

    def aged(action: Action) -> Action:
        if action.name not in ("consume", "group") or not chance.happens(0.5):
            return action
        topics = {str(action.arguments[each]) for each in ("topic", "also") if each in action.arguments}
        ages = [age for age in _AGES if age not in _NO_BATCHES or not (topics & packed or action.name == "group")]
        said: dict[str, Argument] = {"fetch_version": chance.one_of(ages)}
        if said["fetch_version"] in _NO_BATCHES:
            said["isolation"] = "read_uncommitted"
        return replace(action, arguments={**action.arguments, **said})

    if not chance.happens(0.3):
        return plan
    return replace(plan, actions=tuple(map(aged, plan.actions)))


def veterans(plan: Plan, chance: Chance) -> Plan:
    """Somebody writes as nobody does any more, and somebody reads that as nobody does."""
    if not chance.happens(0.2):
        return plan
    topic = chance.one_of(plan.ordinary_topics).name
    at_ns = chance.whole(0, plan.length_ns // 3)
    writes: dict[str, Any] = {"client": "veteran", "topic": topic, "records": chance.whole(30, 80)}
    reads: dict[str, Any] = {"client": "consumer-old", "topic": topic, "fetch_version": chance.one_of(_NO_BATCHES)}
    more = [(at_ns, "produce-old", writes, plan.length_ns - at_ns)]
    if not any(each.arguments.get("compression") == "zstd" for each in plan.actions) and chance.happens(0.6):
        more.append((at_ns, "consume", reads, plan.length_ns - at_ns))
    return with_actions(plan, more)


AGES: Final = (in_sessions, of_an_age, veterans)
