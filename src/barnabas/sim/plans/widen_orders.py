"""Widens a plan by orders that one controller gets one after the other: through znodes, as old tools give them, for
several partitions at once, some of which do not exist; topics that are deleted while a replica moves to a slow broker,
and made and deleted again; and ISRs that leaders change while the controller elects others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, with_actions, within
from barnabas.sim.plans.widen_between import BETWEEN

PASSING: Final = "passing"
"""A topic that nobody writes to."""
OLD: Final = ("1.1", "2.3", "2.6", "2.6")
"""Protocols whose leaders write ISRs themselves."""
_NEEDS_IDS: Final = ("recreate-topic",)


def by_znodes(plan: Plan, chance: Chance) -> Plan:
    """Tools give orders through znodes, again and again, as soon as the one before is done."""
    if not chance.happens(0.2):
        return plan
    at_ns, more = chance.whole(2 * SECOND, plan.length_ns // 3), list[Step]()
    for _ in range(chance.whole(2, 4)):
        topic = chance.one_of(plan.ordinary_topics)
        also = [f"{topic.name}-{number}" for number in range(1, topic.partitions) if chance.happens(0.5)]
        also += ["nobody's-0"] if chance.happens(0.2) else []
        replicas = chance.shuffled(range(plan.brokers))[: chance.whole(2, 3)]
        said: dict[str, Any] = {"topic": topic.name, "partition": 0, "also": also}
        said["replicas"] = [] if chance.happens(0.1) else replicas
        more.append((at_ns, "legacy-reassign", said, 0))
        if chance.happens(0.4):
            more.append((at_ns + chance.whole(0, 2_000) * MS, "legacy-elect", {"topic": topic.name}, 0))
        at_ns += chance.whole(1_500, 4_500) * MS
    if chance.happens(0.4):
        more.append((chance.whole(SECOND, plan.length_ns), "legacy-delete", {"topic": "nobody's"}, 0))
    if chance.happens(0.4):
        more.append((chance.whole(SECOND, plan.length_ns), "legacy-grow", {"topic": plan.ordinary_topics[-1].name}, 0))
    return with_actions(plan, within(plan, more))


def deleted_on_the_way(plan: Plan, chance: Chance) -> Plan:
    """A topic is made, moved to a broker that gets it slowly, and deleted before it is there; then it is made again
    under that name, and deleted once more. Somebody adds partitions meanwhile."""
    if plan.brokers < 3 or not plan.tells_topics_apart or not chance.happens(0.2):
        return plan
    numbers = chance.shuffled(range(plan.brokers))
    stays, goes, comes = numbers[:3]
    delay: dict[str, Any] = {"links": [f"broker-{stays}>broker-{comes}", f"broker-{goes}>broker-{comes}"]}
    delay["delay_ns"] = chance.whole(300, 1_500) * MS
    at_ns, more = chance.whole(2 * SECOND, plan.length_ns // 3), list[Step]()
    moved: dict[str, Any] = {"topic": PASSING, "partition": 0, "replicas": [stays, comes]}
    for _ in range(chance.whole(2, 3)):
        made = {"topic": PASSING, "partitions": chance.whole(1, 2), "replicas": [stays, goes]}
        deleted_ns = at_ns + chance.whole(1_000, 2_500) * MS
        more += [
            (at_ns, "create-topic", made, 0),
            (deleted_ns - chance.whole(10, 700) * MS, "reassign", moved, 0),
            (deleted_ns, chance.one_of(["delete-topic", "legacy-delete"]), {"topic": PASSING}, 0),
        ]
        if chance.happens(0.5):
            more.append((deleted_ns + chance.whole(0, 300) * MS, "legacy-grow", {"topic": PASSING}, 0))
        at_ns = deleted_ns + chance.whole(1_000, 4_000) * MS
    slow: list[Step] = [(more[0][0], "delay", delay, at_ns - more[0][0])] if chance.happens(0.8) else []
    return with_actions(plan, within(plan, slow + more))


def disputed(plan: Plan, chance: Chance) -> Plan:
    """Leaders that write ISRs themselves remove and add followers that pause now and then, while a controller far from
    ZooKeeper elects others: each writes what the other has read."""
    if any(each.name in _NEEDS_IDS for each in plan.actions) or not chance.happens(0.2):
        return plan
    lag_ms, topic = chance.whole(600, 1_200), chance.one_of(plan.ordinary_topics)
    config = {
        **plan.config, "replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2),
        "inter.broker.protocol.version": chance.one_of(OLD),
    }  # fmt: skip
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    led, at_ns, more = f"{topic.name}-{where['partition']}", chance.whole(2 * SECOND, 6 * SECOND), list[Step]()
    replicas = chance.shuffled(range(plan.brokers))[:3]
    for _ in range(chance.whole(2, 4)):
        far: dict[str, Any] = {"links": ["zookeeper>controller", "controller>zookeeper"]}
        far["delay_ns"] = chance.whole(50, 400) * MS
        more += [
            (at_ns, "delay", far, 4 * SECOND),
            (at_ns, "pause", {"node": f"follower:{led}"}, chance.whole(2 * lag_ms, 3 * lag_ms) * MS),
        ]
        for _ in range(chance.whole(1, 3)):
            replicas = [*replicas[1:], replicas[0]]
            asks_ns = at_ns + chance.whole(lag_ms // 2, 4 * lag_ms) * MS
            more += [
                (asks_ns, "reassign", {**where, "replicas": replicas}, 0),
                (asks_ns + chance.whole(100, 800) * MS, "elect", {"topic": topic.name, "unclean": False}, 0),
            ]
        if chance.happens(0.4):
            more.append((at_ns + 2 * lag_ms * MS, "shutdown", {"node": f"leader:{led}"}, chance.whole(300, 2_000) * MS))
        at_ns += 4 * SECOND
    return with_actions(replace(plan, config=config), within(plan, more))


ORDERS: Final = (by_znodes, disputed, deleted_on_the_way, *BETWEEN)
