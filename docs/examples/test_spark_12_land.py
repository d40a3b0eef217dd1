"""A topic in tables: each record a row in Iceberg, and the last of each key in Delta."""

import json

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from barnabas.spark.jobs.land import land

pytestmark = pytest.mark.spark
JSON = {"value.format": "json", "value.schema": "age INT"}


def test_users_land_in_tables(kafka_cluster, spark, tmp_path):
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("users", partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(users):
        for name, age in users:
            producer.produce("users", None if age is None else json.dumps({"age": age}), name)
        assert producer.flush(10) == 0

    def by_name():
        return land(
            spark,
            bootstrap,
            "users",
            tmp_path / "by-name",
            select=["CAST(key AS STRING) AS name", "value.*"],
            key=["name"],
            options=JSON,
        )

    produce([("ann", 30), ("bob", 40), ("ann", 31)])
    assert by_name().records == 2
    produce([("bob", None), ("cid", 50)])  # a tombstone, and a new one
    by_name()
    table = DeltaTable(tmp_path / "by-name").to_pyarrow_table().to_pylist()
    assert {row["name"]: row["age"] for row in table} == {"ann": 31, "cid": 50}
    assert by_name().offsets == 0

    # Each record a row, in a directory by day.
    land(spark, bootstrap, "users", tmp_path / "all", table_format="iceberg", per="day")
    with SqlCatalog("barnabas", uri=f"sqlite:///{tmp_path}/all/_barnabas/iceberg.db") as catalog:
        assert catalog.load_table("barnabas.landed").scan().count() == 5
