"""For `barnabas bench spark`: ``barnabas spark land`` beside the official connector's stream, both into Delta tables.

The connector's stream is the usual one: ``readStream.format("kafka")``, whose batches ``foreachBatch`` commits by
Delta's own JAR. The batch's number is the application's transaction, so that a repeated batch is written once.

Either makes a new table of the topic's keys, values, headers and each record's place, zstd in Parquet, in one commit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from barnabas.bench.spark_connector import jars_for_spark

DELTA: Final = ("io.delta", "delta-spark_4.2_2.13", "4.4.0")
CONFIG: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.compression.codec": "zstd",
}
"""The session's configuration for `_by_connector`."""
_COLUMNS: Final = ("key", "value", "headers", "partition AS _partition", "offset AS _offset", "timestamp AS _timestamp")


def delta_jars() -> list[Path]:
    """Fetched on first use. Raises `ApacheUnavailable`."""
    _, artifact, version = DELTA
    return jars_for_spark(f"delta/{artifact}-{version}", [DELTA], without="org.scala-lang")


def landed(spark: Any, bootstrap: str, topic: str, source: str) -> Path:
    """Writes the topic into a new table, and returns the table's path."""
    path = Path(spark.conf.get("barnabas.bench.directory")) / f"landed-{uuid4().hex}"
    (_ours if source == "barnabas" else _by_connector)(spark, bootstrap, topic, path)
    return path


def _ours(spark: Any, bootstrap: str, topic: str, path: Path) -> None:
    from barnabas.spark.jobs.land import land

    land(spark, bootstrap, topic, path)


def _by_connector(spark: Any, bootstrap: str, topic: str, path: Path) -> None:
    def write(batch: Any, number: int) -> None:
        named = batch.write.format("delta").option("txnAppId", topic).option("txnVersion", number)
        named.mode("append").save(str(path))

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    records = reader.option("kafka.isolation.level", "read_committed").load().selectExpr(*_COLUMNS)
    writer = records.writeStream.foreachBatch(write).option("checkpointLocation", f"{path}-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def check(path: Path, rows: int, partitions: int) -> None:
    """Raises ``RuntimeError`` unless the table has exactly the expected columns, and each offset from 0 on once."""
    import pyarrow.dataset
    from deltalake import DeltaTable

    data = pyarrow.dataset.dataset(DeltaTable(str(path)).file_uris())
    if (names := sorted(data.schema.names)) != sorted(column.rpartition(" ")[2] for column in _COLUMNS):
        raise RuntimeError(f"{path} has columns {', '.join(names)}")
    places = data.to_table(columns=["_partition", "_offset"])
    once = places.group_by(["_partition", "_offset"]).aggregate([]).num_rows
    ends = places.group_by("_partition").aggregate([("_offset", "max")]).column("_offset_max").to_pylist()
    if not (places.num_rows == once == rows == sum(end + 1 for end in ends) and len(ends) == min(partitions, rows)):
        raise RuntimeError(f"{path} has {places.num_rows} rows, {once} of them once, of {rows} records")
