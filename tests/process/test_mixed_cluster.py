"""One cluster of our broker and two of Apache Kafka 3.9.1, on our coordinator: each kind is controller in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Cluster, eventually

pytestmark = pytest.mark.apache

TOPIC = "mixed"


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, brokers=1, config={"zookeeper.session.timeout.ms": "6000"})
    cluster.start()
    try:
        yield cluster
    finally:
        for process in (*cluster.brokers, cluster.coordinator):
            process.kill()


def described(admin: AdminClient) -> tuple[int, dict[int, tuple[int, list[int], list[int]]]]:
    """The controller, and each partition's leader, replicas and ISR."""
    metadata = admin.list_topics(TOPIC, timeout=5)
    partitions = metadata.topics[TOPIC].partitions
    return metadata.controller_id, {
        p: (each.leader, each.replicas, sorted(each.isrs)) for p, each in partitions.items()
    }


def everybody_in_sync(admin: AdminClient) -> bool:
    return all(leader >= 0 and sorted(replicas) == isr for leader, replicas, isr in described(admin)[1].values())


def produced(bootstrap: str, count: int) -> None:
    """Every record is acknowledged by all in-sync replicas."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(TOPIC, str(number).encode(), callback=lambda error, _: errors.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert errors == []


def test_either_kind_is_controller_of_both(ours: Cluster, tmp_path: Path) -> None:
    with apache.ApacheCluster(
        tmp_path / "apache",
        2,
        zookeeper=f"127.0.0.1:{ours.zookeeper_port}",
        first_id=1,
        cluster_size=3,
        config={"zookeeper.session.timeout.ms": "6000"},
    ) as kafka:
        bootstrap = f"{ours.bootstrap},{kafka.bootstrap}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 6, 3)])[TOPIC].result(30)
        eventually(lambda: everybody_in_sync(admin), what="the topic is there")
        assert described(admin)[0] == 0, "our broker came first, and is the controller"
        produced(bootstrap, 1_000)

        kafka.kill(2)
        eventually(lambda: all(isr == [0, 1] for _, _, isr in described(admin)[1].values()), what="the ISR without 2")
        produced(bootstrap, 1_000)
        kafka.start(2)
        eventually(lambda: everybody_in_sync(admin), what="2 is in sync again")

        elected = apache.tool(
            "kafka-leader-election", "--bootstrap-server", bootstrap, "--election-type", "preferred",
            "--all-topic-partitions",
        )  # fmt: skip
        assert elected.returncode == 0, elected.stderr
        eventually(lambda: all(leader == replicas[0] for leader, replicas, _ in described(admin)[1].values()))

        moves = tmp_path / "moves.json"
        moves.write_text(json.dumps({"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [2, 0]}]}))
        begun = apache.tool(
            "kafka-reassign-partitions", "--bootstrap-server", bootstrap, "--reassignment-json-file", str(moves),
            "--execute",
        )  # fmt: skip
        assert begun.returncode == 0, begun.stderr
        eventually(lambda: described(admin)[1][0][1:] == ([2, 0], [0, 2]), what="the partition moved")

        assert ours.brokers[0].stop() == 0
        eventually(lambda: described(admin)[0] in (1, 2), what="Kafka is controller")
        produced(bootstrap, 1_000)
        ours.brokers[0].start()
        eventually(lambda: everybody_in_sync(admin), what="ours is in sync under Kafka's controller", within=60)

        controller = described(admin)[0]
        kafka.kill(controller)
        eventually(lambda: described(admin)[0] not in (controller, -1), what="the next controller", within=60)
        produced(bootstrap, 1_000)
        kafka.start(controller)
        eventually(lambda: everybody_in_sync(admin), what="all are in sync at the end", within=60)
        admin.delete_topics([TOPIC])[TOPIC].result(30)
        eventually(lambda: TOPIC not in admin.list_topics(timeout=5).topics, what="the topic is gone")
