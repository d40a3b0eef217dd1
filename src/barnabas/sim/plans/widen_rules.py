"""Widens a plan by settings that administrators change while brokers run: rights, quotas and configurations, several at
once and by several administrators. One is written while another is, and one is announced while a broker that hears late
of ZooKeeper reads another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import ZK
from barnabas.sim.plans.plan import MS, SECOND, Argument, Plan, Step, with_actions, with_arguments, within

GUARDED: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Brokers check rights; the plan's own clients may do everything."""
ANYBODY: Final = ""
THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Lists of throttled replicas, which limit nobody as long as no rate is set."""


def guarded(plan: Plan, chance: Chance) -> Plan:
    """Several administrators grant and revoke rights of one topic at once, at several brokers."""
    if not chance.happens(0.2):
        return plan
    more: list[Step] = []
    granted: list[dict[str, str]] = []
    for _ in range(chance.whole(2, 4)):
        topic = chance.one_of(plan.ordinary_topics).name
        at_ns = chance.whole(SECOND, plan.length_ns - 2 * SECOND)
        for _ in range(chance.whole(2, 5)):
            soon_ns = at_ns + chance.whole(0, 150) * MS
            if granted and chance.happens(0.3):
                more.append((soon_ns, "forbid", granted.pop(), 0))
            else:
                said = {"topic": topic, "user": f"user-{len(more)}"}
                more.append((soon_ns, "permit", said, 0))
                granted.append(said)
        amid: dict[str, Any] = {"node": "here", "when": f"{ZK} /kafka-acl", "nth": chance.whole(1, 6)}
        strikes: list[Step] = [
            (at_ns, "kill", amid, chance.whole(300, 3_000) * MS),
            (at_ns, "zk-loss", {**amid, "applied": chance.happens(0.5), "count": 1}, SECOND),
            (at_ns, "zk-expire", amid, 0),
        ]
        more += [chance.one_of(strikes)] if chance.happens(0.5) else []
    return with_actions(replace(plan, config={**plan.config, **GUARDED}), within(plan, more))


def rationed(plan: Plan, chance: Chance) -> Plan:
    """Clients have quotas, of their own or by default, and these are changed and removed. Batches are small: a client
    that may not read one batch in all windows together would never read it."""
    if not chance.happens(0.25):
        return plan
    windows = {
        "quota.window.num": "4", "quota.window.size.seconds": "1",
        "controller.quota.window.num": "2", "controller.quota.window.size.seconds": "1",
    }  # fmt: skip
    named = [each for each in plan.actions if "client" in each.arguments]
    writers = [str(each.arguments["client"]) for each in named if each.name in ("produce", "transact", "pipeline")]
    readers = [str(each.arguments["client"]) for each in named if each.name in ("consume", "group", "wander")]
    more: list[Step] = []
    for _ in range(chance.whole(3, 6)):
        names, quota = chance.one_of([
            (writers, {"key": "producer_byte_rate", "value": str(chance.whole(200, 2_000))}),
            (writers, {"key": "producer_byte_rate", "value": str(chance.whole(200, 2_000))}),
            (readers, {"key": "consumer_byte_rate", "value": str(chance.whole(1_000, 8_000))}),
            (writers, {"key": "request_percentage", "value": str(chance.whole(20, 200))}),
            ([], {"key": "controller_mutation_rate", "value": str(chance.whole(2, 20) / 10)}),
            (readers, {"key": "connection_creation_rate", "value": str(chance.whole(1, 10))}),
        ])  # fmt: skip
        client = {"client-id": chance.one_of([ANYBODY, *names, *names])}
        user = {"user": chance.one_of([ANYBODY, "ANONYMOUS"])}
        whose = chance.one_of([client, client, client, user, {**user, **client}]) if names else user
        if quota["key"] == "connection_creation_rate":
            whose = {"ip": chance.one_of(names)}
        if whose == user and quota["key"] == "consumer_byte_rate":
            quota["value"] += "0"  # all readers of a run share what a user may read
        said: dict[str, Any] = {**whose, **quota}
        at_ns = chance.whole(0, plan.length_ns // 2)
        more.append((at_ns, "quota", said, 0))
        if chance.happens(0.3):
            more.append((at_ns + chance.whole(3_000, 12_000) * MS, "quota", {**said, "value": None}, 0))

    def small() -> dict[str, Argument]:
        return {"batch_bytes": 500}

    for name in ("produce", "transact"):
        plan = with_arguments(plan, name, small)
    return with_actions(replace(plan, config={**plan.config, **windows}), within(plan, more))


def reconfigured(plan: Plan, chance: Chance) -> Plan:
    """Configurations of several topics and brokers change in quick succession, while a broker hears late of ZooKeeper:
    it reads one while the next is announced, and after the last comes no other for a while."""
    if not chance.happens(0.2):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        at_ns, late = chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND), chance.one_of(plan.broker_names)
        delay: dict[str, Any] = {"links": [f"zookeeper>{late}"], "delay_ns": chance.whole(20, 500) * MS}
        more.append((at_ns - SECOND, "delay", delay, 5 * SECOND))
        more += [
            (at_ns + chance.whole(0, 1_500) * MS, "config", _setting(plan, chance), 0)
            for _ in range(chance.whole(2, 6))
        ]
    return with_actions(plan, within(plan, more))


def _setting(plan: Plan, chance: Chance) -> dict[str, Any]:
    topic, broker = (
        {"topic": chance.one_of(plan.ordinary_topics).name},
        {"broker": str(chance.whole(0, plan.brokers - 1))},
    )
    of_topics = {"segment.bytes": (800, 20_000), "flush.messages": (1, 100), "index.interval.bytes": (1, 4_096)}
    of_brokers = {
        "log.segment.bytes": (2_000, 40_000), "log.index.interval.bytes": (1, 4_096),
        "log.flush.interval.messages": (1, 100), "log.cleaner.backoff.ms": (200, 5_000),
        "log.segment.delete.delay.ms": (500, 5_000), "background.threads": (6, 19),
    }  # fmt: skip
    if chance.happens(0.2):
        operation = chance.one_of(["APPEND", "APPEND", "SUBTRACT"])
        listed = f"{chance.whole(0, 1)}:{chance.whole(0, plan.brokers - 1)}"
        return {**topic, "key": chance.one_of(THROTTLED), "value": listed, "operation": operation}
    where, keys = chance.one_of([(topic, of_topics), (topic, of_topics), (broker, of_brokers), ({}, of_brokers)])
    key = chance.one_of(list(keys))
    if chance.happens(0.2):
        return {**where, "key": key, "operation": "DELETE"}
    return {**where, "key": key, "value": str(chance.whole(*keys[key]))}


def surveyed(plan: Plan, chance: Chance) -> Plan:
    """A client asks for settings and for work under way."""
    if not chance.happens(0.3):
        return plan
    return with_actions(
        plan, [(chance.whole(0, plan.length_ns // 3), "survey", {"client": "surveyor"}, plan.length_ns)]
    )


RULES: Final = (guarded, rationed, reconfigured, surveyed)
