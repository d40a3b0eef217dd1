"""``format("barnabas")`` beside the official connector: both read the same topics, on Apache Kafka and on Barnabas."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from cluster import running, until
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from barnabas.model.ids import TopicPartition as Partition
from barnabas.spark.access import connected
from barnabas.spark.arrow import Fetched
from barnabas.spark.fetching import fetched
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.spark.topics import bounds

pytestmark = [pytest.mark.long(2), pytest.mark.apache, pytest.mark.spark]
COUNT = 3000
MANY = 200
CLEANER = {"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "4194304"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    apache.require()
    with apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 1, config=CLEANER) as cluster:
        fill(cluster.bootstrap)
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def barnabas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(
        tmp_path_factory.mktemp("barnabas"), 1, *(f"{key}={value}" for key, value in CLEANER.items())
    ) as cluster:
        fill(cluster.bootstrap)
        yield cluster.bootstrap


def create(bootstrap: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(list(topics)).values():
        made.result(30)


def fill(bootstrap: str) -> None:
    """Topics in every codec, with null keys and values, headers, a record of 1 MB; transactions, in one partition all
    aborted; a compacted topic, in which a batch became empty."""
    compacted = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.01"}
    create(
        bootstrap,
        *(NewTopic(f"eq-{codec}", 1 + (codec == "none"), 1, config={"retention.ms": "-1"}) for codec in CODECS),
        NewTopic("eq-transactions", 3, 1),
        NewTopic("eq-empty", 1, 1),
        NewTopic("eq-compacted", 1, 1, config=compacted),
    )
    for codec in CODECS:
        given = {"compression.type": codec, "linger.ms": 5, "message.max.bytes": 1_048_576}
        producer = Producer({"bootstrap.servers": bootstrap, **given})
        for number in range(COUNT):
            producer.produce(
                f"eq-{codec}",
                b"v%d" % number if number % 7 else None,
                b"k%d" % (number % 10) if number % 3 else None,
                headers=[("n", b"%d" % number), ("n", None)] if number % 2 else None,
                timestamp=1_700_000_000_000 + number,
            )
        producer.produce(f"eq-{codec}", random.Random(1).randbytes(1_000_000), partition=0, timestamp=1_700_000_000_000)
        assert producer.flush(30) == 0
    # All of its one batch is replaced later: the cleaner keeps an empty one, for its producer's last sequence.
    replaced = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(1, 5):
        replaced.produce("eq-compacted", b"replaced", b"k%d" % number)
    assert replaced.flush(30) == 0
    compacting = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "compression.type": "lz4"})
    for number in range(COUNT):
        compacting.produce("eq-compacted", b"%d" % number * 10, b"k%d" % (number % 50 if number % 5 else number))
        if number % 100 == 0:
            compacting.flush(30)
    assert compacting.flush(30) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx"})
    transactional.init_transactions(30)
    for number in range(10):
        transactional.begin_transaction()
        for each in range(10):
            transactional.produce("eq-transactions", b"%d" % (number * 10 + each), partition=each % 2)
        if number % 2:
            transactional.produce("eq-transactions", b"aborted", partition=2)
        transactional.flush(30)  # an abort throws away what was not sent yet
        if number % 2:
            transactional.abort_transaction(30)
        else:
            transactional.commit_transaction(30)


def load(spark: Any, bootstrap: str, format_name: str = "barnabas", **options: str) -> Any:
    reader = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def sums(frame: Any) -> Any:
    """What two reads of the same records agree on."""
    from pyspark.sql import functions as F

    return (
        frame.groupBy("topic", "partition", "timestampType")
        .agg(
            F.count("*"),
            F.sum("offset"),
            F.sum(F.crc32("value")),
            F.sum(F.crc32("key")),
            F.count("key"),
            F.sum(F.unix_millis("timestamp")),
            F.sum(F.crc32(F.to_json("headers").cast("binary"))),
        )
        .orderBy("topic", "partition")
    ).collect()


@pytest.mark.parametrize("cluster_name", ["kafka", "barnabas"])
def test_the_same_records_as_the_official_connector_reads(
    spark: Any, request: pytest.FixtureRequest, cluster_name: str
) -> None:
    bootstrap = request.getfixturevalue(cluster_name)
    options = {"subscribePattern": "eq-.*", "includeHeaders": "true", "kafka__isolation__level": "read_committed"}
    # The cleaner works meanwhile: what it removes between the two reads would be in one of them only.
    options["endingOffsets"] = _until_compacted(bootstrap)
    official = sums(load(spark, bootstrap, "kafka", **options))
    for decoder in ("compiled", "python"):
        assert sums(load(spark, bootstrap, **options, decoder=decoder)) == official
    counted = {(row.topic, row.partition): row["count(1)"] for row in official}
    assert sum(count for (topic, _), count in counted.items() if topic == "eq-zstd") == COUNT + 1
    assert counted["eq-transactions", 0] == 25
    assert ("eq-transactions", 2) not in counted
    assert counted["eq-compacted", 0] < COUNT
    headers = [header for each in _fetched(bootstrap, "eq-compacted") for header, _, _ in each.batches]
    assert [header.last_offset for header in headers if not header.record_count] == [3]


def test_two_hundred_partitions_are_read_as_the_official_connector_reads_them(spark: Any, barnabas: str) -> None:
    create(barnabas, NewTopic("many", MANY, 1))
    producer = Producer({"bootstrap.servers": barnabas})
    for number in range(2 * MANY):
        producer.produce("many", b"%d" % number, partition=number % MANY)
    assert producer.flush(30) == 0
    ours = sums(load(spark, barnabas, subscribe="many", includeHeaders="true"))
    assert ours == sums(load(spark, barnabas, "kafka", subscribe="many", includeHeaders="true"))
    assert [(row.partition, row["count(1)"]) for row in ours] == [(each, 2) for each in range(MANY)]


def _until_compacted(bootstrap: str) -> str:
    """Waits until the cleaner is done; the ends of all partitions, as ``endingOffsets`` takes them."""
    seen: list[int] = [COUNT]

    def settled() -> bool:
        read = _fetched(bootstrap, "eq-compacted")
        seen.append(sum(header.record_count for each in read for header, _, _ in each.batches))
        return seen[-1] == seen[-2] < COUNT

    until(settled, "the cleaner's work")
    ends: dict[str, dict[str, int]] = {}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = ["eq-empty", "eq-transactions", "eq-compacted", *(f"eq-{codec}" for codec in CODECS)]
    partitions = [
        TopicPartition(topic, partition)
        for topic, found in admin.list_topics(timeout=10).topics.items()
        for partition in found.partitions
        if topic in names
    ]
    latest = admin.list_offsets({each: OffsetSpec.latest() for each in partitions})
    for each, listed in latest.items():
        ends.setdefault(each.topic, {})[str(each.partition)] = listed.result(30).offset
    return json.dumps(ends)


def _fetched(bootstrap: str, topic: str) -> list[Fetched]:
    """By the source's own fetch loop, without Spark."""
    options = SourceOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}).for_batch()
    with connected(options.access) as cluster:
        (low, high) = bounds(cluster, [Partition(topic, 0)], options)[Partition(topic, 0)]
        return list(fetched(cluster, OffsetRange(topic, 0, low, high), options))


def test_the_columns_are_the_official_ones_and_options_prune_and_cut_them(spark: Any, kafka: str) -> None:
    assert load(spark, kafka, subscribe="eq-none").schema == load(spark, kafka, "kafka", subscribe="eq-none").schema
    with_headers = {"subscribe": "eq-none", "includeHeaders": "true"}
    assert load(spark, kafka, **with_headers).dtypes == load(spark, kafka, "kafka", **with_headers).dtypes
    frame = load(spark, kafka, subscribePattern="eq-zs.*", columns="offset,partition", minPartitions="9")
    assert frame.columns == ["offset", "partition"]
    assert frame.rdd.getNumPartitions() >= 9
    assert frame.count() == COUNT + 1


def test_positions_by_offset_and_by_time_cover_what_the_official_connector_covers(spark: Any, kafka: str) -> None:
    for options in (
        {"assign": '{"eq-lz4":[0]}', "startingOffsets": '{"eq-lz4":{"0":5}}', "endingOffsets": '{"eq-lz4":{"0":12}}'},
        {"subscribe": "eq-lz4", "startingTimestamp": "1700000001000", "endingTimestamp": "1700000002000"},
        {
            "assign": '{"eq-lz4":[0]}',
            "startingOffsetsByTimestamp": '{"eq-lz4":{"0":1700000002900}}',
            "endingOffsetsByTimestamp": '{"eq-lz4":{"0":1800000000000}}',
        },
    ):
        ours = load(spark, kafka, **options).select("partition", "offset").collect()
        assert sorted(ours) == sorted(load(spark, kafka, "kafka", **options).select("partition", "offset").collect())
        assert 0 < len(ours) < COUNT


def test_filters_are_handed_down_and_change_nothing_else(spark: Any, kafka: str) -> None:
    wanted = "partition = 1 AND offset >= 100 AND offset < 900 AND timestamp >= '2023-11-14 22:13:21'"
    plain = load(spark, kafka, subscribe="eq-none").where(wanted)
    pushed = load(spark, kafka, subscribe="eq-none", filterPushdown="true").where(wanted)
    assert sorted(row.offset for row in pushed.collect()) == sorted(row.offset for row in plain.collect())
    assert pushed.count() > 0
    assert pushed.rdd.getNumPartitions() == 1
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    assert "offset" not in plan.partition("Filter")[2].partition("\n")[0]


def test_values_come_decoded(spark: Any, kafka: str) -> None:
    create(kafka, NewTopic("json", 1, 1))
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(100):
        producer.produce("json", json.dumps({"id": number, "tags": ["a"] * (number % 3), "more": 1}).encode())
    producer.produce("json", b"{broken")
    assert producer.flush(30) == 0
    options = {"subscribe": "json", "value__format": "json", "value__schema": "id LONG, tags ARRAY<STRING>"}
    rows = load(spark, kafka, **options, value__mode="PERMISSIVE").select("value.*", "offset").collect()
    assert [row.id for row in sorted(rows, key=lambda row: row.offset)] == [*range(100), None]
    with pytest.raises(Exception, match=r"The value of json-0@100 does not fit"):
        load(spark, kafka, **options).collect()
    # On the console the JVM says that a task has failed; its stack trace is in the exception.
    console = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/fd/2")
    if console.is_file():  # pytest's, unless it captures nothing
        said = console.read_text(errors="replace")
        assert "ERROR Executor: Exception in task" in said
        assert "\tat " not in said
    assert load(spark, kafka, subscribe="json", value__format="string").first().value.startswith('{"id": 0')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "no-such-topic"}, "Topic 'no-such-topic' does not exist"),
        ({"assign": '{"eq-none":[0]}', "startingOffsets": '{"eq-none":{"0":999999}}'}, "failOnDataLoss=false"),
        ({"subscribe": "eq-none", "startingOffsets": '{"eq-none":{"0":0}}'}, "name each of them"),
        ({"subscribe": "eq-none", "startingTimestamp": "1900000000000"}, "startingOffsetsByTimestampStrategy"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(spark: Any, kafka: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        load(spark, kafka, **options).collect()


def test_an_address_where_nobody_is_is_said_at_once(spark: Any) -> None:
    with pytest.raises(Exception, match=r"No broker of kafka.bootstrap.servers=127.0.0.1:1 can be reached"):
        load(spark, "127.0.0.1:1", subscribe="t").collect()


def test_offsets_beyond_the_topic_are_read_as_far_as_they_go_where_that_is_allowed(spark: Any, kafka: str) -> None:
    options = {"assign": '{"eq-none":[0]}', "endingOffsets": '{"eq-none":{"0":999999}}', "columns": "offset"}
    assert load(spark, kafka, **options, failOnDataLoss="false").count() > 0
    assert load(spark, kafka, subscribe="eq-empty").count() == 0
