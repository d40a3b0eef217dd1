"""``replay``: an archive's records back into topics, with their keys, headers, timestamps, partitions and order.

One task writes a partition, in the order of the archived offsets, so the order is kept. Each task keeps its share of
the rate limit: it writes a tenth of a second's worth of records and waits for the next tenth. The sink is idempotent
within a task; a failed task that is run again writes its records again, which an audit of the topic against the archive
finds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.spark.access import Servers, cluster_of, options_of
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.archive import read_archive, topic_of
from barnabas.spark.jobs.archived import Archive

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_TICK_S: Final = 0.1


class Replayed(NamedTuple):
    records: int
    seconds: float


def replay(
    spark: SparkSession,
    path: str | Path,
    bootstrap: Servers,
    *,
    topics: Sequence[str] | None = None,
    into: Mapping[str, str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    rate: float | None = None,
    compression: str = "none",
) -> Replayed:
    """Writes the records with `since_ms` <= timestamp < `until_ms` of `topics` (None: all that are archived).

    `into` names another topic for some; `rate` is records a second, of all tasks together. The topics must exist with
    as many partitions as were archived. Raises `JobError`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    kept = Archive.open(path)
    partitions = _partitions(kept, topics)
    names = {topic: (into or {}).get(topic, topic) for topic in partitions}
    _check_targets(bootstrap, {names[topic]: count for topic, count in partitions.items()})
    tasks = sum(partitions.values())
    records = read_archive(spark, path, list(partitions), since_ms=since_ms, until_ms=until_ms)
    ordered = records.repartition(tasks, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    renamed = sql.col("topic")
    for topic, other in names.items():
        renamed = sql.when(sql.col("topic") == topic, sql.lit(other)).otherwise(renamed)
    rows = ordered.select(renamed.alias("topic"), "partition", "key", "value", "headers", "timestamp")
    if rate is not None:
        rows = paced(rows, rate / max(1, min(tasks, spark.sparkContext.defaultParallelism)))
    counted = Observation("replayed")
    begun = time.monotonic()
    (
        rows.observe(counted, sql.count(sql.lit(1)).alias("records"))
        .write.format("barnabas")
        .mode("append")
        .options(**options_of(bootstrap))
        .option("kafka.compression.type", compression)
        .save()
    )
    return Replayed(counted.get["records"], time.monotonic() - begun)


def _partitions(kept: Archive, topics: Sequence[str] | None) -> dict[str, int]:
    """How many partitions of each topic were archived, by the highest number."""
    archived = {topic_of(file) for file in kept.files()}
    missing = sorted(set(topics or ()) - archived)
    if missing:
        raise JobError(f"{kept.root} has no records of {', '.join(missing)}; it has {', '.join(sorted(archived))}")
    counts: dict[str, int] = {}
    for source in kept.positions():
        if source.topic in archived and (topics is None or source.topic in topics):
            counts[source.topic] = max(counts.get(source.topic, 0), source.partition + 1)
    return counts


def _check_targets(bootstrap: Servers, partitions: Mapping[str, int]) -> None:
    with cluster_of(bootstrap, "barnabas-replay") as cluster:
        metadata = cluster.refresh(list(partitions))
    for topic, wanted in partitions.items():
        there = len(metadata.partitions(topic))
        if there < wanted:
            what = f"has {there} partitions" if there else "is not there"
            raise JobError(
                f"Topic {topic} {what} and {wanted} were archived: "
                f"`barnabas topic create {topic} -p {wanted}` makes it, --into names another"
            )


def paced(rows: DataFrame, rate: float) -> DataFrame:
    """The same rows, no more than `rate` a second in each task."""
    return rows.mapInArrow(partial(_paced, rate=rate), rows.schema)


def _paced(batches: Iterator[pyarrow.RecordBatch], rate: float) -> Iterator[pyarrow.RecordBatch]:
    piece = max(1, round(rate * _TICK_S))
    begun = time.monotonic()
    sent = 0
    for batch in batches:
        for start in range(0, batch.num_rows, piece):
            part = batch.slice(start, piece)
            time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
            yield part
            sent += part.num_rows
