"""Widens a plan by clients of other makes and ages. Consumers fetch within fetch sessions, as Kafka's own do, or as old
ones did, which knew no sessions, no leader epochs or no record batches. A producer writes messages of magic 0 and 1.
And brokers begin to speak a newer protocol, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.metadata_version import KEY as VERSION
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, RESULTS, SECOND, Action, Argument, Plan, with_actions, with_arguments, within

_UPGRADES: Final = (
    ("2.3", "2.6"), ("2.6", "2.7"), ("2.6", "2.7"), ("2.6", "2.8"), ("2.6", "2.8"), ("2.7", "2.8"), ("2.7", "3.9"),
    ("1.1", "3.9"),
)  # fmt: skip
_AGES: Final = (2, 3, 3, 4, 6, 8, 9, 10, 11, 11, 12)
"""Versions of Fetch; versions 2 and 3 are given messages of magic 1."""
_NO_BATCHES: Final = (2, 3)


def _beyond_the_oldest(plan: Plan) -> set[str]:
    """Topics that a client without record batches cannot read to the end: it is given neither an end marker, which it
    asks for again and again, nor a batch in zstd."""
    found = {RESULTS}
    for each in plan.actions:
        if each.name in ("transact", "pipeline") or each.arguments.get("compression") == "zstd":
            found |= {str(each.arguments[name]) for name in ("topic", "also") if name in each.arguments}
    return found


def in_sessions(plan: Plan, chance: Chance) -> Plan:
    """Consumers, alone or in groups, fetch within fetch sessions."""

    def keeps() -> dict[str, Argument]:
        return {"sessions": True} if chance.happens(0.7) else {}

    if not chance.happens(0.6):
        return plan
    return with_arguments(with_arguments(plan, "consume", keeps), "group", keeps)


def of_an_age(plan: Plan, chance: Chance) -> Plan:
    """Some consumers are old, some of them very old."""
    beyond = _beyond_the_oldest(plan)

    def aged(action: Action) -> Action:
        if action.name not in ("consume", "group") or not chance.happens(0.5):
            return action
        topics = {str(action.arguments[each]) for each in ("topic", "also") if each in action.arguments}
        ages = [age for age in _AGES if age not in _NO_BATCHES or not (topics & beyond or action.name == "group")]
        said: dict[str, Argument] = {"fetch_version": chance.one_of(ages)}
        if said["fetch_version"] in _NO_BATCHES:
            said["isolation"] = "read_uncommitted"
        return replace(action, arguments={**action.arguments, **said})

    if not chance.happens(0.3):
        return plan
    return replace(plan, actions=tuple(map(aged, plan.actions)))


def veterans(plan: Plan, chance: Chance) -> Plan:
    """A producer writes old messages, and a consumer of that age reads them."""
    if not chance.happens(0.2):
        return plan
    topic = chance.one_of(plan.ordinary_topics).name
    at_ns = chance.whole(0, plan.length_ns // 3)
    writes: dict[str, Any] = {"client": "veteran", "topic": topic, "records": chance.whole(30, 80)}
    reads: dict[str, Any] = {"client": "consumer-old", "topic": topic, "fetch_version": chance.one_of(_NO_BATCHES)}
    more = [(at_ns, "produce-old", writes, plan.length_ns - at_ns)]
    if topic not in _beyond_the_oldest(plan) and chance.happens(0.6):
        more.append((at_ns, "consume", reads, plan.length_ns - at_ns))
    return with_actions(plan, more)


def upgraded(plan: Plan, chance: Chance) -> Plan:
    """All brokers speak an older protocol, until one after the other restarts with a newer one; perhaps one of them
    fails meanwhile."""
    spoken = plan.config.get(VERSION, "")
    if not chance.happens(0.3 if spoken else 0.07):
        return plan
    before, after = chance.one_of([each for each in _UPGRADES if spoken in ("", each[0])] or [(spoken, "3.9")])
    # Without topic ids nothing tells a topic from the next of its name.
    actions = tuple(each for each in plan.actions if each.name != "recreate-topic")
    at_ns, pause_ms = chance.whole(2 * SECOND, plan.length_ns // 2), chance.whole(200, 3_000)
    said: dict[str, Any] = {"pause_ns": pause_ms * MS, "version": after}
    older = replace(plan, actions=actions, config={**plan.config, VERSION: before})
    more = [(at_ns, "rolling-restart", said, 0)]
    if chance.happens(0.5):
        goes_ns = at_ns + chance.whole(500, 8_000) * MS
        node = {"node": chance.one_of([*plan.broker_names, "controller"])}
        more.append((goes_ns, chance.one_of(["kill", "bounce", "pause"]), node, chance.whole(200, 4_000) * MS))
    return with_actions(older, within(plan, more))


AGES: Final = (in_sessions, of_an_age, veterans, upgraded)
