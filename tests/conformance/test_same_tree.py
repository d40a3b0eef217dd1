"""One list of operations, played with Kafka's own tools against Apache Kafka 3.9.2 and against ours: the answers and
the znodes that are left are the same. Left out of the comparison are ports, timestamps, random ids, who is controller,
and, where no assignment was asked for, which brokers it names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache
import pytest
from cluster import running, until
from kafka_tools import KafkaTools
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from operator_commands import story

pytestmark = pytest.mark.long(1)

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"

MASKED = ("/zookeeper", "/brokers/ids/", "/cluster/id", "/controller", "/latest_producer_id_block")
"""Nodes whose content is a cluster's own; that they are there counts all the same."""


OF_THE_CLUSTER = (
    "barnabas.",
    "controlled.shutdown.retry.backoff.ms=",
    "default.replication.factor=",
    "log.dirs=",
    "offsets.topic.replication.factor=",
    "zookeeper.session.timeout.ms=",
)
"""Configurations that the two clusters are started with, or that are ours alone."""


@dataclass
class Side:
    """One of the two clusters."""

    name: str
    bootstrap: str
    zookeeper: KazooClient
    tools: KafkaTools
    directory: Path
    settled: tuple[str, dict[str, Any]] = ("", {})
    """A change of the tree, and what the tree was after it."""

    def tool(self, main: str, *arguments: str) -> tuple[int, list[str]]:
        status, printed = self.tools.run(main, "--bootstrap-server", self.bootstrap, *arguments)
        return status, normalised(printed)

    def file(self, name: str, value: Any) -> str:
        path = self.directory / f"{self.name}-{name}.json"
        path.write_text(json.dumps(value))
        return str(path)

    def znode(self, path: str, value: Any) -> None:
        """Writes one of the znodes by which operations were asked for before there were requests for them, and waits
        until the controller has taken it away."""
        self.zookeeper.create(path, json.dumps(value).encode())
        until(lambda: self.zookeeper.exists(path) is None, f"{path} is taken up by {self.name}")

    def tree(self) -> dict[str, Any]:
        """All znodes, asked for level by level: each one alone, a hundred times, was most of this test's time."""
        found: dict[str, Any] = {}
        level = ["/"]
        while level:
            asked = [
                (path, self.zookeeper.get_async(path), self.zookeeper.get_acls_async(path),
                 self.zookeeper.get_children_async(path))
                for path in level if not path.startswith("/zookeeper")
            ]  # fmt: skip
            level = []
            for path, read, acls, listed in asked:
                try:
                    data, stat = read.get()
                    acl, _ = acls.get()
                    children = sorted(listed.get())
                except NoNodeError:
                    continue  # it went while we were looking
                found[path] = (described(path, data), [str(each) for each in acl], bool(stat.ephemeralOwner))
                level += [f"{path.rstrip('/')}/{each}" for each in children]
        return found

    def last_change(self) -> str:
        """The server's zxid, which each change of the tree raises."""
        (zxid,) = re.findall(r"^Zxid: (\S+)$", self.zookeeper.command(b"srvr"), re.MULTILINE)
        return str(zxid)

    def settled_tree(self) -> dict[str, Any]:
        """The tree once nothing is being deleted, reassigned or elected any more, and nothing has changed while it was
        looked at; it is looked at once for each change."""

        def settled() -> bool:
            change = self.last_change()
            if change == self.settled[0]:
                return True
            tree = self.tree()
            busy = [
                path
                for path in tree
                if path.startswith(("/admin/delete_topics/", "/admin/preferred_", "/isr_change_notification/"))
            ]
            busy += [path for path, (value, *_) in tree.items() if is_reassigned(path, value)]
            if busy or self.last_change() != change:
                return False
            # Brokers that change their configuration at once announce it in any order.
            announced = [path for path in tree if path.startswith("/config/changes/")]
            tree["/config/changes"] = sorted(str(tree.pop(path)) for path in announced)
            self.settled = change, tree
            return True

        until(settled, f"{self.name} is at rest")
        return self.settled[1]


def is_reassigned(path: str, value: Any) -> bool:
    return (
        path.startswith("/brokers/topics/")
        and isinstance(value, dict)
        and bool(value.get("adding_replicas") or value.get("removing_replicas"))
    )


def described(path: str, data: bytes | None) -> Any:
    if not data or path.startswith(MASKED):
        return data and "masked"
    try:
        value = json.loads(data)
    except ValueError:
        return data.decode("latin-1")
    if isinstance(value, dict):
        if "topic_id" in value:
            value["topic_id"] = "an id"
        if path.startswith("/brokers/topics/auto") and "partitions" in value:
            value["partitions"] = sorted((number, len(brokers)) for number, brokers in value["partitions"].items())
        if path.startswith("/brokers/topics/auto") and path.endswith("/state"):
            value["leader"], value["isr"] = "a leader", len(value["isr"])
        if path.startswith("/brokers/topics/") and path.endswith("/state"):
            del value["controller_epoch"]
            value["isr"] = value["isr"] if isinstance(value["isr"], int) else sorted(value["isr"])
        for key in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            config = value.get("config")
            if isinstance(config, dict) and key in config:
                config[key] = sorted(part.partition("=")[0] for part in config[key].split(","))
    return value


def normalised(printed: str) -> list[str]:
    """What a tool printed, without what is a cluster's own; lines of tables in any order."""
    text = re.sub(r"127\.0\.0\.1:\d+", "host:port", printed)
    text = re.sub(r"TopicId: \S+", "TopicId: an id", text)
    text = re.sub(r"\[\d{4}-\d\d-\d\d [0-9:,]+\]", "[time]", text)
    text = re.sub(r"^\s*at .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"Isr: ([\d,]+)", lambda isr: "Isr: " + ",".join(sorted(isr[1].split(","))), text)
    text = re.sub(r"Configs: (\S+)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text)
    # What is wrong with a value, and what is allowed, each says in its own words.
    text = re.sub(r"(InvalidConfigurationException: ).*", r"\1...", text)
    lines = [line.strip() for line in text.splitlines()]
    lines = [
        re.sub(r"Leader: \d+\s+Replicas: \S+\s+Isr: \S+", "assigned", line) if "Topic: auto" in line else line
        for line in lines
        if line and "WARN" not in line and not line.startswith(OF_THE_CLUSTER)
    ]
    return sorted(lines)


Operation = Callable[[Side], object]


def tool(main: str, *arguments: str) -> Operation:
    return lambda side: side.tool(main, *arguments)


def topics(line: str) -> Operation:
    return tool(TOPICS, *shlex.split(line))


def create(topic: str, assignment: str, line: str = "") -> Operation:
    return tool(TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment, *shlex.split(line))


def configs(line: str) -> Operation:
    return tool(CONFIGS, *shlex.split(line))


def entity(kind: str, name: str, line: str) -> Operation:
    return configs(f"--entity-type {kind} --entity-name {name} {line}")


def plan(*moves: tuple[str, int, list[int]]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": replicas} for topic, partition, replicas in moves
        ],
    }


def reassign(verb: str, moves: dict[str, Any], *arguments: str) -> Operation:
    return lambda side: side.tool(
        REASSIGN, f"--{verb}", "--reassignment-json-file", side.file("moves", moves), *arguments
    )


def reassigned(moves: dict[str, Any]) -> Operation:
    """Waits until the tool says that all moves are complete, and returns what it says then."""

    def verify(side: Side) -> object:
        def complete() -> object:
            status, lines = side.tool(
                REASSIGN, "--verify", "--reassignment-json-file", side.file("moves", moves), "--preserve-throttles"
            )
            return None if any("still in progress" in line for line in lines) else (status, lines)

        return until(complete, f"{moves} in {side.name}")

    return verify


def elect(kind: str, line: str) -> Operation:
    return tool(ELECTION, "--election-type", kind, *shlex.split(line))


def znode(path: str, value: Any) -> Operation:
    return lambda side: side.znode(path, value)


GROWN = plan(("moved", 0, [0, 1, 2]), ("moved", 1, [1, 2, 0]))
SHRUNK = plan(("moved", 0, [2]), ("moved", 1, [0]))

PLAY: dict[str, Operation] = {
    # kafka-topics
    "create with an assignment": create("kept", "0:1:2,1:2:0,2:0:1"),
    "create with configurations": create(
        "configured", "0:1,1:2", "--config retention.ms=60000 --config cleanup.policy=compact,delete"
    ),
    "create without an assignment": topics("--create --topic auto --partitions 4 --replication-factor 2"),
    "create what is there": create("kept", "0:1"),
    "create what is there, if it is not": create("kept", "0:1", "--if-not-exists"),
    "create with too many replicas": topics("--create --topic wide --partitions 1 --replication-factor 4"),
    "create with no partitions": topics("--create --topic none --partitions 0 --replication-factor 1"),
    "create an illegal name": create("what?", "0:1"),
    "create with a dot": create("a.b", "0:1"),
    "create a colliding name": create("a_b", "0:1"),
    "create with a broker twice": create("twice", "0:0"),
    "create on an unknown broker": create("unknown", "0:9"),
    "create with uneven replicas": create("uneven", "0:1,1"),
    "create with an unknown configuration": create("odd", "0:1", "--config no.such.key=1"),
    "create with a bad value": create("odd", "0:1", "--config retention.ms=soon"),
    "describe a topic": topics("--describe --topic kept"),
    "describe what is not there": topics("--describe --topic nobody"),
    "list topics": topics("--list"),
    "describe overrides": topics("--describe --topics-with-overrides"),
    "describe under-replicated": topics("--describe --under-replicated-partitions"),
    "describe at the minimum": topics("--describe --at-min-isr-partitions"),
    "describe unavailable": topics("--describe --unavailable-partitions"),
    "add partitions": topics("--alter --topic kept --partitions 4 --replica-assignment 0:1:2,1:2:0,2:0:1,1:0:2"),
    "add partitions of our choice": topics("--alter --topic auto --partitions 6"),
    "remove partitions": topics("--alter --topic kept --partitions 1"),
    "add partitions to nothing": topics("--alter --topic nobody --partitions 3"),
    "add partitions to nothing, if it is there": topics("--alter --topic nobody --partitions 3 --if-exists"),
    # kafka-configs
    "set a topic's configurations": entity(
        "topics", "kept", "--alter --add-config retention.ms=1000,segment.bytes=1048576"
    ),
    "set a list": entity("topics", "kept", "--alter --add-config cleanup.policy=[compact,delete]"),
    "delete a configuration": entity("topics", "kept", "--alter --delete-config retention.ms"),
    "delete what is not set": entity("topics", "kept", "--alter --delete-config retention.bytes"),
    "set an unknown configuration": entity("topics", "kept", "--alter --add-config no.such.key=1"),
    "set a bad value": entity("topics", "kept", "--alter --add-config min.insync.replicas=0"),
    "configure nothing": entity("topics", "nobody", "--alter --add-config retention.ms=1"),
    "describe a topic's configurations": entity("topics", "kept", "--describe"),
    "describe all of a topic's configurations": entity("topics", "kept", "--describe --all"),
    "set a broker's configuration": entity("brokers", "0", "--alter --add-config log.cleaner.threads=2"),
    "set all brokers' configuration": configs(
        "--entity-type brokers --entity-default --alter --add-config log.retention.ms=7200000"
    ),
    "set what cannot change": entity("brokers", "0", "--alter --add-config broker.id=7"),
    "describe a broker's configuration": entity("brokers", "0", "--describe"),
    "describe all of a broker's configuration": entity("brokers", "0", "--describe --all"),
    "describe all brokers' configuration": configs("--entity-type brokers --entity-default --describe"),
    "delete a broker's configuration": entity("brokers", "0", "--alter --delete-config log.cleaner.threads"),
    "set a client's quota": entity("clients", "'app one'", "--alter --add-config producer_byte_rate=1024"),
    "set a user's quota": entity("users", "kate", "--alter --add-config consumer_byte_rate=2048,request_percentage=50"),
    "set a user's client's quota": entity(
        "users", "kate", "--entity-type clients --entity-name app --alter --add-config producer_byte_rate=1"
    ),
    "set the default user's quota": configs(
        "--entity-type users --entity-default --alter --add-config producer_byte_rate=9"
    ),
    "set an address's quota": entity("ips", "127.0.0.9", "--alter --add-config connection_creation_rate=5"),
    "set a bad quota": entity("users", "kate", "--alter --add-config no_such_rate=5"),
    "describe a user's quota": entity("users", "kate", "--describe"),
    "describe the clients' quotas": configs("--entity-type clients --describe"),
    "describe the addresses' quotas": configs("--entity-type ips --describe"),
    "delete a user's quota": entity("users", "kate", "--alter --delete-config request_percentage"),
    "set a password": entity("users", "kate", "--alter --add-config SCRAM-SHA-256=[iterations=4096,password=secret]"),
    "describe a user with a password": entity("users", "kate", "--describe"),
    "delete a password": entity("users", "kate", "--alter --delete-config SCRAM-SHA-256"),
    "delete a password that is not": entity("users", "kate", "--alter --delete-config SCRAM-SHA-512"),
    # kafka-reassign-partitions
    "create what is moved": create("moved", "0:1,1:2"),
    "generate a plan": lambda side: side.tool(
        REASSIGN,
        "--generate",
        "--broker-list",
        "0,1,2",
        "--topics-to-move-json-file",
        side.file("topics", {"version": 1, "topics": [{"topic": "nobody"}]}),
    ),
    "add replicas": reassign("execute", GROWN),
    "replicas were added": reassigned(GROWN),
    "list reassignments": tool(REASSIGN, "--list"),
    "move with a throttle": reassign("execute", SHRUNK, "--throttle", "10000000"),
    "replicas were moved": reassigned(SHRUNK),
    "remove the throttle": reassign("verify", SHRUNK),
    "cancel what is not moving": reassign("cancel", SHRUNK),
    "move to an unknown broker": reassign("execute", plan(("moved", 0, [7]))),
    "move to a broker twice": reassign("execute", plan(("moved", 0, [1, 1]))),
    "move what is not there": reassign("execute", plan(("nobody", 0, [1]))),
    "move to nowhere": reassign("execute", plan(("moved", 0, []))),
    "move by the znode": znode("/admin/reassign_partitions", plan(("moved", 0, [1, 2]), ("moved", 1, [2, 0]))),
    "an unknown topic in the znode": znode("/admin/reassign_partitions", plan(("nobody", 0, [1]))),
    # kafka-leader-election
    "make another order": reassign("execute", plan(("kept", 0, [2, 1, 0]))),
    "another order was made": reassigned(plan(("kept", 0, [2, 1, 0]))),
    "elect a preferred leader": elect("PREFERRED", "--topic kept --partition 0"),
    "elect it again": elect("PREFERRED", "--topic kept --partition 0"),
    "elect all preferred leaders": elect("PREFERRED", "--all-topic-partitions"),
    "elect uncleanly where nothing is wrong": elect("UNCLEAN", "--topic kept --partition 1"),
    "elect in nothing": elect("PREFERRED", "--topic nobody --partition 0"),
    "elect by the znode": znode(
        "/admin/preferred_replica_election", {"version": 1, "partitions": [{"topic": "kept", "partition": 1}]}
    ),
    # Last of the znodes: Apache Kafka's controller hears of no other one after this, until there is a new controller.
    "garbage in the znode": lambda side: side.zookeeper.create("/admin/reassign_partitions", b"{garbage"),
    "work goes on beside it": create("beside", "0:1"),
    "take it away by hand": lambda side: side.zookeeper.delete("/admin/reassign_partitions"),
    # and away
    "delete a topic": topics("--delete --topic moved"),
    "delete what is not there": topics("--delete --topic nobody"),
    "delete what is not there, if it is": topics("--delete --topic nobody --if-exists"),
    "make it again": create("moved", "2:1"),
    "delete by the znode": lambda side: side.zookeeper.create("/admin/delete_topics/configured"),
    "describe what is left": topics("--describe"),
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    apache.require()
    directory = tmp_path_factory.mktemp("sides")
    config = {
        "auto.leader.rebalance.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "delegation.token.secret.key": "secret",  # for /delegation_token
    }
    ours_config = [f"{key}={value}" for key, value in config.items()]
    with (
        apache.ApacheCluster(directory / "apache", 3, config=config) as real,
        running(directory / "ours", 3, *ours_config) as ours,
    ):
        tools = KafkaTools()
        clients = [KazooClient(each) for each in (real.zookeeper, ours.zookeeper)]
        try:
            for client in clients:
                client.start()
            yield (
                Side("apache", real.bootstrap, clients[0], tools, directory),
                Side("ours", ours.bootstrap, clients[1], tools, directory),
            )
        finally:
            for client in clients:
                client.stop()
                client.close()
            tools.close()


def compared(theirs: Any, ours: Any) -> str:
    match theirs, ours:
        case (int(status), list(lines)), (int(other), list(others)) if status == other:
            lost = [line for line in lines if line not in others]
            return f"Apache Kafka says\n    {lost}\n  ours\n    {[line for line in others if line not in lines]}"
    return f"Apache Kafka\n    {theirs}\n  ours\n    {ours}"


def test_operations_are_answered_alike_and_leave_the_same_tree(sides: tuple[Side, Side]) -> None:
    assert len(PLAY) >= 40
    different: dict[str, str] = {}
    for name, operation in PLAY.items():
        answers = [operation(side) for side in sides]
        if answers[0] != answers[1]:
            different[name] = f"{name}: {compared(answers[0], answers[1])}"
        trees = [side.settled_tree() for side in sides]
        for path in sorted(trees[0].keys() | trees[1].keys()):
            if trees[0].get(path) != trees[1].get(path):
                different.setdefault(path, f"after {name}: {path}: {compared(trees[0].get(path), trees[1].get(path))}")
    assert not different, "\n".join(different.values())


def test_what_an_operators_commands_say_is_the_same(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Ours, asked of both clusters."""
    for there, here in zip(*(story(side.bootstrap, tmp_path) for side in sides), strict=True):
        assert here == there
