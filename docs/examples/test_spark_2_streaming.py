"""A query that reads what is there, ends, and goes on from its checkpoint; its group shows the lag."""

import pytest
from confluent_kafka import Producer

from barnabas.spark.lag import lag

pytestmark = pytest.mark.spark


def test_a_query_goes_on_where_it_ended(kafka_cluster, spark, tmp_path):
    kafka_cluster.create_topic("events", partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})

    def produce(numbers):
        for number in numbers:
            producer.produce("events", f"event {number}")
        assert producer.flush(10) == 0

    def run():
        query = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
            .option("subscribe", "events")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 60)
            .option("groupId", "archive")
            .option("value.format", "string")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "archive"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    produce(range(100))
    first = run()
    assert [each["numInputRows"] for each in first.recentProgress if each["numInputRows"]] == [60, 40]
    assert sum(lag(first).values()) == 0

    produce(range(100, 110))
    run()
    archived = sorted(row.value for row in spark.read.parquet(str(tmp_path / "archive")).collect())
    assert archived == sorted(f"event {number}" for number in range(110))

    # What any Kafka tool shows: kafka-consumer-groups --describe --group archive
    kafka_cluster.topic("events").consumed_by("archive")
