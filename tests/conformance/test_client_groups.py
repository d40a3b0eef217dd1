"""Our client in one group with Kafka's Java client and with librdkafka, at Apache Kafka's coordinator and at ours.

Whoever leads gives the partitions away: each side leads once, and has to understand what the other says it had.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import apache
import pytest
from cluster import until
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import KafkaException

from barnabas.client import NewTopic, TopicPartition, blocking
from barnabas.client.blocking_twin import SyncCluster

PARTITIONS = 6
JAVA = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@pytest.fixture(params=["ours", "apaches"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def connected(bootstrap: str) -> Iterator[SyncCluster]:
    with blocking.connect(bootstrap) as client:
        yield client


class Member:
    """Reads on a thread of its own, and counts what it read."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.owns: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> Member:
        self._thread.start()
        return self

    def _run(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Ours(Member):
    def __init__(self, bootstrap: str, topic: str, assignor: str) -> None:
        super().__init__()
        self._args = bootstrap, topic, assignor

    def _run(self) -> None:
        bootstrap, topic, assignor = self._args
        with blocking.connect(bootstrap) as cluster:
            consumer = cluster.consumer(
                topic, group=topic, assignors=[assignor], auto_offset_reset="earliest", heartbeat_interval_ms=200
            )
            while not self._stop.is_set():
                self.read += [record.value or b"" for record in consumer.poll(100)]
                self.owns = sorted(each.partition for each in consumer.positions())
            consumer.close()


class Librdkafkas(Member):
    def __init__(self, bootstrap: str, topic: str, assignor: str) -> None:
        super().__init__()
        self._topic = topic
        self._consumer = Librdkafka(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "heartbeat.interval.ms": 200,
                "enable.auto.commit": False,
            }
        )

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            self.owns = sorted(each.partition for each in self._consumer.assignment())
            if message is not None and message.error() is None:
                self.read.append(message.value() or b"")
                try:
                    self._consumer.commit(message, asynchronous=False)
                except KafkaException:
                    continue  # it rebalances: the next member reads it again
        self._consumer.close()


class Javas(Member):
    """``kafka-console-consumer``: what it prints it has read; what it owns, the coordinator says."""

    def __init__(self, bootstrap: str, topic: str, assignor: str) -> None:
        super().__init__()
        properties = {
            "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{JAVA[assignor]}",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": "200",
            "client.id": "javas",
            "auto.commit.interval.ms": "200",
        }
        command = apache.tool_command("kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", topic)
        command += ["--group", topic]
        for name, value in properties.items():
            command += ["--consumer-property", f"{name}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.read.append(line.strip())

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        super().end()


def fill(cluster: SyncCluster, topic: str, numbers: Sequence[int]) -> None:
    with cluster.producer() as producer:
        for number in numbers:
            producer.append(topic, b"%d" % number, partition=number % PARTITIONS)


def owned(cluster: SyncCluster, group: str) -> list[int]:
    """How many partitions each member has, as the coordinator says it."""
    described = cluster.admin.describe_group(group)
    if described.state != "Stable":
        return []
    return sorted(len(member.assignment) for member in described.members)


def shared_out(cluster: SyncCluster, topic: str, first: Member, second: Member, leaver: Member, stays: Member) -> None:
    """Two members share, one leaves, and all that was produced meanwhile is read by one of them."""
    until(lambda: owned(cluster, topic) == [3, 3], "both have three partitions")
    fill(cluster, topic, range(60, 120))
    until(lambda: len({*first.read, *second.read}) == 120, "all is read by the two")
    leaver.end()
    until(lambda: owned(cluster, topic) == [6], "who stays has all partitions")
    fill(cluster, topic, range(120, 180))
    until(lambda: len({*first.read, *second.read}) == 180, "all is read by the one who stayed")
    stays.end()
    read = Counter([*first.read, *second.read])
    assert set(read) == {b"%d" % number for number in range(180)}


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_librdkafka_and_we_share_a_group_whoever_leads(bootstrap: str, connected: SyncCluster, assignor: str) -> None:
    for leads in ("ours", "theirs"):
        topic = f"rd-{assignor}-{leads}"
        assert connected.admin.create_topics([NewTopic(topic, PARTITIONS, 3)]) == {topic: None}
        fill(connected, topic, range(60))
        kinds: list[type[Ours] | type[Librdkafkas]] = [Ours, Librdkafkas]
        if leads == "theirs":
            kinds.reverse()
        first = kinds[0](bootstrap, topic, assignor).begin()
        until(lambda first=first: len(first.owns) == PARTITIONS, "the first has all partitions")  # type: ignore[misc]
        second = kinds[1](bootstrap, topic, assignor).begin()
        shared_out(connected, topic, first, second, first, second)


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_javas_client_and_we_share_a_group_whoever_leads(bootstrap: str, connected: SyncCluster, assignor: str) -> None:
    apache.require()
    topic = f"java-{assignor}"
    assert connected.admin.create_topics([NewTopic(topic, PARTITIONS, 3)]) == {topic: None}
    fill(connected, topic, range(60))
    ours = Ours(bootstrap, topic, assignor).begin()
    until(lambda: len(ours.owns) == PARTITIONS, "ours has all partitions")
    javas = Javas(bootstrap, topic, assignor).begin()
    shared_out(connected, topic, ours, javas, ours, javas)


def test_transactions_offsets_and_times_are_the_same_to_both_brokers(connected: SyncCluster) -> None:
    topic = "client-whole"
    assert connected.admin.create_topics([NewTopic(topic, 1, 3)]) == {topic: None}
    only = TopicPartition(topic, 0)
    with connected.transactional_producer(topic) as producer:
        with producer.transaction():
            for number in range(5):
                producer.append(topic, b"%d" % number, timestamp=1_000 * (number + 1))
        producer.begin_transaction()
        producer.send(topic, b"never")
        producer.abort_transaction()
        with producer.transaction():
            producer.append(topic, b"5", timestamp=6_000)
            producer.send_offsets_to_transaction({only: 3}, topic)
    with connected.consumer(topic, group=topic, isolation_level="read_committed") as consumer:
        assert consumer.committed([only]) == {only: 3}
        read = [record.value for _, record in zip(range(3), consumer, strict=False)]
        assert read == [b"3", b"4", b"5"]
        assert consumer.beginning_offsets([only]) == {only: 0}
        found = consumer.offsets_for_times({only: 2_500})[only]
        assert found is not None
        assert (found.offset, found.timestamp) == (2, 3_000)
