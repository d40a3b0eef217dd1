"""What is no value of its schema goes to a dead-letter topic, in the transaction of the rows beside it."""

import json
import struct

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.spark import dead_letters, from_registry
from barnabas.spark.registry import Registry

pytestmark = pytest.mark.spark
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})


def test_faulty_orders_are_dead_letters(kafka_cluster, spark, tmp_path):
    bootstrap = kafka_cluster.bootstrap
    for topic in ("orders", "clean", "dead"):
        kafka_cluster.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    sent = [b"\0" + struct.pack(">i", 1) + bytes([2 * n]) for n in range(5)]  # the schema's id, and Avro's zigzag
    sent[3] = b"plain text"
    for number, value in enumerate(sent):
        producer.produce("orders", value, f"k{number}", headers={"n": str(number)})
    assert producer.flush(10) == 0

    # A cache that has the schema needs no registry.
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "%2Fschemas%2Fids%2F1.json").write_text(json.dumps({"schema": ORDER}))
    registry = Registry("http://127.0.0.1:1", cache=str(tmp_path / "cache"))
    records = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    order = from_registry("value", registry, schema=ORDER, mode="DEADLETTER")
    clean = records.select("key", "headers", order.alias("order")).selectExpr(
        "key", "headers", "CAST(order.value.id * 10 AS STRING) AS value", "order.dead_letter"
    )
    query = (
        dead_letters(clean, topic="clean", to="dead")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("markerTopic", "clean")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    def read(topic, count):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})  # it reads what is committed
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=30)
        consumer.close()
        return found

    assert [message.value() for message in read("clean", 4)] == [b"0", b"10", b"20", b"40"]
    (letter,) = read("dead", 1)
    assert (letter.key(), letter.value()) == (b"k3", b"plain text")
    headers = dict(letter.headers())
    reason = headers.pop("__connect.errors.exception.message")
    assert b"does not begin with the Confluent prefix" in reason
    place = {"topic": b"orders", "partition": b"0", "offset": b"3"}
    assert headers == {"n": b"3"} | {f"__connect.errors.{name}": value for name, value in place.items()}
