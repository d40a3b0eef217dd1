"""Widens a plan by what users' clients meet any day: transactions that end just when a connection or a leader fails,
sessions shorter than transactions, two producers with one new id, coordinators that change while they are asked,
rebalances before the last assignment is written, members far from their brokers, and configurations that change while a
broker is between two sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import RPC
from barnabas.sim.plans.plan import MS, SECOND, Argument, Plan, Step, with_actions, within

_FORGETFUL: Final = "producer.id.expiration.check.interval.ms"
_SHORT_SESSIONS: Final = {"group.min.session.timeout.ms": "500"}


def ends_amid_trouble(plan: Plan, chance: Chance) -> Plan:
    """When a transaction's end markers are under way their connection is lost, or the broker that is to write them
    restarts and hears late what it leads, or the coordinator cannot replicate that the transaction is over."""
    tellers = [each for each in plan.actions if each.name in ("transact", "work")]
    if not tellers or not chance.happens(0.5):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 4)):
        teller, at_ns = chance.one_of(tellers), chance.whole(SECOND, plan.length_ns - 6 * SECOND)
        name = str(teller.arguments.get("transactional_id", teller.arguments["client"]))
        kept_in = plan.kept_in(TRANSACTION_STATE_TOPIC, name)
        amid: dict[str, Any] = {"when": f"{RPC} WriteTxnMarkers", "nth": chance.whole(1, 8)}
        late: dict[str, Any] = {"links": ["controller>there"], "delay_ns": chance.whole(300, 1_500) * MS}
        waits_ns = (teller.whole("transaction_timeout_ms", 8_000) + chance.whole(500, 2_000)) * MS
        more += chance.one_of([
            [(at_ns, "reset", {"links": ["here>there", "there>here"], **amid, "nth": nth}, 0) for nth in range(1, 5)],
            [(at_ns, "bounce", {"node": "there", **amid}, chance.whole(50, 1_000) * MS),
             (at_ns, "delay", {**late, **amid}, 3 * SECOND)],
            [(at_ns, "partition", {"node": f"follower:{kept_in}", "others": [f"leader:{kept_in}"], **amid}, waits_ns)],
        ])  # fmt: skip
    return with_actions(plan, within(plan, more))


def outlived(plan: Plan, chance: Chance) -> Plan:
    """Workers whose sessions are shorter than their transactions, as by default, pause or die in one: others take over
    partitions that the open transaction has read."""
    workers = [each for each in plan.actions if each.name == "work"]
    if not workers or _FORGETFUL in plan.config or not chance.happens(0.6):
        return plan
    session_ms = chance.whole(1_000, 2_000)
    said: dict[str, Argument] = {"session_timeout_ms": session_ms, "dawdle_ms": chance.whole(1_000, 3_000)}
    said["transaction_timeout_ms"] = chance.whole(7_000, 10_000)
    names = [str(each.arguments["client"]) for each in workers]
    if len(names) == 1:
        more: list[Step] = [(SECOND, "work", {**workers[0].arguments, **said, "client": "worker-2"}, plan.length_ns)]
        names.append("worker-2")
    else:
        more = []
    for _ in range(chance.whole(2, 4)):
        at_ns, lasts_ns = chance.whole(3 * SECOND, plan.length_ns - 6 * SECOND), session_ms * MS + 4 * SECOND
        more.append((at_ns, chance.one_of(["pause", "kill"]), {"node": chance.one_of(names)}, lasts_ns))
    plan = replace(
        plan.changed(lambda each: each.name == "work", lambda: said), config={**plan.config, **_SHORT_SESSIONS}
    )
    return with_actions(plan, within(plan, more))


def handed_round(plan: Plan, chance: Chance) -> Plan:
    """The coordinators of groups and transactions change again and again without a death, under many requests."""
    if not chance.happens(0.2):
        return plan
    at_ns, numbers = chance.whole(2 * SECOND, plan.length_ns - 9 * SECOND), chance.shuffled(range(plan.brokers))
    topic = chance.one_of([GROUP_METADATA_TOPIC, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
    asked = {"client": "asker-of-coordinators", "group": "readers", "topic": plan.topics[0].name}
    more: list[Step] = [(0, "ask", asked, plan.length_ns)]
    for turn in range(chance.whole(2, 5)):
        then_ns = at_ns + turn * 1_500 * MS
        replicas = [numbers[(turn + place) % len(numbers)] for place in range(3)]
        more += [
            (then_ns, "reassign", {"topic": topic, "partition": place, "replicas": replicas}, 0) for place in range(3)
        ]
        more.append((then_ns + 700 * MS, "elect", {"topic": topic, "unclean": False}, 0))
    return with_actions(plan, within(plan, more))


def new_names(plan: Plan, chance: Chance) -> Plan:
    """Two producers come at once with a new transactional id, when its coordinator has just begun and has to ask the
    controller, far away, for producer ids."""
    if not chance.happens(0.15):
        return plan
    more: list[Step] = []
    for turn in range(chance.whole(1, 2)):
        name, at_ns = f"newcomer-{turn}", chance.whole(3 * SECOND, plan.length_ns - 9 * SECOND)
        coordinator = f"leader:{plan.kept_in(TRANSACTION_STATE_TOPIC, name)}"
        said: dict[str, Any] = {"topic": chance.one_of(plan.ordinary_topics).name, "records": 10}
        said |= {"transaction_timeout_ms": 4_000, "delivery_timeout_ms": 3_000}
        far = {"links": [f"controller>{coordinator}"], "delay_ns": chance.whole(100, 500) * MS}
        rival = {**said, "client": f"rival-{turn}", "transactional_id": name}
        more += [
            (at_ns, "bounce", {"node": coordinator}, 200 * MS),
            (at_ns, "delay", far, 4 * SECOND),
            (at_ns + 600 * MS, "transact", {**said, "client": name}, 6 * SECOND),
            (at_ns + (600 + chance.whole(0, 50)) * MS, "transact", rival, 2 * SECOND),
        ]
    return with_actions(plan, within(plan, more))


def shared_anew(plan: Plan, chance: Chance) -> Plan:
    """Members come and go while the assignment is written to a log whose followers are far: a rebalance begins before
    the last assignment is written."""
    known = [each for each in plan.actions if each.name == "group"]
    if not known or not chance.happens(0.2):
        return plan
    like = known[0]
    kept_in = plan.kept_in(GROUP_METADATA_TOPIC, str(like.arguments["group"]))
    more: list[Step] = []
    for turn in range(chance.whole(1, 2)):
        at_ns = chance.whole(3 * SECOND, plan.length_ns - 9 * SECOND)
        slow = {"links": [f"follower:{kept_in}>leader:{kept_in}"], "delay_ns": chance.whole(300, 1_500) * MS}
        more.append((at_ns, "delay", slow, 7 * SECOND))
        for number in range(chance.whole(2, 4)):
            comes = {**like.arguments, "client": f"visitor-{turn}-{number}", "stays": False}
            comes.pop("static", None)
            come_ns = at_ns + chance.whole(100, 4_000) * MS
            more.append((come_ns, "group", comes, chance.whole(300, 4_000) * MS))
    return with_actions(plan, within(plan, more))


def far_members(plan: Plan, chance: Chance) -> Plan:
    """Members of groups, some of which commit automatically, are far from the brokers for a while: an answer is under
    way when the next request is due, and when partitions are revoked."""
    members = [str(each.arguments["client"]) for each in plan.actions if each.name == "group"]
    if not members or not chance.happens(0.25):
        return plan
    if chance.happens(0.5):
        every_ms = chance.whole(100, 1_000)
        plan = plan.changed(lambda each: each.name == "group", lambda: {"auto_commit_ms": every_ms})
    more: list[Step] = []
    for member in [name for name in members if chance.happens(0.6)]:
        links = [f"{broker}>{member}" for broker in plan.broker_names]
        links += [f"{member}>{broker}" for broker in plan.broker_names] if chance.happens(0.5) else []
        at_ns = chance.whole(SECOND, plan.length_ns - 9 * SECOND)
        more.append((at_ns, "delay", {"links": links, "delay_ns": chance.whole(20, 600) * MS}, 8 * SECOND))
    return with_actions(plan, within(plan, more))


def configured_between_sessions(plan: Plan, chance: Chance) -> Plan:
    """Configurations change while a broker is far from ZooKeeper, and its session ends before it has read them."""
    if not chance.happens(0.12):
        return plan
    more: list[Step] = []
    for turn in range(chance.whole(2, 4)):
        node, way_ms = chance.one_of(plan.broker_names), chance.whole(150, 500)
        at_ns, topic = chance.whole(3 * SECOND, plan.length_ns - 6 * SECOND), chance.one_of(plan.ordinary_topics)
        slow = {"links": [f"{node}>zookeeper", f"zookeeper>{node}"], "delay_ns": way_ms * MS}
        changed = {"topic": topic.name, "key": "max.message.bytes", "value": str(900_000 + turn)}
        more += [
            (at_ns, "delay", slow, 3 * SECOND),
            (at_ns + 500 * MS, "config", changed, 0),
            (at_ns + (500 + chance.whole(2 * way_ms, 6 * way_ms)) * MS, "zk-expire", {"node": node}, 0),
        ]
    return with_actions(plan, within(plan, more))


HABITS: Final = (
    ends_amid_trouble, outlived, handed_round, new_names, shared_anew, far_members, configured_between_sessions,
)  # fmt: skip
