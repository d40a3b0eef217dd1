"""What is set for all brokers while they run counts for the topics that have no value of their own (KIP-226)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from processes import eventually

from barnabas.client.admin import Admin, ResourceType
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.testing import KafkaCluster

KEY, REFUSED = "max.message.bytes", "MSG_SIZE_TOO_LARGE"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(1) as made:
        yield made


def change(cluster: KafkaCluster, operation: AlterOperation, value: str | None, key: str = "message.max.bytes") -> None:
    cluster.run(Admin(cluster.client).alter_configs(ResourceType.BROKER, "", [(operation, key, value)]))


def outcome(cluster: KafkaCluster, topic: str) -> str:
    """What a producer is told that asks once: "" where its record is acknowledged."""
    told: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    producer.produce(topic, "x" * 1000, on_delivery=lambda error, _: told.append("" if error is None else error.name()))
    assert producer.flush(30) == 0
    (outcome,) = told
    return outcome


def test_it_counts_for_topics_that_are_there_new_ones_and_after_a_restart() -> None:
    with KafkaCluster(1) as cluster:
        cluster.create_topic("old", partitions=1, replication_factor=1)
        cluster.create_topic("own", partitions=1, replication_factor=1, config={KEY: 10_000})
        assert not outcome(cluster, "old")
        change(cluster, AlterOperation.SET, "500")
        eventually(lambda: outcome(cluster, "old") == REFUSED, what="the log that is there is kept by it")
        cluster.create_topic("new", partitions=1, replication_factor=1)
        (broker,) = cluster.brokers
        for _ in range(2):
            assert [outcome(cluster, topic) for topic in ("old", "new", "own")] == [REFUSED, REFUSED, ""]
            broker.stop()
            broker.start()
        change(cluster, AlterOperation.DELETE, None)
        eventually(lambda: not outcome(cluster, "old"), what="the broker's own default counts again")
        assert not outcome(cluster, "new")


UNUSABLE = {
    "log.roll.ms": "0",
    "log.roll.jitter.ms": "-1",
    "log.retention.ms": "0",
    "log.flush.interval.ms": "-1",
    "num.replica.fetchers": "0",
    "max.connections": "0",
    "max.connection.creation.rate": "0",
    "log.cleaner.dedupe.buffer.size": "1",
    "log.cleaner.io.max.bytes.per.second": "0",
    "log.cleaner.io.buffer.load.factor": "NaN",
}
"""Of the right type, and yet no broker could start, follow, compact or be asked with it."""


@pytest.mark.parametrize("key", UNUSABLE)
def test_what_no_broker_can_run_with_is_refused(cluster: KafkaCluster, key: str) -> None:
    with pytest.raises(KafkaError) as refused:
        change(cluster, AlterOperation.SET, UNUSABLE[key], key)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


EACH_BROKERS_OWN = {
    "listeners": "PLAINTEXT://127.0.0.1:9",
    "advertised.listeners": "CLIENTS://nowhere:9",
    "listener.security.protocol.map": "CLIENTS:SSL",
    "listener.name.plaintext.ssl.client.auth": "required",
}


def test_where_it_is_stored_all_the_same_it_does_not_count() -> None:
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t", partitions=4, replication_factor=2, config={"segment.bytes": 10_000})
        zookeeper = KazooClient(cluster.zookeeper)
        zookeeper.start(10)
        values = {**UNUSABLE, **EACH_BROKERS_OWN, "max.connections.per.ip": "0", "message.max.bytes": "500"}
        stored = {"version": 1, "config": values}
        zookeeper.ensure_path("/config/brokers/<default>")
        zookeeper.set("/config/brokers/<default>", json.dumps(stored).encode())
        zookeeper.stop()
        for broker in cluster.brokers:
            broker.stop()
            broker.start()
        assert outcome(cluster, "t") == REFUSED, "the one that can be used counts"
        mended = [(AlterOperation.DELETE, key, None) for key in values]
        cluster.run(Admin(cluster.client).alter_configs(ResourceType.BROKER, "", mended))
        eventually(lambda: not outcome(cluster, "t"), what="all of it can be taken back")
