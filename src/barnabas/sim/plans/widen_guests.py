"""Widens a plan by careless, old or rare guests of coordinators: transactional ids that expire unused, members that
speak their group's protocol by hand, and operators who look after all that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, with_actions, within

EXPIRATION: Final = "transactional.id.expiration.ms"
CLEANED_UP: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
_DOUBLED: Final = frozenset({"work", "wander"})
"""Clients some of which are in their group twice, when they have begun again."""
_IN_TRANSACTIONS: Final = ("transact", "pipeline", "keep-books")


def forgotten_ids(plan: Plan, chance: Chance) -> Plan:
    """Transactional ids expire as soon as their clients rest for a moment, and are used again; perhaps while their
    coordinator is alone in the ISR and cannot write that. Not those of workers, which initialize theirs before they
    join their group, and might wait for that for longer each time."""
    names = {each.name: None for each in plan.actions}
    if "work" in names or not any(name in names for name in _IN_TRANSACTIONS) or not chance.happens(0.4):
        return plan
    own = {EXPIRATION: str(chance.whole(600, 4_000)), CLEANED_UP: str(chance.whole(200, 1_500))}
    if not chance.happens(0.5):
        return replace(plan, config={**plan.config, **own})
    lag_ms = chance.whole(600, 1_200)
    own |= {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2)}
    told = [str(each.arguments["client"]) for each in plan.actions if each.name in _IN_TRANSACTIONS]
    follower: dict[str, Any] = {"node": f"follower:{plan.kept_in(TRANSACTION_STATE_TOPIC, chance.one_of(told))}"}
    at_ns, lasts_ns = chance.whole(3 * SECOND, plan.length_ns // 2), chance.whole(5_000, 9_000) * MS
    # The second one is another: by then the first is in sync no more.
    more: list[Step] = [(at_ns + each * 3 * lag_ms * MS, "pause", follower, lasts_ns) for each in range(2)]
    return with_actions(replace(plan, config={**plan.config, **own}), within(plan, more))


def by_hand(plan: Plan, chance: Chance) -> Plan:
    """A group whose members speak its protocol by hand, now and then wrongly; perhaps there are more of them than the
    group may have."""
    if not chance.happens(0.25):
        return plan
    topic, guests = chance.one_of(plan.ordinary_topics), chance.whole(3, 5)
    more: list[Step] = []
    for number in range(guests):
        said: dict[str, Any] = {"client": f"guest-{number + 1}", "group": "guests", "topic": topic.name}
        at_ns = chance.whole(0, plan.length_ns // 3)
        more.append((at_ns, "visit", {**said, "partitions": topic.partitions}, plan.length_ns - at_ns))
    members: dict[str, int] = {}
    for each in plan.actions:
        if each.name in ("group", "silent-member"):
            members[str(each.arguments["group"])] = members.get(str(each.arguments["group"]), 0) + 1
    others = max(members.values(), default=0)
    if others < guests and not _DOUBLED.intersection(each.name for each in plan.actions) and chance.happens(0.7):
        plan = replace(plan, config={**plan.config, "group.max.size": str(max(2, others))})
    return with_actions(plan, more)


def tended(plan: Plan, chance: Chance) -> Plan:
    """An operator looks after transactions and after a group whose members come and go, and deletes what he can."""
    if not chance.happens(0.25):
        return plan
    visits = [each for each in plan.actions if each.name == "visit"]
    topic = str(visits[0].arguments["topic"]) if visits else chance.one_of(plan.ordinary_topics).name
    said: dict[str, Any] = {"client": "operator", "group": "guests", "topic": topic}
    tellers = [each.arguments["client"] for each in plan.actions if each.name == "transact"]
    if tellers and chance.happens(0.5):
        said["fences"] = chance.one_of(tellers)
    at_ns = chance.whole(0, plan.length_ns // 3)
    return with_actions(plan, [(at_ns, "tend", said, plan.length_ns - at_ns)])


GUESTS: Final = (forgotten_ids, by_hand, tended)
