"""Draws a plan from a seed and a profile.

A profile says which faults and operations are likely. Its name is that of the bugs it looks for: ``ZKX`` (ZooKeeper
sessions expire), ``BNC`` (brokers restart before anybody notices), .. The profile ``all`` takes another one by the seed
and adds a random half of all other faults, so that a night of runs combines all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.model.metadata_version import metadata_version
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, SECOND, Action, Plan, TopicPlan
from barnabas.sim.plans.widen import widen

TOPIC: Final = "orders"
FAULTS_MIN: Final = 20
ZOOKEEPER: Final = "zookeeper"

Weights = Mapping[str, float]


@dataclass(frozen=True)
class Profile:
    """How likely each fault and operation is; `focus` are the nodes that faults prefer, `config` the brokers'
    settings."""

    faults: Weights
    operations: Weights = field(default_factory=dict)
    focus: tuple[str, ...] = ()
    brokers: int = 3
    config: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)
    groups: int = 2
    about: str = ""
    by_name_only: bool = False
    """Not among those that profile ``all`` chooses from."""


_LIGHT: Final[Weights] = {
    "kill": 1, "bounce": 1, "pause": 1, "partition": 1, "one-way": 0.5, "delay": 1, "jitter": 0.5, "reset": 1,
    "half-open": 0.3, "slow-reader": 0.5, "fragment": 0.5, "clog": 0.5, "refuse": 0.5, "lose-reply": 1,
    "slow-cpu": 0.5, "slow-start": 0.3, "shutdown": 0.5, "zk-loss": 0.5, "zk-expire": 0.5, "zk-stale": 0.5,
    "zk-late": 0.3, "clock-jump": 0.3, "clock-drift": 0.3, "slow-fsync": 0.3, "twin": 0.1,
}  # fmt: skip
_DISKS: Final[Weights] = {
    "power-loss": 1, "torn-sector": 0.7, "lost-pages": 0.7, "lost-rename": 0.7, "bit-rot": 0.5, "eio-read": 0.3,
    "eio-write": 0.5, "eio-fsync": 0.5, "enospc": 0.5, "dir-gone": 0.4, "zk-auth-fail": 0.3,
}  # fmt: skip
_CLEAN: Final[Weights] = {"elect": 1, "delete-records": 0.4, "config": 0.4}


def _mostly(faults: Weights, light: float = 0.15) -> Weights:
    """The given faults, and a little of all others that leave disks alone."""
    return {**{name: weight * light for name, weight in _LIGHT.items()}, **faults}


PROFILES: Final[dict[str, Profile]] = {
    "GC": Profile(_mostly({"pause": 6, "slow-cpu": 1}), _CLEAN, ("controller",), about="pauses past the session"),
    "ZKX": Profile(
        _mostly({"zk-expire": 5, "zk-late": 2, "zk-loss": 3, "zk-stale": 2, "zk-auth-fail": 1, "refuse": 0.5}),
        {**_CLEAN, "create-topic": 1, "reassign": 0.5}, ("controller", f"leader:{TOPIC}-0"),
        about="sessions end, their znodes go late, answers of ZooKeeper are lost",
    ),
    "BNC": Profile(_mostly({"bounce": 6, "delay": 2, "lost-pages": 0.5}), _CLEAN, about="restarts within the session"),
    "SHUT": Profile(
        _mostly({"shutdown": 4, "slow-cpu": 0.5}), {**_CLEAN, "rolling-restart": 2}, about="controlled shutdowns"
    ),
    "LDRx2": Profile(
        _mostly({"kill": 3, "bounce": 3, "partition": 1}), {**_CLEAN, "elect": 3}, (f"leader:{TOPIC}-0",),
        about="elections back to back",
    ),
    "PWR": Profile(
        _mostly({"power-loss": 2, "torn-sector": 2, "lost-pages": 2, "lost-rename": 2, "bit-rot": 1, "delay": 1}),
        _CLEAN, about="power losses",
    ),
    "KILL": Profile(_mostly({"kill": 6, "slow-start": 1}), _CLEAN, about="kill -9"),
    "DLY": Profile(
        _mostly({"delay": 4, "jitter": 3, "lose-reply": 3, "fragment": 1, "clog": 2, "slow-reader": 1}),
        _CLEAN, ("controller",), about="late and lost answers",
    ),
    "PART": Profile(
        _mostly({"partition": 5, "one-way": 3, "half-open": 1, "refuse": 1, "reset": 1, "clog": 1}),
        _CLEAN, (f"leader:{TOPIC}-0", "controller"), about="partitions of the network",
    ),
    "EIO": Profile(
        _mostly({"eio-write": 3, "eio-fsync": 2, "eio-read": 1, "dir-gone": 2, "slow-fsync": 1}),
        {**_CLEAN, "reassign": 1}, about="disks that fail",
    ),
    "ENOSPC": Profile(_mostly({"enospc": 5, "slow-fsync": 1}), _CLEAN, about="full disks"),
    "MOVE": Profile(
        _mostly({"eio-write": 1, "dir-gone": 2, "kill": 1}), {**_CLEAN, "reassign": 3}, brokers=4,
        about="replicas move while directories fail",
    ),
    "REAS": Profile(
        _mostly({"kill": 1, "delay": 1, "zk-expire": 1}),
        {**_CLEAN, "reassign": 6, "cancel-reassignment": 4, "add-partitions": 1}, brokers=4,
        about="reassignments, and their cancelling",
    ),
    "ADMIN": Profile(
        _mostly({"kill": 1, "bounce": 1, "zk-expire": 1, "delay": 1}),
        {"create-topic": 3, "delete-topic": 2, "recreate-topic": 4, "add-partitions": 2, "config": 2, "elect": 1,
         "delete-records": 1},
        about="topics come and go",
    ),
    "CLK": Profile(
        _mostly({"clock-jump": 5, "clock-drift": 2}), _CLEAN, topic={"retention.ms": "20000", "segment.bytes": "2000"},
        about="wall clocks jump and drift",
    ),
    "GRP": Profile(
        _mostly({"kill": 2, "bounce": 2, "lose-reply": 1, "slow-cpu": 0.5}), {**_CLEAN, "elect": 2}, groups=4,
        focus=(f"leader:{GROUP_METADATA_TOPIC}-0", f"leader:{GROUP_METADATA_TOPIC}-1"), about="consumer groups",
    ),
    "CFG": Profile(
        _mostly({"kill": 1, "zk-expire": 0.5}), {**_CLEAN, "config": 6},
        topic={"segment.bytes": "3000"}, about="configuration that changes",
    ),
    "UNCLEAN": Profile(
        _mostly({"kill": 4, "bounce": 1, "partition": 1}), {**_CLEAN, "elect": 1},
        topic={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}, about="unclean elections",
    ),
    "CTL": Profile(
        {"kill": 2, "pause": 3, "zk-expire": 3, "zk-loss": 2, "zk-late": 1, "zk-stale": 1, "partition": 3, "one-way": 1,
         "delay": 3, "jitter": 1, "lose-reply": 2, "slow-cpu": 1, "reset": 1, "refuse": 0.5, "shutdown": 1,
         "bounce": 1},
        {"create-topic": 3, "delete-topic": 2, "recreate-topic": 2, "add-partitions": 2, "reassign": 4,
         "cancel-reassignment": 2, "elect": 2, "config": 1, "rolling-restart": 0.5, "depose": 1}, ("controller",),
        brokers=4,
        about="the controller dies, stands still, expires and is cut off amid topics and reassignments",
        by_name_only=True,
    ),
    "TXN": Profile(
        _mostly({"kill": 4, "bounce": 1, "pause": 2, "shutdown": 1, "partition": 2, "delay": 2, "lose-reply": 1}),
        _CLEAN, (*(f"leader:{TRANSACTION_STATE_TOPIC}-{number}" for number in range(3)), f"leader:{TOPIC}-0",
                 f"leader:{GROUP_METADATA_TOPIC}-0", "controller"),
        config={"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"},
        about="transactions, and workers that transform exactly once", by_name_only=True,
    ),
    "CMP": Profile(
        _mostly({"kill": 4, "shutdown": 1, "pause": 1, "partition": 2, "power-loss": 1}), {"elect": 1},
        (f"leader:{TOPIC}-0",), groups=1,
        config={
            "min.insync.replicas": "2", "transaction.state.log.segment.bytes": "3000",
            "offsets.topic.segment.bytes": "3000", "log.cleaner.min.cleanable.ratio": "0.05",
            "log.cleaner.delete.retention.ms": "12000", "log.cleaner.backoff.ms": "200",
            "log.cleaner.dedupe.buffer.size": "2500", "log.cleaner.io.max.bytes.per.second": "60000",
            "log.retention.check.interval.ms": "400", "log.segment.delete.delay.ms": "3000",
        },
        topic={"cleanup.policy": "compact", "segment.bytes": "6000"},
        about="topics of few keys, compacted all the time", by_name_only=True,
    ),
    "NET": Profile(
        {"reset": 2, "half-open": 1, "slow-reader": 2, "fragment": 2, "clog": 2, "refuse": 2, "jitter": 2, "delay": 1},
        _CLEAN, about="connections, without any process that dies",
    ),
}  # fmt: skip


def draw(seed: int, profile: str = "all") -> Plan:
    """A plan with at least `FAULTS_MIN` faults, at least six clients, and operations of administrators."""
    return widen(drawn_from(seed, profile), Chance(seed, f"plan/{profile}/wide"))


def drawn_from(seed: int, profile: str = "all") -> Plan:
    """The profile's plan, before it is widened."""
    base = Chance(seed, f"plan/{profile}")
    chance = base.stream("shape")
    among = sorted(name for name, profiled in PROFILES.items() if not profiled.by_name_only)
    chosen = chance.one_of(among) if profile == "all" else profile
    drawn = PROFILES[chosen]
    weights = dict(drawn.faults)
    operations = dict(drawn.operations)
    if profile == "all":
        # Swarm: a random half of all else, so that each pair of kinds meets in some seed.
        for name, weight in {**_LIGHT, **_DISKS}.items():
            if name not in weights and chance.happens(0.5):
                weights[name] = weight * 0.3
        for name in ("create-topic", "recreate-topic", "add-partitions", "config", "reassign", "rolling-restart"):
            if name not in operations and chance.happens(0.4):
                operations[name] = 0.5
    brokers = drawn.brokers
    length_ns = chance.whole(18_000, 28_000) * MS
    config = dict(drawn.config)
    if chosen in ("EIO", "MOVE") or chance.happens(0.25):
        config["log.dirs"] = "/kafka/a,/kafka/b"
    if chance.happens(0.3):
        config["log.segment.bytes"] = str(chance.whole(1_000, 20_000))
    if chance.happens(0.15):
        config["log.flush.interval.messages"] = str(chance.whole(1, 20))
    if profile == "all":
        operations = _older_protocol(base.stream("protocol"), config, operations)
    topics = _topics(base.stream("topics"), drawn, brokers)
    maker = _Maker(base, drawn, brokers, length_ns, topics)
    actions = [*maker.clients()]
    faults = max(FAULTS_MIN, round(length_ns / SECOND))
    actions += maker.faults(weights, faults, len(actions))
    actions += maker.operations(operations, base.stream("operations").whole(2, 6) if operations else 0, len(actions))
    if profile == "all":
        actions += maker.bit_flips(base.stream("bit flips"), len(actions))
        actions += maker.intruders(base.stream("intruders"), len(actions))
    return Plan(
        seed, chosen, brokers, length_ns, topics, tuple(sorted(actions, key=lambda action: action.at_ns)), config
    )


def _older_protocol(chance: Chance, config: dict[str, str], operations: dict[str, float]) -> dict[str, float]:
    """Brokers speak an older protocol in one plan of ten. Returns the operations that remain: without topic ids no
    topic is made again, since nothing would tell it from its predecessor (KIP-516)."""
    if not chance.happens(0.1):
        return operations
    version = chance.one_of(["1.1", "2.3", "2.6", "2.6", "2.7", "2.8", "3.2"])
    config["inter.broker.protocol.version"] = version
    if metadata_version(version).is_topic_ids_supported:
        return operations
    return {name: weight for name, weight in operations.items() if name != "recreate-topic"}


def _topics(chance: Chance, profile: Profile, brokers: int) -> tuple[TopicPlan, ...]:
    configs = {"min.insync.replicas": "2", **profile.topic}
    topics = [TopicPlan(TOPIC, chance.whole(1, 4), 3, configs)]
    if chance.happens(0.6):
        own = {"min.insync.replicas": "1"}
        if chance.happens(0.5):
            own["segment.bytes"] = str(chance.whole(800, 6_000))
        if chance.happens(0.2):
            own["retention.ms"] = str(chance.whole(8_000, 30_000))
            own.setdefault("segment.bytes", "2000")
        topics.append(TopicPlan("payments", chance.whole(1, 2), chance.whole(2, 3), own))
    return tuple(topics)


class _Maker:
    """Makes the actions. The kind of an action and its arguments come from streams of their own."""

    def __init__(
        self, base: Chance, profile: Profile, brokers: int, length_ns: int, topics: tuple[TopicPlan, ...]
    ) -> None:
        self.base = base
        self.profile = profile
        self.names = [f"broker-{number}" for number in range(brokers)]
        self.length_ns = length_ns
        self.topics = topics

    def clients(self) -> list[Action]:
        chance = self.base.stream("clients")
        length = self.length_ns
        second = self.topics[-1].name
        wanted: list[tuple[str, dict[str, Any]]] = [
            ("produce", {"client": "producer-1", "topic": TOPIC, "acks": -1, "idempotent": True,
                         "records": chance.whole(80, 240), "bytes": chance.one_of([0, 0, 200])}),
            ("produce", {"client": "producer-2", "topic": second, "acks": -1, "idempotent": chance.happens(0.5),
                         "records": chance.whole(40, 120)}),
            ("produce", {"client": "producer-3", "topic": second, "acks": chance.one_of([0, 1, 1]), "idempotent": False,
                         "records": chance.whole(20, 80)}),
            ("consume", {"client": "consumer-1", "topic": TOPIC, "isolation": "read_uncommitted"}),
            ("consume", {"client": "consumer-2", "topic": second, "isolation": "read_committed"}),
        ]  # fmt: skip
        wanted += [
            ("group", {"client": f"member-{number + 1}", "group": "readers", "topic": TOPIC})
            for number in range(self.profile.groups)
        ]
        actions = []
        for number, (name, arguments) in enumerate(wanted):
            begins = 0 if name != "group" else chance.whole(0, length // 3)
            lasts = length - begins
            if name == "group" and number > 5 and chance.happens(0.5):
                lasts = chance.whole(length // 5, length - begins)
            actions.append(Action(number, begins, name, arguments, lasts))
        return actions

    def faults(self, weights: Weights, count: int, first: int) -> list[Action]:
        chance = self.base.stream("faults")
        actions = []
        for number in range(first, first + count):
            at_ns = chance.whole(200 * MS, self.length_ns - 1_000 * MS)
            name = _weighted(chance, weights)
            drawn = self.base.stream(f"fault {number}")
            actions.append(self.fault(drawn, number, at_ns, name))
        return actions

    def bit_flips(self, chance: Chance, first: int) -> list[Action]:
        """Records arrive with a flipped bit that TCP does not detect. Such batches are refused and sent again, so these
        faults are added to a plan's others and leave them unchanged."""
        return [
            self.fault(chance, number, chance.whole(200 * MS, self.length_ns - 1_000 * MS), "bit-flip")
            for number in range(first, first + (chance.whole(1, 3) if chance.happens(0.1) else 0))
        ]

    def intruders(self, chance: Chance, first: int) -> list[Action]:
        """In one plan of three somebody sends brokers requests that ask for too much; no other client may notice."""
        return [
            Action(number, chance.whole(0, self.length_ns), "intruder", {"node": chance.one_of(self.names)})
            for number in range(first, first + (chance.whole(1, 3) if chance.happens(0.3) else 0))
        ]

    def node(self, chance: Chance, *, coordinator: bool = False) -> str:
        if self.profile.focus and chance.happens(0.5):
            return chance.one_of(self.profile.focus)
        if coordinator and chance.happens(0.06):
            return ZOOKEEPER
        if chance.happens(0.35):
            partition = f"{TOPIC}-{chance.whole(0, self.topics[0].partitions - 1)}"
            return chance.one_of(["controller", f"leader:{partition}", f"follower:{partition}"])
        return chance.one_of(self.names)

    def links(self, chance: Chance, *, both: bool) -> list[str]:
        node = self.node(chance)
        others = [candidate for candidate in [*self.names, ZOOKEEPER] if candidate != node]
        if chance.happens(0.25):
            others = ["producer-1", "consumer-1", "member-1"]
        chosen = others if chance.happens(0.4) else [chance.one_of(others)]
        links = [f"{node}>{other}" for other in chosen]
        return links + [f"{other}>{node}" for other in chosen] if both else links

    def fault(self, chance: Chance, number: int, at_ns: int, name: str) -> Action:
        said: dict[str, Any] = {}
        lasts_ms = chance.whole(30, 3_000) if chance.happens(0.6) else chance.whole(3_000, 9_000)
        if name in ("delay", "jitter", "fragment", "clog", "reset", "half-open", "refuse", "bit-flip"):
            said["links"] = self.links(chance, both=name in ("reset", "half-open") or chance.happens(0.5))
            if name == "delay":
                said["delay_ns"] = chance.exponential_ns(150 * MS) if chance.happens(0.8) else 4_000 * MS
            elif name == "jitter":
                said["jitter_ns"] = chance.exponential_ns(40 * MS)
            elif name == "clog":
                said["wave_ns"] = chance.whole(20, 1_000) * MS
            elif name == "bit-flip":
                said["count"] = chance.whole(1, 5)
            elif name in ("reset", "half-open"):
                lasts_ms = 0
        elif name in ("partition", "one-way"):
            said["node"] = self.node(chance)
            everyone = [*self.names, ZOOKEEPER, "producer-1"]
            cut = chance.whole(0, 3)
            said["others"] = (
                everyone if cut == 0 else [ZOOKEEPER] if cut == 1 else self.names if cut == 2
                else [chance.one_of([*everyone, "controller"])]
            )  # fmt: skip
        else:
            said["node"] = self.node(chance, coordinator=name in ("kill", "power-loss", "pause", "bounce"))
            lasts_ms = self._particular(chance, name, said, lasts_ms)
        return Action(number, at_ns, name, said, min(lasts_ms * MS, self.length_ns - at_ns))

    def _particular(self, chance: Chance, name: str, said: dict[str, Any], lasts_ms: int) -> int:
        """Adds the arguments of this kind of fault; returns how long it lasts."""
        if name == "bounce":
            return chance.whole(20, 1_500)
        if name == "pause":
            return chance.whole(50, 2_000) if chance.happens(0.4) else chance.whole(6_100, 12_000)
        if name == "slow-cpu":
            said["lag_ns"] = chance.whole(20, 600) * MS
        elif name == "eio-write":
            said["after"] = chance.whole(0, 20)
        elif name == "enospc":
            said["free"] = chance.whole(0, 3_000)
        elif name == "slow-fsync":
            said["takes_ns"] = chance.whole(50, 2_500) * MS
        elif name == "clock-jump":
            said["by_ms"] = chance.one_of([-86_400_000, -60_000, -5_000, 5_000, 60_000, 86_400_000])
        elif name == "clock-drift":
            said["parts_per_million"] = chance.one_of([-100_000, -10_000, 10_000, 100_000])
        elif name == "zk-loss":
            said["applied"] = chance.happens(0.6)
            said["count"] = chance.whole(1, 3)
        elif name == "zk-stale":
            said["lag_ns"] = chance.whole(20, 1_500) * MS
        elif name == "zk-late":
            said["by_ns"] = chance.whole(200, 8_000) * MS
        elif name == "zk-expire":
            return 0
        elif name == "lose-reply":
            said["api"] = chance.one_of(
                ["Produce", "Fetch", "AlterPartition", "LeaderAndIsr", "UpdateMetadata", "ControlledShutdown",
                 "AllocateProducerIds", "InitProducerId", "OffsetCommit", "JoinGroup", "SyncGroup", "StopReplica"]
            )  # fmt: skip
            said["count"] = chance.whole(1, 5)
        return lasts_ms

    def operations(self, weights: Weights, count: int, first: int) -> list[Action]:
        chance = self.base.stream("operations")
        actions: list[Action] = []
        for number in range(first, first + count):
            at_ns = chance.whole(500 * MS, self.length_ns - 1_000 * MS)
            name = _weighted(chance, weights)
            drawn = self.base.stream(f"operation {number}")
            actions.append(Action(number, at_ns, name, self.operation(drawn, name)))
        return actions

    def operation(self, chance: Chance, name: str) -> dict[str, Any]:
        make: dict[str, Callable[[], dict[str, Any]]] = {
            "create-topic": lambda: {"topic": f"new-{chance.whole(1, 4)}", "partitions": chance.whole(1, 3),
                                     "replication_factor": chance.whole(1, 3)},
            "delete-topic": lambda: {"topic": f"new-{chance.whole(1, 4)}"},
            "recreate-topic": lambda: {"topic": chance.one_of(["new-1", "new-2", self.topics[-1].name]),
                                       "partitions": chance.whole(1, 3), "replication_factor": chance.whole(2, 3)},
            "add-partitions": lambda: {"topic": self.topics[-1].name,
                                       "partitions": self.topics[-1].partitions + chance.whole(1, 2)},
            "elect": lambda: {"topic": chance.one_of([TOPIC, GROUP_METADATA_TOPIC]), "unclean": False},
            "config": lambda: self.config(chance),
            "delete-records": lambda: self.a_partition(chance),
            "cancel-reassignment": lambda: self.a_partition(chance),
            "reassign": lambda: self.reassignment(chance),
            "depose": dict,
            "rolling-restart": lambda: {"pause_ns": chance.whole(200, 4_000) * MS},
        }  # fmt: skip
        return make[name]()

    def a_partition(self, chance: Chance) -> dict[str, Any]:
        topic = chance.one_of(self.topics)
        return {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}

    def reassignment(self, chance: Chance) -> dict[str, Any]:
        where = self.a_partition(chance)
        numbers = list(range(len(self.names)))
        chance.shuffle(numbers)
        return {**where, "replicas": numbers[: chance.whole(2, 3)]}

    def config(self, chance: Chance) -> dict[str, Any]:
        key, value = chance.one_of(
            [
                ("segment.bytes", str(chance.whole(800, 20_000))),
                ("min.insync.replicas", str(chance.whole(1, 3))),
                ("flush.messages", str(chance.whole(1, 100))),
                ("retention.ms", str(chance.whole(20_000, 60_000))),
                ("max.message.bytes", str(chance.whole(5_000, 1_000_000))),
                ("message.timestamp.type", chance.one_of(["CreateTime", "LogAppendTime"])),
            ]
        )
        return {"topic": chance.one_of(self.topics).name, "key": key, "value": value}


def _weighted(chance: Chance, weights: Weights) -> str:
    at = chance.share() * sum(weights.values())
    for name, weight in weights.items():
        at -= weight
        if at < 0:
            return name
    return next(iter(weights))
