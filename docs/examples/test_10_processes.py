"""Brokers as processes of their own: a real ``kill -9``, a real SIGSTOP."""

import pytest
from confluent_kafka import Producer


@pytest.mark.kafka(brokers=3, processes=True)
def test_what_was_acknowledged_survives_kill_9_of_every_broker(kafka_cluster):
    kafka_cluster.create_topic("t", config={"min.insync.replicas": 2})
    outcomes = []
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(200):
        producer.produce("t", value=str(number), on_delivery=lambda error, message: outcomes.append(error))
    assert producer.flush(10) == 0
    assert outcomes == [None] * 200

    for broker in kafka_cluster.brokers:
        broker.kill()
    for broker in kafka_cluster.brokers:
        broker.start()

    partition = kafka_cluster.partition("t", 0)
    partition.wait(isr=partition.replicas, timeout=15)
    assert len(kafka_cluster.records("t")) == 200
    assert kafka_cluster.verify().acknowledged > 0
