"""A topic in SQL, by a view and by a table; and a filter that the source takes, so that less is read."""

import pytest
from confluent_kafka import Producer

pytestmark = [pytest.mark.spark, pytest.mark.kafka(brokers=1)]


@pytest.fixture
def orders(kafka_cluster):
    """A cluster with the topic orders: two partitions of twenty records."""
    kafka_cluster.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(40):
        producer.produce("orders", f"order {number}", partition=number % 2)
    assert producer.flush(10) == 0
    return kafka_cluster


def test_sql_reads_a_topic(orders, spark):
    options = f"'kafka.bootstrap.servers' = '{orders.bootstrap}', 'subscribe' = 'orders'"
    spark.sql(f"CREATE TEMPORARY VIEW orders USING barnabas OPTIONS ({options}, 'value.format' = 'string')")
    assert spark.sql("SELECT count(*) FROM orders WHERE value LIKE 'order 1_'").first()[0] == 10
    spark.sql("DROP VIEW orders")

    # A table knows the columns; Spark wants the options in each query.
    spark.sql(f"CREATE TABLE kept_orders USING barnabas OPTIONS ({options})")
    try:
        assert spark.sql(f"SELECT max(offset) FROM kept_orders WITH ({options})").first()[0] == 19
    finally:
        spark.sql("DROP TABLE kept_orders")


def test_what_is_filtered_is_not_read(orders, spark):
    source = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", orders.bootstrap)
        .option("subscribe", "orders")
        .option("columns", "partition,offset,value")
    )
    assert source.load().columns == ["partition", "offset", "value"]
    assert source.load().rdd.getNumPartitions() == 2

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        last = source.option("filterPushdown", "true").load().where("partition = 1 AND offset >= 15")
        assert last.rdd.getNumPartitions() == 1
        assert [bytes(row.value).decode() for row in last.collect()] == [f"order {n}" for n in range(31, 40, 2)]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
