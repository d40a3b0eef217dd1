"""Transactions in a cluster of one Apache Kafka 3.9.2 broker and two of ours: coordinators, leaders and ids of both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache import require
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Process, answers, eventually

from barnabas.bench.apache import ApacheCluster, free_port
from barnabas.client.blocking import BlockingCluster
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.apache

APACHE = 0
OURS = (1, 2)
CONFIG = {
    "zookeeper.session.timeout.ms": "4000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "false",
}


class Mixed:
    def __init__(self, directory: Path, apache: ApacheCluster) -> None:
        self.apache = apache
        self.ports = {number: free_port() for number in OURS}
        self.ours = {}
        for number, port in self.ports.items():
            values = {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": apache.zookeeper,
                "log.dirs": f"{directory}/logs-{number}",
                **CONFIG,
            }
            file = directory / f"broker-{number}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            self.ours[number] = Process(f"broker-{number}", directory, "broker", str(file))
        self.bootstrap = ",".join([apache.bootstrap, *(f"127.0.0.1:{port}" for port in self.ports.values())])
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def kill(self, number: int) -> None:
        if number == APACHE:
            self.apache.kill(APACHE)
        else:
            self.ours[number].kill()

    def start(self, number: int) -> None:
        if number == APACHE:
            self.apache.start(APACHE)
        else:
            self.ours[number].start()

    def leaders(self, topic: str) -> dict[int, int]:
        partitions = self.admin.list_topics(topic, timeout=5).topics[topic].partitions
        return {number: state.leader for number, state in partitions.items()}

    def in_sync(self, *topics: str) -> bool:
        return all(
            len(state.isrs) == 3
            for topic in topics
            for state in self.admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
        )

    def coordinator(self, key: str, key_type: int = 1) -> int:
        """The broker that coordinates a transactional id (or, of type 0, a group)."""
        with BlockingCluster(self.bootstrap) as client:
            found = client.any().send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
            return found.coordinators[0].node_id

    def transactional_id(self, broker: int) -> str:
        """One that `broker` coordinates."""
        names = [f"id-{number}" for number in range(40)]
        return next(name for name in names if self.coordinator(name) == broker)


@contextmanager
def mixed_cluster(directory: Path) -> Iterator[Mixed]:
    require()
    with ApacheCluster(directory / "apache", 1, config=CONFIG, first_id=APACHE) as apache:
        mixed = Mixed(directory, apache)
        try:
            for number, process in mixed.ours.items():
                process.start()
                eventually(lambda port=mixed.ports[number]: answers(port), what=f"broker {number} answers")
            eventually(lambda: len(mixed.admin.list_topics(timeout=5).brokers) == 3, what="all three are known")
            # So that of each broker's ids it is certain who coordinates them next.
            heirs = NewTopic(
                "__transaction_state",
                num_partitions=3,
                replica_assignment=[[APACHE, 1, 2], [1, APACHE, 2], [2, 1, APACHE]],
                config={"cleanup.policy": "compact", "min.insync.replicas": "2"},
            )
            for created in mixed.admin.create_topics([NewTopic("mixed", 6, 3), heirs]).values():
                created.result(30)
            eventually(lambda: set(mixed.leaders("mixed").values()) == {0, 1, 2}, what="both kinds lead")
            for kind, topic in ((1, "__transaction_state"), (0, "__consumer_offsets")):
                eventually(lambda kind=kind: mixed.coordinator("anything", kind) >= 0, what=f"{topic} is there")
                eventually(lambda topic=topic: mixed.in_sync(topic), what=f"{topic} is in sync")
            yield mixed
        finally:
            for process in mixed.ours.values():
                process.kill()


def producer(mixed: Mixed, transactional_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": mixed.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 30_000,
            "log_level": 0,
        }
    )
    made.init_transactions(60)
    return made


def transact(made: Producer, name: str, *, commit: bool, groups: tuple[str, ...] = (), offset: int = 0) -> None:
    """One record to each partition, and offsets to each group."""
    made.begin_transaction()
    for partition in range(6):
        made.produce("mixed", f"{name} {partition}".encode(), partition=partition)
    for group in groups:
        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        made.send_offsets_to_transaction([TopicPartition("mixed", 0, offset)], consumer.consumer_group_metadata(), 60)
        consumer.close()
    if commit:
        made.commit_transaction(60)
    else:
        made.flush(30)
        made.abort_transaction(60)


def committed(mixed: Mixed) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": mixed.bootstrap, "group.id": "judge", "isolation.level": "read_committed",
            "enable.partition.eof": True, "log_level": 0,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition("mixed", number, 0) for number in range(6)])
    found, ended = [], set()
    deadline = time.monotonic() + 60
    while len(ended) < 6:
        assert time.monotonic() < deadline, "a committed reader does not come to the end"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message.value().decode())
            ended.discard(message.partition())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return sorted(found)


def offset_of(mixed: Mixed, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": mixed.bootstrap, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition("mixed", 0)], timeout=30)
    consumer.close()
    return found.offset


def test_either_kind_coordinates_transactions_that_reach_partitions_of_the_other(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path) as mixed:
        groups = tuple(
            next(name for name in (f"group-{n}" for n in range(40)) if mixed.coordinator(name, 0) == broker)
            for broker in (APACHE, *OURS)
        )
        expected: list[str] = []

        def expect(name: str) -> None:
            expected.extend(f"{name} {partition}" for partition in range(6))

        producers = {}
        for broker in (APACHE, *OURS):
            transactional_id = mixed.transactional_id(broker)
            made = producers[transactional_id] = producer(mixed, transactional_id)
            transact(made, f"first of {broker}", commit=True, groups=groups, offset=10 + broker)
            expect(f"first of {broker}")
            transact(made, f"dropped of {broker}", commit=False, groups=groups, offset=99)
        assert committed(mixed) == sorted(expected)
        assert [offset_of(mixed, group) for group in groups] == [12, 12, 12]

        # An id of ours goes on with Apache's broker, and then one of its with ours; what was open is aborted.
        for victim, heir in ((1, APACHE), (APACHE, 1)):
            orphan = next(each for each in producers if mixed.coordinator(each) == victim)
            lost = producers.pop(orphan)
            lost.begin_transaction()
            lost.produce("mixed", b"never ended", partition=victim)
            lost.flush(30)
            mixed.kill(victim)
            eventually(lambda name=orphan, heir=heir: mixed.coordinator(name) == heir, what="an heir")
            producers[orphan] = producer(mixed, orphan)
            for transactional_id, made in list(producers.items()):
                transact(made, f"{transactional_id} without {victim}", commit=True)
                expect(f"{transactional_id} without {victim}")
                # librdkafka 2.16 waits for ever for a group coordinator that it knew and that Metadata names no more
                # (docs/transactions.md): offsets are for a producer that has to ask where the group is.
                made = producers[transactional_id] = producer(mixed, transactional_id)
                transact(made, f"{transactional_id} anew", commit=True, groups=groups, offset=20 + victim)
                expect(f"{transactional_id} anew")
            with pytest.raises(KafkaException):
                lost.commit_transaction(30)
            if victim != APACHE:
                mixed.start(victim)
                topics = ("mixed", "__transaction_state", "__consumer_offsets")
                eventually(lambda topics=topics: mixed.in_sync(*topics), within=90, what="all are in sync again")
        assert committed(mixed) == sorted(expected)
        assert [offset_of(mixed, group) for group in groups] == [20, 20, 20]
