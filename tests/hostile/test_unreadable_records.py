"""Records that no coordinator can read, written by a client into the internal topics of a living cluster.

A client may do that as it may with Apache Kafka: where its client id is ``__admin_client``.
"""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.coordinator.offsets_records import OffsetAndMetadata, group_record, offset_record
from barnabas.coordinator.transaction_records import transaction_key
from barnabas.model.ids import TopicPartition as Partition
from barnabas.testing import KafkaCluster

OFFSETS = [
    (b"\x00\x01\x00\x02fp\x00\x04oooo" + bytes(4), b"\xff" * 6),
    (group_record("keeper", None).key, b"\x00\x03\xff\xff"),
    (offset_record("keeper", Partition("t", 0), OffsetAndMetadata(0)).key, b"\x00\x2a" + bytes(40)),
    (b"\x00\x01", b"\x00\x03"),
    (b"\x00\x02\x7f\xff", None),
    (b"", b""),
]
TRANSACTIONS = [(transaction_key("keeper"), value) for value in (b"\xff" * 6, b"\x00\x02" + bytes(40))]


def written(cluster: KafkaCluster, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "__admin_client", "acks": "all"})
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(30) == 0
    assert outcomes == [None] * len(records)


def transaction(cluster: KafkaCluster, value: str) -> None:
    """One record in a transaction of the id that has its unreadable records in the log."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "keeper", "socket.timeout.ms": 5000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", value, partition=0)
    producer.commit_transaction(30)


def consumed(cluster: KafkaCluster, count: int) -> list[bytes | None]:
    """The next `count` records of the group that has its unreadable records in the log; committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "keeper",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.subscribe(["t"])
    messages = consumer.consume(count, 30)
    consumer.commit(asynchronous=False)
    consumer.close()
    return [message.value() for message in messages]


def fetched_offset(cluster: KafkaCluster) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "keeper"})
    try:
        (found,) = consumer.committed([TopicPartition("t", 0)], 30)
    finally:
        consumer.close()
    return found.offset


CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
}


def test_groups_and_transactions_work_on_beside_records_that_nobody_can_read() -> None:
    with KafkaCluster(3, processes=True, config=CONFIG) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        transaction(cluster, "first")
        assert consumed(cluster, 1) == [b"first"]
        written(cluster, "__consumer_offsets", OFFSETS)
        written(cluster, "__transaction_state", TRANSACTIONS)
        for topic in ("__consumer_offsets", "__transaction_state"):
            leader = cluster.partition(topic, 0).leader
            leader.kill()
            cluster.partition(topic, 0).wait(not_leader=leader, timeout=30)
            leader.start()
            cluster.partition(topic, 0).wait(isr=cluster.brokers, timeout=30)
        transaction(cluster, "second")
        assert consumed(cluster, 1) == [b"second"]
        behind_second = fetched_offset(cluster)
        for broker in cluster.brokers:
            broker.kill()
        for broker in cluster.brokers:
            broker.start()
        cluster.partition("t", 0).wait(isr=cluster.brokers, timeout=30)
        assert fetched_offset(cluster) == behind_second
        transaction(cluster, "third")
        assert consumed(cluster, 1) == [b"third"]
        cluster.verify()


def test_another_client_may_not_write_into_an_internal_topic() -> None:
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t", partitions=1)
        cluster.group("g").committed("t")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        outcomes: list[object] = []
        producer.produce("__consumer_offsets", b"", partition=0, on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(30)
        (error,) = outcomes
        assert "TOPIC_EXCEPTION" in str(error) or "Invalid topic" in str(error)
