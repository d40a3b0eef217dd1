"""``barnabas spark``'s jobs on a real Spark: one session for all, and one cluster of processes."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from landed_tables import rows

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.archive import archive
from barnabas.spark.jobs.audit import audit, normalized
from barnabas.spark.jobs.audit_archive import against_archive_of_source
from barnabas.spark.jobs.doctor import of_the_executors
from barnabas.spark.jobs.land import land
from barnabas.spark.jobs.mirror import SOURCE_OFFSET
from barnabas.spark.session import SparkUnavailable, session
from barnabas.testing import KafkaCluster

pytestmark = [pytest.mark.long(1), pytest.mark.spark]
LIGHT = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # compiling is most of the time of a job on a few rows
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    try:
        started = session("jobs", master="local[2]", config=LIGHT)
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.stop()


# ------------------------------------------------------------------------------------------------ audit


def records(spark: Any, rows: list[tuple[str, int, int, bytes, int]]) -> Any:
    """id, partition, offset, value, sequence."""
    told = [(id, partition, offset, zlib.crc32(value), number) for id, partition, offset, value, number in rows]
    frame = spark.createDataFrame(told, "id string, partition int, offset bigint, crc bigint, sequence bigint")
    return normalized(frame, "records")


def sent(count: int) -> list[tuple[str, int, int, bytes, int]]:
    return [(f"r{n}", n % 2, n // 2, b"value %d" % n, n) for n in range(count)]


def test_what_is_there_once_unchanged_and_in_order_passes(spark: Any) -> None:
    result = audit(records(spark, sent(100)), records(spark, sent(100)[::-1]), place="t")
    assert result.passed
    assert (result.expected, result.found, result.findings) == (100, 100, ())
    assert result.verdict() == "0 lost, 0 duplicated, 0 corrupted, 0 misplaced, 0 reordered, 0 unexpected"


def test_each_kind_of_fault_is_counted_and_listed(spark: Any) -> None:
    there = sent(20)
    there.remove(("r4", 0, 2, b"value 4", 4))
    there.append(("r5", 1, 10, b"value 5", 5))
    there[there.index(("r6", 0, 3, b"value 6", 6))] = ("r6", 0, 3, b"another", 6)
    there[there.index(("r8", 0, 4, b"value 8", 8))] = ("r8", 0, 77, b"value 8", 8)
    there.append(("r99", 1, 11, b"value 99", 99))
    result = audit(records(spark, sent(20)), records(spark, there), place="t")
    assert not result.passed
    found = {(each.kind, each.id, each.partition, each.offset) for each in result.findings}
    assert found == {
        ("lost", "r4", 0, 2),
        ("duplicated", "r5", 1, 2),
        ("corrupted", "r6", 0, 3),
        ("misplaced", "r8", 0, 77),
        ("unexpected", "r99", 1, 11),
        ("reordered", "r5", 1, 10),
        ("reordered", "r8", 0, 77),
    }
    (moved,) = [each.detail for each in result.findings if each.kind == "misplaced"]
    assert moved == "acknowledged at partition 0@4"
    counts = (result.lost, result.duplicated, result.corrupted, result.misplaced, result.unexpected, result.reordered)
    assert counts == (1, 1, 1, 1, 1, 2)


def test_the_order_is_the_manifests_where_the_records_do_not_tell_it(spark: Any) -> None:
    swapped = sent(6)
    swapped[0], swapped[2] = ("r0", 0, 1, b"value 0", 0), ("r2", 0, 0, b"value 2", 2)
    told = records(spark, sent(6)).drop("partition", "offset")
    result = audit(told, records(spark, swapped).drop("sequence"), place="t")
    assert (result.lost, result.reordered, result.misplaced) == (0, 1, None)
    assert [(each.id, each.detail) for each in result.findings] == [("r0", "sequence 0 after 2")]


def test_an_offset_that_the_producer_was_not_told_is_no_fault(spark: Any) -> None:
    told = [("r0", 0, -1, b"value 0", 0), *sent(4)[1:]]
    result = audit(records(spark, told), records(spark, sent(4)), place="t")
    assert result.passed
    assert result.misplaced is None


def test_a_manifest_without_ids_or_places_is_refused(spark: Any) -> None:
    with pytest.raises(ValueError, match="neither a column id nor partition and offset"):
        normalized(spark.createDataFrame([(1,)], "crc bigint"), "manifest.csv")


# ------------------------------------------------------------------------------------------------ audit of a mirror


@pytest.fixture
def mirrored() -> Iterator[Any]:
    with KafkaCluster(brokers=1) as cluster:
        yield cluster


def send(bootstrap: str, rows: list[tuple[int, str, int | None]]) -> None:
    """Partition, value, and the offset in the source that a mirror gives the record."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, value, origin in rows:
        headers: list[tuple[str, str | bytes | None]] = [("n", value)]
        if origin is not None:
            headers.append((SOURCE_OFFSET, str(origin)))
        producer.produce("orders", value, partition=partition, headers=headers, timestamp=1_700_000_000_000)
    assert producer.flush(30) == 0


@pytest.mark.kafka(brokers=1)
def test_a_mirror_is_compared_with_an_archive_of_its_source(
    spark: Any, kafka_cluster: KafkaCluster, mirrored: KafkaCluster, tmp_path: Path
) -> None:
    for cluster in (kafka_cluster, mirrored):
        # Its records are of long ago: from its first half minute on a broker would delete them.
        cluster.create_topic("orders", partitions=2, config={"retention.ms": "-1"})
    send(kafka_cluster.bootstrap, [(n % 2, str(n), None) for n in range(10)])
    archive(spark, kafka_cluster.bootstrap, ["orders"], tmp_path / "archive")
    # The tenth has come after the archive was made; offsets differ, as they do behind a transaction's marker.
    send(mirrored.bootstrap, [(1, "1", 0), *((n % 2, str(n), n // 2) for n in range(12) if n not in (1, 4))])
    sides = against_archive_of_source(spark, mirrored.bootstrap, ["orders"], tmp_path / "archive")
    result = audit(*sides, place="orders")
    assert [(each.kind, each.id) for each in result.findings] == [("lost", "orders@0@2")]
    assert (result.expected, result.found) == (10, 9)
    send(mirrored.bootstrap, [(0, "4", 2), (0, "stranger", None)])
    result = audit(
        *against_archive_of_source(spark, mirrored.bootstrap, ["orders"], tmp_path / "archive"), place="orders"
    )
    assert [(each.kind, each.id) for each in result.findings] == [("unexpected", "orders@0@offset 6")]
    with pytest.raises(JobError, match="the archive has nothing of it"):
        against_archive_of_source(spark, mirrored.bootstrap, ["payments"], tmp_path / "archive")


# ------------------------------------------------------------------------------------------------ doctor


def test_the_executors_reach_the_brokers(spark: Any, kafka_cluster: KafkaCluster) -> None:
    found = list(of_the_executors(spark, kafka_cluster.bootstrap))
    assert {each.state for each in found} == {"ok"}
    assert "reaches 3 brokers" in found[0].says
    (wrong,) = of_the_executors(spark, "127.0.0.1:1")
    assert (wrong.state, "does not reach broker of 127.0.0.1:1" in wrong.says) == ("wrong", True)


# ------------------------------------------------------------------------------------------------ land


def sent_to(bootstrap: str, topic: str, records: list[tuple[int, str, Any]]) -> None:
    """Partition, key and value, a tombstone for None."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, key, value in records:
        producer.produce(topic, None if value is None else json.dumps(value).encode(), key, partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_topic_lands_once_in_a_table_that_grows_with_it(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    bootstrap, path = kafka_cluster.bootstrap, tmp_path / "t"
    kafka_cluster.create_topic("orders", partitions=2)

    def landed(schema: str, **asked: Any) -> Any:
        asked = {"table_format": table_format, "partition_by": ["city"], "select": ["value.*"], **asked}
        options = {"value.format": "json", "value.schema": schema}
        return land(spark, bootstrap, "orders", path, options=options, **asked)

    cities = ["Zürich / Höngg: 10%", "Bern"]
    sent_to(bootstrap, "orders", [(n % 2, "k", {"id": n, "city": cities[n % 2]}) for n in range(20)])
    assert landed("id INT, city STRING").records == 20
    more = [(n % 2, "k", {"id": n, "city": cities[n % 2], "item": {"sku": f"s{n}"}}) for n in range(20, 40)]
    sent_to(bootstrap, "orders", more)
    assert landed("id INT, city STRING, item STRUCT<sku: STRING>").records == 20
    sent_to(bootstrap, "orders", [(n % 2, "k", {"item": {"count": n}}) for n in range(40, 48)])
    done = landed("city STRING, item STRUCT<count: INT>", small_files=2)
    assert (done.offsets, done.records, done.commits) == (8, 8, 1)
    assert done.compacted >= 4
    there = rows(path, table_format)
    assert [(row["_partition"], row["_offset"]) for row in there] == [(p, n) for p in (0, 1) for n in range(24)]
    assert [row["id"] for row in there if row["_partition"] == 1] == [*range(1, 40, 2), *[None] * 4]
    assert {row["city"] for row in there} == {*cities, None}
    items = [row["item"] for row in there if row["_partition"] == 0]
    assert items[9::10] == [None, {"sku": "s38", "count": None}]
    assert items[-1] == {"sku": None, "count": 46}

    with pytest.raises(JobError, match="Column id is int in the table, and string in the topic's records"):
        landed("id STRING, city STRING")
    with pytest.raises(JobError, match="made with other settings: partition_by is city, not nothing"):
        landed("id INT, city STRING", partition_by=[])


def test_a_table_is_kept_up_to_date_until_it_is_interrupted(spark: Any, kafka_cluster: Any, tmp_path: Path) -> None:
    kafka_cluster.create_topic("orders", partitions=1)
    sent_to(kafka_cluster.bootstrap, "orders", [(0, "k", n) for n in range(3)])
    rounds = []

    def told(landed: Any) -> None:
        rounds.append(landed.offsets)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        sent_to(kafka_cluster.bootstrap, "orders", [(0, "k", n) for n in range(2)])

    done = land(spark, kafka_cluster.bootstrap, "orders", tmp_path / "t", every_s=0.1, told=told)
    assert (rounds, done.offsets, done.commits) == ([3, 2], 5, 2)
    assert [row["_offset"] for row in rows(tmp_path / "t", "delta")] == list(range(5))


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_by_a_key_later_records_replace_and_tombstones_delete(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    bootstrap, path = kafka_cluster.bootstrap, tmp_path / "t"
    kafka_cluster.create_topic("users", partitions=2)

    def landed(**asked: Any) -> Any:
        return land(
            spark,
            bootstrap,
            "users",
            path,
            table_format=table_format,
            select=["CAST(key AS STRING) AS name", "CAST(value AS STRING) AS age"],
            key=["name"],
            per="day",
            **asked,
        )

    def ages() -> dict[str, str]:
        return {row["name"]: row["age"] for row in rows(path, table_format)}

    sent_to(bootstrap, "users", [(0, "ann", 1), (1, "bob", 2), (0, "cid", 3), (0, "ann", 4), (1, "dan", 5)])
    assert landed().records == 4
    assert ages() == {"ann": "4", "bob": "2", "cid": "3", "dan": "5"}
    sent_to(bootstrap, "users", [(0, "ann", None), (0, "cid", 6), (1, "eve", 7), (1, "eve", None), (1, "fay", 8)])
    landed()
    assert ages() == {"bob": "2", "cid": "6", "dan": "5", "fay": "8"}
    sent_to(bootstrap, "users", [(1, "dan", None), (0, "cid", None), (1, "bob", None), (1, "fay", None)])
    assert landed(records_per_commit=2).commits == 2
    assert ages() == {}
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("users", b"10", partition=0)
    assert producer.flush(30) == 0
    with pytest.raises(JobError, match="has no name, by which it would replace another"):
        landed()


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_columns_whose_names_differ_in_case_are_refused_before_the_table_has_them(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("orders", partitions=1)
    sent_to(bootstrap, "orders", [(0, "k", 1)])

    def landed(*select: str) -> Any:
        return land(spark, bootstrap, "orders", tmp_path / "t", table_format=table_format, select=select)

    with pytest.raises(JobError, match="The table would have the columns id and ID: rename one in the selection"):
        landed("1 AS id", "2 AS ID")
    landed("1 AS id", "array(struct(1 AS x)) AS items")
    sent_to(bootstrap, "orders", [(0, "k", 2)])
    with pytest.raises(JobError, match="the columns id and ID"):
        landed("2 AS ID")
    with pytest.raises(JobError, match=r"the columns more\.x and more\.X"):
        landed("struct(1 AS x, 2 AS X) AS more")
    landed("3 AS id")
    assert [row["id"] for row in rows(tmp_path / "t", table_format)] == [1, 3]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_column_that_is_null_in_each_record_is_in_the_table_when_it_has_a_type(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    kafka_cluster.create_topic("orders", partitions=1)
    for select in (
        ["1 AS id", "NULL AS later", "struct(NULL AS x, 1 AS y) AS s"],
        ["2 AS id", "'a' AS later", "struct(1 AS x, 1 AS y) AS s"],
        ["3 AS id", "NULL AS later", "struct(NULL AS x, 1 AS y) AS s"],
    ):
        sent_to(kafka_cluster.bootstrap, "orders", [(0, "k", 1)])
        land(spark, kafka_cluster.bootstrap, "orders", tmp_path / "t", table_format=table_format, select=select)
    there = [(row["id"], row["later"], row["s"]["x"]) for row in rows(tmp_path / "t", table_format)]
    assert there == [(1, None, None), (2, "a", 1), (3, None, None)]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_names_may_have_dots_blanks_and_backticks(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    kafka_cluster.create_topic("orders", partitions=1)
    value = "CAST(CAST(value AS STRING) AS INT)"
    select = ["CAST(key AS STRING) AS `a.key`", f"{value} AS `its v``alue`", "'x' AS `a.part`"]
    for number in range(3):
        sent_to(kafka_cluster.bootstrap, "orders", [(0, "k", number), (0, f"k{number}", number)])
        land(
            spark,
            kafka_cluster.bootstrap,
            "orders",
            tmp_path / "t",
            table_format=table_format,
            select=select,
            key=["a.key"],
            partition_by=["a.part"],
            small_files=2,
        )
    there = {row["a.key"]: (row["its v`alue"], row["a.part"]) for row in rows(tmp_path / "t", table_format)}
    assert there == {"k": (2, "x"), "k0": (0, "x"), "k1": (1, "x"), "k2": (2, "x")}
