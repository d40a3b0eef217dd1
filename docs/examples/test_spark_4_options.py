"""A job for the official connector, with one word changed; and the table of options is whole."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.spark.options import option_names

PAGE = Path(__file__).parents[1] / "spark" / "options.md"


def test_every_option_of_the_source_is_in_the_table():
    told = set(re.findall(r"^\| `([\w.]+)`", PAGE.read_text(), re.MULTILINE))
    assert set(option_names()) - {"path"} <= told


@pytest.mark.spark
def test_a_job_changes_by_one_word(kafka_cluster, spark):
    kafka_cluster.create_topic("payments", partitions=1, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(20):
        producer.produce("payments", f"{number}", headers={"currency": b"EUR"}, timestamp=1_700_000_000_000 + number)
    assert producer.flush(10) == 0

    rows = (
        spark.read.format("barnabas")  # was: "kafka"
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
        .option("subscribe", "payments")
        .option("startingOffsetsByTimestamp", '{"payments": {"0": 1700000000005}}')
        .option("endingOffsets", '{"payments": {"0": 15}}')
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("minPartitions", "3")
        .load()
        .selectExpr("CAST(value AS STRING) AS value", "headers[0].key AS header", "offset")
        .collect()
    )
    assert [int(row.value) for row in sorted(rows, key=lambda row: row.offset)] == list(range(5, 15))
    assert {row.header for row in rows} == {"currency"}
