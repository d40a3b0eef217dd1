"""A consumer that is told of which partitions to return records."""

from __future__ import annotations

from barnabas.client.blocking import connect
from barnabas.model.ids import TopicPartition
from barnabas.testing import KafkaCluster


def test_records_that_were_in_hand_when_their_partition_was_paused_come_once_it_is_resumed(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    with connect(kafka_cluster.bootstrap) as client:
        producer = client.producer()
        for value in (b"first", b"second", b"third"):
            producer.send("t", value, partition=0)
        consumer = client.consumer(auto_offset_reset="earliest")
        consumer.assign([partition])
        assert [record.value for record in consumer.poll(10_000, max_records=1)] == [b"first"]
        consumer.pause(partition)
        assert consumer.poll(0) == []
        consumer.resume(partition)
        assert [record.value for record in consumer.poll(10_000)] == [b"second", b"third"]
