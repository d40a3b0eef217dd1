"""Widens a plan by what coordinators meet: members that pause partitions, change topics, are busy for too long and come
again by their static names; answers that are lost; logs that a new coordinator reads slowly; requests whose sender has
given them up; topics that move or go at the end of a transaction; and transactions that time out while they grow."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import RPC
from barnabas.sim.plans.plan import MS, RESULTS, SECOND, Action, Argument, Plan, Step, TopicPlan, with_actions, within
from barnabas.sim.plans.widen_dense import PASSING, deleted_under_transactions

_FORGETFUL: Final = "producer.id.expiration.check.interval.ms"
_OF_GROUPS: Final = (
    "OffsetFetch", "OffsetCommit", "Heartbeat", "LeaveGroup", "JoinGroup", "SyncGroup", "FindCoordinator",
)  # fmt: skip
_OF_TRANSACTIONS: Final = (
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "EndTxn", "WriteTxnMarkers",
)  # fmt: skip
_SWEEP: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_PATTERNS: Final = 0.4
KEPT: Final = "kept"
"""A topic that nobody reads, and that a bookkeeper commits for."""


def roaming(plan: Plan, chance: Chance) -> Plan:
    """Members have the habits of real applications; some are static, and two may have one static name."""
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
        if chance.happens(0.5):
            said["static"] = True
        return replace(action, name="roam", arguments=said)

    plan = replace(plan, actions=tuple(map(roams, plan.actions)), config=config)
    rovers = [each for each in plan.actions if each.name == "roam"]
    more: list[Step] = []
    if short and rovers:
        alone = {**rovers[0].arguments, "client": "rover-alone", "group": "one", "stays": True}
        more.append((SECOND, "roam", alone, plan.length_ns - SECOND))
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


def unheard_answers(plan: Plan, chance: Chance) -> Plan:
    """Answers of coordinators are lost when the request is done."""
    in_transactions = any(each.name in ("transact", "work", "keep-books") for each in plan.actions)
    if not chance.happens(0.3):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(3, 6)):
        api = chance.one_of(_OF_TRANSACTIONS if in_transactions and chance.happens(0.6) else _OF_GROUPS)
        said: dict[str, Any] = {"node": "there", "api": api, "count": chance.whole(1, 2)}
        said |= {"when": f"{RPC} {api}", "nth": chance.whole(1, 8)}
        more.append((chance.whole(0, plan.length_ns * 2 // 3), "lose-reply", said, 2 * SECOND))
    return with_actions(plan, more)


def read_slowly(plan: Plan, chance: Chance) -> Plan:
    """The coordinator changes, and its successor pauses when it is told so. Then it reads its log a few records at a
    time while clients ask it. Meanwhile it may die, lose its disk, or lose the leadership."""
    if not chance.happens(0.25):
        return plan
    few = str(chance.whole(100, 600))
    config = {"offsets.load.buffer.size": few, "transaction.state.log.load.buffer.size": few}
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        topic, number = chance.one_of([GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC]), chance.whole(0, 2)
        at_ns, replicas = chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND), chance.shuffled(range(plan.brokers))
        node, place = f"broker-{replicas[0]}", f"{topic}-{number}"
        changes_ns, loads_ns = at_ns + 600 * MS, at_ns + (600 + chance.whole(20, 700)) * MS
        more += [
            (at_ns, "reassign", {"topic": topic, "partition": number, "replicas": replicas[:3]}, 0),
            (changes_ns, "elect", {"topic": topic, "unclean": False}, 0),
            (changes_ns, "pause", {"node": node, "when": f"{RPC} LeaderAndIsr"}, chance.whole(200, 1_500) * MS),
        ]
        amid: list[tuple[str, dict[str, Any], int]] = [
            ("bounce", {"node": node}, chance.whole(20, 800) * MS),
            ("slow-cpu", {"node": node, "lag_ns": chance.whole(500, 2_000) * MS}, 3 * SECOND),
            ("eio-read", {"node": node, "path": f"/kafka/a/{place}"}, chance.whole(500, 3_000) * MS),
            ("reassign", {"topic": topic, "partition": number, "replicas": replicas[1:3]}, 0),
            ("zk-expire", {"node": node}, 0),
        ]
        if chance.happens(0.7):
            more.append((loads_ns, *chance.one_of(amid)))
    return with_actions(replace(plan, config={**plan.config, **config}, slices=plan.slices or 3), within(plan, more))


def overtaken(plan: Plan, chance: Chance) -> Plan:
    """Requests of transactional clients arrive when the clients have given them up and gone on; not where brokers soon
    forget producers."""
    tellers = [each for each in plan.actions if each.name in ("transact", "work", "pipeline")]
    if not tellers or _FORGETFUL in plan.config or not chance.happens(0.35):
        return plan
    impatient: dict[str, Argument] = {"delivery_timeout_ms": chance.whole(800, 2_500), "request_timeout_ms": 500}
    late = chance.one_of(tellers)
    plan = plan.changed(lambda each: each is late, lambda: impatient)
    name = str(late.arguments["client"])
    kept_in = plan.kept_in(TRANSACTION_STATE_TOPIC, str(late.arguments.get("transactional_id", name)))
    written = [place for place in plan.partition_names if place.startswith(f"{late.arguments['topic']}-")]
    more: list[Step] = []
    for _ in range(chance.whole(2, 5)):
        place = chance.one_of([kept_in, *written, chance.one_of(written)]) if written else kept_in
        said: dict[str, Any] = {"links": [f"{name}>leader:{place}"], "delay_ns": chance.whole(700, 4_000) * MS}
        more.append((chance.whole(SECOND, plan.length_ns - 3 * SECOND), "delay", said, chance.whole(300, 2_500) * MS))
    return with_actions(plan, within(plan, more))


def ended_elsewhere(plan: Plan, chance: Chance) -> Plan:
    """When a transaction ends, one of its partitions moves, gets another leader or goes with its topic; and its leader
    or the coordinator does not see ZooKeeper."""
    tellers = [each for each in plan.actions if each.name in ("transact", "work")]
    topics = [topic for topic in plan.topics if topic.name in {each.arguments["topic"] for each in tellers}]
    if not topics or not chance.happens(0.35):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(2, 5)):
        topic, numbers = chance.one_of(topics), chance.shuffled(range(plan.brokers))
        amid = {"when": f"{RPC} {chance.one_of(['EndTxn', 'EndTxn', 'WriteTxnMarkers'])}", "nth": chance.whole(1, 8)}
        place = chance.whole(0, topic.partitions - 1)
        moved = {"topic": topic.name, "partition": place, "replicas": numbers[: chance.whole(2, 3)]}
        silent = {"node": "there", "others": ["zookeeper"]}
        ways: list[tuple[str, dict[str, Any], int]] = [
            ("reassign", moved, 0),
            ("elect", {"topic": topic.name, "unclean": False}, 0),
            ("partition", silent, chance.whole(500, 3_000) * MS),
            ("kill", {"node": f"leader:{topic.name}-{place}"}, chance.whole(100, 4_000) * MS),
            ("reset", {"links": ["here>there", "there>here"]}, 0),
        ]
        name, said, lasts_ns = chance.one_of(ways)
        more.append((chance.whole(SECOND, plan.length_ns - 4 * SECOND), name, {**said, **amid}, lasts_ns))
    if plan.tells_topics_apart and all(topic.name != PASSING for topic in plan.topics) and chance.happens(0.5):
        plan = deleted_under_transactions(plan, chance)
    return with_actions(plan, within(plan, more))


def out_of_time(plan: Plan, chance: Chance) -> Plan:
    """Transactions with short timeouts that pass while partitions are added, and coordinators that often look for
    those."""
    tellers = [each for each in plan.actions if each.name == "transact" and "nap_ms" not in each.arguments]
    if not tellers or not chance.happens(0.3):
        return plan
    late = chance.one_of(tellers)
    timeout_ms = chance.whole(500, 1_500)
    said: dict[str, Argument] = {"transaction_timeout_ms": timeout_ms}
    said["dawdle_ms"] = chance.whole(timeout_ms // 4, timeout_ms)
    plan = plan.changed(lambda each: each is late, lambda: said)
    return replace(plan, config={**plan.config, _SWEEP: str(chance.whole(50, 400))})


def too_large(plan: Plan, chance: Chance) -> Plan:
    """Batches larger than their topic takes are split, and split again. Some of their records have no key, and go
    wherever a batch is open."""
    topics = [topic for topic in plan.ordinary_topics if not topic.is_compacted]
    if not topics or not chance.happens(0.25):
        return plan
    topic = chance.one_of(topics)
    small = replace(topic, configs={**topic.configs, "max.message.bytes": str(chance.whole(450, 800))})

    def at_once(action: Action) -> Action:
        if action.name != "produce" or action.arguments["topic"] != topic.name:
            return action
        said = {"linger_ms": 5, **action.arguments, "at_once": chance.whole(6, 15), "bytes": chance.whole(100, 200)}
        return replace(action, arguments={**said, "keyless": chance.one_of([0, 50, 100])})

    topics_then = tuple(small if each is topic else each for each in plan.topics)
    return replace(plan, topics=topics_then, actions=tuple(map(at_once, plan.actions)))


def kept_thoroughly(plan: Plan, chance: Chance) -> Plan:
    """A client commits for a group without members in several transactions, and for a short time only, while brokers
    look for expired offsets all the time; perhaps for a topic that is made again amid such a transaction, and for a
    second group that the same partition keeps."""
    if not chance.happens(0.25):
        return plan
    said = {"client": "thorough-keeper", "topic": chance.one_of(plan.topics).name, "thorough": True, "pause_ms": 150}
    more: list[Step] = []
    if chance.happens(0.5):
        kept_in = plan.kept_in(GROUP_METADATA_TOPIC, "books of thorough-keeper")
        names = (f"books too {number}" for number in count())
        said["also"] = next(name for name in names if plan.kept_in(GROUP_METADATA_TOPIC, name) == kept_in)
    if plan.tells_topics_apart and chance.happens(0.5):
        said["topic"], topic = KEPT, TopicPlan(KEPT, 2, 3, {"min.insync.replicas": "2"})
        plan, anew = replace(plan, topics=(*plan.topics, topic)), {"topic": KEPT, "partitions": 2}
        for _ in range(chance.whole(2, 4)):
            amid = {"when": f"{RPC} TxnOffsetCommit", "nth": chance.whole(1, 6)}
            more.append((chance.whole(2 * SECOND, plan.length_ns - 4 * SECOND), "recreate-topic", {**anew, **amid}, 0))
    config = {**plan.config, "offsets.retention.check.interval.ms": str(chance.whole(200, 1_000))}
    at_ns = chance.whole(0, plan.length_ns // 3)
    more.append((at_ns, "keep-books", said, plan.length_ns - at_ns))
    return with_actions(replace(plan, config=config), more)


COORDINATED: Final = (
    roaming, unheard_answers, read_slowly, overtaken, ended_elsewhere, out_of_time, too_large, kept_thoroughly,
)  # fmt: skip
