"""``archive``: topics into Parquet files, exactly once, by commits of offset ranges; small ones compacted; resumes.

In each round the driver fixes the ranges, executors read exactly these and write files that no reader sees yet, and the
driver makes one commit of ranges and files (see `commits`). A task that runs twice writes files that the commit doesn't
name; a killed job goes on from the last commit. So nothing depends on Spark's checkpoints.

The files can belong to a Delta or Iceberg table (see `tables`): the driver adds them; executors write in the same way.

Each record keeps its partition, offset, leader epoch, topic id and cluster id; its file's directory names its topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from barnabas.client.blocking import BlockingCluster
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.offsets import isolation_level as level_of
from barnabas.model.ids import TopicPartition
from barnabas.spark.access import Servers, cluster_of, options_of
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.columns import COLUMNS, DIRECTORIES, SCHEMA
from barnabas.spark.jobs.commits import ArchiveSettings, Commit, Covered, DataFile, PartitionLife
from barnabas.spark.jobs.epochs import leader_epochs
from barnabas.spark.jobs.staging import new_place, written_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PER: Final = {"hour": "yyyy-MM-dd'T'HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
"""Directories by time (UTC), with the pattern of their names."""
BY: Final = ("event", "ingest")
RECORDS_PER_COMMIT: Final = 20_000_000
FILE_BYTES: Final = 128 * 1024 * 1024
"""The size that compaction aims at; a file of less than half of it is small."""
SMALL_FILES: Final = 16
"""From how many on the small files of a directory are compacted."""
KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long files replaced by compaction are kept for readers of a table's older versions; Delta's default."""


@dataclass
class Archived:
    """The result of one call of `archive`."""

    records: int = 0
    offsets: int = 0
    """Offsets that were covered; more than the records where some were compacted away or belong to no record."""
    files: int = 0
    bytes: int = 0
    commits: int = 0
    compacted: int = 0
    """Small files that went into larger ones."""


class Ahead(NamedTuple):
    """The offsets of a source to archive; `start` is the end of its archive, or the start of its log without one."""

    source: PartitionLife
    start: int
    end: int


def archive(
    spark: SparkSession,
    bootstrap: Servers,
    topics: Sequence[str],
    target: str | Path,
    *,
    by: str = "event",
    per: str = "day",
    event_time: str = "timestamp",
    isolation_level: str = "read_committed",
    records_per_commit: int = RECORDS_PER_COMMIT,
    allow_gaps: bool = False,
    recreated: bool = False,
    table_format: str = "parquet",
    catalog: str = "",
    table: str = "",
) -> Archived:
    """Archives all that `topics` hold now in `target`.

    `by`: directories go by ``event`` time, which is `event_time`, a SQL expression over the source's columns, or by
    ``ingest`` time, which is the commit's. `allow_gaps`: go on if the topic's log has lost offsets that were not
    archived. `recreated`: take up a topic that was deleted and created again. `table_format`: parquet, or a table of
    such files, delta or iceberg, in the same directory. `catalog`: an Iceberg catalog in pyiceberg's configuration, in
    which `table` is the table's NAMESPACE.TABLE, instead of an SQLite one in the archive. Raises `JobError`,
    ``ValueError``.
    """
    if by not in BY or per not in PER:
        raise ValueError(f"An archive is by {' or '.join(BY)} time, per {', '.join(PER)}; not by {by} per {per}.")
    done = Archived()
    with cluster_of(bootstrap, "barnabas-archive") as cluster:
        metadata = cluster.refresh(topics)
        settings = ArchiveSettings(
            metadata.cluster_id or "", by, per, event_time, table_format=table_format, catalog=catalog, table=table
        )
        kept = Archive.open_or_create(target, settings)
        with kept.writing():
            level = level_of(isolation_level)
            positions = kept.positions()
            left, gaps = ahead(cluster, positions, topics, level, allow_gaps=allow_gaps, recreated=recreated)
            for part in portions(left, records_per_commit):
                covered = tuple(
                    Covered(*piece.source, piece.start, piece.end, tuple(_epochs(cluster, piece))) for piece in part
                )
                files = _write(spark, bootstrap, kept, covered, gaps, isolation_level)
                gaps = ()
                done.commits += 1
                done.files += len(files)
                done.bytes += sum(file.bytes for file in files)
                done.records += sum(file.rows for file in files)
                done.offsets += sum(span.end - span.start for span in covered)
            done.compacted = compact(spark, kept)
    return done


def ahead(
    cluster: BlockingCluster,
    positions: Mapping[PartitionLife, int],
    topics: Sequence[str],
    level: int,
    *,
    allow_gaps: bool,
    recreated: bool,
    taken: str = "archived",
) -> tuple[list[Ahead], tuple[Covered, ...]]:
    """The topics' offsets after `positions`, and those lost before they were `taken`. Raises `JobError`."""
    partitions = [partition for topic in topics for partition in cluster.metadata.partitions(topic)]
    earliest = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
    latest = cluster.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=level)
    known = {source.topic: source.topic_id for source in positions}
    found: list[Ahead] = []
    gaps: list[Covered] = []
    for partition in partitions:
        topic_id = str(cluster.metadata.topic_id(partition.topic))
        if known.get(partition.topic, topic_id) != topic_id and not recreated:
            raise JobError(
                f"Topic {partition.topic} was deleted and created again since it was {taken} (its id was "
                f"{known[partition.topic]}, it is {topic_id}): archive it elsewhere, or take it up by --recreated"
            )
        source = PartitionLife(partition.topic, topic_id, partition.partition)
        low, high = earliest[partition].offset, latest[partition].offset
        start = positions.get(source, low)
        if start > high:
            raise JobError(
                f"{partition} ends at offset {high}, before {start} up to where it was {taken}: records were lost"
            )
        if start < low:
            if not allow_gaps:
                raise JobError(
                    f"{partition}: offsets {start} to {low} were deleted before they were {taken}; "
                    "to go on without them say --allow-gaps"
                )
            gaps.append(Covered(*source, start, low))
        if max(start, low) < high:
            found.append(Ahead(source, max(start, low), high))
    return found, tuple(gaps)


def _epochs(cluster: BlockingCluster, piece: Ahead) -> list[tuple[int, int]]:
    found = leader_epochs(cluster, TopicPartition(piece.source.topic, piece.source.partition), piece.start)
    return [(epoch, first) for epoch, first in found if first < piece.end]


def portions(ahead: Sequence[Ahead], records: int) -> Iterable[list[Ahead]]:
    """Cuts the offsets ahead into parts of about `records`, each with its share of every partition, in order."""
    total = sum(piece.end - piece.start for piece in ahead)
    count = -(-total // records)
    for part in range(count):
        cut = [
            Ahead(source, start + (end - start) * part // count, start + (end - start) * (part + 1) // count)
            for source, start, end in ahead
        ]
        yield [piece for piece in cut if piece.start < piece.end]


def _write(
    spark: SparkSession,
    bootstrap: Servers,
    kept: Archive,
    covered: tuple[Covered, ...],
    gaps: tuple[Covered, ...],
    isolation_level: str,
) -> tuple[DataFile, ...]:
    """Makes one commit, of exactly `covered`; returns its files."""
    from pyspark.sql import functions as sql

    settings = kept.settings
    number = len(kept.commits()) + 1
    staging = new_place()
    made_ms = time.time_ns() // 1_000_000
    records = records_of(spark, bootstrap, covered, isolation_level)
    ingested = sql.timestamp_millis(sql.lit(made_ms))
    event = sql.expr(settings.event_time).cast("timestamp")
    rows = (
        records.withColumn("ingested", ingested)
        .withColumn("cluster_id", sql.lit(settings.cluster_id))
        .withColumn("period", sql.date_format(event if settings.by == "event" else ingested, PER[settings.per]))
    )
    rows = _with_origin(spark, rows, covered)
    place = kept.staging(staging)
    _to_parquet(rows, place)
    files = staged_files(place)
    kept.commit(Commit(number, made_ms, staging, covered, files, (), gaps))
    return files


def records_of(
    spark: SparkSession,
    bootstrap: Servers,
    covered: Iterable[Covered],
    isolation_level: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Exactly the offsets that are covered, with the source's columns; `options` are the source's."""
    assigned: dict[str, list[int]] = {}
    starting: dict[str, dict[str, int]] = {}
    ending: dict[str, dict[str, int]] = {}
    for span in covered:
        assigned.setdefault(span.topic, []).append(span.partition)
        starting.setdefault(span.topic, {})[str(span.partition)] = span.start
        ending.setdefault(span.topic, {})[str(span.partition)] = span.end
    return (
        spark.read.format("barnabas")
        .options(**{**(options or {}), **options_of(bootstrap)})
        .option("kafka.isolation.level", isolation_level)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starting))
        .option("endingOffsets", json.dumps(ending))
        .option("includeHeaders", "true")
        .load()
    )


def _with_origin(spark: SparkSession, rows: DataFrame, covered: Sequence[Covered]) -> DataFrame:
    """With the topic's id and the leader epoch of each offset, from a small table that every executor gets."""
    from pyspark.sql import functions as sql

    origins = []
    for span in covered:
        epochs = span.epochs or ((-1, span.start),)
        ends = [first for _, first in epochs[1:]] + [span.end]
        for (epoch, first), end in zip(epochs, ends, strict=True):
            origins.append((span.topic, span.partition, span.topic_id, epoch, first, end))
    table = spark.createDataFrame(
        origins, "o_topic string, o_partition int, topic_id string, leader_epoch int, first bigint, after bigint"
    )
    on = sql.expr("topic = o_topic and partition = o_partition and offset >= first and offset < after")
    return rows.join(sql.broadcast(table), on).drop("o_topic", "o_partition", "first", "after")


def _to_parquet(rows: DataFrame, place: Path) -> None:
    """Writes files in the order of the records. A task reads one partition, so the sort finds nearly all in place."""
    # Spark's own default, INT96, has no statistics, by which files are chosen when a time range is read.
    rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    (
        rows.select(*COLUMNS)
        .sortWithinPartitions("topic", "period", "partition", "offset")
        .write.mode("error")
        .partitionBy(*DIRECTORIES)
        .option("compression", "zstd")
        .parquet(str(place))
    )


def staged_files(place: Path) -> tuple[DataFile, ...]:
    """The Parquet files under `place`, with the figures of their footers."""
    import pyarrow.parquet as parquet

    found = []
    for path in written_in(place):
        footer = parquet.ParquetFile(path).metadata
        index = next(i for i in range(footer.num_columns) if footer.schema.column(i).path == "timestamp")
        stats = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        lows = [stat.min for stat in stats if stat is not None and stat.has_min_max]
        highs = [stat.max for stat in stats if stat is not None and stat.has_min_max]
        found.append(
            DataFile(
                str(path.relative_to(place)),
                footer.num_rows,
                path.stat().st_size,
                _milliseconds(min(lows)) if len(lows) == len(stats) and lows else None,
                _milliseconds(max(highs)) if len(highs) == len(stats) and highs else None,
            )
        )
    return tuple(found)


def _milliseconds(moment: datetime) -> int:
    """A footer's timestamp in ms: a ``datetime``, in UTC whether it says so or not."""
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def read_archive(
    spark: SparkSession,
    path: str | Path,
    topics: Sequence[str] | None = None,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The records of an archive, each once, with `SCHEMA`'s columns; `since_ms` <= timestamp < `until_ms`.

    Only files that commits name are read, and of those only the ones that can have such records.
    """
    from pyspark.sql import functions as sql

    kept = Archive.open(path)
    files = [
        file
        for file in kept.files()
        if (topics is None or topic_of(file) in topics)
        and (since_ms is None or file.timestamp_max_ms is None or file.timestamp_max_ms >= since_ms)
        and (until_ms is None or file.timestamp_min_ms is None or file.timestamp_min_ms < until_ms)
    ]
    if not files:
        return spark.createDataFrame([], SCHEMA)
    frame = (
        spark.read.schema(SCHEMA)
        .option("basePath", str(kept.root))
        .parquet(*(str(kept.root / file.path) for file in files))
    )
    if since_ms is not None:
        frame = frame.where(sql.col("timestamp") >= sql.timestamp_millis(sql.lit(since_ms)))
    if until_ms is not None:
        frame = frame.where(sql.col("timestamp") < sql.timestamp_millis(sql.lit(until_ms)))
    return frame


def topic_of(file: DataFile) -> str:
    return unquote(file.path.split("/")[0].removeprefix("topic="))


def compact(spark: SparkSession, kept: Archive, *, small_files: int = SMALL_FILES) -> int:
    """Joins the small files of each directory that has `small_files` of them. Returns how many went into others."""
    chosen = crowded(kept.files(), small_files)
    if not chosen:
        return 0
    number = len(kept.commits()) + 1
    staging = new_place()
    paths = [file.path for files in chosen.values() for file in files]
    frame = (
        spark.read.schema(SCHEMA)
        .option("basePath", str(kept.root))
        .parquet(*(str(kept.root / path) for path in paths))
        .repartition(min(len(chosen), 200), "topic", "period")
    )
    _to_parquet(frame, kept.staging(staging))
    files = staged_files(kept.staging(staging))
    before = sum(file.rows for group in chosen.values() for file in group)
    after = sum(file.rows for file in files)
    if before != after:
        raise JobError(f"Compacting {kept.root} would have made {after} records of {before}: nothing was changed")
    now_ms = time.time_ns() // 1_000_000
    kept.commit(Commit(number, now_ms, staging, (), files, tuple(paths)))
    kept.forget(now_ms - KEPT_MS)
    return len(paths)


def crowded(files: Iterable[DataFile], small_files: int) -> Mapping[str, list[DataFile]]:
    """Small files by directory, where it has `small_files` or more; of a directory no more than fit into one file."""
    found: dict[str, list[DataFile]] = {}
    for file in files:
        group = found.setdefault(file.directory, [])
        if file.bytes < FILE_BYTES // 2 and sum(small.bytes for small in group) + file.bytes <= FILE_BYTES:
            group.append(file)
    return {directory: group for directory, group in found.items() if len(group) >= small_files}
