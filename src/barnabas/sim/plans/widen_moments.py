"""Widens a plan by brokers that have missed something: one that is back before anybody noticed, or when its topic was
made again; leaders that have more than their successors; a coordinator that is alone in sync when transactions end. And
by a client with several batches in flight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import RPC
from barnabas.sim.plans.plan import MS, RESULTS, SECOND, WORKERS, Argument, Plan, Step, with_actions, within

NAMESAKE: Final = "namesake"
"""A topic that is deleted and made again while one of its replicas is away."""


def unnoticed(plan: Plan, chance: Chance) -> Plan:
    """A broker dies, and registers again before the controller hears of it, which goes on sending it the requests of
    its former registration."""
    if not chance.happens(0.15):
        return plan
    session_ns, name = plan.session_ns, chance.one_of(plan.broker_names)
    at_ns = chance.whole(SECOND, max(2 * SECOND, plan.length_ns - session_ns - 6 * SECOND))
    late = {"links": ["zookeeper>controller"], "delay_ns": chance.whole(300, 2_000) * MS}
    more: list[Step] = [
        (at_ns, "bounce", {"node": name}, chance.whole(50, 1_500) * MS),
        (at_ns + session_ns - SECOND, "delay", late, 4 * SECOND),
    ]
    for _ in range(chance.whole(1, 3)):
        topic = chance.one_of(plan.ordinary_topics)
        asked: list[tuple[str, dict[str, Any]]] = [
            ("create-topic", {"topic": f"new-{chance.whole(1, 4)}", "partitions": chance.whole(1, 3)}),
            ("add-partitions", {"topic": topic.name, "partitions": topic.partitions + 1}),
            ("elect", {"topic": topic.name, "unclean": False}),
        ]
        more.append((at_ns + session_ns - chance.whole(0, 2_000) * MS, *chance.one_of(asked), 0))
    return with_actions(plan, within(plan, more))


def namesakes(plan: Plan, chance: Chance) -> Plan:
    """A broker is away while its replica is moved to another and the topic is deleted and made again, perhaps on it:
    nobody tells it to delete its log."""
    if plan.brokers < 3 or not plan.tells_topics_apart or not chance.happens(0.12):
        return plan
    numbers, session_ns = list(range(plan.brokers)), plan.session_ns
    chance.shuffle(numbers)
    absent, others = numbers[0], numbers[1:3]
    at_ns = chance.whole(2_500, 4_000) * MS
    moved_ns = at_ns + session_ns + chance.whole(1_000, 2_000) * MS
    anew_ns = moved_ns + chance.whole(1_500, 3_000) * MS
    placed = chance.one_of([[absent, others[0]], [others[0], absent], others])
    first = {"topic": NAMESAKE, "partitions": 1, "replicas": [others[0], absent]}
    more: list[Step] = [
        (at_ns - 2 * SECOND, "create-topic", first, 0),
        (at_ns, "kill", {"node": f"broker-{absent}"}, anew_ns - at_ns + chance.whole(0, 4_000) * MS),
        (moved_ns, "reassign", {"topic": NAMESAKE, "partition": 0, "replicas": others}, 0),
        (anew_ns, "recreate-topic", {"topic": NAMESAKE, "partitions": 1, "replicas": placed}, 0),
    ]
    return with_actions(plan, within(plan, more))


def dethroned(plan: Plan, chance: Chance) -> Plan:
    """Leadership goes round among replicas in the ISR, and followers get records late: each leader has records that its
    successor lacks, and has to cut them."""
    if not chance.happens(0.2):
        return plan
    topics = [topic for topic in plan.topics if topic.name != RESULTS and topic.replication_factor > 1]
    told = {str(action.arguments["topic"]) for action in plan.actions if action.name == "transact"}
    topic = chance.one_of([topic for topic in topics if topic.name in told] or topics)
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    leader, replicas = f"leader:{topic.name}-{where['partition']}", chance.shuffled(range(plan.brokers))
    replicas = replicas[: topic.replication_factor]
    at_ns = chance.whole(2 * SECOND, plan.length_ns // 2)
    more: list[Step] = [(at_ns - SECOND, "reassign", {**where, "replicas": replicas}, 0)]
    for _ in range(chance.whole(3, 6)):
        replicas = [*replicas[1:], replicas[0]]
        late = {
            "links": [f"{leader}>broker-{number}" for number in range(plan.brokers)],
            "delay_ns": chance.whole(150, 800) * MS,
        }
        moved_ns = at_ns + chance.whole(200, 700) * MS
        more += [
            (at_ns, "delay", late, 1_200 * MS),
            (moved_ns, "reassign", {**where, "replicas": replicas}, 0),
            (moved_ns + chance.whole(100, 400) * MS, "elect", {"topic": topic.name, "unclean": False}, 0),
        ]
        at_ns += chance.whole(1_500, 2_500) * MS
    return with_actions(plan, within(plan, more))


def left_alone(plan: Plan, chance: Chance) -> Plan:
    """The coordinator of the workers' group is alone in the ISR when a transaction with the group's offsets ends: it
    refuses the end until another replica is back."""
    if not any(action.name == "work" for action in plan.actions) or not chance.happens(0.4):
        return plan
    lag_ms, kept_in = chance.whole(600, 1_200), plan.kept_in(GROUP_METADATA_TOPIC, WORKERS)
    config = {
        "min.insync.replicas": "2", "replica.lag.time.max.ms": str(lag_ms),
        "replica.fetch.wait.max.ms": str(lag_ms // 2),
    }  # fmt: skip
    numbers = chance.shuffled(range(plan.brokers))
    where: dict[str, Any] = {"topic": GROUP_METADATA_TOPIC, "partition": int(kept_in.rpartition("-")[2])}
    more: list[Step] = [(2 * SECOND, "reassign", {**where, "replicas": numbers[:2]}, 0)]
    for _ in range(chance.whole(2, 4)):
        stops = {"node": f"follower:{kept_in}", "when": f"{RPC} TxnOffsetCommit"}
        at_ns = chance.whole(3 * SECOND, plan.length_ns - 6 * SECOND)
        more.append((at_ns, "pause", {**stops, "nth": chance.whole(1, 4)}, chance.whole(3 * lag_ms, 6 * lag_ms) * MS))
    slow: dict[str, Argument] = {"dawdle_ms": 3 * lag_ms, "transaction_timeout_ms": 10_000}
    plan = plan.changed(lambda each: each.name == "work", lambda: slow)
    return with_actions(replace(plan, config={**plan.config, **config}), within(plan, more))


def pipelined(plan: Plan, chance: Chance) -> Plan:
    """A client with several batches of a partition in flight."""
    if not chance.happens(0.15):
        return plan
    topic = chance.one_of(plan.ordinary_topics).name
    said = {"client": "pipeliner", "topic": topic, "records": chance.whole(40, 120)}
    said["transactional"] = chance.happens(0.7)
    at_ns = chance.whole(0, plan.length_ns // 3)
    return with_actions(plan, [(at_ns, "pipeline", said, plan.length_ns - at_ns)])


MOMENTS: Final = (unnoticed, namesakes, dethroned, left_alone, pipelined)
