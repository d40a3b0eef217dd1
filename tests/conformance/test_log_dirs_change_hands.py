"""A log directory of a hundred partitions goes from Apache Kafka 3.9.2 to us, back, and to us again."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import apache
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from in_apaches_place import our_broker, wait_until_unregistered
from test_log_files import dump

pytestmark = [pytest.mark.long(2), pytest.mark.apache]

FLIGHTS = "flights"
PARTITIONS = 100
SETTINGS = "settings"
"""Compacted, in one partition."""
KEYS = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {
    "log.segment.bytes": "20000",
    "log.index.interval.bytes": "500",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.session.timeout.ms": "3000",
}


class Told:
    """What was acknowledged: a record of every partition in every codec, settings, and transactions of both ends."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.flights: Counter[tuple[int, str]] = Counter()
        self.settings: dict[str, str] = {}
        self.settings_written = 0

    def write(self, owner: str) -> None:
        for codec in CODECS:
            producer = self._producer({"compression.type": codec})
            for number in range(3 * PARTITIONS):
                self._flight(producer, number % PARTITIONS, f"{codec} {number} by {owner} ".ljust(120, "x"))
            for number in range(10 * KEYS):
                key, value = f"key {number % KEYS}", f"{codec} {number} by {owner}"
                producer.produce(SETTINGS, value.ljust(100, "x"), key)
                self.settings[key] = value.ljust(100, "x")
                self.settings_written += 1
            assert producer.flush(60) == 0
        self._transactions(owner)

    def _transactions(self, owner: str) -> None:
        producer = self._producer({"transactional.id": "of every owner"})
        producer.init_transactions(60)
        for number in range(6):
            producer.begin_transaction()
            commits = number % 2 == 0
            for partition in range(0, PARTITIONS, 7):
                value = f"transaction {number} by {owner}"
                producer.produce(FLIGHTS, value, partition=partition)
                self.flights[partition, value] += commits
            if commits:
                producer.commit_transaction(60)
            else:
                assert producer.flush(60) == 0
                producer.abort_transaction(60)

    def read(self) -> None:
        """All of it is there, once, and of what is compacted each key's last value."""
        assert self._values(FLIGHTS, PARTITIONS) == +self.flights
        last = {}
        for message in self._messages(SETTINGS, 1):
            last[message.key().decode()] = message.value().decode()
        assert last == self.settings

    def _producer(self, config: dict[str, str]) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0, **config})

    def _flight(self, producer: Producer, partition: int, value: str) -> None:
        producer.produce(FLIGHTS, value, partition=partition)
        self.flights[partition, value] += 1

    def _values(self, topic: str, partitions: int) -> Counter[tuple[int, str]]:
        return Counter((each.partition(), each.value().decode()) for each in self._messages(topic, partitions))

    def _messages(self, topic: str, partitions: int) -> list:  # type: ignore[type-arg]
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
                "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0,
            }
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
        found, ended = [], set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline, (
                f"only {len(ended)} partitions of {topic} were read to their end in 60 s"
            )
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == error._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
        consumer.close()
        return found


def test_a_hundred_partitions_change_hands_and_every_record_is_there(tmp_path: Path) -> None:
    """After clean stops, and then after kill -9."""
    with apache.ApacheCluster(tmp_path, 1, config=CONFIG) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = [
            NewTopic(FLIGHTS, PARTITIONS, 1),
            NewTopic(SETTINGS, 1, 1, config={"cleanup.policy": "compact"}),
        ]
        for made in admin.create_topics(topics).values():
            made.result(30)
        told = Told(kafka.bootstrap)

        for owner, clean in (("Apache", True), ("Apache again", False)):
            told.write(owner)
            told.read()
            kafka.stop(0) if clean else kafka.kill(0)
            with our_broker(kafka, clean=clean):
                told.read()
                told.write(f"Barnabas after {owner}")
                told.read()
            wait_until_unregistered(kafka.zookeeper, 0)
            kafka.start(0)
            told.read()
        assert len(told._messages(SETTINGS, 1)) < told.settings_written, "nothing was compacted"
        kafka.stop(0)

        data = tmp_path / "broker-0" / "data"
        for topic in (FLIGHTS, SETTINGS, "__transaction_state"):
            dump(data.glob(f"{topic}-*"), "--deep-iteration")
