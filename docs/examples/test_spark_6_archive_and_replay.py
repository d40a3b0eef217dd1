"""A topic into Parquet, twice without doubling anything, and back into another topic, judged by an audit."""

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from barnabas.spark.jobs.archive import archive, read_archive
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.audit import audit
from barnabas.spark.jobs.audit_archive import against_archive
from barnabas.spark.jobs.commits import coverage
from barnabas.spark.jobs.replay import replay

pytestmark = pytest.mark.spark


def test_an_archive_goes_on_where_it_was_and_is_replayed(kafka_cluster, spark, tmp_path):
    bootstrap = kafka_cluster.bootstrap
    for topic in ("orders", "orders-again"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(numbers):
        for number in numbers:
            producer.produce("orders", b"order %d" % number, b"k%d" % (number % 5), headers={"n": b"%d" % number})
        assert producer.flush(10) == 0

    produce(range(100))
    assert archive(spark, bootstrap, ["orders"], tmp_path / "a").records == 100
    assert archive(spark, bootstrap, ["orders"], tmp_path / "a").records == 0
    produce(range(100, 120))
    assert archive(spark, bootstrap, ["orders"], tmp_path / "a").records == 20
    assert read_archive(spark, tmp_path / "a").count() == 120

    # The same as a table, for whoever reads Delta or Iceberg.
    for table_format in ("delta", "iceberg"):
        assert archive(spark, bootstrap, ["orders"], tmp_path / table_format, table_format=table_format).records == 120
    assert DeltaTable(tmp_path / "delta").count() == 120
    with SqlCatalog("barnabas", uri=f"sqlite:///{tmp_path}/iceberg/_archive/iceberg.db") as catalog:
        assert catalog.load_table("barnabas.archive").scan().count() == 120

    # The proof: each partition is one range from its first offset on, with no gap and nothing twice.
    for each in coverage(Archive.open(tmp_path / "a").commits()):
        assert (len(each.ranges), each.gaps, each.overlaps) == (1, [], [])

    assert replay(spark, tmp_path / "a", bootstrap, into={"orders": "orders-again"}).records == 120
    sides = against_archive(spark, bootstrap, ["orders-again"], tmp_path / "a", replayed="orders")
    assert audit(*sides, place="orders-again").verdict() == "0 lost, 0 duplicated, 0 corrupted, 0 unexpected"
