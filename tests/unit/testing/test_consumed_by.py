"""When a group has consumed a topic: what it can commit is committed, and nothing else is waited for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client import CommittedOffset, TopicPartition
from barnabas.client.blocking import connect
from barnabas.client.blocking_twin import SyncCluster
from barnabas.testing import KafkaCluster

pytestmark = pytest.mark.kafka(brokers=1)


@pytest.fixture
def client(kafka_cluster: KafkaCluster) -> Iterator[SyncCluster]:
    with connect(kafka_cluster.bootstrap) as cluster:
        yield cluster


def commit(client: SyncCluster, topic: str, offsets: dict[int, int]) -> None:
    committed = {TopicPartition(topic, number): CommittedOffset(offset) for number, offset in offsets.items()}
    assert set(client.admin.alter_group_offsets("g", committed).values()) == {None}


def test_a_partition_without_records_wants_no_commit(kafka_cluster: KafkaCluster, client: SyncCluster) -> None:
    topic = kafka_cluster.create_topic("t", partitions=3)
    with client.producer() as producer:
        producer.send("t", b"x", partition=1)
    commit(client, "t", {1: 1})
    topic.consumed_by("g", timeout=2)


def test_what_was_deleted_wants_no_commit(kafka_cluster: KafkaCluster, client: SyncCluster) -> None:
    topic = kafka_cluster.create_topic("t", partitions=2)
    with client.producer() as producer:
        producer.send("t", b"gone", partition=0)
        producer.send("t", b"there", partition=1)
    client.admin.delete_records({TopicPartition("t", 0): 1})
    commit(client, "t", {1: 1})
    topic.consumed_by("g", timeout=2)


@pytest.mark.parametrize("outcome", ["committed", "aborted"])
def test_the_end_of_a_transaction_wants_no_commit(
    kafka_cluster: KafkaCluster, client: SyncCluster, outcome: str
) -> None:
    topic = kafka_cluster.create_topic("t")
    with client.transactional_producer("teller") as producer:
        with producer.transaction():
            producer.send("t", b"counts")
        if outcome == "aborted":
            producer.begin_transaction()
            producer.send("t", b"does not")
            producer.abort_transaction()
    commit(client, "t", {0: 1})
    topic.consumed_by("g", timeout=5)


def test_what_is_there_is_waited_for_and_what_a_transaction_may_add(
    kafka_cluster: KafkaCluster, client: SyncCluster
) -> None:
    topic = kafka_cluster.create_topic("t", partitions=2)
    with client.producer() as producer:
        producer.send("t", b"x", partition=0)
    with pytest.raises(TimeoutError, match=r"g has consumed t. It is \{'t-0': \(-1, 1\)\}"):
        topic.consumed_by("g", timeout=0.1)
    commit(client, "t", {0: 1})
    with client.transactional_producer("teller") as producer:
        producer.begin_transaction()
        producer.send("t", b"y", partition=1)
        with pytest.raises(TimeoutError, match=r"'t-1': \(-1, 1\)"):
            topic.consumed_by("g", timeout=0.1)
        producer.abort_transaction()
    topic.consumed_by("g", timeout=5)
