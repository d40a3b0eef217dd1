"""Spark's official Kafka connector, unchanged: batch, sink and stream find on three brokers of ours what they find on
three of Apache Kafka 3.9.2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [
    pytest.mark.apache,
    pytest.mark.spark,
    pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="two clusters of three brokers: make clients"),
]


def test_batch_sink_and_stream_find_the_same(spark: Any, ours: str, apaches: str, tmp_path: Path) -> None:
    here, there = tell(spark, ours, tmp_path / "ours"), tell(spark, apaches, tmp_path / "apaches")
    assert here == there
    assert len(here["committed"]) == 40
    assert [sum(rows) for rows in here["batches"]] == [250, 30]
    assert len(here["batches"][0]) == 3
    assert sorted(value for _, value in here["streamed"]) == sorted(f"v{number}" for number in range(280))


def tell(spark: Any, bootstrap: str, checkpoint: Path) -> dict[str, Any]:
    """What the connector finds, without times."""

    def kafka(reader_or_writer: Any, **options: str) -> Any:
        made = reader_or_writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        for name, value in options.items():
            made = made.option(name.replace("__", "."), value)
        return made

    def read(topic: str, *columns: str, **options: str) -> list[list[Any]]:
        rows = kafka(spark.read, subscribe=topic, includeHeaders="true", **options).load()
        return sorted(list(row) for row in rows.selectExpr(*columns).collect())

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 3, 3) for name in ("spark-in", "spark-out", "spark-sink", "spark-transactions")]
    for made in admin.create_topics(topics).values():
        made.result(30)

    facts: dict[str, Any] = {"batches": []}
    sent = 0
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2", "log_level": 0})
    for count in (250, 30):
        for number in range(sent, sent + count):
            producer.produce(
                "spark-in", b"v%d" % number, b"k%d" % (number % 7), headers={"n": b"%d" % number},
                timestamp=1_700_000_000_000 + number,
            )  # fmt: skip
        assert producer.flush(30) == 0
        sent += count
        source = kafka(
            spark.readStream, subscribe="spark-in", startingOffsets="earliest", maxOffsetsPerTrigger="100",
            includeHeaders="true", kafka__isolation__level="read_committed",
        ).load()  # fmt: skip
        sink = kafka(source.select("key", "value", "headers").writeStream, topic="spark-out", includeHeaders="true")
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
            facts["batches"].append([each["numInputRows"] for each in query.recentProgress if each["numInputRows"]])
        finally:
            query.stop()
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "spark", "log_level": 0})
    transactional.init_transactions(30)
    for kept in (True, False, True):
        transactional.begin_transaction()
        for number in range(20):
            transactional.produce("spark-transactions", b"%d" % number, partition=number % 3)
        assert transactional.flush(30) == 0
        if kept:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)
    kafka(
        spark.range(50).selectExpr("concat('key ', id) AS key", "string(id) AS value").write, topic="spark-sink"
    ).save()

    place = ("topic", "partition", "offset", "string(key)", "string(value)")
    facts["read"] = read("spark-in", *place, "unix_millis(timestamp)", "timestampType", "string(headers[0].value)")
    facts["by offset"] = read(
        "spark-in", *place, startingOffsets='{"spark-in": {"0": 5, "1": -2, "2": 3}}',
        endingOffsets='{"spark-in": {"0": 9, "1": 7, "2": -1}}',
    )  # fmt: skip
    facts["by time"] = read("spark-in", *place, startingTimestamp="1700000000100")
    facts["streamed"] = read("spark-out", "string(headers[0].value)", "string(value)")
    facts["written"] = read("spark-sink", "partition", "string(key)", "string(value)")
    facts["committed"] = read("spark-transactions", *place, kafka__isolation__level="read_committed")
    facts["uncommitted"] = len(read("spark-transactions", *place))
    facts["schema"] = kafka(spark.read, subscribe="spark-in").load().schema.simpleString()
    return facts
