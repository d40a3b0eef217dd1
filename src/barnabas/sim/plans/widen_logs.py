"""Widens a plan by what happens to logs: records deleted to the last, also of partitions that nobody writes to any
more; batches that are repeated before they are copied; damage, and a power loss after it; and leadership that goes
round among brokers of an older protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, TopicPlan, with_actions, within

QUIET: Final = "quiet"
"""A topic that is written to only at first."""
_SHARES: Final = (1, 1, 1, 0.5, 0.9, 2)
"""The shares of a partition's records that are deleted; more than there is is refused."""
_GOES: Final = ("kill", "kill", "bounce", "bounce", "shutdown", "pause")
_BACK_SOON: Final = ("bounce", "bounce", "kill", "shutdown")


def emptied(plan: Plan, chance: Chance) -> Plan:
    """Records are deleted, mostly to the last one, and a broker with the partition restarts."""
    topics = [topic for topic in plan.ordinary_topics if not topic.is_compacted]
    if not topics or not chance.happens(0.25):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        topic, at_ns = chance.one_of(topics), chance.whole(2 * SECOND, plan.length_ns - 4 * SECOND)
        more += _emptied(plan, chance, topic, at_ns)
    return with_actions(plan, within(plan, more))


def quieted(plan: Plan, chance: Chance) -> Plan:
    """A topic is written to only at first; its records are deleted, sometimes while a follower is away."""
    if not chance.happens(0.2):
        return plan
    topic = TopicPlan(QUIET, chance.whole(1, 2), 3, {"segment.bytes": str(chance.whole(400, 3_000))})
    written_ns = chance.whole(1_000, 5_000) * MS
    said: dict[str, Any] = {"client": "producer-quiet", "topic": QUIET, "acks": -1, "idempotent": True}
    said["delivery_timeout_ms"] = 5_000  # it has given up before any broker forgets it
    more: list[Step] = [
        (0, "produce", {**said, "records": chance.whole(20, 60), "batch_bytes": chance.whole(80, 600)}, written_ns),
        (0, "consume", {"client": "consumer-quiet", "topic": QUIET, "isolation": "read_committed"}, plan.length_ns),
    ]
    for _ in range(chance.whole(1, 3)):
        more += _emptied(plan, chance, topic, chance.whole(written_ns, plan.length_ns - 4 * SECOND))
    return with_actions(replace(plan, topics=(*plan.topics, topic)), within(plan, more))


def sent_again(plan: Plan, chance: Chance) -> Plan:
    """Followers are far from their leader, so that clients repeat batches that the leader alone has; then the leader
    fails, or it does not."""
    if not chance.happens(0.2):
        return plan
    topic = chance.one_of(plan.ordinary_topics)
    plan = plan.changed(
        lambda each: each.name in ("produce", "transact") and each.arguments["topic"] == topic.name,
        lambda: {"request_timeout_ms": chance.whole(200, 800)},
    )
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        leader, at_ns = (
            f"leader:{topic.name}-{chance.whole(0, topic.partitions - 1)}",
            chance.whole(SECOND, plan.length_ns - 6 * SECOND),
        )
        far = {"links": [f"{name}>{leader}" for name in plan.broker_names], "delay_ns": chance.whole(900, 3_000) * MS}
        more.append((at_ns, "delay", far, chance.whole(2_000, 5_000) * MS))
        if chance.happens(0.7):
            goes_ns = at_ns + chance.whole(600, 3_500) * MS
            more.append((goes_ns, chance.one_of(_GOES), {"node": leader}, chance.whole(300, 8_000) * MS))
    return with_actions(plan, within(plan, more))


def damaged_then_lost(plan: Plan, chance: Chance) -> Plan:
    """A bit of a log flips, in the flushed part or behind it, in plans whose disks lose data. What is cut for it is
    written again, and then power is lost."""
    drawn = {action.name for action in plan.actions}
    losses = [name for name in ("power-loss", "torn-sector", "lost-pages") if name in drawn]
    if not losses or not chance.happens(0.5 if plan.profile == "PWR" else 0.25):
        return plan
    config = {
        "log.flush.interval.messages": str(chance.whole(1, 8)),
        "log.segment.bytes": str(chance.whole(500, 3_000)),
        "log.flush.offset.checkpoint.interval.ms": str(chance.whole(300, 1_500)),
    }
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        node = {"node": chance.one_of(plan.broker_names)}
        at_ns, lasts_ns = chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND), chance.whole(50, 500) * MS
        lost_ns = at_ns + lasts_ns + chance.whole(200, 3_000) * MS
        more += [
            (at_ns, "bit-rot", node, lasts_ns),
            (lost_ns, chance.one_of(losses), node, chance.whole(100, 1_000) * MS),
        ]
    return with_actions(replace(plan, config={**config, **plan.config}), within(plan, more))


def of_old(plan: Plan, chance: Chance) -> Plan:
    """Brokers speak a protocol of before 2.7: followers ask where epochs end, and leaders change their ISRs themselves.
    Leaders fail one after the other, while some followers get records late."""
    if not chance.happens(0.12):
        return plan
    version = chance.one_of(["1.1", "2.3", "2.4", "2.6", "2.6", "2.7"])
    # Without topic ids nothing tells a topic from the next of its name.
    actions = tuple(each for each in plan.actions if each.name != "recreate-topic")
    older = replace(plan, actions=actions, config={**plan.config, "inter.broker.protocol.version": version})
    more: list[Step] = []
    at_ns = chance.whole(2 * SECOND, 5 * SECOND)
    place = chance.one_of([place for place in plan.partition_names if not place.startswith("__")])
    while at_ns < plan.length_ns - 4 * SECOND:
        leader = f"leader:{place}"
        behind = chance.one_of([f"{leader}>follower:{place}", f"follower:{place}>{leader}"])
        goes_ns = at_ns + chance.whole(200, 1_200) * MS
        more += [
            (at_ns, "delay", {"links": [behind], "delay_ns": chance.whole(200, 1_500) * MS}, goes_ns - at_ns + SECOND),
            (goes_ns, chance.one_of(_GOES), {"node": leader}, chance.whole(300, 4_000) * MS),
        ]
        at_ns = goes_ns + chance.whole(800, 4_000) * MS
    return with_actions(older, within(plan, more))


LOGS: Final = (emptied, quieted, sent_again, damaged_then_lost, of_old)


def _emptied(plan: Plan, chance: Chance, topic: TopicPlan, at_ns: int) -> list[Step]:
    number = chance.whole(0, topic.partitions - 1)
    place = f"{topic.name}-{number}"
    where: dict[str, Any] = {"topic": topic.name, "partition": number, "share": chance.one_of(_SHARES)}
    node = {"node": chance.one_of([f"leader:{place}", f"follower:{place}"])}
    name, lasts_ns = chance.one_of(_BACK_SOON), chance.whole(50, 2_500) * MS
    if chance.happens(0.3):  # it is away meanwhile, and begins behind what its leader has
        return [(at_ns - SECOND, "kill", node, chance.whole(1_500, 9_000) * MS), (at_ns, "delete-records", where, 0)]
    more: list[Step] = [(at_ns, "delete-records", where, 0)]
    return [*more, (at_ns + chance.whole(0, 1_500) * MS, name, node, lasts_ns)] if chance.happens(0.7) else more
