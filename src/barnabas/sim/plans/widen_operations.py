"""Widens a plan by administrators who work while a broker is away, on coordinators' topics, and at events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.actions import ADMINISTRATION
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import EVENTS, RPC, ZK
from barnabas.sim.plans.plan import (
    MS,
    RESULTS,
    SECOND,
    Action,
    Argument,
    Plan,
    Step,
    cut,
    in_time,
    with_actions,
    with_arguments,
)

_OF_TRANSACTIONS: Final = ("WriteTxnMarkers", "WriteTxnMarkers", "TxnOffsetCommit", "AddOffsetsToTxn", "EndTxn")
_OF_TOPICS: Final = ("/brokers/topics/new-", "/brokers/topics/new-", "/brokers/topics/new-")
"""Operations that make and delete topics."""
_OF_MEMBERS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit")


def away(plan: Plan, chance: Chance) -> Plan:
    """A broker is away for longer than its session lasts, while administrators work, also on its replicas: it hears of
    none of that."""
    if not chance.happens(0.4):
        return plan
    session_ns = plan.session_ns
    absent, at_ns = chance.whole(0, plan.brokers - 1), chance.whole(SECOND, plan.length_ns // 3)
    there = [number for number in range(plan.brokers) if number != absent]
    topics = plan.ordinary_topics
    lasts_ns = session_ns + chance.whole(5_000, 11_000) * MS
    gone: dict[str, Any] = {"node": f"broker-{absent}"}
    name = chance.one_of(["kill", "kill", "pause", "partition", "partition", *_of_disks(plan)])
    if name == "partition":
        gone["others"] = [*(f"broker-{number}" for number in there), "zookeeper"]
    more: list[Step] = [(at_ns, name, gone, lasts_ns)]
    passing: dict[str, Any] = {"topic": f"new-{chance.whole(1, 4)}"}
    before: dict[str, Any] = {**passing, "partitions": chance.whole(1, 3), "replicas": there[:2]}
    more.append((at_ns - 800 * MS, "create-topic", before, 0))
    for _ in range(chance.whole(2, 5)):
        topic = chance.one_of(topics)
        with_it, without = [absent, *there[: chance.whole(1, 2)]], there[:2]
        chance.shuffle(with_it)
        chance.shuffle(without)
        made = {**passing, "partitions": chance.whole(1, 2)}
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        asked = [
            ("create-topic", {**made, "topic": f"new-{chance.whole(1, 4)}", "replicas": with_it}),
            ("add-partitions", {"topic": topics[-1].name, "partitions": topics[-1].partitions + 1}),
            ("reassign", {**where, "replicas": without}),
            ("delete-records", where),
            ("elect", {"topic": topic.name, "unclean": False}),
            ("delete-topic", passing),
        ]
        if plan.tells_topics_apart:
            asked += [("recreate-topic", {**made, "replicas": replicas}) for replicas in (with_it, without)]
        name, said = chance.one_of(asked)
        more.append((at_ns + session_ns + chance.whole(500, 6_000) * MS, name, said, 0))
    if chance.happens(0.8):
        more.append((at_ns + session_ns + chance.whole(500, 3_000) * MS, "delete-topic", passing, 0))
    return with_actions(plan, in_time(plan, more))


def alone(plan: Plan, chance: Chance) -> Plan:
    """A topic is made whose only replica is on a broker that is away: it gets its first leader when that is back."""
    if not chance.happens(0.15):
        return plan
    session_ns = plan.session_ns
    absent, at_ns = chance.whole(0, plan.brokers - 1), chance.whole(SECOND, plan.length_ns // 3)
    made: dict[str, Any] = {"topic": f"new-{chance.whole(1, 4)}", "partitions": 1, "replicas": [absent]}
    more: list[Step] = [
        (at_ns, "kill", {"node": f"broker-{absent}"}, session_ns + 6 * SECOND),
        (at_ns + session_ns + chance.whole(1_500, 5_000) * MS, "create-topic", made, 0),
    ]
    return with_actions(plan, in_time(plan, more))


def together(plan: Plan, chance: Chance) -> Plan:
    """A broker dies just before the controller does, and for longer: the next controller finds it dead, and in ISRs."""
    if not chance.happens(0.12):
        return plan
    session_ns = plan.session_ns
    at_ns, lasts_ns = chance.whole(SECOND, plan.length_ns // 3), session_ns + chance.whole(7_000, 12_000) * MS
    dies = {"node": chance.one_of(plan.broker_names)}
    more: list[Step] = [
        (at_ns + chance.whole(0, 1_000) * MS, "kill", {"node": "controller"}, chance.whole(500, 9_000) * MS),
        (at_ns, "kill", dies, min(lasts_ns, plan.length_ns - at_ns)),
    ]
    return with_actions(plan, more)


def grown_amid_moves(plan: Plan, chance: Chance) -> Plan:
    """A topic gets partitions while others of it are moved, by a controller that hears late of ZooKeeper: both rewrite
    the same znode."""
    if not chance.happens(0.5 if plan.profile in ("REAS", "MOVE", "CTL") else 0.1):
        return plan
    topic, at_ns = chance.one_of(plan.topics), chance.whole(3 * SECOND, plan.length_ns - 5 * SECOND)
    late: dict[str, Any] = {"links": ["zookeeper>controller"], "delay_ns": chance.whole(20, 300) * MS}
    more: list[Step] = [(at_ns, "delay", late, 4 * SECOND)]
    for number in range(topic.partitions):
        numbers = chance.shuffled(range(plan.brokers))
        moved: dict[str, Any] = {"topic": topic.name, "partition": number, "replicas": numbers[: chance.whole(2, 3)]}
        more.append((at_ns + chance.whole(0, 1_000) * MS, "reassign", moved, 0))
    grown = {"topic": topic.name, "partitions": topic.partitions + 1}
    more.append((at_ns + chance.whole(0, 1_500) * MS, "add-partitions", grown, 0))
    return with_actions(plan, more if topic.name != RESULTS else [])


def deleted_by_both(plan: Plan, chance: Chance) -> Plan:
    """Administrators delete records of a topic whose retention by size deletes as well."""
    more: list[Step] = []
    for topic in [topic for topic in plan.topics if "retention.bytes" in topic.configs and topic.name != RESULTS]:
        for _ in range(chance.whole(0, 5)):
            where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
            more.append((chance.whole(3 * SECOND, plan.length_ns - SECOND), "delete-records", where, 0))
    return with_actions(plan, more)


def drowsy(plan: Plan, chance: Chance) -> Plan:
    """Brokers pause for longer than replicas may lag and for less than their sessions last: they leave ISRs and come
    back with their old connections and fetch sessions, whether there are records to fetch or not."""
    if not chance.happens(0.12):
        return plan
    lag_ms = chance.whole(600, 1_200)
    config = {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2)}
    longest_ms = max(3 * lag_ms, plan.session_ns * 2 // 3 // MS)
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        said: dict[str, Any] = {"node": chance.one_of(plan.broker_names)}
        at_ns, lasts_ns = chance.whole(2 * SECOND, plan.length_ns), chance.whole(2 * lag_ms, longest_ms) * MS
        more.append((at_ns, "pause", said, min(lasts_ns, plan.length_ns - at_ns)))
    return with_actions(replace(plan, config={**plan.config, **config}), more)


def _of_disks(plan: Plan) -> tuple[str, ...]:
    """A broker loses one of its two log directories and goes on without the replicas there."""
    return ("dir-gone", "dir-gone", "eio-write") if "," in plan.config.get("log.dirs", "") else ()


def moved_coordinators(plan: Plan, chance: Chance) -> Plan:
    """The topics of groups and transactions are moved to other brokers, or to fewer."""
    if not chance.happens(0.15):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 4)):
        numbers = chance.shuffled(range(plan.brokers))
        topic = chance.one_of([GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
        said: dict[str, Any] = {"topic": topic, "partition": chance.whole(0, 2)}
        said["replicas"] = numbers[: chance.whole(2, 3)]
        more.append((chance.whole(3 * SECOND, plan.length_ns), "reassign", said, 0))
    return with_actions(plan, more)


def busier(plan: Plan, chance: Chance) -> Plan:
    """Smaller segments, a second log directory, and more of what any cluster's administrators do."""
    config: dict[str, str] = {}
    if chance.happens(0.3):
        config["log.segment.bytes"] = str(chance.whole(1_000, 8_000))
    if chance.happens(0.15):
        config["log.dirs"] = "/kafka/a,/kafka/b"
    more: list[Step] = []
    topics = plan.ordinary_topics
    for _ in range(chance.whole(1, 4) if chance.happens(0.5) else 0):
        topic = chance.one_of(topics)
        asked: list[tuple[str, dict[str, Any]]] = [
            ("delete-records", {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}),
            ("create-topic", {"topic": f"new-{chance.whole(1, 2)}", "partitions": chance.whole(1, 3)}),
            ("delete-topic", {"topic": f"new-{chance.whole(1, 2)}"}),
        ]
        more.append((chance.whole(SECOND, plan.length_ns - SECOND), *chance.one_of(asked), 0))
    return with_actions(replace(plan, config={**config, **plan.config}), more)


def made_again(plan: Plan, chance: Chance) -> Plan:
    """A topic in use is deleted and made again; not where topic ids do not tell the two apart."""
    topics = [topic for topic in plan.topics if topic.name != RESULTS and "cleanup.policy" not in topic.configs]
    if not topics or not plan.tells_topics_apart or not chance.happens(0.2):
        return plan
    partitions = chance.whole(1, topics[-1].partitions + 1)
    said: dict[str, Any] = {"topic": topics[-1].name, "partitions": partitions, "replication_factor": 3}
    return with_actions(plan, [(chance.whole(plan.length_ns // 3, plan.length_ns - SECOND), "recreate-topic", said, 0)])


def spared(plan: Plan, chance: Chance) -> Plan:
    """There are more brokers than replicas need, so that some may have none; these die as others do."""
    if not chance.happens(0.1):
        return plan
    spare = [f"broker-{plan.brokers + number}" for number in range(2)]
    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", **plan.config}
    lasts_ns = plan.session_ns + 12 * SECOND
    at_ns = chance.whole(SECOND, plan.length_ns // 4)
    more = [(at_ns + number * SECOND, "kill", {"node": name}, lasts_ns) for number, name in enumerate(spare)]
    return with_actions(replace(plan, brokers=plan.brokers + len(spare), config=config), more)


def usurped(plan: Plan, chance: Chance) -> Plan:
    """Another leader is elected while the old one can reach no broker, and writes on. Then the new one fails, perhaps
    before the old one has heard of it: each has records that the other lacks."""
    if not chance.happens(0.15):
        return plan
    topic = chance.one_of(plan.ordinary_topics)
    where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
    leader, replicas = f"leader:{topic.name}-{where['partition']}", chance.shuffled(range(plan.brokers))
    others = plan.broker_names
    cut_ns = chance.whole(2 * SECOND, plan.length_ns * 2 // 3)
    elected_ns = cut_ns + chance.whole(100, 1_500) * MS
    name, lasts_ns = chance.one_of(["shutdown", "shutdown", "bounce", "kill"]), chance.whole(100, 3_000) * MS
    return with_actions(
        plan,
        [
            (cut_ns - SECOND, "reassign", {**where, "replicas": replicas[: topic.replication_factor]}, 0),
            (cut_ns, "partition", {"node": leader, "others": others}, chance.whole(1_000, 8_000) * MS),
            (elected_ns, "elect", {"topic": topic.name, "unclean": False}, 0),
            (elected_ns + chance.whole(200, 3_000) * MS, name, {"node": leader}, lasts_ns),
        ],
    )


def blinded(plan: Plan, chance: Chance) -> Plan:
    """The controller loses its connections to ZooKeeper for less than its session lasts, while what it watches changes:
    it has to hear of that when it is back."""
    if not chance.happens(0.2):
        return plan
    session_ns = plan.session_ns
    topics = plan.ordinary_topics
    more: list[Step] = []
    for _ in range(chance.whole(1, 2)):
        at_ns = chance.whole(session_ns + SECOND, plan.length_ns - 3 * SECOND)
        lasts_ns = chance.whole(500 * MS, session_ns // 2)
        there_and_back = ["controller>zookeeper", "zookeeper>controller"]
        more += [
            (at_ns, "partition", {"node": "controller", "others": ["zookeeper"]}, lasts_ns),
            (at_ns + MS, "reset", {"links": there_and_back}, 0),
        ]
        topic, amid_ns = chance.one_of(topics), at_ns + chance.whole(0, lasts_ns)
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        dies: dict[str, Any] = {"node": chance.one_of(plan.broker_names)}
        numbers = chance.shuffled(range(plan.brokers))
        changes: list[Step] = [
            # Its session lasts for a while less than from now on, for it was last heard of before.
            *[(amid_ns - session_ns * 5 // 6, "kill", dies, session_ns + chance.whole(6_000, 11_000) * MS)] * 2,
            (amid_ns, "legacy-reassign", {**where, "replicas": numbers[:2]}, 0),
            (amid_ns, "legacy-elect", {"topic": topic.name}, 0),
            (amid_ns, "config", {"topic": topic.name, "key": "retention.ms", "value": "600000"}, 0),
        ]
        more.append(chance.one_of(changes))
    return with_actions(plan, cut(plan, more))


def book_kept(plan: Plan, chance: Chance) -> Plan:
    """A client commits for a group without members, and deletes its offsets."""
    if not chance.happens(0.25):
        return plan
    said = {"client": "bookkeeper", "topic": chance.one_of(plan.topics).name}
    return with_actions(plan, [(chance.whole(0, plan.length_ns // 3), "keep-books", said, plan.length_ns)])


def small_batches(plan: Plan, chance: Chance) -> Plan:
    """Clients with batches of a record or two, so that several are in flight at once."""

    def small() -> dict[str, Argument]:
        return {"batch_bytes": chance.whole(80, 300)} if chance.happens(0.3) else {}

    return with_arguments(with_arguments(plan, "produce", small), "transact", small)


def far(plan: Plan, chance: Chance) -> Plan:
    """The controller or another broker is far from ZooKeeper or from the rest for a while, so that requests and answers
    are late. Meanwhile it is deposed, its session ends or it restarts, a follower pauses for longer than it may lag,
    and administrators work."""
    if not chance.happens(0.25):
        return plan
    lag_ms = chance.whole(600, 1_500)
    short = {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(lag_ms // 2)}
    topics = plan.ordinary_topics
    brokers = plan.broker_names
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        at_ns, lasts_ns = chance.whole(2 * SECOND, plan.length_ns - 6 * SECOND), chance.whole(3_000, 9_000) * MS
        node = chance.one_of(["controller", "controller", *brokers])
        there = chance.one_of(["zookeeper", "zookeeper", chance.one_of(brokers)])
        links = [[f"{node}>{there}"], [f"{there}>{node}"], [f"{node}>{there}", f"{there}>{node}"]]
        slow: dict[str, Any] = {"links": chance.one_of(links), "delay_ns": chance.whole(100, 1_800) * MS}
        more.append((at_ns, "delay", slow, min(lasts_ns, plan.length_ns - at_ns)))
        topic = chance.one_of(topics)
        numbers = chance.shuffled(range(plan.brokers))
        moved = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1), "replicas": numbers[:3]}
        asked: list[tuple[str, dict[str, Any]]] = [
            ("reassign", moved),
            ("create-topic", {"topic": f"new-{chance.whole(1, 4)}", "partitions": chance.whole(1, 3)}),
            ("elect", {"topic": topic.name, "unclean": False}),
        ]
        for name, said in asked[: chance.whole(1, 3)]:
            more.append((at_ns + chance.whole(0, 2_000) * MS, name, said, 0))
        struck: list[tuple[str, dict[str, Any], int]] = [
            ("depose", {}, 0),
            ("depose", {}, 0),
            ("zk-expire", {"node": node}, 0),
            ("bounce", {"node": chance.one_of([node, *brokers])}, chance.whole(20, 1_500) * MS),
            ("pause", {"node": chance.one_of(brokers)}, chance.whole(2 * lag_ms, 4 * lag_ms) * MS),
        ]
        for _ in range(chance.whole(1, 3)):
            name, said, for_ns = chance.one_of(struck)
            more.append((at_ns + chance.whole(0, 4_000) * MS, name, said, for_ns))
    config = {**plan.config, **short} if chance.happens(0.5) else plan.config
    return with_actions(replace(plan, config=config), in_time(plan, more))


def by_themselves(plan: Plan, chance: Chance) -> Plan:
    """Members commit automatically, as in most applications. Some are far from the brokers for a while, so that a
    commit is under way when the next one is due, or when partitions are revoked."""

    def every() -> dict[str, Argument]:
        return {"auto_commit_ms": chance.whole(50, 2_000)} if chance.happens(0.3) else {}

    plan = with_arguments(plan, "group", every)
    more: list[Step] = []
    for member in [str(drawn.arguments["client"]) for drawn in plan.actions if "auto_commit_ms" in drawn.arguments]:
        if chance.happens(0.4):
            links = [f"broker-{number}>{member}" for number in range(plan.brokers)]
            slow: dict[str, Any] = {"links": links, "delay_ns": chance.whole(100, 900) * MS}
            at_ns = chance.whole(SECOND, plan.length_ns - 5 * SECOND)
            more.append((at_ns, "delay", slow, min(chance.whole(3_000, 12_000) * MS, plan.length_ns - at_ns)))
    return with_actions(plan, more)


def one_at_a_time(plan: Plan, chance: Chance) -> Plan:
    """Brokers have fewer requests to ZooKeeper in flight than they write at once: the connection may be lost when only
    some of them are sent."""
    if not chance.happens(0.25):
        return plan
    return replace(plan, config={"zookeeper.max.in.flight.requests": str(chance.whole(1, 3)), **plan.config})


def cut_short(plan: Plan, chance: Chance) -> Plan:
    """A connection is lost when a request has just left by it, or when what ZooKeeper was asked is done; and a client
    pauses when it has asked its coordinator for something."""
    more: list[Step] = []
    for _ in range(chance.whole(1, 4) if chance.happens(0.4) else 0):
        kind = chance.one_of([*EVENTS[RPC], *_OF_TRANSACTIONS])
        said: dict[str, Any] = {"when": f"{RPC} {kind}", "nth": chance.whole(1, 20)}
        said["links"] = ["here>there", "there>here"]
        more.append((chance.whole(0, plan.length_ns * 2 // 3), "reset", said, 0))
    for _ in range(chance.whole(1, 3) if chance.happens(0.3) else 0):
        said = {"when": f"{ZK} {chance.one_of([*EVENTS[ZK], *_OF_TOPICS])}", "nth": chance.whole(1, 30)}
        said["links"] = ["here>zookeeper", "zookeeper>here"]
        more.append((chance.whole(0, plan.length_ns * 2 // 3), "reset", said, 0))
    for _ in range(chance.whole(1, 3) if chance.happens(0.3) else 0):
        said = {"node": "here", "when": f"{RPC} {chance.one_of(_OF_MEMBERS)}", "nth": chance.whole(1, 20)}
        more.append((chance.whole(0, plan.length_ns * 2 // 3), "pause", said, chance.whole(2_000, 12_000) * MS))
    return with_actions(plan, more)


def one_directory(plan: Plan, chance: Chance) -> Plan:
    """One log directory of two fails: its broker goes on with the other."""
    paths = plan.config.get("log.dirs", "").split(",")
    if len(paths) < 2:
        return plan

    def in_one() -> dict[str, Argument]:
        return {"path": chance.one_of(paths)} if chance.happens(0.7) else {}

    for name in ("eio-read", "eio-write", "eio-fsync", "dir-gone"):
        plan = with_arguments(plan, name, in_one)
    return plan


def moved_on_disk(plan: Plan, chance: Chance) -> Plan:
    """Replicas move between log directories of their broker."""
    paths = plan.config.get("log.dirs", "").split(",")
    if len(paths) < 2 or not chance.happens(0.6):
        return plan
    more: list[Step] = []
    for _ in range(chance.whole(1, 4)):
        topic, at_ns = chance.one_of(plan.topics), chance.whole(SECOND, plan.length_ns)
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        for broker in range(plan.brokers):
            more.append((at_ns, "move-replica", {**where, "broker": broker, "path": chance.one_of(paths)}, 0))
        if topic.name == RESULTS:
            continue
        if chance.happens(0.4):
            more.append((max(SECOND, at_ns - chance.whole(500, 5_000) * MS), "delete-records", where, 0))
        else:
            amid = {**where, "when": f"{RPC} AlterReplicaLogDirs", "nth": chance.whole(1, plan.brokers)}
            more.append((at_ns - MS, "delete-records", amid, 0))
    return with_actions(plan, more)


def operations_at_events(plan: Plan, chance: Chance) -> Plan:
    """Some of the administrators' operations begin at an event, amid the steps of others."""
    if not chance.happens(0.3):
        return plan

    def put_off(action: Action) -> Action:
        if action.name not in ADMINISTRATION or action.name == "rolling-restart" or not chance.happens(0.5):
            return action
        kind = chance.one_of([ZK, RPC])
        said: dict[str, Argument] = {"when": f"{kind} {chance.one_of(EVENTS[kind])}", "nth": chance.whole(1, 5)}
        return replace(action, arguments={**action.arguments, **said})

    return replace(plan, actions=tuple(put_off(action) for action in plan.actions))
