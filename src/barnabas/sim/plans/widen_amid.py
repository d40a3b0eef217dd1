"""Widens a plan by work that takes long, and by faults amid it: replicas that move slowly between log directories, a
cluster that restarts without the broker that has everything, a producer whose sequences wrap, and topics that are
deleted while a broker flushes its logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.config import ALTER_LOG_DIRS_RATE
from barnabas.model.sentinels import SEQUENCE_MAX
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import RPC, ZK
from barnabas.sim.plans.plan import MS, RESULTS, SECOND, Plan, Step, with_actions

FAST: Final = str(1 << 40)
SESSION_MS: Final = 4_000
BROKERS: Final = 3


def in_pieces(plan: Plan, chance: Chance) -> Plan:
    """Replicas move between log directories in small pieces, as slowly as the throttle lets them, while records are
    deleted."""
    paths = plan.config.get("log.dirs", "").split(",")
    if len(paths) < 2 or not chance.happens(0.25):
        return plan
    topic, ends_ns = plan.topics[0], plan.length_ns - 2 * SECOND
    slow, fast = ({"key": ALTER_LOG_DIRS_RATE, "value": value} for value in (str(chance.whole(20, 200)), FAST))
    more: list[Step] = [(SECOND // 2, "config", slow, 0), (ends_ns, "config", fast, 0)]
    for _ in range(chance.whole(1, 3)):
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        at_ns, path = chance.whole(3 * SECOND, ends_ns - 3 * SECOND), chance.one_of(paths)
        more += [
            (at_ns, "move-replica", {**where, "broker": broker, "path": path}, 0) for broker in range(plan.brokers)
        ]
        more.append((at_ns + chance.whole(300, 3_000) * MS, "delete-records", where, 0))
    pieces = {"replica.fetch.max.bytes": str(chance.whole(400, 2_000))}
    return with_actions(replace(plan, config={**plan.config, **pieces}), more)


def last_back(plan: Plan, chance: Chance) -> Plan:
    """Two of three brokers die, and after the end of their sessions the third, which alone is in sync by then. The
    two are back first and have to wait for it. Their controller may fail when it has just begun, or when the third
    comes."""
    if plan.brokers != BROKERS or not chance.happens(0.08):
        return plan
    numbers, session_ns = list(range(BROKERS)), SESSION_MS * MS
    chance.shuffle(numbers)
    last, others = numbers[0], numbers[1:]
    at_ns = chance.whole(SECOND, 2 * SECOND)
    alone_ns = at_ns + session_ns + chance.whole(1_500, 2_500) * MS
    back_ns = alone_ns + session_ns + chance.whole(500, 1_500) * MS
    more: list[Step] = [
        (at_ns, "kill", {"node": f"broker-{number}"}, back_ns - at_ns + chance.one_of([0, 300 * MS]))
        for number in others
    ]
    more.append((alone_ns, "kill", {"node": f"broker-{last}"}, back_ns - alone_ns + chance.whole(1_500, 3_000) * MS))
    comes = {"when": f"{ZK} Create /brokers/ids/{last}"}
    begins = {"when": f"{RPC} LeaderAndIsr", "nth": chance.whole(1, 3)}
    goes: list[Step] = [
        (back_ns, "kill", {"node": "controller", **comes}, chance.whole(500, 7_000) * MS),
        (back_ns, "depose", comes, 0),
        (back_ns, "kill", {"node": "here", **begins}, chance.whole(500, 7_000) * MS),
    ]
    more += [chance.one_of(goes)] if chance.happens(0.7) else []
    config = {**plan.config, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    return with_actions(replace(plan, config=config), more)


def begin_anew(plan: Plan, chance: Chance) -> Plan:
    """A producer whose sequence numbers reach the largest there is and begin at 0 again."""
    known = [each for each in plan.actions if each.name == "produce" and each.arguments.get("idempotent")]
    known = [each for each in known if "sequence" not in each.arguments]
    if not known or not chance.happens(0.3):
        return plan
    old, sequence = chance.one_of(known), SEQUENCE_MAX - chance.whole(1, 15)
    return plan.changed(lambda each: each is old, lambda: {"sequence": sequence})


def slowly_flushed(plan: Plan, chance: Chance) -> Plan:
    """A topic is deleted and made again while one of its brokers flushes one log after the other on a slow disk;
    deleted files are soon removed."""
    topics = [topic for topic in plan.topics if topic.name != RESULTS and "cleanup.policy" not in topic.configs]
    often = 0.3 if plan.profile == "ADMIN" else 0.05
    if not topics or not plan.tells_topics_apart or not chance.happens(often):
        return plan
    topic, at_ns = topics[-1], chance.whole(5 * SECOND, plan.length_ns - 9 * SECOND)
    slow = {"node": chance.one_of(plan.broker_names), "takes_ns": chance.whole(50, 250) * MS}
    anew = {"topic": topic.name, "partitions": topic.partitions, "replication_factor": BROKERS}
    more: list[Step] = [
        (at_ns, "slow-fsync", slow, 8 * SECOND),
        (at_ns + chance.whole(0, 5_000) * MS, "recreate-topic", anew, 0),
    ]
    soon = {
        "log.segment.delete.delay.ms": str(chance.whole(1, 300)),
        "log.flush.interval.ms": str(chance.whole(500, 2_000)),
    }
    return with_actions(replace(plan, config={**plan.config, **soon}), more)


AMID: Final = (in_pieces, last_back, begin_anew, slowly_flushed)
