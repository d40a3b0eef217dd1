"""The example project of ``barnabas spark init``: made, run, and run again on what is new."""

import json

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.spark.jobs.project import make_project, run_project

pytestmark = [
    pytest.mark.long(3),
    pytest.mark.spark,
    pytest.mark.kafka(brokers=1, config={"transaction.state.log.num.partitions": 1}),
]


def test_the_project_reads_a_topic_and_writes_one(kafka_cluster, tmp_path, monkeypatch):
    # Each run is two virtual machines for some seconds: four tenths of those went into optimising code that then ended.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    for topic in ("orders", "large-orders"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})

    def produce(numbers):
        for number in numbers:
            order = {"id": number, "product": f"p{number % 4}", "price": number % 100}
            producer.produce("orders", json.dumps(order).encode(), order["product"])
        assert producer.flush(10) == 0

    produce(range(200))
    project = tmp_path / "project"
    make_project(project, kafka_cluster.bootstrap)
    consumer = Consumer(
        {"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["large-orders"])

    def large_orders(count):
        ids = []
        while len(ids) < count:
            ids += [json.loads(message.value())["id"] for message in consumer.consume(count, 30)]
        return sorted(ids)

    assert run_project(project, "local[2]") == 0
    assert large_orders(20) == [*range(90, 100), *range(190, 200)]
    # Only what is new is read, and nothing is written twice.
    produce(range(200, 300))
    assert run_project(project, "local[2]") == 0
    assert large_orders(10) == list(range(290, 300))
    assert consumer.consume(1, 0.5) == []
    consumer.close()
