"""Widens a drawn plan by what coordinators meet of clients with habits, and of words that are lost or late: members
that hold partitions back, take other topics, are busy for too long and come again by their names; answers of
coordinators that nobody hears; logs that are read slowly while they change hands; requests that come when who sent them
has given them up; topics that move, or go, when a transaction ends; and transactions whose time is over while they
grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import (
    MS,
    RESULTS,
    SECOND,
    Action,
    Argument,
    Plan,
    Step,
    with_actions,
    within,
)

_PATTERNS: Final = 0.4


def roaming(plan: Plan, chance: Chance) -> Plan:
    """Members have the habits of people's applications; some are static, and two may have one name."""
    members = [each for each in plan.actions if each.name == "group"]
    if not members or not chance.happens(0.3):
        return plan
    short: dict[str, Argument] = {}
    config = dict(plan.config)
    if chance.happens(0.4):
        short = {"session_timeout_ms": chance.whole(800, 1_500), "rebalance_timeout_ms": chance.whole(1_000, 2_500)}
        config["group.min.session.timeout.ms"] = "500"
    is_pattern, share = chance.happens(_PATTERNS), chance.one_of([0.5, 1.0])
    also = {"also": plan.topics[-1].name} if len(plan.topics) > 1 and plan.topics[-1].name != RESULTS else {}

    def roams(action: Action) -> Action:
        if action.name != "group" or not chance.happens(share):
            return action
        said = {**also, **action.arguments, **short, "pattern": is_pattern}
        if chance.happens(0.3):
            said["static"] = True
        return replace(action, name="roam", arguments=said)

    plan = replace(plan, actions=tuple(map(roams, plan.actions)), config=config)
    rovers = [each for each in plan.actions if each.name == "roam"]
    more: list[Step] = []
    for number in range(chance.whole(1, 3) if rovers else 0):
        like, at_ns = chance.one_of(rovers), chance.whole(SECOND, plan.length_ns - 4 * SECOND)
        name = str(like.arguments["client"])
        if chance.happens(0.5):
            more.append((at_ns, "kill", {"node": name}, chance.whole(10, 2_500) * MS))
        else:
            twin = {**like.arguments, "client": f"twin-rover-{number}", "stays": False}
            if like.arguments.get("static"):
                twin["instance"] = name
            more.append((at_ns, "roam", twin, chance.whole(300, 4_000) * MS))
    return with_actions(plan, within(plan, more))


def too_large(plan: Plan, chance: Chance) -> Plan:
    """Batches that are larger than their topic takes are halved, and halved again; some of their records have no key,
    and go wherever a batch is begun."""
    topics = [topic for topic in plan.ordinary_topics if not topic.is_compacted]
    if not topics or not chance.happens(0.25):
        return plan
    topic = chance.one_of(topics)
    small = replace(topic, configs={**topic.configs, "max.message.bytes": str(chance.whole(500, 1_200))})

    def at_once(action: Action) -> Action:
        if action.name != "produce" or action.arguments["topic"] != topic.name:
            return action
        more = {"at_once": chance.whole(4, 12), "keyless": chance.one_of([0, 50, 100]), "linger_ms": 5}
        return replace(action, arguments={**more, **action.arguments})

    topics_then = tuple(small if each is topic else each for each in plan.topics)
    return replace(plan, topics=topics_then, actions=tuple(map(at_once, plan.actions)))


def kept_thoroughly(plan: Plan, chance: Chance) -> Plan:
    """Somebody commits for a group without members in several transactions at once, and for a while only, and what
    expires is looked for all the time."""
    if not chance.happens(0.25):
        return plan
    said = {"client": "thorough-keeper", "topic": chance.one_of(plan.topics).name, "thorough": True, "pause_ms": 300}
    config = {**plan.config, "offsets.retention.check.interval.ms": str(chance.whole(200, 1_000))}
    at_ns = chance.whole(0, plan.length_ns // 3)
    return with_actions(replace(plan, config=config), [(at_ns, "keep-books", said, plan.length_ns - at_ns)])


COORDINATED: Final = (
    roaming,
    too_large,
    kept_thoroughly,
)
