"""The judge's limit `librdkafka-first-batch`: librdkafka takes a refused record for delivered, and no broker said so.

An idempotent producer's first batch is refused as by a leader that does not know its office yet. The second one, under
way behind it, is taken: whatever the first sequence is that a producer comes with, a broker that does not know it takes
it, as Kafka's does. librdkafka sees in the second answer that all before it is there.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from barnabas.testing import KafkaCluster


@pytest.mark.timeout(120)
def test_librdkafka_takes_a_first_batch_that_was_refused_for_delivered(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", partitions=1)
    refused = kafka_cluster.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER")
    producer = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "log_level": 0,
        }
    )
    told: dict[bytes | None, tuple[KafkaError | None, int]] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        told[message.value()] = (error, -1 if offset is None else offset)

    for value in (b"first", b"second"):
        producer.produce("t", value, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert refused.hits == 1
    assert told[b"second"] == (None, 0)
    error, offset = told[b"first"]
    assert error is None
    assert offset < 0
    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60) == (0, 1)
    consumer.close()
