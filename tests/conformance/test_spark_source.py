"""``format("barnabas")`` on stock Apache Kafka 3.9: what an independent client wrote is what Spark reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apache
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.spark.session import SparkUnavailable, session

pytestmark = [pytest.mark.apache, pytest.mark.spark]
COUNT = 3000


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    try:
        started = session("tests", master="local[2]")
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    apache.require()
    with apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 1) as cluster:
        topics = [NewTopic(name, 3, 1) for name in ("plain", "transactions", "other")]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "zstd", "linger.ms": 20})
        for number in range(COUNT):
            producer.produce("plain", b"v%d" % number, b"k%d" % (number % 10), headers={"n": b"%d" % number})
        assert producer.flush(30) == 0
        transactional = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "tx"})
        transactional.init_transactions(30)
        for number in range(10):
            transactional.begin_transaction()
            for each in range(10):
                transactional.produce("transactions", b"%d" % (number * 10 + each), partition=0)
            transactional.flush(30)  # an abort throws away what was not sent yet
            if number % 2:
                transactional.abort_transaction(30)
            else:
                transactional.commit_transaction(30)
        yield cluster.bootstrap


def load(spark: Any, kafka: str, **options: str) -> Any:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", kafka)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def test_every_record_comes_once_with_the_official_columns(spark: Any, kafka: str) -> None:
    rows = load(spark, kafka, subscribe="plain", includeHeaders="true").collect()
    assert {bytes(row.value) for row in rows} == {b"v%d" % number for number in range(COUNT)}
    assert len(rows) == COUNT
    assert len({(row.partition, row.offset) for row in rows}) == COUNT
    first = rows[0]
    assert first.topic == "plain"
    assert first.timestampType == 0
    assert all(bytes(row.headers[0]["value"]) == bytes(row.value)[1:] for row in rows)
    assert load(spark, kafka, subscribe="plain").columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip


def test_columns_prune_and_partitions_are_cut(spark: Any, kafka: str) -> None:
    frame = load(spark, kafka, subscribePattern="pl.*", columns="offset,partition", minPartitions="9")
    assert frame.columns == ["offset", "partition"]
    assert frame.rdd.getNumPartitions() >= 9
    assert frame.count() == COUNT


def test_positions_say_where_to_begin_and_to_end(spark: Any, kafka: str) -> None:
    frame = load(
        spark, kafka, assign='{"plain":[0]}', startingOffsets='{"plain":{"0":5}}', endingOffsets='{"plain":{"0":12}}'
    )
    assert sorted(row.offset for row in frame.collect()) == list(range(5, 12))


def test_committed_reads_leave_out_what_was_aborted(spark: Any, kafka: str) -> None:
    options = {"subscribe": "transactions", "kafka__isolation__level": "read_committed"}
    committed = {int(row.value) for row in load(spark, kafka, **options).collect()}
    assert committed == {n * 10 + each for n in range(0, 10, 2) for each in range(10)}
    everything = {int(row.value) for row in load(spark, kafka, subscribe="transactions").collect()}
    assert everything == set(range(100))


def test_a_topic_that_is_not_there_is_an_error_that_names_it(spark: Any, kafka: str) -> None:
    with pytest.raises(Exception, match="no-such-topic"):
        load(spark, kafka, subscribe="no-such-topic").collect()


def test_an_empty_topic_gives_no_rows(spark: Any, kafka: str) -> None:
    assert load(spark, kafka, subscribe="other").count() == 0


def test_offsets_beyond_the_topic_are_data_loss_unless_allowed(spark: Any, kafka: str) -> None:
    options = {"assign": '{"plain":[0]}', "endingOffsets": '{"plain":{"0":999999}}'}
    with pytest.raises(Exception, match="failOnDataLoss"):
        load(spark, kafka, **options).collect()
    assert load(spark, kafka, **options, failOnDataLoss="false").count() > 0
