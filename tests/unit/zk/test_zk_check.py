"""What `barnabas zk check` finds: a healthy cluster, and one thing of it broken at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.zk.inspection.check import RULES, ZnodeFinding, check, lasting
from barnabas.zk.inspection.image import ReadZNode, TreeImage
from barnabas.zk.kafka.znodes import PERSISTENT_ZK_PATHS
from barnabas.zk.protocol.data import Stat

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
TOPIC_ID = "iJcRtPFtQISvNOmr-xOtFA"


class Tree:
    """A tree to be broken: data by path, and what differs from an ordinary Stat."""

    def __init__(self) -> None:
        self.data: dict[str, bytes | None] = {"/": b""}
        self.owners: dict[str, int] = {}
        self.ages_ms: dict[str, int] = {}
        self.creations: dict[str, int] = {}
        self.versions: dict[str, int] = {}

    def put(self, path: str, value: Any = None, *, owner: int = 0, age_ms: int = 0) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.data:
            self.put(parent)
        self.data[path] = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        self.owners[path] = owner
        self.ages_ms[path] = age_ms

    def drop(self, path: str) -> None:
        for each in list(self.data):
            if each == path or each.startswith(path + "/"):
                del self.data[each]

    def change(self, path: str, **fields: Any) -> None:
        self.data[path] = json.dumps({**json.loads(self.data[path] or b"{}"), **fields}).encode()

    def image(self) -> TreeImage:
        children: dict[str, list[str]] = {path: [] for path in self.data}
        for path in self.data:
            if path != "/":
                parent, _, name = path.rpartition("/")
                children[parent or "/"].append(name)
        znodes = {}
        for path, data in sorted(self.data.items()):
            names = sorted(children[path])
            made_ms = NOW_MS - self.ages_ms.get(path, 0)
            creations = self.creations.get(path, 100)
            stat = Stat(
                7, 7, made_ms, made_ms, self.versions.get(path, 0), creations * 2 - len(names), 0,
                self.owners.get(path, 0), len(data or b""), len(names), 7,
            )  # fmt: skip
            znodes[path] = ReadZNode(path, data, stat, tuple(names), None)
        return TreeImage(znodes)

    def findings(self) -> list[ZnodeFinding]:
        return check(self.image(), NOW_MS)[1]

    def rules(self) -> set[str]:
        return {finding.rule for finding in self.findings()}


def healthy() -> Tree:
    """Three brokers, broker 1 controller; topic ``t`` with two partitions; users, ACLs, a token."""
    tree = Tree()
    for path in PERSISTENT_ZK_PATHS:
        tree.put(path)
    tree.put("/cluster/id", {"version": "1", "id": "_fofLz9DRFCDERJ6Q4_cPA"})
    for broker in range(3):
        tree.put(
            f"/brokers/ids/{broker}",
            {
                "version": 5, "host": "h", "port": 9092 + broker, "endpoints": [f"PLAINTEXT://h:{9092 + broker}"],
                "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "jmx_port": -1, "timestamp": "1",
                "features": {},
            },
            owner=0x100 + broker,
        )  # fmt: skip
    tree.put("/controller", {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}, owner=0x101)
    tree.put("/controller_epoch", 3)
    tree.put("/feature", {"features": {}, "version": 2, "status": 1})
    tree.put("/config/topics/t", {"version": 1, "config": {"retention.ms": "1"}})
    tree.put("/config/brokers/<default>", {"version": 1, "config": {}})
    tree.put("/config/brokers/1", {"version": 1, "config": {}})
    tree.put("/config/users/alice/clients/c%201", {"version": 1, "config": {}})
    tree.put("/config/users/<default>", {"version": 1, "config": {}})
    tree.put("/config/changes/config_change_0000000041", {"version": 2, "entity_path": "topics/t"}, age_ms=HOUR_MS)
    tree.put("/brokers/topics/t", {
        "version": 3, "partitions": {"0": [0, 1, 2], "1": [1, 2, 0]}, "adding_replicas": {}, "removing_replicas": {},
        "topic_id": TOPIC_ID,
    })  # fmt: skip
    for partition in (0, 1):
        tree.put(f"/brokers/topics/t/partitions/{partition}/state", state(partition))
    tree.put("/kafka-acl/Topic/t", {"version": 1, "acls": []})
    tree.put("/kafka-acl-extended/prefixed/Group/g-", {"version": 1, "acls": []})
    tree.put("/kafka-acl-changes/acl_changes_0000000000", b"TOPIC:t")
    tree.put("/delegation_token/tokens/abc", {"version": 3, "expiryTimestamp": NOW_MS})
    return tree


def state(leader: int, isr: tuple[int, ...] = (0, 1, 2), epoch: int = 3) -> dict[str, Any]:
    return {"controller_epoch": epoch, "leader": leader, "version": 1, "leader_epoch": 0, "isr": list(isr)}


STATE = "/brokers/topics/t/partitions/0/state"
TOPIC = "/brokers/topics/t"


def test_a_healthy_cluster_has_no_findings() -> None:
    assert healthy().findings() == []


BROKEN: dict[str, tuple[str, str, Callable[[Tree], object]]] = {
    "a top path is missing": (
        "missing-path",
        "/log_dir_event_notification",
        lambda t: t.drop("/log_dir_event_notification"),
    ),
    "no cluster id": ("missing-cluster-id", "/cluster/id", lambda t: t.drop("/cluster/id")),
    "a broker that is no number": ("broker-id", "/brokers/ids/x", lambda t: t.put("/brokers/ids/x", {}, owner=1)),
    "a registration of nobody's": (
        "registration-not-ephemeral",
        "/brokers/ids/2",
        lambda t: t.owners.update({"/brokers/ids/2": 0}),
    ),
    "two brokers on one address": (
        "same-address",
        "/brokers/ids/1",
        lambda t: t.change("/brokers/ids/2", endpoints=["PLAINTEXT://h:9093"]),
    ),
    "garbage for a registration": (
        "unreadable",
        "/brokers/ids/2",
        lambda t: t.put("/brokers/ids/2", b"\xff{", owner=1),
    ),
    "no controller": ("no-controller", "/controller", lambda t: t.drop("/controller")),
    "a controller of nobody's": (
        "controller-not-ephemeral",
        "/controller",
        lambda t: t.owners.update({"/controller": 0}),
    ),
    "a controller that is not registered": (
        "controller-not-registered",
        "/controller",
        lambda t: t.change("/controller", brokerid=9),
    ),
    "a controller of a dead session": (
        "controller-of-dead-session",
        "/controller",
        lambda t: t.owners.update({"/controller": 0x999}),
    ),
    "garbage for a controller": ("unreadable", "/controller", lambda t: t.put("/controller", b"broker 1", owner=0x101)),
    "no controller epoch": ("no-controller-epoch", "/controller_epoch", lambda t: t.drop("/controller_epoch")),
    "a controller epoch that went back": (
        "controller-epoch-behind",
        "/controller_epoch",
        lambda t: t.put("/controller_epoch", 1),
    ),
    "garbage for a controller epoch": ("unreadable", "/controller_epoch", lambda t: t.put("/controller_epoch", b"one")),
    "brokers of two protocols": (
        "registration-versions",
        "/brokers/ids",
        lambda t: t.change("/brokers/ids/2", version=4),
    ),
    "features no protocol has": (
        "features-without-protocol",
        "/feature",
        lambda t: [t.change(f"/brokers/ids/{n}", version=4) for n in range(3)],
    ),
    "a feature nobody supports": (
        "feature-not-supported",
        "/feature",
        lambda t: t.change("/feature", features={"f": {"max_version_level": 2}}),
    ),
    "garbage for the features": ("unreadable", "/feature", lambda t: t.put("/feature", {"version": 7})),
    "a migration that was given up": (
        "migration-leftover",
        "/migration",
        lambda t: t.put("/migration", {"version": 0}),
    ),
    "a KRaft controller": (
        "kraft-controller",
        "/controller",
        lambda t: t.change("/controller", brokerid=3000, kraftControllerEpoch=5),
    ),
    "a topic without partitions": (
        "topic-without-partitions",
        TOPIC,
        lambda t: (t.change(TOPIC, partitions={}), t.drop(TOPIC + "/partitions")),
    ),
    "a gap in partition numbers": (
        "partition-numbers",
        TOPIC,
        lambda t: t.change(TOPIC, partitions={"0": [0], "2": [0]}),
    ),
    "a partition without state": ("partition-without-state", TOPIC, lambda t: t.drop(TOPIC + "/partitions/1")),
    "a topic without any state": ("partition-without-state", TOPIC, lambda t: t.drop(TOPIC + "/partitions")),
    "a topic without config": ("topic-without-config", TOPIC, lambda t: t.drop("/config/topics/t")),
    "an illegal name": (
        "topic-name",
        "/brokers/topics/t t",
        lambda t: t.put("/brokers/topics/t t", {"partitions": {}}),
    ),
    "a partition nobody assigned": (
        "stray-partition",
        TOPIC + "/partitions/7",
        lambda t: t.put(TOPIC + "/partitions/7/state", state(0)),
    ),
    "an id of two topics": (
        "same-topic-id",
        TOPIC,
        lambda t: t.put("/brokers/topics/u", {"partitions": {}, "topic_id": TOPIC_ID}),
    ),
    "a topic without id": (
        "topic-without-id",
        "/brokers/topics/u",
        lambda t: t.put("/brokers/topics/u", {"partitions": {}}),
    ),
    "garbage for a topic": ("unreadable", TOPIC, lambda t: t.put(TOPIC, b"[1]")),
    "no replicas": ("no-replicas", TOPIC, lambda t: t.change(TOPIC, partitions={"0": [], "1": [0, 1, 2]})),
    "a replica twice": (
        "duplicate-replicas",
        TOPIC,
        lambda t: t.change(TOPIC, partitions={"0": [0, 1, 2, 0], "1": [0, 1, 2]}),
    ),
    "a negative replica": (
        "replica-id",
        TOPIC,
        lambda t: t.change(TOPIC, partitions={"0": [0, 1, 2, -1], "1": [0, 1, 2]}),
    ),
    "an unknown broker": (
        "unknown-broker",
        "/brokers/ids/7",
        lambda t: t.change(TOPIC, partitions={"0": [0, 1, 2, 7], "1": [0, 1, 2]}),
    ),
    "an empty ISR": ("empty-isr", STATE, lambda t: t.put(STATE, state(0, ()))),
    "a broker twice in the ISR": ("duplicate-isr", STATE, lambda t: t.put(STATE, state(0, (0, 1, 1)))),
    "an ISR beyond the replicas": (
        "isr-not-assigned",
        STATE,
        lambda t: t.change(TOPIC, partitions={"0": [0, 1], "1": [0, 1, 2]}),
    ),
    "no leader": ("no-leader", STATE, lambda t: t.put(STATE, state(-1))),
    "a leader that is not assigned": (
        "leader-not-assigned",
        STATE,
        lambda t: t.change(TOPIC, partitions={"0": [1, 2], "1": [0, 1, 2]}),
    ),
    "a leader outside the ISR": ("leader-not-in-isr", STATE, lambda t: t.put(STATE, state(0, (1, 2)))),
    "a leader that is not registered": ("leader-not-registered", STATE, lambda t: t.drop("/brokers/ids/0")),
    "an ISR that is not registered": ("isr-not-registered", STATE, lambda t: t.drop("/brokers/ids/2")),
    "garbage for a state": ("unreadable", STATE, lambda t: t.put(STATE, {"leader": 1})),
    "a reassignment to a dead broker": (
        "reassignment-stuck",
        TOPIC,
        lambda t: t.change(TOPIC, partitions={"0": [9, 0, 1, 2], "1": [0, 1, 2]}, adding_replicas={"0": [9]}),
    ),
    "a reassignment without end": (
        "reassignment-long",
        TOPIC,
        lambda t: (t.change(TOPIC, removing_replicas={"0": [2]}), t.ages_ms.update({TOPIC: 30 * HOUR_MS})),
    ),
    "a reassignment of strangers": (
        "reassignment-broken",
        TOPIC,
        lambda t: t.change(TOPIC, removing_replicas={"0": [5]}),
    ),
    "a reassignment of no partition": (
        "reassignment-broken",
        TOPIC,
        lambda t: t.change(TOPIC, adding_replicas={"6": [1]}),
    ),
    "an old tool's reassignment": (
        "reassignment-leftover",
        "/admin/reassign_partitions",
        lambda t: t.put(
            "/admin/reassign_partitions",
            {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
            age_ms=HOUR_MS,
        ),
    ),
    "a reassignment of an unknown topic": (
        "reassignment-of-unknown",
        "/admin/reassign_partitions",
        lambda t: t.put(
            "/admin/reassign_partitions",
            {"version": 1, "partitions": [{"topic": "u", "partition": 0, "replicas": [1]}]},
        ),
    ),
    "an old tool's election": (
        "preferred-election-leftover",
        "/admin/preferred_replica_election",
        lambda t: t.put("/admin/preferred_replica_election", {"version": 1, "partitions": []}, age_ms=HOUR_MS),
    ),
    "garbage for an election": (
        "unreadable",
        "/admin/preferred_replica_election",
        lambda t: t.put("/admin/preferred_replica_election", b"now"),
    ),
    "a deletion of nothing": (
        "deletion-of-unknown",
        "/admin/delete_topics/gone",
        lambda t: t.put("/admin/delete_topics/gone"),
    ),
    "a deletion that waits": (
        "deletion-stuck",
        "/admin/delete_topics/t",
        lambda t: (t.put("/admin/delete_topics/t"), t.drop("/brokers/ids/2")),
    ),
    "a deletion without end": (
        "deletion-stuck",
        "/admin/delete_topics/t",
        lambda t: t.put("/admin/delete_topics/t", age_ms=2 * HOUR_MS),
    ),
    "a config without its topic": (
        "config-without-topic",
        "/config/topics/gone",
        lambda t: t.put("/config/topics/gone", {"config": {}}),
    ),
    "a config of a broker that left": (
        "config-of-unknown",
        "/config/brokers/9",
        lambda t: t.put("/config/brokers/9", {"config": {}}),
    ),
    "a config of no broker": (
        "config-of-unknown",
        "/config/brokers/all",
        lambda t: t.put("/config/brokers/all", {"config": {}}),
    ),
    "a config of an unknown kind": ("config-type", "/config/things", lambda t: t.put("/config/things")),
    "a config that is no JSON": (
        "unreadable",
        "/config/topics/t",
        lambda t: t.put("/config/topics/t", b"retention.ms=1"),
    ),
    "a config without a config": (
        "unreadable",
        "/config/users/alice",
        lambda t: t.put("/config/users/alice", {"version": 1}),
    ),
    "a name that is not encoded": (
        "config-name",
        "/config/users/a b",
        lambda t: t.put("/config/users/a b", {"config": {}}),
    ),
    "an ACL of an unknown resource": (
        "acl-resource-type",
        "/kafka-acl/Thing",
        lambda t: t.put("/kafka-acl/Thing/x", {"acls": []}),
    ),
    "an ACL of an unknown pattern": (
        "acl-pattern-type",
        "/kafka-acl-extended/suffixed",
        lambda t: t.put("/kafka-acl-extended/suffixed/Topic/x", {"acls": []}),
    ),
    "garbage for an ACL": ("unreadable", "/kafka-acl/Topic/t", lambda t: t.put("/kafka-acl/Topic/t", b"allow all")),
    "a token nobody removes": (
        "expired-tokens",
        "/delegation_token/tokens",
        lambda t: t.put("/delegation_token/tokens/old", {"expiryTimestamp": NOW_MS - 100 * HOUR_MS}),
    ),
    "garbage for a token": (
        "unreadable",
        "/delegation_token/tokens/old",
        lambda t: t.put("/delegation_token/tokens/old", {}),
    ),
    "config changes piling up": (
        "notifications-pile-up",
        "/config/changes",
        lambda t: t.put("/config/changes/config_change_0000000042", {"version": 2, "entity_path": "topics/t"}),
    ),
    "ISR changes piling up": (
        "notifications-pile-up",
        "/isr_change_notification",
        lambda t: t.put(
            "/isr_change_notification/isr_change_0000000001", {"version": 1, "partitions": []}, age_ms=HOUR_MS
        ),
    ),
    "log dir events piling up": (
        "notifications-pile-up",
        "/log_dir_event_notification",
        lambda t: t.put(
            "/log_dir_event_notification/log_dir_event_0000000001",
            {"version": 1, "broker": 1, "event": 1},
            age_ms=HOUR_MS,
        ),
    ),
    "garbage for a change": (
        "unreadable",
        "/config/changes/config_change_0000000042",
        lambda t: t.put("/config/changes/config_change_0000000042", b"topics/t", age_ms=HOUR_MS),
    ),
    "garbage for an ACL change": (
        "unreadable",
        "/kafka-acl-changes/acl_changes_0000000001",
        lambda t: t.put("/kafka-acl-changes/acl_changes_0000000001", b"t"),
    ),
    "a change without a number": (
        "notification-name",
        "/config/changes/mine",
        lambda t: t.put("/config/changes/mine", {"version": 2, "entity_path": "x"}),
    ),
    "a counter that begins again": (
        "sequence-behind",
        "/config/changes",
        lambda t: t.creations.update({"/config/changes": 3}),
    ),
}


@pytest.mark.parametrize("broken", list(BROKEN))
def test_what_is_broken_is_found(broken: str) -> None:
    rule, path, break_it = BROKEN[broken]
    tree = healthy()
    break_it(tree)
    found = {(finding.rule, finding.path): finding for finding in tree.findings()}
    assert (rule, path) in found, found
    for finding in found.values():
        assert finding.problem.endswith("."), finding
        assert finding.fix.endswith("."), finding


def test_one_broken_thing_makes_few_findings() -> None:
    for broken, (rule, _, break_it) in BROKEN.items():
        tree = healthy()
        break_it(tree)
        assert len(tree.rules() - {rule}) <= 3, f"{broken}: {tree.rules()}"


def test_no_brokers_is_one_finding_and_not_one_for_each_partition() -> None:
    tree = healthy()
    for path in ("/brokers/ids/0", "/brokers/ids/1", "/brokers/ids/2", "/controller"):
        tree.drop(path)
    assert tree.rules() == {"no-brokers"}


def test_an_empty_tree_is_no_cluster() -> None:
    tree = Tree()
    tree.put("/kafka/brokers")
    (finding,) = tree.findings()
    assert finding.rule == "no-cluster"
    assert "kafka" in finding.problem


def test_only_what_lasts_is_believed() -> None:
    passing, staying = ZnodeFinding("a", "/x", "1.", "."), ZnodeFinding("a", "/y", "2 ms.", ".")
    assert lasting([passing, staying], [ZnodeFinding("a", "/y", "3 ms.", ".")]) == [
        ZnodeFinding("a", "/y", "3 ms.", ".")
    ]


def test_every_rule_is_broken_here_at_least_once() -> None:
    healthy_rules = {rule.__name__ for rule in RULES}
    broken_by: set[str] = set()
    for _, _, break_it in BROKEN.values():
        tree = healthy()
        break_it(tree)
        cluster, _ = check(tree.image(), NOW_MS)
        broken_by |= {rule.__name__ for rule in RULES if list(rule(cluster))}
    assert broken_by == healthy_rules
