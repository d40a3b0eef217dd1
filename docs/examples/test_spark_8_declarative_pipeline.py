"""The example project of ``barnabas spark init``: made, and run where Spark Connect's packages are installed."""

import importlib.util
import json

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.project import make_project, run_project

pytestmark = pytest.mark.spark


def test_the_project_reads_a_topic_and_writes_one(kafka_cluster, tmp_path):
    for topic in ("orders", "large-orders"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(200):
        order = {"id": number, "product": f"p{number % 4}", "price": number % 100}
        producer.produce("orders", json.dumps(order).encode(), order["product"])
    assert producer.flush(10) == 0

    project = tmp_path / "project"
    make_project(project, kafka_cluster.bootstrap)
    if importlib.util.find_spec("grpc") is None:
        with pytest.raises(JobError, match=r"pip install 'pyspark\[pipelines\]'"):
            run_project(project, "local[2]")
        return

    assert run_project(project, "local[2]") == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["large-orders"])
    ids = []
    while len(ids) < 20:
        ids += [json.loads(message.value())["id"] for message in consumer.consume(20, 30)]
    consumer.close()
    assert sorted(ids) == [number for number in range(200) if number % 100 >= 90]
