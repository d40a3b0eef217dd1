"""Widens a plan by windows that hardly any time hits: between the steps of a broker that stops, of a transaction, or of
a topic's deletion; while a broker does not see what all others see; and at the very end, so that no later controller or
restart mends what was left wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, RPC
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, with_actions, within

_OF_TRANSACTIONS: Final = (
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "EndTxn", "WriteTxnMarkers",
    "WriteTxnMarkers",
)  # fmt: skip
_COPIES: Final = 3
"""Of coordinators' topics; the leader writes first."""
_OF_DIRECTORIES: Final = ("dir-gone", "dir-gone", "eio-fsync", "eio-write")


def parting(plan: Plan, chance: Chance) -> Plan:
    """A broker begins a controlled shutdown when another has just died: partitions of the two find no other leader, so
    that it asks again and again. Meanwhile the controller fails or is heard late, or the stopping broker dies."""
    if not chance.happens(0.25):
        return plan
    leaving, gone = _two_brokers(plan, chance)
    session_ns, at_ns = plan.session_ns, chance.whole(2 * SECOND, plan.length_ns - 10 * SECOND)
    leaves_ns = at_ns + chance.whole(100 * MS, session_ns + 2 * SECOND)
    amid: list[tuple[str, dict[str, Any], int]] = [
        ("depose", {}, 0),
        ("kill", {"node": "controller"}, chance.whole(300, 7_000) * MS),
        ("kill", {"node": leaving}, chance.whole(300, 7_000) * MS),
        ("delay", {"links": [f"controller>{leaving}"], "delay_ns": chance.whole(200, 1_500) * MS}, 4 * SECOND),
        ("partition", {"node": leaving, "others": ["controller"]}, chance.whole(300, 3_000) * MS),
    ]
    theirs = [int(name.rpartition("-")[2]) for name in (leaving, gone)]
    made = {"topic": f"new-{chance.whole(1, 4)}", "partitions": 1, "replicas": theirs}
    more: list[Step] = [
        (at_ns - SECOND, "create-topic", made, 0),
        (at_ns, "kill", {"node": gone}, session_ns + chance.whole(1_000, 6_000) * MS),
        (leaves_ns, "shutdown", {"node": leaving}, chance.whole(300, 3_000) * MS),
    ]
    if chance.happens(0.6):
        name, said, lasts_ns = chance.one_of(amid)
        more.append((leaves_ns + chance.whole(0, 1_500) * MS, name, said, lasts_ns))
    config = {"controlled.shutdown.retry.backoff.ms": str(chance.whole(1_000, 4_000)), **plan.config}
    return with_actions(replace(plan, config=config), within(plan, more))


def amid_transactions(plan: Plan, chance: Chance) -> Plan:
    """A step of a transaction goes wrong: its answer is lost, a leader of its partitions restarts, or the step is
    written where no other replica can copy it."""
    topics = {str(action.arguments["topic"]) for action in plan.actions if action.name in ("transact", "work")}
    written = [topic for topic in plan.topics if topic.name in topics]
    if not written or not chance.happens(0.4):
        return plan
    brokers = plan.broker_names
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        api, topic = chance.one_of(_OF_TRANSACTIONS), chance.one_of(written)
        asked = {"when": f"{RPC} {api}", "nth": chance.whole(1, 15)}
        noted = {"when": f"{DISK} write {TRANSACTION_STATE_TOPIC} .log", "nth": 1 + _COPIES * chance.whole(0, 20)}
        leads = {"node": f"leader:{topic.name}-{chance.whole(0, topic.partitions - 1)}"}
        ways: list[tuple[str, dict[str, Any], int]] = [
            ("lose-reply", {"node": "there", "api": api, "count": chance.whole(1, 2), **asked}, 2 * SECOND),
            ("bounce", {**leads, **asked}, chance.whole(20, 800) * MS),
            ("partition", {"node": "here", "others": brokers, **noted}, chance.whole(1_000, 7_000) * MS),
        ]
        more.append((chance.whole(0, plan.length_ns // 2), *chance.one_of(ways)))
    return with_actions(plan, more)


def out_of_sight(plan: Plan, chance: Chance) -> Plan:
    """A broker that all others reach does not reach ZooKeeper for longer than its session, while administrators
    work."""
    if not chance.happens(0.12):
        return plan
    lasts_ns = plan.session_ns + chance.whole(2_000, 6_000) * MS
    at_ns = chance.whole(SECOND, plan.length_ns // 2)
    return with_actions(plan, within(plan, _unseen(plan, chance, at_ns, lasts_ns)))


def failing_at_requests(plan: Plan, chance: Chance) -> Plan:
    """One log directory of two fails just when its broker is told to make a replica, or is about to delete it."""
    if not chance.happens(0.3 if _has_two_directories(plan) else 0.06):
        return plan
    plan = _with_two_directories(plan)
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        more += _failing(plan, chance, chance.whole(2 * SECOND, plan.length_ns - 9 * SECOND))
    return with_actions(plan, within(plan, more))


def at_last(plan: Plan, chance: Chance) -> Plan:
    """A last event after everything else, with nothing behind it."""
    if not chance.happens(0.2):
        return plan
    at_ns = plan.length_ns + chance.whole(1_000, 3_000) * MS
    story = chance.one_of([_stopping, _unseen_at_last, _failing])
    if story is _failing:
        plan = _with_two_directories(plan)
    more = story(plan, chance, at_ns)
    ends_ns = max(begins_ns + lasts_ns for begins_ns, _, _, lasts_ns in more) + SECOND
    return with_actions(replace(plan, length_ns=ends_ns), more)


WINDOWS: Final = (parting, amid_transactions, out_of_sight, failing_at_requests, at_last)


def _stopping(plan: Plan, chance: Chance, at_ns: int) -> list[Step]:
    """A broker shuts down cleanly and comes back, while another may be away for a moment."""
    leaving, other = _two_brokers(plan, chance)
    more: list[Step] = [(at_ns, "shutdown", {"node": leaving}, chance.whole(300, 3_000) * MS)]
    if chance.happens(0.4):
        name = chance.one_of(["bounce", "pause", "kill", "shutdown"])
        more.append((at_ns + chance.whole(0, 1_500) * MS, name, {"node": other}, chance.whole(100, 1_500) * MS))
    return more


def _unseen_at_last(plan: Plan, chance: Chance, at_ns: int) -> list[Step]:
    return _unseen(plan, chance, at_ns + SECOND, plan.session_ns + chance.whole(2_000, 4_000) * MS)


def _unseen(plan: Plan, chance: Chance, at_ns: int, lasts_ns: int) -> list[Step]:
    """Topics are made, deleted and moved while one broker runs without a session."""
    node, passing, coming = chance.one_of(plan.broker_names), f"new-{chance.whole(1, 2)}", f"new-{chance.whole(3, 4)}"
    topic = chance.one_of(plan.ordinary_topics)
    where = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    numbers = chance.shuffled(range(plan.brokers))
    asked: list[tuple[str, dict[str, Any]]] = [
        ("delete-topic", {"topic": passing}),
        ("create-topic", {"topic": coming, "partitions": chance.whole(1, 2), "replication_factor": 2}),
        ("reassign", {**where, "replicas": numbers[: chance.whole(2, 3)]}),
        ("elect", {"topic": topic.name, "unclean": False}),
        ("config", {"topic": topic.name, "key": "retention.ms", "value": "600000"}),
    ]
    there = [number for number in numbers if f"broker-{number}" != node]
    made = {"topic": passing, "partitions": chance.whole(1, 3), "replicas": chance.one_of([numbers, there])[:2]}
    if plan.tells_topics_apart and chance.happens(0.5):
        asked[0] = "recreate-topic", {"topic": passing, "partitions": 1, "replicas": there[:2]}
    more: list[Step] = [
        (at_ns - 800 * MS, "create-topic", made, 0),
        (at_ns, "partition", {"node": node, "others": ["zookeeper"]}, lasts_ns),
    ]
    gone_ns, rest_ns = at_ns + plan.session_ns, lasts_ns - plan.session_ns
    for name, said in asked:
        if chance.happens(0.7 if name in ("delete-topic", "recreate-topic") else 0.3):
            more.append((gone_ns + chance.whole(0, rest_ns), name, said, 0))
    return more


def _failing(plan: Plan, chance: Chance, at_ns: int) -> list[Step]:
    """A topic is made and deleted; each of three brokers has a replica of it in both directories."""
    name, goes_ns = f"new-{chance.whole(1, 4)}", at_ns + chance.whole(1_000, 3_000) * MS
    path = chance.one_of(plan.config["log.dirs"].split(","))
    fails: dict[str, Any] = {"node": "here", "path": path, "when": f"{DISK} rename {path}/{name}-"}
    fault, armed_ns = "dir-gone", goes_ns
    if chance.happens(0.4):
        fails |= {"node": "there", "when": f"{RPC} {chance.one_of(['StopReplica', 'LeaderAndIsr'])}"}
        fault, armed_ns = chance.one_of(_OF_DIRECTORIES), chance.one_of([at_ns, goes_ns])
    return [
        (at_ns, "create-topic", {"topic": name, "partitions": 2, "replication_factor": 3}, 0),
        (armed_ns - 10 * MS, fault, {**fails, "nth": chance.whole(1, 3)}, chance.whole(2_000, 4_000) * MS),
        (goes_ns, "delete-topic", {"topic": name}, 0),
    ]


def _two_brokers(plan: Plan, chance: Chance) -> tuple[str, str]:
    numbers = chance.shuffled(range(plan.brokers))
    return f"broker-{numbers[0]}", f"broker-{numbers[1]}"


def _has_two_directories(plan: Plan) -> bool:
    return "," in plan.config.get("log.dirs", "")


def _with_two_directories(plan: Plan) -> Plan:
    config = {} if _has_two_directories(plan) else {"log.dirs": "/kafka/a,/kafka/b"}
    return replace(plan, config={**plan.config, **config})
