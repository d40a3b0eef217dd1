"""A query in the background of a notebook: its table, its lag, its error in one sentence."""

import time

import pytest
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry
from pyspark.errors import AnalysisException

from barnabas.spark.listener import LagListener
from barnabas.spark.reasons import reason

pytestmark = pytest.mark.spark


def test_a_query_in_the_background(kafka_cluster, spark):
    kafka_cluster.create_topic("clicks", partitions=2)
    source = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("columns", "key,timestamp")
    )

    # What dashboards show; prometheus_client.start_http_server(8000) would serve it.
    shown = CollectorRegistry()
    listener = LagListener(shown)
    spark.streams.addListener(listener)

    # One cell starts the query; it runs on while others look at its table.
    query = source.load().writeStream.format("memory").queryName("clicks").start()
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(200):
        producer.produce("clicks", key=f"page {number % 5}")
    assert producer.flush(10) == 0

    deadline = time.monotonic() + 60
    while spark.table("clicks").count() < 200:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
    assert query.lag().keys() == {("clicks", 0), ("clicks", 1)}  # records behind, by partition
    place = {"query": "clicks", "topic": "clicks", "partition": "1"}
    while shown.get_sample_value("barnabas_spark_offsets_behind_latest", place) != 0:
        assert time.monotonic() < deadline
    query.stop()
    spark.streams.removeListener(listener)

    # What went wrong, without the stack traces around it.
    with pytest.raises(AnalysisException) as failed:
        spark.read.format("barnabas").option("kafka.bootstrap.servers", kafka_cluster.bootstrap).option(
            "subscribe", "clics"
        ).load().count()
    assert reason(failed.value).startswith("Topic 'clics' does not exist")
