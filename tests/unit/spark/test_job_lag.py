"""How far groups are behind, in records and in time, while topics change below them."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.model.ids import TopicPartition as Partition
from barnabas.spark.access import cluster_of
from barnabas.spark.jobs import lag as job
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
    with cluster_of(bootstrap, "test") as cluster:
        assert job._timestamp_at(cluster, bootstrap, Partition("orders", 0), 2, 10) is None
