"""Widens a drawn plan: time constants, sizes, further clients, long runs, and faults that wait for an event.

Each draw has a stream of its own and leaves what was drawn before as it was, so a widened plan still has all that its
profile gave it. docs/sim/draws.md has a row for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, EVENTS, RPC, ZK
from barnabas.sim.plans.plan import (
    MS,
    RESULTS,
    SECOND,
    Action,
    Argument,
    Plan,
    Step,
    TopicPlan,
    with_actions,
    with_arguments,
)
from barnabas.sim.plans.widen_ages import AGES
from barnabas.sim.plans.widen_amid import AMID
from barnabas.sim.plans.widen_apart import APART
from barnabas.sim.plans.widen_coordinated import COORDINATED
from barnabas.sim.plans.widen_dense import DENSE
from barnabas.sim.plans.widen_guests import GUESTS
from barnabas.sim.plans.widen_habits import HABITS
from barnabas.sim.plans.widen_logs import LOGS
from barnabas.sim.plans.widen_moments import MOMENTS
from barnabas.sim.plans.widen_operations import (
    alone,
    away,
    blinded,
    book_kept,
    busier,
    by_themselves,
    cut_short,
    deleted_by_both,
    drowsy,
    far,
    grown_amid_moves,
    made_again,
    moved_coordinators,
    moved_on_disk,
    one_at_a_time,
    one_directory,
    operations_at_events,
    small_batches,
    spared,
    together,
    usurped,
)
from barnabas.sim.plans.widen_orders import ORDERS
from barnabas.sim.plans.widen_races import brisk, called_off, interrupted, nearby, stopped_then_lost, uneven, unheard
from barnabas.sim.plans.widen_replicas import REPLICAS
from barnabas.sim.plans.widen_rivals import RIVALS
from barnabas.sim.plans.widen_rules import RULES
from barnabas.sim.plans.widen_windows import WINDOWS
from barnabas.sim.plans.widen_znodes import ZNODES

_AT_COMMITS: Final = ("kill", "kill", "pause", "zk-expire", "partition", "power-loss", "zk-loss", "reset", "shutdown")
_ON_DISKS: Final = ("kill", "kill", "power-loss", "torn-sector", "lost-pages", "lost-rename")
_STAND_STILL: Final = ("produce", "transact", "consume", "group", "work", "wander")
_OF_COORDINATORS: Final = (
    "TxnOffsetCommit", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "WriteTxnMarkers",
    "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup",
)  # fmt: skip
_AT_COORDINATORS: Final = ("kill", "kill", "bounce", "bounce", "shutdown", "zk-expire", "pause")
_OF_THE_CUT_OFF: Final = ("shutdown", "shutdown", "kill", "bounce", "pause")
_LONG_SHARE: Final = 0.02
_CONSTANTS: Final[Mapping[str, tuple[int, int]]] = {
    "replica.lag.time.max.ms": (600, 6_000),
    "zookeeper.session.timeout.ms": (4_000, 9_000),
    "replica.fetch.backoff.ms": (50, 2_000),
    "replica.socket.timeout.ms": (1_000, 30_000),
    "controller.socket.timeout.ms": (1_000, 30_000),
    "request.timeout.ms": (1_000, 30_000),
    "controlled.shutdown.retry.backoff.ms": (200, 5_000),
    "log.roll.ms": (500, 10_000),
    "log.retention.check.interval.ms": (500, 5_000),
    "log.segment.delete.delay.ms": (500, 5_000),
    "log.flush.interval.ms": (500, 5_000),
    "replica.high.watermark.checkpoint.interval.ms": (500, 5_000),
    "log.flush.start.offset.checkpoint.interval.ms": (300, 5_000),
    "log.flush.offset.checkpoint.interval.ms": (300, 5_000),
    "offsets.commit.timeout.ms": (1_000, 5_000),
    "offsets.retention.check.interval.ms": (500, 5_000),
    "offsets.load.buffer.size": (100, 5_000),
    "group.initial.rebalance.delay.ms": (0, 3_000),
    "producer.id.expiration.ms": (5_000, 60_000),
    "log.index.interval.bytes": (1, 4_096),
    "log.roll.jitter.ms": (1, 2_000),
    "log.cleaner.backoff.ms": (200, 5_000),
    "offsets.topic.segment.bytes": (1_000, 20_000),
    "transaction.state.log.segment.bytes": (1_000, 20_000),
    "max.incremental.fetch.session.cache.slots": (1, 10),
    "connections.max.idle.ms": (1_500, 20_000),
    "num.replica.fetchers": (1, 3),
    "leader.imbalance.check.interval.seconds": (1, 10),
    "replica.fetch.response.max.bytes": (300, 100_000),
    "replica.fetch.max.bytes": (200, 100_000),
}
"""Of the brokers: from, to. ``producer.id.expiration.check.interval.ms`` is drawn by `_forgetful` alone: a producer
that is forgotten while it repeats a batch has it appended twice, in Kafka as here."""


def widen(plan: Plan, base: Chance) -> Plan:
    for kind in (
        _records, _lookups, _retention, _compaction, _transactions, _constants, _strangers, _silent_members,
        _last_sequences, _damage, _at_events, _legacy_tools, _members, _wanderers, _workers, _askers, _deposed,
        _keepers, _blackouts, _flushes, _forgetful, _long, _deposed_at_once, _stand_still, _cut_off, _unhurried,
        _at_coordinators, _by_hand, _crowds, busier, away, moved_coordinators, made_again, spared, usurped, blinded,
        book_kept, moved_on_disk, one_directory, operations_at_events, small_batches, one_at_a_time, cut_short, alone,
        grown_amid_moves, deleted_by_both, drowsy, together, by_themselves, far, uneven, unheard, called_off,
        interrupted, nearby, brisk, stopped_then_lost, *MOMENTS, *DENSE, *WINDOWS, *RIVALS, *AMID, *APART, *HABITS,
        *RULES, *ORDERS, *ZNODES, *GUESTS, *LOGS, *COORDINATED, *AGES, *REPLICAS,
    ):  # fmt: skip
        plan = kind(plan, base.stream(kind.__name__))
    return replace(plan, actions=tuple(sorted(plan.actions, key=lambda action: (action.at_ns, action.number))))


def _constants(plan: Plan, chance: Chance) -> Plan:
    """Time constants and sizes of brokers, producers and members of groups."""
    drawn = {
        key: str(round(low * (high / max(1, low)) ** chance.share()) if low else chance.whole(low, high))
        for key, (low, high) in _CONSTANTS.items()
        if chance.happens(0.25)
    }
    lag_ms = int(drawn.get("replica.lag.time.max.ms", "10000"))
    drawn["replica.fetch.wait.max.ms"] = str(min(500, lag_ms // 2))
    if chance.happens(0.5):
        drawn["group.min.session.timeout.ms"] = "500"
    if chance.happens(0.3):
        drawn["min.insync.replicas"] = "2"  # of the topic of groups as well, whose commits fail then

    def of_producer() -> dict[str, Argument]:
        said: dict[str, Argument] = {}
        if chance.happens(0.5):
            said["request_timeout_ms"] = chance.whole(500, 5_000)
        # A producer that may be forgotten repeats no batch so late: it would be appended twice.
        if chance.happens(0.5) or "producer.id.expiration.ms" in drawn:
            said["delivery_timeout_ms"] = chance.whole(1_000, 5_000)
        if chance.happens(0.3):
            said["linger_ms"] = chance.whole(0, 500)
        return said

    def of_member() -> dict[str, Argument]:
        said: dict[str, Argument] = {}
        if "group.min.session.timeout.ms" in drawn and chance.happens(0.7):
            said["session_timeout_ms"] = chance.whole(1_000, 5_000)
        if chance.happens(0.5):
            said["rebalance_timeout_ms"] = chance.whole(1_000, 8_000)
        return said

    plan = replace(plan, config={**drawn, **plan.config})
    return with_arguments(with_arguments(plan, "produce", of_producer), "group", of_member)


def _records(plan: Plan, chance: Chance) -> Plan:
    """Compression, headers, timestamps out of order, or the broker's timestamps."""

    def of_producer() -> dict[str, Argument]:
        said: dict[str, Argument] = {}
        if chance.happens(0.4):
            said["compression"] = chance.one_of(["gzip", "snappy", "lz4", "zstd"])
        if chance.happens(0.4):
            said["skew_ms"] = chance.whole(5, 3_000)
        if chance.happens(0.3):
            said["headers"] = True
        return said

    plan = with_arguments(plan, "produce", of_producer)
    if not chance.happens(0.12):
        return plan
    stamped = chance.one_of(plan.topics)
    by_broker = {**stamped.configs, "message.timestamp.type": "LogAppendTime"}
    topics = (replace(topic, configs=by_broker) if topic is stamped else topic for topic in plan.topics)
    return replace(plan, topics=tuple(topics))


def _lookups(plan: Plan, chance: Chance) -> Plan:
    """Lookups by timestamp."""
    more: list[Step] = []
    for _ in range(chance.whole(1, 6) if chance.happens(0.5) else 0):
        topic = chance.one_of(plan.topics)
        said: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        more.append((chance.whole(SECOND, plan.length_ns), "lookup", {**said, "back_ms": chance.whole(0, 20_000)}, 0))
    return with_actions(plan, more)


def _compaction(plan: Plan, chance: Chance) -> Plan:
    """The last topic is compacted, in small segments, with tombstones; it is not made again."""
    if len(plan.topics) < 2 or not chance.happens(1 if plan.profile == "CMP" else 0.25):
        return plan
    name = plan.topics[-1].name
    own = {
        "cleanup.policy": "compact",
        "segment.bytes": str(chance.whole(800, 3_000)),
        "min.cleanable.dirty.ratio": "0.05",
        "delete.retention.ms": str(chance.whole(500, 10_000)),
    }
    kept = {key: value for key, value in plan.topics[-1].configs.items() if not key.startswith("retention")}
    topics = (*plan.topics[:-1], replace(plan.topics[-1], configs={**kept, **own}))
    tombstones = {"tombstones": chance.whole(5, 40)}
    actions = tuple(
        replace(action, arguments={**action.arguments, **tombstones})
        if action.name == "produce" and action.arguments.get("topic") == name
        else action
        for action in plan.actions
        if action.name != "recreate-topic" or action.arguments.get("topic") != name
    )
    return replace(plan, topics=topics, actions=actions, config={**plan.config, "log.cleaner.backoff.ms": "300"})


def _transactions(plan: Plan, chance: Chance) -> Plan:
    """Clients whose transactions overlap in one topic."""
    compacted = [drawn.name for drawn in plan.topics if drawn.is_compacted]
    if not chance.happens(1 if plan.profile == "TXN" else 0.6 if compacted else 0.35):
        return plan
    topic = chance.one_of(compacted or [drawn.name for drawn in plan.topics])
    more: list[Step] = []
    for number in range(chance.whole(1, 3)):
        begins_ns = chance.whole(0, plan.length_ns // 3)
        said: dict[str, Any] = {"client": f"teller-{number + 1}", "topic": topic, "records": chance.whole(30, 80)}
        said["transaction_timeout_ms"] = chance.whole(2_000, 10_000)
        if chance.happens(0.5):
            said["delivery_timeout_ms"] = chance.whole(2_000, 8_000)
            said["request_timeout_ms"] = chance.whole(500, 3_000)
        more.append((begins_ns, "transact", said, plan.length_ns - begins_ns))
    return with_actions(plan, more)


def _retention(plan: Plan, chance: Chance) -> Plan:
    """Small segments that are deleted by size."""
    if not chance.happens(0.15):
        return plan
    sizes = {"segment.bytes": str(chance.whole(800, 3_000)), "retention.bytes": str(chance.whole(1_500, 10_000))}
    topics = tuple(
        replace(topic, configs={**topic.configs, **sizes}) if number == len(plan.topics) - 1 else topic
        for number, topic in enumerate(plan.topics)
    )
    return replace(plan, topics=topics)


def _strangers(plan: Plan, chance: Chance) -> Plan:
    """A stranger sends bytes that are no request."""
    if not chance.happens(0.5 if plan.profile == "NET" else 0.05):
        return plan
    return with_actions(
        plan, [(chance.whole(0, plan.length_ns // 2), "stranger", {"node": chance.one_of(plan.broker_names)}, 0)]
    )


def _members(plan: Plan, chance: Chance) -> Plan:
    """How groups assign: the assignors, static members, members that subscribe to a second topic."""
    ways = ("range", "roundrobin", "sticky", *["cooperative-sticky"] * 3, "sticky range", "cooperative-sticky range")
    chosen = chance.one_of(ways) if chance.happens(0.7) else ""

    def of_member() -> dict[str, Argument]:
        said: dict[str, Argument] = {"assignors": chosen} if chosen else {}
        if chance.happens(0.2):
            said["static"] = True
        if len(plan.topics) > 1 and chance.happens(0.25):
            said["also"] = plan.topics[-1].name
        return said

    plan = with_arguments(plan, "group", of_member)
    # A member that is there at the end stays until all has healed and is read.
    return plan.changed(lambda each: each.name == "group" and each.until_ns >= plan.length_ns, lambda: {"stays": True})


def _wanderers(plan: Plan, chance: Chance) -> Plan:
    """Consumers that seek back and forth."""
    more: list[Step] = []
    for number in range(chance.whole(1, 2) if chance.happens(0.35) else 0):
        said: dict[str, Any] = {"client": f"wanderer-{number + 1}", "topic": chance.one_of(plan.topics).name}
        said["isolation"] = chance.one_of(["read_uncommitted", "read_committed"])
        said["in_group"] = chance.happens(0.5)
        more.append((chance.whole(0, plan.length_ns // 2), "wander", said, plan.length_ns))
    return with_actions(plan, more)


def _workers(plan: Plan, chance: Chance) -> Plan:
    """Workers that read, transform and write exactly once."""
    if not chance.happens(0.8 if plan.profile == "TXN" else 0.25):
        return plan
    source = chance.one_of(plan.topics).name
    more: list[Step] = []
    for number in range(chance.whole(1, 3)):
        said: dict[str, Any] = {"client": f"worker-{number + 1}", "topic": source}
        said["transaction_timeout_ms"] = chance.whole(2_000, 10_000)
        if chance.happens(0.5):
            said["delivery_timeout_ms"] = chance.whole(2_000, 8_000)
        more.append((chance.whole(0, plan.length_ns // 3), "work", said, plan.length_ns))
    reader = {"client": "consumer-3", "topic": RESULTS, "isolation": "read_committed"}
    more.append((0, "consume", reader, plan.length_ns))
    results = TopicPlan(RESULTS, chance.whole(1, 2), 3, {"min.insync.replicas": "2"})
    return with_actions(replace(plan, topics=(*plan.topics, results)), more)


def _askers(plan: Plan, chance: Chance) -> Plan:
    """A client that asks what operators ask."""
    if not chance.happens(0.3):
        return plan
    said = {"client": "asker", "group": "readers", "topic": plan.topics[0].name}
    return with_actions(plan, [(chance.whole(0, plan.length_ns // 3), "ask", said, plan.length_ns)])


def _deposed(plan: Plan, chance: Chance) -> Plan:
    """The controller's znode is deleted, as some tools do to get another controller."""
    if not chance.happens(0.15):
        return plan
    times = range(chance.whole(1, 3))
    return with_actions(plan, [(chance.whole(2 * SECOND, plan.length_ns - SECOND), "depose", {}, 0) for _ in times])


def _deposed_at_once(plan: Plan, chance: Chance) -> Plan:
    """The next controllers are deposed as well, a moment later."""
    again = [each.at_ns for each in plan.actions if each.name == "depose" and chance.happens(0.5)]
    times = [at_ns + chance.whole(0, SECOND // 20) for at_ns in again for _ in range(chance.whole(1, 4))]
    return with_actions(plan, [(at_ns, "depose", {}, 0) for at_ns in times])


def _keepers(plan: Plan, chance: Chance) -> Plan:
    """An application with znodes of its own, which loses its connections to ZooKeeper now and then."""
    if not chance.happens(0.15):
        return plan
    more: list[Step] = [
        (0, "keep", {"client": "keeper"}, plan.length_ns),
        (0, "look-on", {"client": "looker"}, plan.length_ns),
    ]
    for _ in range(chance.whole(1, 4)):
        at_ns, lasts_ns = chance.whole(2 * SECOND, plan.length_ns - SECOND), chance.whole(200, 9_000) * MS
        said = {"node": chance.one_of(["looker", "looker", "keeper"]), "others": ["zookeeper"]}
        more.append((at_ns, "partition", said, min(lasts_ns, plan.length_ns - at_ns)))
    return with_actions(plan, more)


def _blackouts(plan: Plan, chance: Chance) -> Plan:
    """All brokers die at once, at some time or in the end, and perhaps ZooKeeper with them."""
    if not chance.happens(0.12):
        return plan
    at_ns = plan.length_ns - SECOND if chance.happens(0.4) else chance.whole(2 * SECOND, plan.length_ns - SECOND)
    said = {"coordinator": chance.happens(0.5)}
    return with_actions(plan, [(at_ns, "blackout", said, chance.whole(100 * MS, SECOND))])


def _flushes(plan: Plan, chance: Chance) -> Plan:
    """A topic that is flushed at every record or every second one."""
    if not chance.happens(0.1):
        return plan
    configs = {**plan.topics[0].configs, "flush.messages": str(chance.whole(1, 2))}
    return replace(plan, topics=(replace(plan.topics[0], configs=configs), *plan.topics[1:]))


def _forgetful(plan: Plan, chance: Chance) -> Plan:
    """Brokers soon forget idle producers, and a transaction stays open for longer than that.

    No producer repeats a batch that late. Brokers compare the timestamps of records with their own clocks.
    """
    often = 0.4 if plan.profile == "TXN" else 0.2
    if not chance.happens(often) or any(action.name in ("clock-jump", "clock-drift") for action in plan.actions):
        return plan
    expires_ms = chance.whole(8_000, 11_000)
    config = {
        "producer.id.expiration.ms": str(expires_ms),
        "producer.id.expiration.check.interval.ms": str(chance.whole(300, 2_000)),
    }

    nap: dict[str, Any] = {"nap_ms": expires_ms + chance.whole(1_000, 4_000)}
    nap["transaction_timeout_ms"] = nap["nap_ms"] + chance.whole(1_000, 10_000)
    topic = chance.one_of([drawn.name for drawn in plan.topics if drawn.name != RESULTS])
    sleeper = {"client": "sleeper", "topic": topic, "records": 40, **nap}
    plan = with_actions(plan, [(chance.whole(0, plan.length_ns // 3), "transact", sleeper, plan.length_ns)])
    writes = ("produce", "transact", "work")
    plan = plan.changed(lambda each: each.name in writes, lambda: {"delivery_timeout_ms": chance.whole(1_000, 4_000)})
    return replace(plan, config={**plan.config, **config})


def _silent_members(plan: Plan, chance: Chance) -> Plan:
    """A member that joins its group and never asks for its assignment."""
    often = 0.5 if plan.profile == "GRP" else 0.05
    if not chance.happens(often) or not any(action.name == "group" for action in plan.actions):
        return plan
    at_ns = chance.whole(0, plan.length_ns // 2)
    said = {"client": "silent", "group": "readers", "topic": plan.topics[0].name}
    return with_actions(plan, [(at_ns, "silent-member", said, chance.whole(2 * SECOND, plan.length_ns - at_ns))])


def _last_sequences(plan: Plan, chance: Chance) -> Plan:
    """A producer whose sequence numbers are near the largest there is."""
    if not chance.happens(0.1):
        return plan
    said: dict[str, Any] = {"client": "producer-old", "topic": plan.topics[0].name, "acks": -1, "idempotent": True}
    said |= {"records": 60, "sequence": (1 << 31) - chance.whole(2, 15)}
    return with_actions(plan, [(0, "produce", said, plan.length_ns)])


def _damage(plan: Plan, chance: Chance) -> Plan:
    """Bits of records flip on their way between brokers; segments have small indexes."""
    more: list[Step] = []
    if chance.happens(0.5 if plan.profile == "DLY" else 0.03):
        topic = chance.one_of(plan.topics)
        place = f"{topic.name}-{chance.whole(0, topic.partitions - 1)}"
        said = {"links": [f"leader:{place}>follower:{place}"], "count": chance.whole(1, 3)}
        more.append((chance.whole(SECOND, plan.length_ns // 2), "bit-flip", said, plan.length_ns // 3))
    if chance.happens(0.3 if plan.profile in ("LDRx2", "CLK") else 0.03):
        sizes = {"log.index.size.max.bytes": str(8 * chance.whole(2, 8)), "log.index.interval.bytes": "1"}
        plan = replace(plan, config={**plan.config, **sizes})
    return with_actions(plan, more)


def _at_events(plan: Plan, chance: Chance) -> Plan:
    """Faults at the n-th event of a kind, in the window between two steps."""
    if not chance.happens(0.75):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 6)):
        kind = chance.one_of([ZK, ZK, RPC, RPC, DISK])
        name = chance.one_of(_ON_DISKS if kind == DISK else _AT_COMMITS)
        if name not in {action.name for action in plan.actions} and name in ("power-loss", *_ON_DISKS[2:]):
            name = "kill"  # where no disk loses anything, none does at an event
        node = "here"
        if kind != DISK and chance.happens(0.5):
            node = chance.one_of(["controller", f"leader:{plan.topics[0].name}-0", "there" if kind == RPC else "here"])
        said: dict[str, Any] = {
            "node": node,
            "when": f"{kind} {chance.one_of(EVENTS[kind])}",
            "nth": chance.whole(1, 3) if chance.happens(0.6) else chance.whole(3, 40),
        }
        if name == "partition":
            said["others"] = ["zookeeper"] if chance.happens(0.4) else ["broker-0", "broker-1", "broker-2"]
        elif name == "zk-loss":
            said.update(applied=chance.happens(0.6), count=1)
        elif name == "reset":
            said["links"] = [f"{node}>zookeeper", f"zookeeper>{node}"]
        lasts_ns = 0 if name in ("zk-expire", "reset") else chance.whole(50, 9_000) * MS
        more.append((chance.whole(0, plan.length_ns * 2 // 3), name, said, lasts_ns))
    return with_actions(plan, more)


def _legacy_tools(plan: Plan, chance: Chance) -> Plan:
    """Old tools, which ask the controller through a znode."""
    often = 0.5 if plan.profile in ("REAS", "CTL", "MOVE") else 0.15
    more: list[Step] = []
    for _ in range(chance.whole(1, 3) if chance.happens(often) else 0):
        topic = chance.one_of(plan.topics)
        said: dict[str, Any] = {"topic": topic.name}
        name = chance.one_of(["legacy-reassign", "legacy-elect"])
        if name == "legacy-reassign":
            numbers = chance.shuffled(range(plan.brokers))
            said.update(partition=chance.whole(0, topic.partitions - 1), replicas=numbers[: chance.whole(2, 3)])
        more.append((chance.whole(SECOND, plan.length_ns), name, said, 0))
    return with_actions(plan, more)


def _long(plan: Plan, chance: Chance) -> Plan:
    """A run of minutes: all that was drawn comes slower, and one fault outlasts every timeout."""
    if not chance.happens(_LONG_SHARE):
        return plan
    times = chance.whole(4, 8)

    def later(action: Action) -> Action:
        endless = action.name in ("produce", "consume", "group")
        said = dict(action.arguments)
        if "records" in said:
            said["records"] = int(str(said["records"])) * 2
        lasts_ns = action.duration_ns * times if endless else action.duration_ns
        return replace(action, at_ns=action.at_ns * times, duration_ns=lasts_ns, arguments=said)

    plan = replace(plan, length_ns=plan.length_ns * times, actions=tuple(later(drawn) for drawn in plan.actions))
    leader = f"leader:{plan.topics[0].name}-0"
    cut = {"node": leader, "others": plan.broker_names}
    name = chance.one_of(["partition", "pause", "kill"])
    said: dict[str, Any] = cut if name == "partition" else {"node": leader}
    return with_actions(plan, [(chance.whole(0, plan.length_ns // 3), name, said, chance.whole(35, 70) * SECOND)])


def _stand_still(plan: Plan, chance: Chance) -> Plan:
    """Clients pause for longer than any timeout, and go on as if nothing had happened.

    Not where brokers soon forget producers: a batch that is repeated so late is appended twice.
    """
    if "producer.id.expiration.check.interval.ms" in plan.config or not chance.happens(0.4):
        return plan
    names = [str(action.arguments["client"]) for action in plan.actions if action.name in _STAND_STILL]
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        at_ns = chance.whole(SECOND, plan.length_ns - SECOND)
        lasts_ns = min(chance.whole(2_000, 12_000) * MS, plan.length_ns - at_ns)
        more.append((at_ns, "pause", {"node": chance.one_of(names)}, lasts_ns))
        if chance.happens(0.4):
            more += _hard_of_hearing(plan, chance, chance.one_of(names), at_ns)
    return with_actions(plan, more)


def _hard_of_hearing(plan: Plan, chance: Chance, client: str, at_ns: int) -> list[Step]:
    """A client hears brokers' answers late, and then the brokers hear nothing of it any more."""
    links = [f"{broker}>{client}" for broker in plan.broker_names]
    late: dict[str, Any] = {"links": links, "delay_ns": chance.whole(300, 3_000) * MS}
    gone_ns = min(at_ns + chance.whole(2_000, 6_000) * MS, plan.length_ns)
    gone: dict[str, Any] = {"node": client, "others": plan.broker_names}
    more = [(at_ns, "delay", late, gone_ns - at_ns), (gone_ns, "partition", gone, plan.length_ns - gone_ns)]
    return [(at, name, said, min(lasts, 8 * SECOND)) for at, name, said, lasts in more if lasts > 0]


def _cut_off(plan: Plan, chance: Chance) -> Plan:
    """A leader cannot reach the other brokers, while its clients reach it. Then it stops or dies, and comes back with
    records that nobody else has. Some brokers stop without a controlled shutdown."""
    if not chance.happens(0.25):
        return plan
    config = {"controlled.shutdown.enable": "false"} if chance.happens(0.4) else {}
    led = plan.partition_names
    others = plan.broker_names
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        node, at_ns = f"leader:{chance.one_of(led)}", chance.whole(SECOND, plan.length_ns - 4 * SECOND)
        cut = {"node": node, "others": [*others, "zookeeper"] if chance.happens(0.5) else others}
        more.append((at_ns, "partition", cut, min(chance.whole(2_000, 9_000) * MS, plan.length_ns - at_ns)))
        at_ns += chance.whole(200, 3_000) * MS
        name, lasts_ns = chance.one_of(_OF_THE_CUT_OFF), chance.whole(300, 6_000) * MS
        more.append((at_ns, name, {"node": node}, min(lasts_ns, plan.length_ns - at_ns)))
    return with_actions(replace(plan, config={**plan.config, **config}), more)


def _unhurried(plan: Plan, chance: Chance) -> Plan:
    """Transactions that last for about as long as their timeout; not where brokers soon forget producers."""
    if "producer.id.expiration.check.interval.ms" in plan.config:
        return plan

    def slowed(action: Action) -> Action:
        if action.name not in ("transact", "work") or not chance.happens(0.3):
            return action
        timeout_ms = action.whole("transaction_timeout_ms", 8_000)
        return replace(
            action, arguments={**action.arguments, "dawdle_ms": chance.whole(timeout_ms // 4, timeout_ms * 3 // 4)}
        )

    return replace(plan, actions=tuple(slowed(action) for action in plan.actions))


def _at_coordinators(plan: Plan, chance: Chance) -> Plan:
    """A coordinator of groups or transactions dies, or loses its leadership, at a request to it."""
    if not chance.happens(0.9 if plan.profile == "TXN" else 0.4):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        topic = chance.one_of([GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
        said: dict[str, Any] = {
            "node": chance.one_of(["there", f"leader:{topic}-{chance.whole(0, 2)}"]),
            "when": f"{RPC} {chance.one_of(_OF_COORDINATORS)}",
            "nth": chance.whole(1, 20),
        }
        name, lasts_ns = chance.one_of(_AT_COORDINATORS), chance.whole(300, 9_000) * MS
        lasts_ns = min(lasts_ns, SECOND) if name == "bounce" else lasts_ns
        more.append((chance.whole(0, plan.length_ns * 2 // 3), name, said, 0 if name == "zk-expire" else lasts_ns))
    return with_actions(plan, more)


def _by_hand(plan: Plan, chance: Chance) -> Plan:
    """New topics whose replicas are placed by hand, on brokers that run or not."""

    def placed() -> dict[str, Argument]:
        numbers = chance.shuffled(range(plan.brokers))
        return {"replicas": numbers[: chance.whole(2, 3)]} if chance.happens(0.5) else {}

    return with_arguments(plan, "create-topic", placed)


def _crowds(plan: Plan, chance: Chance) -> Plan:
    """More members of a group; some of them subscribe to a second topic later."""
    known = [action for action in plan.actions if action.name == "group"]
    more: list[Step] = []
    for number in range(chance.whole(1, 2) if known and chance.happens(0.3) else 0):
        like, at_ns = chance.one_of(known), chance.whole(0, plan.length_ns // 2)
        said = {**like.arguments, "client": f"member-{len(known) + number + 1}"}
        more.append((at_ns, "group", said, plan.length_ns - at_ns))

    def later() -> dict[str, Argument]:
        return {"also_ms": chance.whole(500, 12_000)} if chance.happens(0.5) else {}

    return with_arguments(with_actions(plan, more), "group", later)
