"""A query that dies after its batch was committed, and is started again: every record is there once."""

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.spark import by_target_partition

pytestmark = [pytest.mark.spark, pytest.mark.kafka(brokers=1, config={"transaction.state.log.num.partitions": 1})]


def test_a_batch_that_is_in_is_not_written_again(kafka_cluster, spark, tmp_path):
    for topic in ("orders", "totals"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(100):
        producer.produce("orders", key=f"customer {number % 7}", value=str(number))
    assert producer.flush(10) == 0

    cluster = {"kafka.bootstrap.servers": kafka_cluster.bootstrap}
    sink = {**cluster, "topic": "totals"}  # its name is the query's id, which the checkpoint keeps
    rows = (
        spark.readStream.format("barnabas")
        .options(**cluster)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "concat('order ', string(value)) AS value")
    )

    def run():
        return (
            by_target_partition(rows, sink)
            .writeStream.format("barnabas")
            .options(**sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    run()
    # As if the driver had died between the commit and Spark's note of it: the batch is run once more.
    for note in (tmp_path / "checkpoint" / "commits").iterdir():
        note.unlink()
    run()

    consumer = Consumer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["totals"])
    totals = []
    while len(totals) < 100:
        totals += [message.value().decode() for message in consumer.consume(100, timeout=1)]
    assert consumer.consume(1, timeout=0.2) == []
    consumer.close()
    assert sorted(totals) == sorted(f"order {number}" for number in range(100))
