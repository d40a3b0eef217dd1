"""Brokers with two log directories and a rack each, moved and throttled by Apache Kafka's own tools."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Cluster, eventually

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(not os.environ.get("BARNABAS_DISKS"), reason="many tools of Apache Kafka: make disks"),
]

RECORDS = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("two-log-dirs")
    made = Cluster(
        directory,
        3,
        {
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "replica.fetch.max.bytes": "16384",
        },
    )
    for broker_id in range(3):
        file = directory / f"broker-{broker_id}.properties"
        dirs = f"{directory}/a-{broker_id},{directory}/b-{broker_id}"
        file.write_text(file.read_text() + f"log.dirs={dirs}\nbroker.rack=rack-{broker_id}\n")
    with made:
        yield made


def filled(cluster: Cluster, topic: str, size: int = 1000) -> list[str]:
    """A topic of one partition whose preferred leader is broker 0; what its records are."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[0, 1, 2]])])[topic].result(10)
    values = [f"{number}".ljust(size) for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "batch.size": 20_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    return values


def read(cluster: Cluster, topic: str, **config: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "fetch.wait.max.ms": 50, **config})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + 30
    while len(found) < RECORDS and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(500, 1.0) if message.error() is None]
    consumer.close()
    return found


def reassign(cluster: Cluster, file: Path, *arguments: str) -> str:
    done = apache.tool(
        "kafka-reassign-partitions", "--bootstrap-server", cluster.bootstrap,
        "--reassignment-json-file", str(file), *arguments,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def described(cluster: Cluster, topic: str) -> dict[tuple[int, str], dict[str, object]]:
    """What ``kafka-log-dirs`` tells of partition 0, by broker and directory."""
    done = apache.tool("kafka-log-dirs", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", topic)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout[done.stdout.index("{") :])
    return {
        (broker["broker"], Path(directory["logDir"]).name): partition
        for broker in told["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }


def test_kafkas_tool_moves_replicas_between_log_directories(cluster: Cluster, tmp_path: Path) -> None:
    apache.require()
    values = filled(cluster, "moves")
    names = [next(iter(cluster.directory.glob(f"?-{each}/moves-0"))).parent.name for each in range(3)]
    others = [("b" if name[0] == "a" else "a") + name[1:] for name in names]
    plan = tmp_path / "plan.json"
    entry = {
        "topic": "moves",
        "partition": 0,
        "replicas": [0, 1, 2],
        "log_dirs": [str(cluster.directory / each) for each in others],
    }
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    reassign(cluster, plan, "--execute", "--replica-alter-log-dirs-throttle", "1000", "--throttle", "100000")
    under_way = described(cluster, "moves")
    assert {where for where, each in under_way.items() if each["isFuture"]} == set(enumerate(others))
    assert all(each["offsetLag"] > 0 for each in under_way.values() if each["isFuture"])
    reassign(cluster, plan, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "100000000")
    eventually(
        lambda: all((cluster.directory / other / "moves-0").exists() for other in others), what="all replicas moved"
    )
    verified = reassign(cluster, plan, "--verify")
    assert verified.count("completed successfully") == 3
    assert {where: each["isFuture"] for where, each in described(cluster, "moves").items()} == dict.fromkeys(
        enumerate(others), False
    )
    assert read(cluster, "moves") == values


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: Cluster) -> None:
    values = filled(cluster, "near", size=20_000)
    before = {broker: written_by(cluster, broker) for broker in range(3)}
    assert read(cluster, "near", **{"client.rack": "rack-2"}) == values
    sent = {broker: written_by(cluster, broker) - before[broker] for broker in range(3)}
    assert sent[2] > RECORDS * 20_000, sent


def written_by(cluster: Cluster, broker: int) -> int:
    """How many bytes the broker's process has written, to files and sockets (``/proc/<pid>/io``)."""
    text = Path(f"/proc/{cluster.brokers[broker].pid}/io").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("wchar")))
