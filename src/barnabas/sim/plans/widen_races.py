"""Widens a plan by replicas that differ for a moment, by lost answers, by administrators who change their mind, and by
work that yields to others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import (
    MS,
    SECOND,
    SELECTOR,
    Argument,
    Plan,
    Step,
    cut,
    with_actions,
    with_arguments,
    within,
)

_GOES: Final = ("kill", "kill", "bounce", "bounce", "shutdown", "pause")
_UNHEARD: Final = (
    "InitProducerId", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "EndTxn",
    "WriteTxnMarkers", "Produce", "Produce", "Fetch", "AlterPartition", "StopReplica", "JoinGroup", "SyncGroup",
    "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "FindCoordinator", "Metadata", "ListOffsets",
    "OffsetForLeaderEpoch", "DeleteRecords", "AlterPartitionReassignments",
)  # fmt: skip


def uneven(plan: Plan, chance: Chance) -> Plan:
    """A leader's records reach one follower late, or all of them, and then the leader fails: one replica in the ISR has
    more than the next leader. Some hear late who that is, and perhaps it fails as well before they have asked it."""
    if not chance.happens(0.25):
        return plan
    places = plan.partition_names
    brokers = plan.broker_names
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        place, at_ns = chance.one_of(places), chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND)
        leader = f"leader:{place}"
        behind = [f"{leader}>follower:{place}"] if chance.happens(0.6) else [f"{leader}>{name}" for name in brokers]
        late: dict[str, Any] = {"links": behind, "delay_ns": chance.whole(300, 2_500) * MS}
        gone_ns = at_ns + chance.whole(200, 2_000) * MS
        more += [
            (at_ns, "delay", late, gone_ns - at_ns + 500 * MS),
            (gone_ns, chance.one_of(_GOES), {"node": leader}, chance.whole(300, 7_000) * MS),
        ]
        if chance.happens(0.5):
            unaware = {"links": [f"controller>{chance.one_of(brokers)}"], "delay_ns": chance.whole(100, 1_500) * MS}
            more.append((gone_ns - 100 * MS, "delay", unaware, 3 * SECOND))
        if chance.happens(0.4):
            again_ns = gone_ns + chance.whole(100, 3_000) * MS
            more.append((again_ns, chance.one_of(_GOES), {"node": leader}, chance.whole(300, 4_000) * MS))
    return with_actions(plan, cut(plan, more))


def unheard(plan: Plan, chance: Chance) -> Plan:
    """A request is done, and its answer is lost."""
    more: list[Step] = []
    for _ in range(chance.whole(1, 5) if chance.happens(0.3) else 0):
        said = {"node": chance.one_of(plan.broker_names), "api": chance.one_of(_UNHEARD)}
        at_ns, lasts_ns = chance.whole(SECOND, plan.length_ns), chance.whole(1_000, 9_000) * MS
        more.append((at_ns, "lose-reply", {**said, "count": chance.whole(1, 3)}, min(lasts_ns, plan.length_ns - at_ns)))
    return with_actions(plan, more)


def called_off(plan: Plan, chance: Chance) -> Plan:
    """A partition moves to two other brokers, of which one is away; its original replicas die, and then the move is
    cancelled."""
    often = 0.3 if plan.profile in ("REAS", "MOVE", "CTL") else 0.1
    topics = plan.ordinary_topics
    if plan.brokers < 4 or not topics or not chance.happens(often):
        return plan
    session_ns = plan.session_ns
    numbers, topic = list(range(plan.brokers)), chance.one_of(topics)
    chance.shuffle(numbers)
    had, coming, away = numbers[:2], numbers[2], numbers[3]
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    at_ns = chance.whole(3 * SECOND, 5 * SECOND)
    die_ns = at_ns + session_ns + chance.whole(2_000, 4_000) * MS
    off_ns = die_ns + session_ns + chance.whole(500, 4_000) * MS
    more: list[Step] = [
        (at_ns - 2 * SECOND, "reassign", {**where, "replicas": had}, 0),
        (at_ns, "kill", {"node": f"broker-{away}"}, plan.length_ns),
        (at_ns + session_ns + SECOND, "reassign", {**where, "replicas": [coming, away]}, 0),
        *[(die_ns, "kill", {"node": f"broker-{number}"}, off_ns - die_ns + 2 * SECOND) for number in had],
        (off_ns, "cancel-reassignment", where, 0),
    ]
    return with_actions(plan, within(plan, more))


def interrupted(plan: Plan, chance: Chance) -> Plan:
    """Long work yields after a few elements, and coordinators read their logs in small pieces."""
    if not chance.happens(0.25):
        return plan
    config = {"transaction.state.log.load.buffer.size": str(chance.whole(100, 2_000)), **plan.config}
    return replace(plan, config=config, slices=chance.whole(1, 4))


def nearby(plan: Plan, chance: Chance) -> Plan:
    """Consumers are sent to the replica in their rack, if there is one."""
    if not chance.happens(0.2):
        return plan

    def of_consumer() -> dict[str, Argument]:
        return {"rack": f"rack-{chance.whole(0, plan.brokers - 1)}"} if chance.happens(0.8) else {}

    config = {SELECTOR: "org.apache.kafka.common.replica.RackAwareReplicaSelector", **plan.config}
    return with_arguments(replace(plan, config=config), "consume", of_consumer)


def brisk(plan: Plan, chance: Chance) -> Plan:
    """Short rebalance timeouts, so that no member waits for long for the others."""
    if not chance.happens(0.6 if any(action.name == "silent-member" for action in plan.actions) else 0.1):
        return plan
    soon_ms = chance.whole(1_000, 3_000)
    return plan.changed(lambda each: each.name == "group", lambda: {"rebalance_timeout_ms": soon_ms})


def stopped_then_lost(plan: Plan, chance: Chance) -> Plan:
    """A broker shuts down cleanly, starts, and soon loses power, in plans whose disks lose data: the clean shutdown's
    marker no longer holds."""
    drawn = {action.name for action in plan.actions}
    losses = [name for name in ("power-loss", "lost-pages", "lost-rename") if name in drawn]
    if not losses or not chance.happens(0.4 if plan.profile == "PWR" else 0.15):
        return plan
    node: dict[str, Any] = {"node": chance.one_of(plan.broker_names)}
    at_ns, lasts_ns = chance.whole(2 * SECOND, plan.length_ns - 8 * SECOND), chance.whole(300, 2_000) * MS
    lost_ns = at_ns + lasts_ns + chance.whole(300, 4_000) * MS
    more: list[Step] = [
        (at_ns, "shutdown", node, lasts_ns),
        (lost_ns, chance.one_of([*losses, "lost-rename"]), node, chance.whole(100, 1_000) * MS),
    ]
    return with_actions(plan, more)
