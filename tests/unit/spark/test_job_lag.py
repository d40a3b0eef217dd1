"""How far groups are behind, in records and in time, while topics change below them."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.model.ids import TopicPartition as Partition
from barnabas.spark.access import cluster_of
from barnabas.spark.behind import timestamp_at
from barnabas.spark.jobs import lag as job
from barnabas.spark.options import SourceOptions
from barnabas.testing import KafkaCluster


def test_what_was_deleted_before_it_was_read_is_told_and_no_error(kafka_cluster: KafkaCluster) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("orders", partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    now_ms = time.time_ns() // 1_000_000
    for number in range(10):
        producer.produce("orders", b"%d" % number, timestamp=now_ms - 60_000)
    assert producer.flush(30) == 0
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    reader.close()
    admin, there = AdminClient({"bootstrap.servers": bootstrap}), TopicPartition("orders", 0, 5)
    admin.delete_records([there])[there].result(30)
    (found,) = job.lag(bootstrap)
    assert (found.committed, found.end, found.lag, found.lost) == (2, 10, 5, 3)
    assert found.behind_s is not None
    assert 60 <= found.behind_s < 600
    # A record that goes between the look at the offsets and the one at its batch.
    options = SourceOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"})
    with cluster_of(bootstrap, "test") as cluster:
        assert timestamp_at(cluster, Partition("orders", 0), 2, options) is None


def test_a_record_is_as_old_as_its_broker_says_where_that_appends_times(kafka_cluster: KafkaCluster) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("orders", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"0", timestamp=time.time_ns() // 1_000_000 - 3_600_000)
    assert producer.flush(30) == 0
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    reader.close()
    (found,) = job.lag(bootstrap)
    assert found.behind_s is not None
    assert found.behind_s < 3_000
