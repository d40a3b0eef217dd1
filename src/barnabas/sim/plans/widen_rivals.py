"""Widens a plan by rivals, and by what arrives so late that something else has begun: two clients that write one znode,
two producers with one id, all members of a new group at once, requests of a broker's former process, an assignment for
a member that is none any more, a session that ends when no other can begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, RPC, ZK
from barnabas.sim.plans.plan import MS, RESULTS, SECOND, Action, Argument, Plan, Step, TopicPlan, with_actions

_SHARING: Final = ("JoinGroup", "JoinGroup", "SyncGroup")


def rivals(plan: Plan, chance: Chance) -> Plan:
    """Two clients far from ZooKeeper write the same znode; one write is lost, and is repeated when the other's is
    there."""
    if not chance.happens(0.15):
        return plan
    return chance.one_of([_of_a_topic, _of_a_partition, _of_a_block])(plan, chance)


def _of_a_topic(plan: Plan, chance: Chance) -> Plan:
    """The topic's znode, which moves and added partitions both rewrite."""
    topic, at_ns = chance.one_of(plan.ordinary_topics), _then(plan, chance)
    more = _far_from_zookeeper(chance, "controller", at_ns)
    for number in range(chance.whole(3, 5)):
        then_ns = at_ns + number * 2 * SECOND
        grown = {"topic": topic.name, "partitions": topic.partitions + 1 + number}
        more += [
            (then_ns, "zk-loss", {"node": "controller", "applied": False, "count": chance.whole(1, 2)}, SECOND),
            (then_ns + chance.whole(0, 200) * MS, "reassign", _moved(plan, chance, topic), 0),
            (then_ns + chance.whole(0, 200) * MS, "add-partitions", grown, 0),
        ]
    return with_actions(plan, more)


def _of_a_partition(plan: Plan, chance: Chance) -> Plan:
    """The partition's state, which its leader wrote itself before AlterPartition (KIP-497), and the controller."""
    topic, at_ns = chance.one_of(plan.ordinary_topics), _then(plan, chance)
    place = chance.whole(0, topic.partitions - 1)
    writers = ["controller", f"leader:{topic.name}-{place}"]
    more = [step for node in writers for step in _far_from_zookeeper(chance, node, at_ns)]
    for number in range(chance.whole(3, 5)):
        then_ns = at_ns + number * 2 * SECOND
        lost = {"node": chance.one_of(writers), "applied": False, "count": chance.whole(1, 2)}
        more += [
            (then_ns, "zk-loss", lost, SECOND),
            (then_ns + chance.whole(0, 300) * MS, "reassign", {**_moved(plan, chance, topic), "partition": place}, 0),
            (then_ns + chance.whole(0, 1_000) * MS, "pause", {"node": chance.one_of(plan.broker_names)}, SECOND),
        ]
    config = {"replica.lag.time.max.ms": "600", "replica.fetch.wait.max.ms": "300"}
    return with_actions(_spoken_as(plan, chance.one_of(["2.3", "2.6"]), config), more)


def _of_a_block(plan: Plan, chance: Chance) -> Plan:
    """The block of producer ids, which brokers took from ZooKeeper themselves before the controller gave it out
    (KIP-730), when the first producers begin."""
    more: list[Step] = []
    for node in plan.broker_names:
        more += _far_from_zookeeper(chance, node, 0)
        lost = {"node": node, "applied": False, "count": chance.whole(1, 2)}
        more.append((0, "zk-loss", lost, 9 * SECOND))
    return with_actions(_spoken_as(plan, chance.one_of(["2.3", "2.6", "2.8"]), {}), more)


def _far_from_zookeeper(chance: Chance, node: str, at_ns: int) -> list[Step]:
    links = [f"{node}>zookeeper", f"zookeeper>{node}"]
    return [(at_ns, "delay", {"links": links, "delay_ns": chance.whole(100, 500) * MS}, 9 * SECOND)]


def _moved(plan: Plan, chance: Chance, topic: TopicPlan) -> dict[str, Any]:
    numbers = chance.shuffled(range(plan.brokers))
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    return {**where, "replicas": numbers[: chance.whole(2, 3)]}


def _spoken_as(plan: Plan, version: str, config: dict[str, str]) -> Plan:
    """Brokers speak an older protocol; without topic ids nothing tells a topic from its successor (KIP-516)."""
    actions = tuple(action for action in plan.actions if action.name != "recreate-topic")
    config = {**plan.config, **config, "inter.broker.protocol.version": version}
    return replace(plan, actions=actions, config=config)


def _then(plan: Plan, chance: Chance) -> int:
    return chance.whole(2 * SECOND, plan.length_ns - 12 * SECOND)


def at_once(plan: Plan, chance: Chance) -> Plan:
    """All members of a new group join within a moment, or two producers have one transactional id."""
    if not chance.happens(0.25):
        return plan
    begins_ns = chance.whole(0, plan.length_ns // 8)

    def together(action: Action) -> Action:
        if action.name != "group":
            return action
        at_ns = begins_ns + chance.whole(0, 600) * MS
        return replace(action, at_ns=at_ns, duration_ns=action.until_ns - at_ns)

    plan = replace(plan, actions=tuple(map(together, plan.actions)))
    topic, name = chance.one_of([topic.name for topic in plan.topics if topic.name != RESULTS]), "teller-of-two"
    said: dict[str, Any] = {"topic": topic, "records": 20, "transaction_timeout_ms": chance.whole(2_000, 8_000)}
    said["delivery_timeout_ms"] = chance.whole(1_000, 4_000)  # brokers may soon forget producers
    brokers = plan.broker_names
    slow: dict[str, Any] = {"links": [f"controller>{broker}" for broker in brokers]}
    more: list[Step] = [
        (0, "transact", {**said, "client": name}, plan.length_ns),
        (chance.whole(0, 20) * MS, "transact", {**said, "client": "twin-of-two", "transactional_id": name}, 2 * SECOND),
        (0, "delay", {**slow, "delay_ns": chance.whole(50, 400) * MS}, 2 * SECOND),
    ]
    return with_actions(plan, more if chance.happens(0.5) else [])


def late_wishes(plan: Plan, chance: Chance) -> Plan:
    """A broker's requests to the controller take so long that it has given them up, stopped and started by then."""
    if not chance.happens(0.12):
        return plan
    leaving = chance.one_of(plan.broker_names)
    impatient = {"request.timeout.ms": str(chance.whole(500, 1_000)), "controlled.shutdown.max.retries": "1"}
    late: dict[str, Any] = {"links": [f"{leaving}>controller"], "delay_ns": chance.whole(3_000, 5_000) * MS}
    at_ns = chance.whole(2 * SECOND, plan.length_ns - 14 * SECOND)
    more: list[Step] = [
        (at_ns, "delay", late, 13 * SECOND),
        (at_ns + 500 * MS, "shutdown", {"node": leaving}, SECOND),
    ]
    return with_actions(replace(plan, config={**plan.config, **impatient}), more)


def left_behind(plan: Plan, chance: Chance) -> Plan:
    """Members that keep their partitions while they join pause when they have asked for their assignment: their group
    removes them, and others go on with their partitions."""
    members = any(action.name == "group" for action in plan.actions)
    if not members or "producer.id.expiration.check.interval.ms" in plan.config or not chance.happens(0.15):
        return plan
    session_ms = chance.whole(1_000, 2_000)
    said: dict[str, Argument] = {
        "assignors": "cooperative-sticky", "session_timeout_ms": session_ms, "rebalance_timeout_ms": 2 * session_ms,
    }  # fmt: skip
    plan = plan.changed(lambda each: each.name == "group", lambda: said)
    plan, more = replace(plan, config={**plan.config, "group.min.session.timeout.ms": "500"}), list[Step]()
    like = next(action for action in plan.actions if action.name == "group")
    for number in range(chance.whole(2, 4)):
        # A member that comes makes all others join once more, and so does one that goes.
        at_ns, lasts_ns = chance.whole(3 * SECOND, plan.length_ns * 2 // 3), chance.whole(2_000, 6_000) * MS
        comes = {**like.arguments, "client": f"passing-member-{number}", "stays": False}
        asks = {"node": "here", "when": f"{RPC} {chance.one_of(_SHARING)}", "nth": chance.whole(2, 6)}
        still_ns = (3 * session_ms + chance.whole(500, 4_000)) * MS
        more += [(at_ns, "group", comes, lasts_ns), (at_ns - MS, "pause", asks, still_ns)]
    return with_actions(plan, more)


def unreplicated(plan: Plan, chance: Chance) -> Plan:
    """A coordinator cannot reach its followers when it has just written, for longer than it waits for them."""
    if not chance.happens(0.25):
        return plan
    ids = [str(each.arguments["client"]) for each in plan.actions if each.name in ("transact", "work")]
    groups = [str(each.arguments["group"]) for each in plan.actions if each.name == "group"]
    kept = [plan.kept_in(TRANSACTION_STATE_TOPIC, name) for name in ids]
    kept += [plan.kept_in(GROUP_METADATA_TOPIC, name) for name in groups[:1]]
    brokers = plan.broker_names
    waits_ms = max((action.whole("transaction_timeout_ms", 0) for action in plan.actions), default=0)
    more: list[Step] = []
    for _ in range(chance.whole(1, 3) if kept else 0):
        partition = chance.one_of(kept)
        noted = {"when": f"{DISK} write {partition} .log", "nth": chance.whole(1, 60)}
        lasts_ns = (max(waits_ms, 4_000) + chance.whole(500, 3_000)) * MS
        cut = {"node": f"leader:{partition}", "others": brokers, **noted}
        more.append((chance.whole(0, plan.length_ns // 2), "partition", cut, lasts_ns))
    return with_actions(plan, more)


def nowhere_to_go(plan: Plan, chance: Chance) -> Plan:
    """Sessions end while their owners are far from ZooKeeper, which refuses connections just when the next sessions are
    wanted."""
    if not chance.happens(0.12):
        return plan
    more: list[Step] = []
    for node in [f"broker-{number}" for number in range(plan.brokers) if chance.happens(0.7)]:
        at_ns, way_ms = chance.whole(2 * SECOND, plan.length_ns - 9 * SECOND), chance.whole(150, 500)
        there, back = f"{node}>zookeeper", f"zookeeper>{node}"
        ended_ns = at_ns + 500 * MS
        more.append((at_ns, "delay", {"links": [there, back], "delay_ns": way_ms * MS}, 8 * SECOND))
        more.append((ended_ns, "zk-expire", {"node": node}, 0))
        # It hears that it is closed, connects again, hears that the session is over, and connects once more.
        for _ in range(4):
            then_ns, lasts_ns = ended_ns + chance.whole(3 * way_ms, 14 * way_ms) * MS, chance.whole(50, 300) * MS
            more.append((then_ns, "refuse", {"links": [there]}, lasts_ns))
    return with_actions(plan, more)


def broken_off(plan: Plan, chance: Chance) -> Plan:
    """A connection to ZooKeeper is lost amid writes that depend on each other: those that make or delete a topic."""
    if not chance.happens(0.15):
        return plan
    config = {"zookeeper.max.in.flight.requests": str(chance.whole(1, 3)), **plan.config}
    more: list[Step] = []
    for number in range(chance.whole(1, 3)):
        topic, at_ns = f"brief-{number}", chance.whole(SECOND, plan.length_ns - 8 * SECOND)
        made: dict[str, Any] = {"topic": topic, "partitions": chance.whole(1, 3), "replication_factor": 3}
        gone_ns = at_ns + chance.whole(2_000, 4_000) * MS
        more += [(at_ns, "create-topic", made, 0), (gone_ns, "delete-topic", {"topic": topic}, 0)]
        for then_ns, written in ((at_ns, "Create"), (gone_ns, "Delete"), (gone_ns, "Delete")):
            amid = {"when": f"{ZK} {written} /brokers/topics/{topic}", "nth": chance.whole(1, 8)}
            more.append((then_ns - MS, "reset", {"links": ["here>zookeeper", "zookeeper>here"], **amid}, 0))
    return with_actions(replace(plan, config=config), more)


def moved_again(plan: Plan, chance: Chance) -> Plan:
    """A partition moves to a broker that gets it slowly, and is moved elsewhere before it is there."""
    topics = plan.ordinary_topics
    if not chance.happens(0.5 if plan.profile in ("REAS", "MOVE") else 0.12):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        topic, numbers = chance.one_of(topics), chance.shuffled(range(plan.brokers))
        stays, first, then = numbers[:3]
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        at_ns = chance.whole(3 * SECOND, plan.length_ns - 6 * SECOND)
        slow = {"links": [f"broker-{stays}>broker-{then}", f"broker-{first}>broker-{then}"]}
        more += [
            (at_ns - 2 * SECOND, "reassign", {**where, "replicas": [stays, first]}, 0),
            (at_ns - 10 * MS, "delay", {**slow, "delay_ns": chance.whole(500, 1_500) * MS}, 5 * SECOND),
            (at_ns, "reassign", {**where, "replicas": [stays, then]}, 0),
            (at_ns + chance.whole(50, 1_500) * MS, "reassign", {**where, "replicas": [first, stays]}, 0),
        ]
    return with_actions(plan, more)


def forsaken(plan: Plan, chance: Chance) -> Plan:
    """One log directory of two fails just when something is written there that others need the broker for: partitions
    that it leads, groups and transactions that it coordinates."""
    if not chance.happens(0.12):
        return plan
    paths = plan.config.get("log.dirs", "/kafka/a,/kafka/b").split(",")
    places = plan.partition_names
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        path = chance.one_of(paths)
        written = {"when": f"{DISK} write {path}/{chance.one_of(places)} .log", "nth": chance.whole(1, 12)}
        fails = {"node": "here", "path": path, **written}
        name, at_ns = chance.one_of(["dir-gone", "eio-write"]), chance.whole(SECOND, plan.length_ns * 2 // 3)
        more.append((at_ns, name, fails, chance.whole(3_000, 8_000) * MS))
    return with_actions(replace(plan, config={**plan.config, "log.dirs": ",".join(paths)}), more)


RIVALS: Final = (
    broken_off, rivals, at_once, late_wishes, left_behind, unreplicated, nowhere_to_go, moved_again, forsaken,
)  # fmt: skip
