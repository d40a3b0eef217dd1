"""A topic as a DataFrame: plain, decoded from JSON, and by positions."""

import json

import pytest
from confluent_kafka import Producer

pytestmark = pytest.mark.spark


def test_a_topic_is_a_dataframe(kafka_cluster, spark):
    kafka_cluster.create_topic("orders", partitions=3)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(300):
        order = {"id": number, "customer": f"c{number % 7}", "amount": number / 10}
        producer.produce("orders", json.dumps(order).encode(), key=order["customer"])
    assert producer.flush(10) == 0

    source = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
        .option("subscribe", "orders")
    )

    # As the official connector has it: key, value, topic, partition, offset, timestamp, timestampType.
    assert source.load().count() == 300

    # Values decoded while they are read.
    orders = (
        source.option("value.format", "json")
        .option("value.schema", "id LONG, customer STRING, amount DOUBLE")
        .load()
        .select("value.*", "partition", "offset")
    )
    by_customer = {row.customer: row["count"] for row in orders.groupBy("customer").count().collect()}
    assert sum(by_customer.values()) == 300
    assert len(by_customer) == 7
