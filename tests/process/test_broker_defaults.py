"""What is set for all brokers while they run counts for the topics that have no value of their own (KIP-226)."""

from __future__ import annotations

from confluent_kafka import Producer
from processes import eventually

from barnabas.client.admin import Admin, ResourceType
from barnabas.model.config import AlterOperation
from barnabas.testing import KafkaCluster

KEY, REFUSED = "max.message.bytes", "MSG_SIZE_TOO_LARGE"


def change(cluster: KafkaCluster, operation: AlterOperation, value: str | None) -> None:
    cluster.run(Admin(cluster.client).alter_configs(ResourceType.BROKER, "", [(operation, "message.max.bytes", value)]))


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
