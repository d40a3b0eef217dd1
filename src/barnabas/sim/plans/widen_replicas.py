"""Widens a plan by faults soon after something else: replicas that move between directories while their logs are cut,
deleted or lose power; a cut log whose broker loses power before a flush; followers that are away while retention
deletes what they lack; a changing number of fetchers; and faults some time after their event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.config import ALTER_LOG_DIRS_RATE
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, TopicPlan, with_actions, within
from barnabas.sim.plans.widen_amid import FAST

_LOSSES: Final = ("power-loss", "torn-sector", "lost-pages", "lost-rename")
_GOES: Final = ("kill", "kill", "bounce", "bounce", "shutdown", "pause")
_BACK_AT_ONCE: Final = (50, 800)
"""Milliseconds: the broker is back before its session ends."""


def moved_amid(plan: Plan, chance: Chance) -> Plan:
    """Replicas move slowly to the other log directory of their broker. Meanwhile their leader fails with records that
    others lack, so that a moving log is cut; or their broker dies or loses power, perhaps just when the two copies
    change places; or records, the topic or the replica are deleted, or a directory fails."""
    has_two = "," in plan.config.get("log.dirs", "")
    topics = [topic for topic in plan.ordinary_topics if topic.replication_factor > 1]
    if not topics or not chance.happens(0.4 if has_two else 0.08):
        return plan
    paths = plan.config["log.dirs"].split(",") if has_two else ["/kafka/a", "/kafka/b"]
    slow = {"key": ALTER_LOG_DIRS_RATE, "value": str(chance.whole(100, 1_500))}
    fast = {"key": ALTER_LOG_DIRS_RATE, "value": FAST}
    more: list[Step] = [(SECOND // 2, "config", slow, 0), (plan.length_ns - 3 * SECOND, "config", fast, 0)]
    for _ in range(chance.whole(1, 3)):
        topic, at_ns = chance.one_of(topics), chance.whole(3 * SECOND, plan.length_ns - 7 * SECOND)
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        path = chance.one_of(paths)
        more += [
            (at_ns, "move-replica", {**where, "broker": broker, "path": path}, 0) for broker in range(plan.brokers)
        ]
        more += _amid_a_move(plan, chance, where, path, at_ns)
    pieces = {"replica.fetch.max.bytes": str(chance.whole(300, 1_500)), "replica.fetch.backoff.ms": "200"}
    return with_actions(
        replace(plan, config={**pieces, **plan.config, "log.dirs": ",".join(paths)}), within(plan, more)
    )


def _amid_a_move(plan: Plan, chance: Chance, where: dict[str, Any], path: str, at_ns: int) -> list[Step]:
    place, then_ns = f"{where['topic']}-{where['partition']}", at_ns + chance.whole(50, 2_500) * MS
    leader, lasts_ns = {"node": f"leader:{place}"}, chance.whole(100, 3_000) * MS
    changes_places = {"node": "here", "when": f"{DISK} rename {place}", "nth": chance.whole(1, 3)}
    dies = chance.one_of(["kill", *_lost_with_power(plan)])
    late = {"links": [f"leader:{place}>{name}" for name in plan.broker_names], "delay_ns": chance.whole(200, 900) * MS}
    replicas = chance.shuffled(range(plan.brokers))[: chance.whole(2, 3)]
    ways: list[list[Step]] = [
        [(then_ns, "delay", late, SECOND), (then_ns + 500 * MS, "bounce", leader, chance.whole(*_BACK_AT_ONCE) * MS)],
        [(then_ns, "delay", late, SECOND), (then_ns + 500 * MS, chance.one_of(_GOES), leader, lasts_ns)],
        [(at_ns - MS, dies, changes_places, lasts_ns)],
        [(at_ns - MS, dies, changes_places, lasts_ns)],
        [(then_ns, dies, {"node": chance.one_of(plan.broker_names)}, lasts_ns)],
        [(then_ns, "reassign", {**where, "replicas": replicas}, 0)],
        [(then_ns, "delete-records", {**where, "share": chance.one_of([0.5, 1])}, 0)],
        [(then_ns, "dir-gone", {"node": chance.one_of(plan.broker_names), "path": path}, lasts_ns)],
    ]
    return [step for _ in range(chance.whole(1, 2)) for step in chance.one_of(ways)]


def cut_then_lost(plan: Plan, chance: Chance) -> Plan:
    """A former leader comes back with records that nobody else has, cuts them, and soon loses power, in plans whose
    disks lose data: neither the cut nor what was written behind it need be on the platter."""
    losses = _lost_with_power(plan)
    if not losses or not chance.happens(0.5 if plan.profile == "PWR" else 0.25):
        return plan
    places = [f"{topic.name}-{number}" for topic in plan.ordinary_topics for number in range(topic.partitions)]
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        place, at_ns = chance.one_of(places), chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND)
        late = {"links": [f"leader:{place}>{name}" for name in plan.broker_names]}
        cut = {"node": "here", "when": f"{DISK} truncating", "later_ms": chance.whole(5, 1_500)}
        more += [
            (at_ns, "delay", {**late, "delay_ns": chance.whole(300, 1_500) * MS}, 1_500 * MS),
            (at_ns + 10 * MS, chance.one_of(losses), cut, chance.whole(100, 2_000) * MS),
            (
                at_ns + chance.whole(300, 1_000) * MS,
                chance.one_of(["bounce", "bounce", "kill"]),
                {"node": f"leader:{place}"},
                chance.whole(*_BACK_AT_ONCE) * MS,
            ),
        ]
    return with_actions(plan, within(plan, more))


def outrun(plan: Plan, chance: Chance) -> Plan:
    """A follower is away or far for longer than it may lag, and retention deletes what it lacks; when it is back, or
    before, another leader is elected."""
    topics = [topic for topic in plan.ordinary_topics if not topic.is_compacted and topic.replication_factor > 1]
    if not topics or not chance.happens(0.15):
        return plan
    topic, lag_ms = topics[-1], chance.whole(600, 1_500)
    little = {"segment.bytes": str(chance.whole(400, 1_000)), "retention.bytes": str(chance.whole(500, 2_500))}
    config = {
        "replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2),
        "log.retention.check.interval.ms": str(chance.whole(300, 800)),
    }  # fmt: skip
    place, more = f"{topic.name}-{chance.whole(0, topic.partitions - 1)}", list[Step]()
    for _ in range(chance.whole(1, 3)):
        at_ns, lasts_ns = chance.whole(SECOND, plan.length_ns - 6 * SECOND), chance.whole(2_000, 6_000) * MS
        follower = {"node": f"follower:{place}"}
        ways: list[Step] = [
            (at_ns, "pause", follower, lasts_ns),
            (at_ns, "kill", follower, lasts_ns),
            (at_ns, "partition", {**follower, "others": [f"leader:{place}"]}, lasts_ns),
            (at_ns, "delay", {"links": [f"leader:{place}>follower:{place}"], "delay_ns": 1_500 * MS}, lasts_ns),
        ]
        more.append(chance.one_of(ways))
        if chance.happens(0.5):
            goes_ns = at_ns + lasts_ns + chance.whole(-500, 1_000) * MS
            more.append((goes_ns, chance.one_of(_GOES), {"node": f"leader:{place}"}, chance.whole(300, 3_000) * MS))
    kept = tuple(_with(each, little) if each is topic else each for each in plan.topics)
    return with_actions(replace(plan, topics=kept, config={**plan.config, **config}), within(plan, more))


def refetched(plan: Plan, chance: Chance) -> Plan:
    """Brokers are told to follow by more or fewer fetchers while they follow."""
    if not chance.happens(0.15):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        said: dict[str, Any] = {"key": "num.replica.fetchers", "value": str(chance.whole(1, 3))}
        if chance.happens(0.5):
            said["broker"] = str(chance.whole(0, plan.brokers - 1))
        more.append((chance.whole(SECOND, plan.length_ns - 2 * SECOND), "config", said, 0))
    return with_actions(plan, more)


def a_while_later(plan: Plan, chance: Chance) -> Plan:
    """Some faults that wait for an event strike a while after it, amid what follows from it."""
    if not chance.happens(0.3):
        return plan
    return plan.changed(
        lambda each: "when" in each.arguments and "later_ms" not in each.arguments and chance.happens(0.3),
        lambda: {"later_ms": chance.whole(1, 400)},
    )


REPLICAS: Final = (moved_amid, cut_then_lost, outrun, refetched, a_while_later)


def _lost_with_power(plan: Plan) -> list[str]:
    """The kinds of power loss in this plan; where disks lose nothing, none is added."""
    drawn = {each.name for each in plan.actions}
    return [name for name in _LOSSES if name in drawn]


def _with(topic: TopicPlan, configs: dict[str, str]) -> TopicPlan:
    return replace(topic, configs={**topic.configs, **configs})
