"""``land``: a topic into a Delta or Iceberg table, exactly once; upserts, deletes, compaction.

In each round the driver fixes the offsets, executors read exactly these and write files that no reader sees yet, and
the driver makes one commit of the table (see `landed`), with the files and the next offset of each partition.

With a key, a later record replaces the table's row of the same key, and a tombstone deletes it. This is done by
copying: files with replaced rows are rewritten without them, in the same commit. So every reader of the format can read
the table, but each round reads the key columns of the whole table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.client.blocking import BlockingCluster
from barnabas.client.offsets import isolation_level as level_of
from barnabas.spark.access import Servers, cluster_of
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.archive import KEPT_MS, PER, RECORDS_PER_COMMIT, SMALL_FILES, crowded, portions, records_of
from barnabas.spark.jobs.archive import ahead as whats_ahead
from barnabas.spark.jobs.commits import Covered, PartitionLife, root_of
from barnabas.spark.jobs.evolution import as_arrow, fitted, merged, quoted, require_distinct, typed
from barnabas.spark.jobs.landed import LandedTable, Landing, check_landing
from barnabas.spark.jobs.tables import TableConflict

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

PLACE: Final = {"partition": "_partition", "offset": "_offset", "timestamp": "_timestamp"}
"""Where each row comes from: the source's columns, and what they are called in the table."""
PERIOD: Final = "_period"
_DELETED: Final = "_deleted"
_RAW: Final = ("key", "value", "headers")
_ITS_OWN: Final = {"subscribe", "subscribepattern", "assign", "columns", "failondataloss", "kafka.isolation.level"}
"""Options of the source that are the job's, beside all that say where a read begins or ends."""
_CONFLICTS_MAX: Final = 20
_FORGET_EVERY_S: Final = 3600.0


@dataclass
class Landed:
    """The result of one round, or of all."""

    records: int = 0
    """Rows that were written; with a key, those that are new, changed or moved to another file."""
    offsets: int = 0
    files: int = 0
    bytes: int = 0
    removed: int = 0
    """Files that were replaced because rows of theirs were changed or deleted."""
    compacted: int = 0
    """Small files that went into larger ones."""
    commits: int = 0

    def add(self, other: Landed) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Job:
    """The arguments of `land`."""

    spark: SparkSession
    bootstrap: Servers
    topic: str
    table: LandedTable
    select: Sequence[str | Column]
    options: Mapping[str, str]
    isolation_level: str

    @property
    def landing(self) -> Landing:
        return self.table.landing


def landed_table(
    table_format: str, path: str | Path, landing: Landing, *, catalog: str = "", table: str = ""
) -> LandedTable:
    """Raises as `check_landing` does."""
    check_landing(table_format, catalog, table)
    if table_format == "delta":
        from barnabas.spark.jobs.landed_delta import LandedDelta

        return LandedDelta(root_of(path), landing)
    from barnabas.spark.jobs.landed_iceberg import LandedIceberg

    return LandedIceberg(root_of(path), landing, catalog=catalog, table=table)


def land(
    spark: SparkSession,
    bootstrap: Servers,
    topic: str,
    path: str | Path,
    *,
    table_format: str = "delta",
    select: Sequence[str | Column] = (),
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    per: str = "",
    event_time: str = "timestamp",
    options: Mapping[str, str] | None = None,
    isolation_level: str = "read_committed",
    records_per_commit: int = RECORDS_PER_COMMIT,
    small_files: int = SMALL_FILES,
    allow_gaps: bool = False,
    catalog: str = "",
    table: str = "",
    every_s: float | None = None,
    told: Callable[[Landed], None] = lambda _: None,
) -> Landed:
    """Lands all that `topic` holds now in the table in the directory `path`; with `every_s` again and again, until
    ``KeyboardInterrupt``. `told` gets each round's counts; their sum is returned.

    `select`: the table's columns, as SQL or columns over the source's; by default `key`, `value` and `headers`. Each
    row gets `_partition`, `_offset` and `_timestamp` as well. `key`: columns of the table; see `Landing.key`.
    `partition_by`: columns of the table; with `per`, a last one, `_period`, the hour, day or month (UTC) of
    `event_time`, SQL over the source's columns. `options` are the source's, ``value.format`` for one, but none that say
    which records are read. Raises `JobError`, ``ValueError``.
    """
    check_landing(table_format, catalog, table)
    check_options(options or {}, keyed=bool(key))
    if per and per not in PER:
        raise ValueError(f"A table is by {', '.join(PER)}; not by {per}.")
    with cluster_of(bootstrap, "barnabas-land") as cluster:
        metadata = cluster.refresh([topic])
        parts = (*partition_by, PERIOD) if per else tuple(partition_by)
        landing = Landing(
            topic, str(metadata.topic_id(topic)), metadata.cluster_id or "", tuple(key), parts, per, event_time
        )
        there = landed_table(table_format, path, landing, catalog=catalog, table=table)
        job = Job(spark, bootstrap, topic, there, tuple(select) or _RAW, options or {}, isolation_level)
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        done, forgotten = Landed(), time.monotonic()
        with there.writing():
            schema = _prepared(job)
            try:
                while True:
                    began = time.monotonic()
                    cluster.refresh([topic])
                    for covered in _rounds(cluster, job, records_per_commit, allow_gaps=allow_gaps):
                        landed = _landed(job, schema, covered)
                        landed.compacted = _compacted(job, schema, small_files)
                        done.add(landed)
                        told(landed)
                    if every_s is None or began - forgotten > _FORGET_EVERY_S:
                        there.forget(time.time_ns() // 1_000_000 - KEPT_MS)
                        forgotten = began
                    if every_s is None:
                        break
                    time.sleep(max(0.0, began + every_s - time.monotonic()))
            except KeyboardInterrupt:
                if every_s is None:
                    raise
    return done


def check_options(options: Mapping[str, str], *, keyed: bool) -> None:
    """Raises ``ValueError`` for an option of the source that changes which records are read: the table would claim
    records that it lacks, or have some twice. Also for one that turns other records into tombstones."""
    for name in options:
        if name.lower() in _ITS_OWN or name.lower().startswith(("starting", "ending")):
            raise ValueError(
                f"Option {name} is not for landing: the job chooses itself which records are read, from where the "
                "table ends to where the topic does. Take it out. Past records that are gone leads --allow-gaps, and "
                "to those of aborted transactions --isolation-level."
            )
        if keyed and name.lower() == "value.mode" and options[name].upper() == "PERMISSIVE":
            raise ValueError(
                "Option value.mode=PERMISSIVE makes a value that does not fit null, and with a key a null value "
                "deletes the row. Take it out, or read the value in the selection, by from_json or from_registry."
            )


def _prepared(job: Job) -> StructType:
    """Creates the table if needed, with every column of the records; returns its columns."""
    from pyspark.sql.types import StructType

    frame = _rows(job, [Covered(job.topic, "", 0, 0, 0)])
    names = [name for name in frame.columns if name != _DELETED]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise JobError(f"The table would have two columns {twice[0]}: rename one in the selection, by AS")
    lacking = [name for name in (*job.landing.key, *job.landing.partition_by) if name not in names]
    if lacking:
        raise JobError(f"There is no column {lacking[0]} to go by: the table has {', '.join(names)}")
    wanted = typed(StructType([field for field in frame.schema if field.name != _DELETED]))
    require_distinct(wanted)
    table = job.table
    table.open_or_create(as_arrow(wanted))
    there = merged(table.schema(), StructType())
    evolved = merged(table.schema(), wanted)
    require_distinct(evolved)
    if evolved.simpleString() != there.simpleString():
        table.evolve(as_arrow(evolved))
    return evolved


def _rounds(cluster: BlockingCluster, job: Job, records: int, *, allow_gaps: bool) -> list[list[Covered]]:
    """The offsets to land now, in parts of about `records`."""
    landing = job.landing
    partitions = [partition.partition for partition in cluster.metadata.partitions(job.topic)]
    positions = {
        PartitionLife(job.topic, landing.topic_id, partition): offset
        for partition, offset in job.table.positions(partitions).items()
    }
    level = level_of(job.isolation_level)
    if str(cluster.metadata.topic_id(job.topic)) != landing.topic_id:
        raise JobError(f"Topic {job.topic} was deleted and created again while it landed: land it in another table")
    left, _ = whats_ahead(
        cluster, positions, [job.topic], level, allow_gaps=allow_gaps, recreated=False, taken="landed"
    )
    return [[Covered(*piece.source, piece.start, piece.end) for piece in part] for part in portions(left, records)]


def _rows(job: Job, covered: Sequence[Covered]) -> DataFrame:
    """The table's rows of the covered records; with a key, `_DELETED` says which are tombstones."""
    from pyspark.sql import functions as sql

    records = records_of(job.spark, job.bootstrap, covered, job.isolation_level, job.options)
    columns = [sql.expr(column) if isinstance(column, str) else column for column in job.select]
    columns += [sql.col(name).alias(alias) for name, alias in PLACE.items()]
    if job.landing.per:
        event = sql.expr(job.landing.event_time).cast("timestamp")
        columns.append(sql.date_format(event, PER[job.landing.per]).alias(PERIOD))
    if job.landing.key:
        columns.append(sql.col("value").isNull().alias(_DELETED))
    return records.select(*columns)


def _landed(job: Job, schema: StructType, covered: Sequence[Covered]) -> Landed:
    """One commit of the table: `covered`, no less and no more."""
    starts = {span.partition: span.start for span in covered}
    for _ in range(_CONFLICTS_MAX):
        table = job.table
        base = table.base()
        there = table.positions(list(starts))
        if any(offset > starts[partition] for partition, offset in there.items()):
            raise JobError(f"Another job lands in {table.root}: run this one again when it is done")
        place = table.staging()
        touched = _merged(job, schema, covered, place) if job.landing.key else _appended(job, schema, covered, place)
        files = table.placed(place)
        live = {file.path: file for file in table.files()} if touched else {}
        if not all(path in live for path in touched):
            continue  # another program removed it, so that the commit would find a conflict
        try:
            table.commit(files, [live[path] for path in touched], {span.partition: span.end for span in covered}, base)
        except TableConflict:
            continue
        return Landed(
            records=sum(file.rows for file in files),
            offsets=sum(span.end - span.start for span in covered),
            files=len(files),
            bytes=sum(file.bytes for file in files),
            removed=len(touched),
            commits=1,
        )
    raise JobError(f"The table in {job.table.root} was changed by others {_CONFLICTS_MAX} times: run this again later")


def _appended(job: Job, schema: StructType, covered: Sequence[Covered], place: Path) -> list[str]:
    _write(job, fitted(_rows(job, covered), schema), place)
    return []


def _merged(job: Job, schema: StructType, covered: Sequence[Covered], place: Path) -> list[str]:
    """Writes the last row of each key, and the other rows of files that have such keys; returns those files."""
    from pyspark.sql import functions as sql

    key = list(job.landing.key)
    rows = _rows(job, covered)
    deleted = [_DELETED]
    last = last_of(fitted(rows, schema, beside=deleted), key).persist()
    try:
        nameless = last.where(sql.greatest(*(sql.col(quoted(name)).isNull() for name in key), sql.lit(False))).head()
        if nameless is not None:
            place_of_it = f"{job.topic}-{nameless[PLACE['partition']]}@{nameless[PLACE['offset']]}"
            raise JobError(f"The record {place_of_it} has no {' and '.join(key)}, by which it would replace another")
        touched: list[str] = []
        live = [file.path for file in job.table.files()]
        by_key = list(map(quoted, key))
        keys = last.select(*by_key)
        if live:
            found = (
                _read(job, schema, live)
                .select(*by_key, sql.col("_metadata.file_name").alias("_file"))
                .join(keys, key, "left_semi")
                .select("_file")
                .distinct()
                .collect()
            )
            names = {row["_file"] for row in found}
            touched = [path for path in live if path.rpartition("/")[2] in names]
        rows = last.where(~sql.col(_DELETED)).drop(_DELETED)
        if touched:
            kept = _read(job, schema, touched).join(keys, key, "left_anti")
            rows = kept.select(*map(quoted, schema.names)).unionByName(rows)
        _write(job, rows, place)
    finally:
        last.unpersist()
    return touched


def last_of(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last row of each key: of a partition the one of the highest offset, and among partitions, which a key has
    where partitions were added to the topic, the one of the latest timestamp."""
    from pyspark.sql import functions as sql

    for group, order in (([*key, PLACE["partition"]], PLACE["offset"]), (list(key), PLACE["timestamp"])):
        row = sql.struct(*map(quoted, rows.columns))
        rows = rows.groupBy(*map(quoted, group)).agg(sql.max_by(row, order).alias("_row")).select("_row.*")
    return rows


def _read(job: Job, schema: StructType, paths: Sequence[str]) -> DataFrame:
    root = job.table.root
    return job.spark.read.schema(schema).option("basePath", str(root)).parquet(*(str(root / path) for path in paths))


def _write(job: Job, rows: DataFrame, place: Path) -> None:
    parts = job.landing.partition_by
    ordered = rows.sortWithinPartitions(*map(quoted, parts), PLACE["partition"], PLACE["offset"])
    ordered.write.mode("error").partitionBy(*parts).option("compression", "zstd").parquet(str(place))


def _compacted(job: Job, schema: StructType, small_files: int) -> int:
    """Joins the small files of each directory that has `small_files` of them; returns how many."""
    table = job.table
    base = table.base()
    chosen = crowded(table.files(), small_files)
    if not chosen:
        return 0
    files = [file for group in chosen.values() for file in group]
    place = table.staging()
    rows = _read(job, schema, [file.path for file in files])
    parts = job.landing.partition_by
    _write(job, rows.repartition(min(len(chosen), 200), *map(quoted, parts)) if parts else rows.coalesce(1), place)
    made = table.placed(place)
    before, after = sum(file.rows for file in files), sum(file.rows for file in made)
    if before != after:
        raise JobError(f"Compacting {table.root} would have made {after} rows of {before}: nothing was changed")
    try:
        table.commit(made, files, {}, base)
    except TableConflict:
        return 0  # the next round tries again
    return len(files)
