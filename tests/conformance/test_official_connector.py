"""Spark's official Kafka connector, unchanged, on Barnabas: batch, stream, sink, ``availableNow``, real-time mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import running, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.long(2), pytest.mark.apache, pytest.mark.spark]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("official"), 1) as cluster:
        yield cluster.bootstrap


def create(bootstrap: str, *topics: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(each, partitions, 1) for each in topics]).values():
        made.result(30)


def send(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"k%d" % (number % 7), headers={"n": b"%d" % number})
    assert producer.flush(30) == 0


def official(reader_or_writer: Any, bootstrap: str) -> Any:
    return reader_or_writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)


def test_a_query_reads_and_writes_topics_and_goes_on_from_its_checkpoint(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "in", "out")

    def run() -> list[int]:
        """Rows of each micro-batch."""
        source = official(spark.readStream, bootstrap).option("subscribe", "in").option("includeHeaders", "true")
        rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "100").load()
        query = (
            official(rows.select("key", "value", "headers").writeStream, bootstrap)
            .option("topic", "out")
            .option("includeHeaders", "true")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    send(bootstrap, "in", range(250))
    first = run()
    assert sum(first) == 250
    assert len(first) == 3
    assert max(first) <= 100
    send(bootstrap, "in", range(250, 280))
    assert run() == [30]
    read = official(spark.read, bootstrap).option("subscribe", "out").option("includeHeaders", "true").load()
    found = read.selectExpr("int(string(value)) AS n", "string(key) AS key", "string(headers[0].value) AS header")
    assert sorted((row.n, row.key, row.header) for row in found.collect()) == [
        (number, f"k{number % 7}", str(number)) for number in range(280)
    ]


def test_a_batch_write_goes_to_the_partitions_of_kafkas_partitioner(spark: Any, bootstrap: str) -> None:
    create(bootstrap, "written", "beside", partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(50):
        producer.produce("beside", b"v", b"key %d" % number)
    assert producer.flush(30) == 0
    rows = spark.range(50).selectExpr("concat('key ', id) AS key", "string(id) AS value", "'written' AS topic")
    official(rows.write, bootstrap).save()
    read = official(spark.read, bootstrap).option("subscribePattern", "written|beside").load()
    places = {(row.topic, bytes(row.key)): row.partition for row in read.collect()}
    assert len(places) == 100
    assert all(places["written", key] == partition for (topic, key), partition in places.items() if topic == "beside")


def test_real_time_mode_brings_each_record_round_before_its_batch_ends(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "asked", "answered", partitions=1)
    rows = official(spark.readStream, bootstrap).option("subscribe", "asked").load()
    query = (
        official(rows.selectExpr("key", "concat('seen ', string(value)) AS value").writeStream, bootstrap)
        .option("topic", "answered")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(realTime="10 minutes")  # so no answer can have waited for a batch to end
        .start()
    )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "asking", "enable.auto.commit": False})
    consumer.assign([TopicPartition("answered", 0, 0)])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    try:
        # A query without a starting offset begins at the end, wherever that is when it is up.
        producer.produce("asked", b"up")

        def answer() -> bytes | None:
            assert query.isActive, query.exception()
            message = consumer.poll(0.1)
            return None if message is None else bytes(message.value())

        def up() -> bool:
            producer.produce("asked", b"up")
            return answer() is not None

        until(up, "real-time mode answers")
        for number in range(10):
            producer.produce("asked", b"%d" % number)
            until(lambda wanted=b"seen %d" % number: answer() == wanted, f"record {number} comes back")
    finally:
        query.stop()
        consumer.close()


def test_its_checkpoint_goes_on_with_ours_and_back(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    from barnabas.spark.checkpoint import migrate

    create(bootstrap, "moved")

    def run(kind: str, checkpoint: str) -> None:
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
        counted = reader.option("subscribe", "moved").option("startingOffsets", "earliest").load()
        # State is kept over the change of the source, too.
        sums = counted.selectExpr("int(string(value)) AS number").groupBy().agg({"number": "sum", "*": "count"})
        query = (
            sums.writeStream.format("memory")
            .queryName("moved")
            .outputMode("complete")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def seen() -> tuple[int, int]:
        (row,) = spark.table("moved").selectExpr("`count(1)` AS n", "`sum(number)` AS s").collect()
        return row.n, row.s

    send(bootstrap, "moved", range(10))
    run("kafka", "checkpoint")
    assert seen() == (10, 45)
    send(bootstrap, "moved", range(10, 20))
    run("barnabas", "checkpoint")  # by itself
    assert seen() == (20, 190)
    migrate(tmp_path / "checkpoint", tmp_path / "back", back=True)
    send(bootstrap, "moved", range(20, 30))
    run("kafka", "back")
    assert seen() == (30, 435)
