"""Widens a plan by what comes between two steps of a controller: another order for the same topic, a write whose answer
is lost, the end of its session or a broker's, or a replica that leaves the ISR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import RPC, ZK
from barnabas.sim.plans.plan import MS, SECOND, Argument, Plan, Step, with_actions, with_arguments, within

BUSY: Final = "busy"
"""A topic that all orders are about, and nobody writes to."""
_WRITES: Final = {
    "create-topic": ("Create", "Create", "SetData"),
    "add-partitions": ("SetData", "Create"),
    "reassign": ("SetData",),
    "elect": ("SetData",),
    "legacy-elect": ("SetData",),
    "delete-topic": ("Delete", "Delete", "SetData"),
    "recreate-topic": ("Delete", "Create", "SetData"),
}
"""By order: what it does to the topic's znodes."""
_OF_RULERS: Final = ("LeaderAndIsr", "LeaderAndIsr", "StopReplica", "UpdateMetadata")


def meddled_with(plan: Plan, chance: Chance) -> Plan:
    """At a step of a reassignment, which a request or a znode asks for, the move is replaced or cancelled, one of its
    replicas pauses, dies or stops, the controller fails, or the topic gets partitions or another leader."""
    if not chance.happens(0.5 if plan.profile in ("REAS", "MOVE", "CTL") else 0.15):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        topic, at_ns = chance.one_of(plan.ordinary_topics), chance.whole(2 * SECOND, plan.length_ns - 7 * SECOND)
        numbers, place = chance.shuffled(range(plan.brokers)), chance.whole(0, topic.partitions - 1)
        where: dict[str, Any] = {"topic": topic.name, "partition": place}
        stays, comes, then = numbers[:3]
        away = (at_ns - 1_500 * MS, "reassign", {**where, "replicas": [stays, then]}, 0)
        asks = chance.one_of(["reassign", "reassign", "legacy-reassign"])
        moved = (at_ns, asks, {**where, "replicas": chance.shuffled([stays, comes])}, 0)
        more += [away, moved] if chance.happens(0.7) else [moved]
        amid: list[tuple[str, dict[str, Any], int]] = [
            ("reassign", {**where, "replicas": chance.shuffled([then, comes])}, 0),
            ("reassign", {**where, "replicas": chance.shuffled([stays, then])}, 0),
            ("cancel-reassignment", where, 0),
            ("add-partitions", {"topic": topic.name, "partitions": topic.partitions + 1}, 0),
            ("elect", {"topic": topic.name, "unclean": False}, 0),
            ("pause", {"node": f"broker-{comes}"}, chance.whole(1_000, 4_000) * MS),
            ("kill", {"node": f"broker-{chance.one_of([stays, comes, then])}"}, chance.whole(300, 7_000) * MS),
            ("shutdown", {"node": f"broker-{chance.one_of([stays, comes, then])}"}, chance.whole(300, 3_000) * MS),
            ("kill", {"node": "controller"}, chance.whole(300, 7_000) * MS),
            ("zk-expire", {"node": f"broker-{chance.one_of([comes, then])}"}, 0),
            ("depose", {}, 0),
        ]
        for _ in range(chance.whole(1, 2)):
            name, said, lasts_ns = chance.one_of(amid)
            path = f"/brokers/topics/{topic.name}" + (f"/partitions/{place}/state" if chance.happens(0.6) else "")
            step = {"when": f"{ZK} SetData {path}", "nth": chance.whole(1, 6)}
            more.append((at_ns - MS, name, {**said, **step}, lasts_ns))
    return with_actions(plan, within(plan, more))


def all_about_one(plan: Plan, chance: Chance) -> Plan:
    """Several orders for one topic at once, and again when those are hardly done: delete, make again, move, add
    partitions, configure, elect."""
    if not plan.tells_topics_apart or not chance.happens(0.12):
        return plan
    numbers, at_ns = chance.shuffled(range(plan.brokers)), chance.whole(2 * SECOND, plan.length_ns // 2)
    made: dict[str, Any] = {"topic": BUSY, "partitions": chance.whole(1, 2), "replicas": numbers[:2]}
    more: list[Step] = [(at_ns - SECOND, "create-topic", made, 0)]
    for _ in range(chance.whole(2, 3)):
        orders: list[tuple[str, dict[str, Any]]] = [
            ("delete-topic", {"topic": BUSY}),
            ("legacy-delete", {"topic": BUSY}),
            ("legacy-elect", {"topic": BUSY}),
            ("legacy-grow", {"topic": BUSY}),
            ("legacy-reassign", {"topic": BUSY, "partition": 0, "replicas": chance.shuffled(numbers)[:2]}),
            ("reassign", {"topic": BUSY, "partition": 0, "replicas": chance.shuffled(numbers)[: chance.whole(2, 3)]}),
            ("cancel-reassignment", {"topic": BUSY, "partition": 0}),
            ("add-partitions", {"topic": BUSY, "partitions": chance.whole(2, 4)}),
            ("elect", {"topic": BUSY, "unclean": False}),
            ("config", {"topic": BUSY, "key": "segment.bytes", "value": str(chance.whole(800, 20_000))}),
            ("create-topic", {**made, **settings(chance)}),
            ("recreate-topic", {**made, **settings(chance)}),
        ]
        for name, said in chance.shuffled(orders)[: chance.whole(2, 4)]:
            more.append((at_ns + chance.whole(0, 250) * MS, name, said, 0))
        at_ns += chance.whole(400, 3_000) * MS
    if chance.happens(0.4):
        struck = {"node": chance.one_of(["controller", "here"]), "when": f"{ZK} /brokers/topics/{BUSY}"}
        goes = chance.one_of(["kill", "zk-expire", "bounce"])
        more.append((more[1][0], goes, {**struck, "nth": chance.whole(1, 12)}, chance.whole(200, 1_500) * MS))
    return with_actions(plan, within(plan, more))


def settings(chance: Chance) -> dict[str, Argument]:
    """Settings of another topic of the same name."""
    drawn = {
        "segment.bytes": chance.whole(800, 20_000),
        "max.message.bytes": chance.whole(200_000, 1_000_000),
        "flush.messages": chance.whole(2, 50),
        "index.interval.bytes": chance.whole(1, 4_000),
        "min.insync.replicas": chance.whole(1, 2),
    }
    return {key: str(value) for key, value in drawn.items() if chance.happens(0.4)}


def led_by_the_new(plan: Plan, chance: Chance) -> Plan:
    """A replica that a move has added leads before the move is done, because one target does not keep up and the leader
    before stops; then the move is cancelled or replaced, perhaps by one without that leader."""
    if not chance.happens(0.3 if plan.profile in ("REAS", "MOVE", "CTL") else 0.2):
        return plan
    topic, lag_ms = chance.one_of(plan.ordinary_topics), chance.whole(500, 900)
    at_ns = chance.whole(SECOND, max(2 * SECOND, plan.length_ns - 12 * SECOND))
    leads, stays, comes = chance.shuffled(range(plan.brokers))[:3]
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    behind_ns = at_ns + 2 * SECOND
    moved_ns = behind_ns + (2 * lag_ms + chance.whole(0, 500)) * MS
    stopped_ns = moved_ns + chance.whole(700, 2_000) * MS
    ends: list[tuple[str, dict[str, Any], int]] = [
        ("cancel-reassignment", where, 0),
        ("reassign", {**where, "replicas": [leads, stays]}, 0),
        ("legacy-reassign", {**where, "replicas": [leads, stays]}, 0),
    ]
    more: list[Step] = [
        (at_ns, "reassign", {**where, "replicas": [leads, stays]}, 0),
        (at_ns + SECOND, "elect", {"topic": topic.name, "unclean": False}, 0),
        (behind_ns, "pause", {"node": f"broker-{stays}"}, chance.whole(5_000, 8_000) * MS),
        (moved_ns, "reassign", {**where, "replicas": [comes, stays]}, 0),
        (stopped_ns, "shutdown", {"node": f"broker-{leads}"}, chance.whole(700, 3_000) * MS),
        (stopped_ns + chance.whole(200, 4_000) * MS, *chance.one_of(ends)),
    ]
    config = {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2)}
    return with_actions(replace(plan, config={**plan.config, **config}), within(plan, more))


def set_otherwise(plan: Plan, chance: Chance) -> Plan:
    """Topics are made, or made again, with settings of their own."""

    def own() -> dict[str, Argument]:
        return settings(chance) if chance.happens(0.5) else {}

    return with_arguments(with_arguments(plan, "create-topic", own), "recreate-topic", own)


def unanswered(plan: Plan, chance: Chance) -> Plan:
    """One of an order's writes is done and its answer is lost, or the write itself is lost."""
    known = [each for each in plan.actions if each.name in _WRITES and "when" not in each.arguments]
    if not known or not chance.happens(0.25):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(2, 4)):
        order = chance.one_of(known)
        written = f"{ZK} {chance.one_of(_WRITES[order.name])} /brokers/topics/{order.arguments['topic']}"
        said: dict[str, Any] = {"when": written, "nth": chance.whole(1, 8)}
        name, lasts_ns = "reset", 0
        said["links"] = ["here>zookeeper", "zookeeper>here"]
        if chance.happens(0.4):
            name, lasts_ns = "zk-loss", 2 * SECOND
            said |= {"node": "here", "applied": chance.happens(0.5), "count": chance.whole(1, 2)}
            del said["links"]
        more.append((max(0, order.at_ns - MS), name, said, lasts_ns))
    return with_actions(plan, within(plan, more))


def anew_amid(plan: Plan, chance: Chance) -> Plan:
    """Brokers are far from ZooKeeper, and the session of one ends when it is just being told something: it registers
    again before it has read what it needs."""
    if not chance.happens(0.15):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        at_ns = chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND)
        links = [link for name in plan.broker_names for link in (f"{name}>zookeeper", f"zookeeper>{name}")]
        topic, numbers = chance.one_of(plan.ordinary_topics), chance.shuffled(range(plan.brokers))
        moved = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1), "replicas": numbers[:2]}
        order: tuple[str, dict[str, Any]] = chance.one_of(
            [
                ("create-topic", {"topic": f"new-{chance.whole(1, 4)}", "partitions": 1, "replication_factor": 3}),
                ("reassign", moved),
                ("elect", {"topic": topic.name, "unclean": False}),
            ]
        )
        told = {"node": "there", "when": f"{RPC} {chance.one_of(_OF_RULERS)}", "nth": chance.whole(1, 4)}
        more += [
            (at_ns, "delay", {"links": links, "delay_ns": chance.whole(20, 300) * MS}, 4 * SECOND),
            (at_ns + 10 * MS, "zk-expire", told, 0),
            (at_ns + chance.whole(20, 400) * MS, *order, 0),
        ]
    return with_actions(plan, within(plan, more))


def two_rulers(plan: Plan, chance: Chance) -> Plan:
    """The controller does not reach ZooKeeper for longer than its session, and does not know it. Brokers and
    administrators ask it while another is elected, and followers pause, so that leaders propose ISRs."""
    if not chance.happens(0.15):
        return plan
    session_ns, lag_ms = plan.session_ns, chance.whole(600, 1_500)
    at_ns = chance.whole(2 * SECOND, max(3 * SECOND, plan.length_ns - session_ns - 5 * SECOND))
    topic, lasts_ns = chance.one_of(plan.ordinary_topics), session_ns + chance.whole(500, 3_000) * MS
    name = chance.one_of(["partition", "one-way", "one-way"])
    more: list[Step] = [(at_ns, name, {"node": "controller", "others": ["zookeeper"]}, lasts_ns)]
    for _ in range(chance.whole(2, 4)):
        numbers = chance.shuffled(range(plan.brokers))
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        asked: list[tuple[str, dict[str, Any], int]] = [
            ("reassign", {**where, "replicas": numbers[: chance.whole(2, 3)]}, 0),
            ("elect", {"topic": topic.name, "unclean": False}, 0),
            ("pause", {"node": f"follower:{topic.name}-{where['partition']}"}, chance.whole(2, 4) * lag_ms * MS),
            ("add-partitions", {"topic": topic.name, "partitions": topic.partitions + 1}, 0),
            ("shutdown", {"node": chance.one_of(plan.broker_names)}, chance.whole(300, 2_000) * MS),
        ]
        amid_ns = at_ns + session_ns + chance.whole(-3_000, 2_500) * MS
        more.append((amid_ns, *chance.one_of(asked)))
    config = {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2)}
    return with_actions(replace(plan, config={**plan.config, **config}), within(plan, more))


BETWEEN: Final = (meddled_with, all_about_one, anew_amid, two_rulers, led_by_the_new, set_otherwise, unanswered)
