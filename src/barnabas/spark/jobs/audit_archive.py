"""The two sides of an audit with an archive as the manifest: of the topic itself, or of a topic replayed from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.client.offsets import EARLIEST
from barnabas.model.ids import TopicPartition
from barnabas.spark.access import Servers, cluster_of, options_of
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.archive import read_archive
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.mirror import SOURCE_OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONTENT: Final = ("key", "value", "headers", "timestamp")


def against_archive(
    spark: SparkSession,
    bootstrap: Servers,
    topics: Sequence[str],
    path: str | Path,
    *,
    replayed: str | None = None,
    isolation_level: str = "read_committed",
) -> tuple[DataFrame, DataFrame]:
    """`expected` and `found` for `audit`: a record's id is its place, its CRC a hash of all its content.

    Without `replayed` the offsets that both have are compared: the archived ones, less those that the topic has deleted
    since. With it the whole topic is compared with the archived topic of that name; there a record's place is its
    number in the partition, as a topic that was written again has new offsets. Raises `JobError`.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    reader = (
        spark.read.format("barnabas")
        .options(**options_of(bootstrap))
        .option("kafka.isolation.level", isolation_level)
        .option("includeHeaders", "true")
    )
    kept = Archive.open(path)
    if replayed is not None:
        number = sql.row_number().over(Window.partitionBy("partition").orderBy("offset")).alias("number")
        sides = read_archive(spark, path, [replayed]), reader.option("subscribe", topics[0]).load()
        expected, found = (
            _hashed(side.select(*_CONTENT, "partition", number), ("partition", "number")) for side in sides
        )
        return expected, found
    starting, ending = _shared(bootstrap, kept, topics)
    archived = read_archive(spark, path, topics)
    lows = spark.createDataFrame(
        [(topic, int(partition), low) for topic, offsets in starting.items() for partition, low in offsets.items()],
        "topic string, partition int, low bigint",
    )
    archived = archived.join(sql.broadcast(lows), ["topic", "partition"]).where("offset >= low")
    there = (
        reader.option("assign", json.dumps({topic: [int(p) for p in offsets] for topic, offsets in starting.items()}))
        .option("startingOffsets", json.dumps(starting))
        .option("endingOffsets", json.dumps(ending))
        .load()
    )
    place = ("topic", "partition", "offset")
    return _hashed(archived.select(*_CONTENT, *place), place), _hashed(there.select(*_CONTENT, *place), place)


def against_archive_of_source(
    spark: SparkSession, bootstrap: Servers, topics: Sequence[str], path: str | Path
) -> tuple[DataFrame, DataFrame]:
    """`expected` and `found` for `audit`, of `mirror`'s topics and an archive of those that they were copied from.

    A record is known by its offset in the source, which each mirrored record has as its last header. Records that the
    archive has not reached yet, or that the mirror has deleted, are not compared. Raises `JobError`.
    """
    from pyspark.sql import functions as sql

    kept = Archive.open(path)
    ends = {source: end for source, end in kept.positions().items() if source.topic in topics}
    lives = {source.topic: {other.topic_id for other in ends if other.topic == source.topic} for source in ends}
    for topic in topics:
        if len(lives.get(topic, ())) != 1:
            what = f"{len(lives[topic])} topics of that name" if topic in lives else "nothing of it"
            raise JobError(f"{kept.root} cannot be compared with the mirrored {topic}: the archive has {what}")
    last = sql.try_element_at("headers", sql.lit(-1))
    there = (
        spark.read.format("barnabas")
        .options(**options_of(bootstrap))
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .option("subscribe", ",".join(topics))
        .load()
        .withColumn("origin", sql.when(last.key == SOURCE_OFFSET, last.value.cast("string").cast("bigint")))
        .withColumn("headers", sql.expr("if(origin is null, headers, slice(headers, 1, size(headers) - 1))"))
    )
    begun = _begins(bootstrap, topics, there)
    bounds = spark.createDataFrame(
        [(s.topic, s.partition, begun.get((s.topic, s.partition), 0), end) for s, end in ends.items()],
        "topic string, partition int, low bigint, high bigint",
    )
    archived = read_archive(spark, path, topics).join(sql.broadcast(bounds), ["topic", "partition"])
    found = there.join(sql.broadcast(bounds), ["topic", "partition"], "left").where("origin is null or origin < high")
    # A record that no mirror wrote has no offset in the source: it is not expected, and named by its own offset.
    stranger = sql.concat(sql.lit("offset "), sql.col("offset"))
    place = ("topic", "partition", "number")
    return (
        _hashed(archived.where("offset >= low").withColumn("number", sql.col("offset").cast("string")), place),
        _hashed(found.withColumn("number", sql.coalesce(sql.col("origin").cast("string"), stranger)), place),
    )


def _begins(bootstrap: Servers, topics: Sequence[str], mirrored: DataFrame) -> dict[tuple[str, int], int]:
    """The first source offset in each partition of the mirror whose beginning was deleted."""
    from pyspark.sql import functions as sql

    with cluster_of(bootstrap, "barnabas-audit") as cluster:
        metadata = cluster.refresh(topics)
        places = [place for topic in topics for place in metadata.partitions(topic)]
        low = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    cut = [place for place in places if low[place].offset > 0]
    if not cut:
        return {}
    first = mirrored.groupBy("topic", "partition").agg(sql.min("origin").alias("first")).collect()
    return {(row.topic, row.partition): row.first for row in first if (row.topic, row.partition) in cut}


def _hashed(frame: DataFrame, place: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as sql

    kept = [name for name in place if name != "number"]
    return frame.select(sql.concat_ws("@", *place).alias("id"), *kept, sql.xxhash64(*_CONTENT).alias("crc"))


def _shared(
    bootstrap: Servers, kept: Archive, topics: Sequence[str]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """The range in which archive and topic can be compared: from the topic's start to the archive's end."""
    starting: dict[str, dict[str, int]] = {}
    ending: dict[str, dict[str, int]] = {}
    with cluster_of(bootstrap, "barnabas-audit") as cluster:
        metadata = cluster.refresh(topics)
        positions = {
            source: end
            for source, end in kept.positions().items()
            if source.topic in topics and source.topic_id == str(metadata.topic_id(source.topic))
        }
        missing = sorted(set(topics) - {source.topic for source in positions})
        if missing:
            raise JobError(f"{kept.root} has nothing of {', '.join(missing)} as the topic is now (by its id)")
        places = [TopicPartition(source.topic, source.partition) for source in positions]
        low = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    for (source, end), place in zip(positions.items(), places, strict=True):
        starting.setdefault(source.topic, {})[str(source.partition)] = min(low[place].offset, end)
        ending.setdefault(source.topic, {})[str(source.partition)] = end
    return starting, ending
