"""What every version of Spark has to do with the source and the sink: here with the locked one, and with each of
``make spark-matrix``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client import blocking
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.reasons import reason
from barnabas.spark.session import SparkUnavailable, session
from barnabas.spark.versions import LIMITS_SINCE, OLDEST, spark_version

pytestmark = [
    pytest.mark.long(1),
    pytest.mark.spark,
    pytest.mark.kafka(brokers=1, config={"transaction.state.log.num.partitions": 1}),
]
current = pytest.mark.skipif(spark_version() < OLDEST, reason="this Spark is too old, which it is told")
LIGHT = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    warehouse = {"spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri()}
    try:
        started = session("round trip", master="local[2]", config=LIGHT | warehouse)
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.stop()


@pytest.fixture
def events(kafka_cluster: Any) -> Any:
    """A cluster with the topic events: two partitions, the values 0 to 9."""
    kafka_cluster.create_topic("events", partitions=2)
    send(kafka_cluster.bootstrap, range(10))
    return kafka_cluster


def send(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce("events", b"%d" % number, b"k%d" % number, number % 2, headers={"n": b"%d" % number})
    assert producer.flush(30) == 0


def stream(spark: Any, bootstrap: str, **options: str) -> Any:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    given = {"subscribe": "events", "startingOffsets": "earliest", "value.format": "string", **options}
    return reader.options(**given).load()


def make_anew(cluster: Any, topic: str) -> None:
    """The name is free when the old topic's files are gone, some milliseconds after its deletion."""
    while True:
        try:
            return cluster.create_topic(topic, partitions=2)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def values(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.collect())


@pytest.mark.skipif(spark_version() >= OLDEST, reason="this Spark is new enough")
def test_an_old_spark_is_told_so_by_the_session() -> None:
    with pytest.raises(SparkUnavailable, match=r"Barnabas needs Spark 4\.1 or newer, and this is"):
        session("old")


@pytest.mark.skipif(spark_version() >= OLDEST, reason="this Spark is new enough")
def test_an_old_spark_is_told_so_by_its_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    # Spark looks for sources with PATH's python3 otherwise, which may be another one than this.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with pytest.raises(Exception, match=r"Barnabas needs Spark 4\.1 or newer") as refused:
        spark.read.format("barnabas").option("kafka.bootstrap.servers", "h:1").option("subscribe", "t").load()
    assert reason(refused.value).startswith("Barnabas needs Spark 4.1")
    spark.stop()


@current
def test_a_session_reads_arrow_without_looking_at_bounds(spark: Any) -> None:
    assert not spark.sparkContext._jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED


@current
def test_a_topic_is_read_and_written_in_batches(spark: Any, events: Any) -> None:
    bootstrap = events.bootstrap
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "events")
    frame = reader.option("includeHeaders", "true").load()
    row = frame.where("value = '7'").first()
    assert (bytes(row.key), row.topic, row.partition, row.offset) == (b"k7", "events", 1, 3)
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("n", b"7")]
    events.create_topic("copy", partitions=2)
    plain = frame.select("key", "value")
    plain.write.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("topic", "copy").save()
    with pytest.raises(Exception, match="append"):
        plain.write.format("barnabas").options(topic="copy", **{"kafka.bootstrap.servers": bootstrap}).mode(
            "overwrite"
        ).save()
    assert values(reader.option("subscribe", "copy").load()) == list(range(10))


@current
def test_sql_reads_a_topic_as_a_view_and_a_table_by_the_options_of_the_query(spark: Any, events: Any) -> None:
    options = f"'kafka.bootstrap.servers' = '{events.bootstrap}', 'subscribe' = 'events'"
    spark.sql(f"CREATE TEMPORARY VIEW seen USING barnabas OPTIONS ({options})")
    assert spark.sql("SELECT count(*), max(offset) FROM seen").first() == (10, 4)
    spark.sql("DROP VIEW seen")
    spark.sql(f"CREATE TABLE kept USING barnabas OPTIONS ({options})")
    try:
        assert spark.sql(f"SELECT count(*) FROM kept WITH ({options})").first() == (10,)
        # Spark makes the table's columns by its options, and hands none of them on when it is read.
        with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers is missing.* WITH \(") as unread:
            spark.sql("SELECT count(*) FROM kept").first()
        assert "CREATE TEMPORARY VIEW" in reason(unread.value)
    finally:
        spark.sql("DROP TABLE kept")


@current
def test_a_stream_goes_on_from_its_checkpoint_and_notices_what_was_lost(
    spark: Any, events: Any, tmp_path: Path
) -> None:
    def run() -> None:
        writer = stream(spark, events.bootstrap).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("path", str(tmp_path / "kept")).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writer.start().awaitTermination()

    run()
    send(events.bootstrap, range(10, 15))
    run()
    assert values(spark.read.parquet(str(tmp_path / "kept"))) == list(range(15))

    with blocking.connect(events.bootstrap) as client:
        client.admin.delete_topics(["events"])
    make_anew(events, "events")
    send(events.bootstrap, range(20))
    with pytest.raises(Exception, match="made anew") as lost:
        run()
    assert reason(lost.value).startswith("Topic events was deleted and made anew")


@current
def test_a_limit_is_kept_or_refused(spark: Any, events: Any, tmp_path: Path) -> None:
    def run() -> Any:
        limited = stream(spark, events.bootstrap, maxOffsetsPerTrigger="4")
        writer = limited.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    if spark_version() < LIMITS_SINCE:
        with pytest.raises(Exception, match=r"need Spark 4\.2"):
            run()
        return
    assert [each["numInputRows"] for each in run().recentProgress if each["numInputRows"]] == [4, 4, 2]


@current
def test_a_stream_is_written_exactly_once(spark: Any, events: Any, tmp_path: Path) -> None:
    from barnabas.spark import by_target_partition

    events.create_topic("out", partitions=2)
    sink = {"kafka.bootstrap.servers": events.bootstrap, "topic": "out"}

    def run() -> None:
        rows = by_target_partition(stream(spark, events.bootstrap).select("key", "value"), sink)
        writer = rows.writeStream.format("barnabas").options(**sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    for note in (tmp_path / "checkpoint" / "commits").iterdir():
        note.unlink()  # as if the driver had died before Spark noted the batch: it is run once more
    run()
    consumer = Consumer(
        {
            "bootstrap.servers": events.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["out"])
    found: list[int] = []
    while len(found) < 10:
        found += [int(message.value()) for message in consumer.consume(10, timeout=1)]
    assert consumer.consume(1, timeout=0.5) == []
    consumer.close()
    assert sorted(found) == list(range(10))
