"""Brokers die by ``kill -9`` under a producer that must not notice."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

from cluster import Cluster, running, until
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.client.blocking import BlockingCluster
from barnabas.client.metadata import TopicMetadata
from barnabas.model.errors import ErrorCode, KafkaError

TOPIC = "survivors"


class Writer(threading.Thread):
    """Produces numbered records, idempotent and acks=all, until the `with` block it writes in is left."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self.stopping = False
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"})

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Also where the test has failed: librdkafka would go on telling the next tests' stderr what it misses."""
        self.stopping = True
        self.join(90)

    def run(self) -> None:
        number = 0
        while not self.stopping:
            self._producer.produce(
                TOPIC, str(number), on_delivery=lambda error, _, number=number: self._told(error, number)
            )
            number += 1
            self._producer.poll(0.001)
        if self._producer.flush(60):
            self.errors.append("records were left unsent")

    def _told(self, error: object, number: int) -> None:
        if error is None:
            self.acknowledged.append(number)
        else:
            self.errors.append(str(error))


def topic_of(cluster: Cluster) -> TopicMetadata | None:
    try:
        with BlockingCluster(cluster.bootstrap, request_timeout_ms=3000, retry_timeout_ms=5000) as client:
            return client.refresh([TOPIC]).topics.get(TOPIC)
    except (OSError, KafkaError):
        return None


def all_in_sync(cluster: Cluster) -> bool:
    topic = topic_of(cluster)
    return topic is not None and all(p.leader >= 0 and len(p.isr) == 3 for p in topic.partitions.values())


def gone_from_every_isr(cluster: Cluster, broker: int) -> bool:
    topic = topic_of(cluster)
    return topic is not None and all(
        p.leader not in (-1, broker) and broker not in p.isr for p in topic.partitions.values()
    )


def test_no_acknowledged_record_is_lost_when_the_controller_and_then_a_leader_die(tmp_path: Path) -> None:
    with running(tmp_path, 3, "zookeeper.session.timeout.ms=3000") as cluster:
        topic = NewTopic(TOPIC, 6, 3, config={"min.insync.replicas": "2"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])[TOPIC].result(30)
        until(lambda: all_in_sync(cluster), "every replica in sync")
        zookeeper = KazooClient(cluster.zookeeper)
        zookeeper.start(20)

        def controller() -> int | None:
            with contextlib.suppress(NoNodeError):
                return int(json.loads(zookeeper.get("/controller")[0])["brokerid"])
            return None

        with Writer(cluster.bootstrap) as writer:
            until(lambda: len(writer.acknowledged) > 200, "the first records")

            epoch = int(zookeeper.get("/controller_epoch")[0])
            first = controller()
            assert first is not None
            cluster.kill(first)
            until(lambda: controller() not in (None, first), "another controller")
            assert int(zookeeper.get("/controller_epoch")[0]) == epoch + 1
            until(lambda: gone_from_every_isr(cluster, first), "new leaders, and an ISR without the dead broker")
            cluster.up()
            until(lambda: all_in_sync(cluster), "the broker back in every ISR", 90)

            leader = next(broker for broker in range(3) if broker not in (controller(), first))
            cluster.kill(leader)
            until(lambda: gone_from_every_isr(cluster, leader), "new leaders again")
            count = len(writer.acknowledged)
            until(lambda: len(writer.acknowledged) > count + 200, "records are acknowledged with two brokers")
            cluster.up()
            until(lambda: all_in_sync(cluster), "everyone back in every ISR", 90)

        zookeeper.stop()
        assert writer.errors == []
        found = everything(cluster)
        assert len(found) == len(set(found)), "a record is there twice"
        assert set(writer.acknowledged) <= set(found), "an acknowledged record is lost"


def end_offsets(consumer: Consumer) -> dict[int, int] | None:
    """None while a leader just elected has not heard from its followers how far they are (KIP-207)."""
    try:
        return {number: consumer.get_watermark_offsets(TopicPartition(TOPIC, number), 30)[1] for number in range(6)}
    except KafkaException as error:
        if error.args[0].code() != ErrorCode.OFFSET_NOT_AVAILABLE:
            raise
        return None


def everything(cluster: Cluster) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "audit"})
    try:
        ends = until(lambda: end_offsets(consumer), "every leader knows its followers' ends")
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in ends])
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < sum(ends.values()):
            assert time.monotonic() < deadline, f"{len(found)} of {sum(ends.values())} records came"
            for message in consumer.consume(10_000, 1):
                assert message.error() is None, message.error()
                found.append(int(message.value()))
        return found
    finally:
        consumer.close()
