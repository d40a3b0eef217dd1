"""Widens plans of the profiles ``TXN`` and ``CMP``, whose clients do little but write in transactions, or to compacted
topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, RPC
from barnabas.sim.plans.plan import (
    MS,
    SECOND,
    Action,
    Argument,
    Plan,
    Step,
    TopicPlan,
    cut,
    with_actions,
    with_arguments,
)

PASSING: Final = "passing"
"""A topic that is deleted under the transactions that write to it."""
FEW_KEYS: Final = 13
SMALL: Final = "250"
"""The largest batch that is still accepted, while the log has larger ones."""
POLICIES: Final = ("compact", "delete", "compact,delete")
_OF_TRANSACTIONS: Final = ("AddPartitionsToTxn", "AddPartitionsToTxn", "EndTxn", "EndTxn", "Produce", "InitProducerId")


def crowded(plan: Plan, chance: Chance) -> Plan:
    """Clients write in transactions all the time."""
    if plan.profile != "TXN":
        return plan
    return plan.changed(lambda each: each.name == "transact", lambda: {"records": chance.whole(80, 200)})


def passing(plan: Plan, chance: Chance) -> Plan:
    """A topic is deleted under open transactions, and made again a while later."""
    if not _has_tellers(plan) or not chance.happens(_often(plan, "TXN", 0.7)):
        return plan
    return deleted_under_transactions(plan, chance)


def deleted_under_transactions(plan: Plan, chance: Chance) -> Plan:
    """Does that again and again, to a plan that has no topic of the name."""
    plan = with_arguments(plan, "transact", lambda: {"also": PASSING} if chance.happens(0.8) else {})
    more: list[Step] = []
    at_ns = chance.whole(2 * SECOND, plan.length_ns // 2)
    while at_ns < plan.length_ns - 6 * SECOND:
        event = {"when": f"{RPC} {chance.one_of(_OF_TRANSACTIONS)}", "nth": chance.whole(1, 8)}
        more.append((at_ns, "delete-topic", {"topic": PASSING, **event}, 0))
        at_ns += chance.whole(2_500, 6_000) * MS
        more.append((at_ns, "create-topic", {"topic": PASSING, "partitions": 1}, 0))
        at_ns += chance.whole(2_000, 6_000) * MS
    topic = TopicPlan(PASSING, 1, 3, {"min.insync.replicas": "2"})
    return with_actions(replace(plan, topics=(*plan.topics, topic)), more)


def succeeded(plan: Plan, chance: Chance) -> Plan:
    """A second producer takes the transactional id of a client that is alive or paused: the two fence one another."""
    tellers = _tellers(plan)
    if not tellers or not chance.happens(_often(plan, "TXN", 0.8)):
        return plan
    more: list[Step] = []
    for number in range(chance.whole(1, 4)):
        at_ns, teller = chance.whole(SECOND, plan.length_ns - 4 * SECOND), chance.one_of(tellers)
        same = {key: value for key, value in teller.arguments.items() if key != "nap_ms"}
        name = str(teller.arguments["client"])
        said = {**same, "client": f"twin-{number + 1}", "transactional_id": name, "records": chance.whole(3, 12)}
        if chance.happens(0.5):
            said |= {"when": f"{RPC} {chance.one_of(_OF_TRANSACTIONS)}", "nth": chance.whole(1, 10)}
        elif chance.happens(0.5) and not _forgets(plan):
            more.append((at_ns - 100 * MS, "pause", {"node": name}, chance.whole(300, 9_000) * MS))
        more.append((at_ns, "transact", said, chance.whole(500, 3_000) * MS))
    return with_actions(plan, cut(plan, more))


def clients_die(plan: Plan, chance: Chance) -> Plan:
    """Transactional clients die and begin again with the same id."""
    names = [str(action.arguments["client"]) for action in plan.actions if action.name in ("transact", "work")]
    names = [name for name in names if not name.startswith("twin-")]
    if not names or not chance.happens(_often(plan, "TXN", 0.8)):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 4)):
        at_ns, lasts_ns = chance.whole(SECOND, plan.length_ns), chance.whole(10, 3_000) * MS
        more.append((at_ns, "kill", {"node": chance.one_of(names)}, lasts_ns))
    return with_actions(plan, cut(plan, more))


def late_senders(plan: Plan, chance: Chance) -> Plan:
    """What a client sends to a leader arrives when the client has given it up, and aborted or gone on."""
    tellers = _tellers(plan)
    if not tellers or not chance.happens(_often(plan, "TXN", 0.8)):
        return plan
    late = chance.one_of(tellers)
    impatient = {"delivery_timeout_ms": chance.whole(1_000, 3_000), "request_timeout_ms": 500}
    plan = plan.changed(lambda each: each is late, lambda: impatient)
    topic = next(topic for topic in plan.topics if topic.name == late.arguments["topic"])
    more: list[Step] = []
    for _ in range(chance.whole(1, 4)):
        link = f"{late.arguments['client']}>leader:{topic.name}-{chance.whole(0, topic.partitions - 1)}"
        said: dict[str, Any] = {"links": [link], "delay_ns": chance.whole(3_000, 8_000) * MS}
        at_ns = chance.whole(SECOND, plan.length_ns - 3 * SECOND)
        more.append((at_ns, "delay", said, chance.whole(3_000, 8_000) * MS))
    return with_actions(plan, cut(plan, more))


def two_gone(plan: Plan, chance: Chance) -> Plan:
    """Two brokers of three are away at once for a while: nothing that needs a second copy can be written."""
    if plan.brokers != 3 or not chance.happens(_often(plan, "TXN", 0.7)):
        return plan
    at_ns, stays = chance.whole(2 * SECOND, plan.length_ns // 2), chance.whole(0, 2)
    more: list[Step] = [
        (at_ns, "kill", {"node": f"broker-{number}"}, chance.whole(8_000, 14_000) * MS)
        for number in range(3)
        if number != stays
    ]
    return with_actions(plan, cut(plan, more))


def indexes_fail(plan: Plan, chance: Chance) -> Plan:
    """Indexes of aborted transactions cannot be written, while the logs can."""
    if not chance.happens(_often(plan, "TXN", 0.8)):
        return plan
    written = {action.arguments["topic"] for action in plan.actions if action.name == "transact"}
    more: list[Step] = []
    for topic in [topic for topic in plan.topics if topic.name in written]:
        said: dict[str, Any] = {"node": f"leader:{topic.name}-{chance.whole(0, topic.partitions - 1)}"}
        said["suffix"] = ".txnindex"
        at_ns = chance.whole(SECOND, plan.length_ns * 2 // 3)
        more.append((at_ns, "eio-write", said, chance.whole(5_000, 14_000) * MS))
    return with_actions(plan, cut(plan, more))


def compacted(plan: Plan, chance: Chance) -> Plan:
    """Compacted topics have few keys, two of them those of end markers, and small batches, so that each pass of the
    cleaner removes something."""
    if plan.profile != "CMP":
        return plan
    topics = {topic.name for topic in plan.topics if topic.is_compacted}

    def dense(action: Action) -> Action:
        if action.name not in ("produce", "transact") or action.arguments.get("topic") not in topics:
            return action
        more: dict[str, Argument] = {"keys": FEW_KEYS, "batch_bytes": 300}
        if action.name == "produce":
            records = chance.whole(120, 240)
            more |= {"tombstones": 15, "records": records, "bytes": chance.one_of([0, 300, 300, 1_500])}
        return replace(action, arguments={**action.arguments, **more})

    return replace(plan, actions=tuple(map(dense, plan.actions)))


def turned_over(plan: Plan, chance: Chance) -> Plan:
    """A compacted topic's cleanup policy changes several times; batches in its log become too large for it."""
    topics = [topic for topic in plan.topics if topic.is_compacted]
    if not topics or not chance.happens(_often(plan, "CMP", 0.8)):
        return plan
    topic, small = topics[-1], topics[0].name
    more: list[Step] = [
        (at_ns, "config", {"topic": topic.name, "key": "cleanup.policy", "value": policy}, 0)
        for at_ns, policy in [
            *((chance.whole(2 * SECOND, plan.length_ns - 2 * SECOND), chance.one_of(POLICIES)) for _ in range(3)),
            (plan.length_ns - SECOND, "compact"),
        ]
    ]
    at_ns = chance.whole(2 * SECOND, plan.length_ns // 2)
    for then_ns, value in ((at_ns, SMALL), (at_ns + chance.whole(2_000, 10_000) * MS, "1048588")):
        more.append((then_ns, "config", {"topic": small, "key": "max.message.bytes", "value": value}, 0))
    kept = {**topic.configs, "retention.bytes": str(chance.whole(3_000, 15_000))}
    topics_then = tuple(replace(known, configs=kept) if known is topic else known for known in plan.topics)
    return with_actions(replace(plan, topics=topics_then), more)


def amid_swaps(plan: Plan, chance: Chance) -> Plan:
    """A broker dies or loses power while a cleaned segment replaces others."""
    if not any(topic.is_compacted for topic in plan.topics):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 5) if chance.happens(_often(plan, "CMP", 0.9)) else 0):
        said: dict[str, Any] = {"node": "here", "when": f"{DISK} swapping", "nth": chance.whole(1, 12)}
        name = chance.one_of(["kill", "kill", "power-loss", "lost-rename"])
        more.append((chance.whole(SECOND, plan.length_ns * 2 // 3), name, said, chance.whole(300, 9_000) * MS))
    return with_actions(plan, more)


DENSE: Final = (
    crowded, passing, succeeded, clients_die, late_senders, two_gone, indexes_fail, compacted, turned_over, amid_swaps,
)  # fmt: skip


def _often(plan: Plan, profile: str, share: float) -> float:
    return share if plan.profile == profile else 0


def _tellers(plan: Plan) -> list[Action]:
    return [action for action in plan.actions if action.name == "transact" and "nap_ms" not in action.arguments]


def _has_tellers(plan: Plan) -> bool:
    return any(action.name == "transact" for action in plan.actions)


def _forgets(plan: Plan) -> bool:
    """Whether brokers soon forget producers: a batch that is repeated so late is appended twice."""
    return "producer.id.expiration.check.interval.ms" in plan.config
