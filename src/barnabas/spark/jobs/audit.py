"""``audit``: checks that every acknowledged record is there once, unchanged and in its order, and names those that
fail.

It compares two frames with the same columns, `expected` (a manifest, an archive) and `found` (a topic, an archive).
Each row is a record with a unique ``id``. There are two passes, so that the usual case, in which all records are there,
moves almost nothing between executors:

1. Ids are hashed into `BUCKETS` buckets. For each bucket and side, rows are counted and the hashes of the compared
columns are summed: sums don't depend on the order, each task makes a partial sum, and a few thousand numbers come to
the driver. Buckets with equal counts and sums have the same rows (except for a collision of 96 bits). 2. Only buckets
that differ are grouped by id and joined, which names each record.

The order is checked by one window over (topic, partition, producer) by offset: each sequence must be above the one
before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.spark.access import Servers, options_of
from barnabas.spark.options import COLUMNS, HEADERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BUCKETS: Final = 1 << 14
FINDINGS_MAX: Final = 1000
KINDS: Final = ("lost", "duplicated", "corrupted", "misplaced", "reordered", "unexpected")
"""What can be wrong with a record. ``misplaced``: at another partition or offset than the producer was told."""
_LOW_BITS: Final = 0xFFFFFFFF
_MANIFEST: Final = {
    "id": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "crc": "bigint",
    "producer": "string",
    "sequence": "bigint",
}
"""A manifest's columns with their types. ``crc`` is that of the value (``zlib.crc32``)."""


class AuditFinding(NamedTuple):
    """One record that fails the audit. `partition` and `offset` are -1 if they are unknown."""

    kind: str
    id: str | None
    topic: str | None
    partition: int
    offset: int
    detail: str

    def __str__(self) -> str:
        place = f"{self.topic or ''}-{self.partition}@{self.offset}" if self.partition >= 0 else self.topic or ""
        return " ".join(word for word in (self.kind, f"id {self.id}", place, self.detail) if word)


@dataclass(frozen=True)
class Audit:
    """The verdict. Counts are of records, None if the columns of the two sides don't suffice; `duplicated` counts
    copies beyond the first.
    """

    place: str
    expected: int
    found: int
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    corrupted: int | None = None
    misplaced: int | None = None
    reordered: int | None = None
    compared: tuple[str, ...] = ()
    findings: tuple[AuditFinding, ...] = ()

    @property
    def passed(self) -> bool:
        return not any(getattr(self, kind) for kind in KINDS)

    def verdict(self) -> str:
        """``0 lost, 0 duplicated, ..`` without the counts that could not be judged."""
        return ", ".join(f"{getattr(self, kind):,} {kind}" for kind in KINDS if getattr(self, kind) is not None)

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "passed": self.passed,
            "findings": [finding._asdict() for finding in self.findings],
        }


# ------------------------------------------------------------------------------------------------ the two sides


def read_manifest(spark: SparkSession, path: str) -> DataFrame:
    """A producer's manifest: Parquet, ``.csv`` with a header, or ``.json``/``.jsonl`` with an object a line.

    It has an ``id`` for each record, or ``partition`` and ``offset``; see `_MANIFEST` for what else is taken. Raises
    ``ValueError``.
    """
    require_manifest(path)
    if path.endswith(".csv"):
        frame = spark.read.option("header", "true").csv(path)
    elif path.endswith((".json", ".jsonl")):
        frame = spark.read.json(path)
    else:
        frame = spark.read.parquet(path)
    return normalized(frame, path)


def require_manifest(path: str) -> None:
    """Raises ``ValueError`` if no file fits `path`, which may be a pattern."""
    if not list(Path("/").glob(path.lstrip("/")) if Path(path).is_absolute() else Path().glob(path)):
        raise ValueError(f"There is no manifest {path}: name a Parquet, .csv or .jsonl file or directory.")


def normalized(frame: DataFrame, name: str) -> DataFrame:
    """The columns of a manifest that `frame` has, with their types; without an ``id`` one is made from the place."""
    from pyspark.sql import functions as sql

    columns = [column for column in _MANIFEST if column in frame.columns]
    if "id" not in columns and not {"partition", "offset"} <= set(columns):
        raise ValueError(
            f"{name} has neither a column id nor partition and offset: its columns are {', '.join(frame.columns)}."
        )
    typed = frame.select(*(sql.col(column).cast(_MANIFEST[column]).alias(column) for column in columns))
    return typed if "id" in columns else typed.withColumn("id", _place(typed))


def _place(frame: DataFrame) -> Column:
    from pyspark.sql import functions as sql

    return sql.concat_ws("@", *(column for column in ("topic", "partition", "offset") if column in frame.columns))


def read_topics(
    spark: SparkSession,
    bootstrap: Servers,
    topics: Sequence[str],
    *,
    like: Sequence[str],
    id: str | None = None,
    producer: str | None = None,
    sequence: str | None = None,
    isolation_level: str = "read_committed",
) -> DataFrame:
    """The records of `topics` with the columns of `like` that a topic can have.

    `id`, `producer` and `sequence` are SQL expressions over the source's columns, such as
    ``get_json_object(cast(value as string), '$.id')``. Only columns that are used are read.
    """
    from pyspark.sql import functions as sql

    wanted = {name: f"`{name}`" for name in ("topic", "partition", "offset")}
    if "crc" in like:
        wanted["crc"] = "crc32(value)"
    for name, expression in (("id", id), ("producer", producer), ("sequence", sequence)):
        if expression is not None:
            wanted[name] = expression
    if id is None and "id" in like and not {"partition", "offset"} <= set(like):
        raise ValueError(
            "The manifest has ids: say by --id how a record's id is read from it, "
            "for example --id \"get_json_object(cast(value as string), '$.id')\"."
        )
    reader = (
        spark.read.format("barnabas")
        .options(**options_of(bootstrap))
        .option("subscribe", ",".join(topics))
        .option("kafka.isolation.level", isolation_level)
        .option("columns", ",".join(columns_of(wanted.values())))
    )
    frame = reader.load().select(
        *(sql.expr(expression).cast(_MANIFEST[name]).alias(name) for name, expression in wanted.items())
    )
    if id is None:
        frame = frame.withColumn("id", _place(frame if "topic" in like else frame.drop("topic")))
    return frame


def columns_of(expressions: Sequence[str] | Any) -> list[str]:
    """The source's columns that SQL expressions name, in the source's order."""
    words = {word for expression in expressions for word in re.findall(r"\w+", expression)}
    return [name for name in (*COLUMNS, HEADERS[0]) if name in words]


# ------------------------------------------------------------------------------------------------ comparing


def audit(expected: DataFrame, found: DataFrame, *, place: str, findings_max: int = FINDINGS_MAX) -> Audit:
    """Compares what both frames have of `_MANIFEST`; see the module's text. `findings_max` bounds what is listed."""
    from pyspark.sql import functions as sql

    compared = tuple(
        column
        for column in ("topic", "partition", "offset", "crc")
        if column in expected.columns and column in found.columns
    )
    if "offset" in compared and not expected.where("`partition` < 0 or `offset` < 0 or `offset` is null").isEmpty():
        # librdkafka reports no offset for a record that the broker had already: such a manifest lacks its place.
        compared = tuple(column for column in compared if column not in ("partition", "offset"))
    sums = _sums(expected, 1, compared).unionByName(_sums(found, -1, compared)).groupBy("bucket")
    buckets = sums.agg(
        sql.sum(sql.when(sql.col("side") > 0, sql.col("rows"))).alias("expected"),
        sql.sum(sql.when(sql.col("side") < 0, sql.col("rows"))).alias("found"),
        *(sql.sum(sql.col("side") * sql.col(name)).alias(name) for name in ("low", "high", "other")),
    ).collect()
    differing = [
        row.bucket
        for row in buckets
        if (row.expected or 0) != (row.found or 0) or row.low != 0 or row.high != 0 or row.other != 0
    ]
    counts: dict[str, Any] = {
        "corrupted": 0 if "crc" in compared else None,
        "misplaced": 0 if "offset" in compared else None,
    }
    findings: list[AuditFinding] = []
    if differing:
        differences = _differences(expected, found, differing, compared).persist()
        try:
            kinds = differences.groupBy("kind").agg(sql.sum("n").alias("n")).collect()
            counts |= {row.kind: row.n for row in kinds}
            findings = [
                AuditFinding(row.kind, row.id, row.topic, row.partition, row.offset, row.detail)
                for row in differences.orderBy("kind", "id").limit(findings_max).collect()
            ]
        finally:
            differences.unpersist()
    counts["reordered"], reordered = _reordered(expected, found, compared, findings_max - len(findings))
    return Audit(
        place,
        expected=sum(row.expected or 0 for row in buckets),
        found=sum(row.found or 0 for row in buckets),
        compared=("id", *compared),
        findings=(*findings, *reordered),
        **counts,
    )


def _bucket() -> Column:
    from pyspark.sql import functions as sql

    return sql.pmod(sql.hash("id"), sql.lit(BUCKETS))


def _sums(frame: DataFrame, side: int, compared: Sequence[str]) -> DataFrame:
    """Rows and hash sums by bucket. The 64-bit hash is summed by halves: a sum of whole ones would overflow."""
    from pyspark.sql import functions as sql

    words = ["id", *compared]
    whole = sql.xxhash64(*words)
    hashed = frame.select(_bucket().alias("bucket"), whole.alias("whole"), sql.hash(*words).alias("other"))
    return hashed.groupBy("bucket").agg(
        sql.lit(side).alias("side"),
        sql.count("*").alias("rows"),
        sql.sum(sql.col("whole").bitwiseAND(_LOW_BITS)).alias("low"),
        sql.sum(sql.shiftrightunsigned("whole", 32)).alias("high"),
        sql.sum(sql.col("other").cast("bigint")).alias("other"),
    )


def _differences(expected: DataFrame, found: DataFrame, differing: list[int], compared: Sequence[str]) -> DataFrame:
    """A row for each error of a record; `n`: how many records it stands for."""
    from pyspark.sql import functions as sql

    spark = expected.sparkSession
    wanted = sql.broadcast(spark.createDataFrame([(bucket,) for bucket in differing], "bucket int"))

    def grouped(frame: DataFrame, prefix: str) -> DataFrame:
        here = [column for column in ("topic", "partition", "offset", "crc") if column in frame.columns]
        rows = frame.withColumn("bucket", _bucket()).join(wanted, "bucket", "left_semi")
        # The first copy, by its place, stands for all of them.
        first = sql.min(sql.struct(*here)) if here else sql.first(sql.lit(None))
        counted = rows.groupBy(sql.col("id").alias(f"{prefix}_id")).agg(
            sql.count("*").alias(f"{prefix}_rows"), first.alias("first")
        )
        columns = [sql.col(f"first.{column}").alias(f"{prefix}_{column}") for column in here]
        missing = [
            sql.lit(None).cast(_MANIFEST[column]).alias(f"{prefix}_{column}")
            for column in ("topic", "partition", "offset", "crc")
            if column not in here
        ]
        return counted.select(f"{prefix}_id", f"{prefix}_rows", *columns, *missing)

    joined = grouped(expected, "e").join(grouped(found, "f"), sql.expr("e_id = f_id"), "full_outer")
    both = "e_rows is not null and f_rows is not null"
    place = [column for column in compared if column != "crc"]
    moved = " or ".join(f"not (e_{column} <=> f_{column})" for column in place) or "false"
    changed = "not (e_crc <=> f_crc)" if "crc" in compared else "false"
    told = "concat('acknowledged at ', coalesce(concat(e_topic, '-'), 'partition '), e_partition, '@', e_offset)"
    kinds = [
        ("lost", "e_rows > coalesce(f_rows, 0)", "e_rows - coalesce(f_rows, 0)", "''"),
        ("duplicated", f"{both} and f_rows > e_rows", "f_rows - e_rows", "concat(f_rows, ' copies')"),
        ("unexpected", "e_rows is null", "f_rows", "'never acknowledged'"),
        ("misplaced", f"{both} and ({moved})", "1", told),
        ("corrupted", f"{both} and {changed}", "1", "concat('crc ', e_crc, ' was sent, ', f_crc, ' is there')"),
    ]
    wrong = [
        sql.when(
            sql.expr(condition),
            sql.struct(
                sql.lit(kind).alias("kind"),
                sql.expr(count).cast("bigint").alias("n"),
                sql.expr(f"coalesce({detail}, '')").alias("detail"),
            ),
        )
        for kind, condition, count, detail in kinds
    ]
    return joined.select(
        sql.expr("coalesce(e_id, f_id)").alias("id"),
        sql.expr("coalesce(f_topic, e_topic)").alias("topic"),
        sql.expr("coalesce(f_partition, e_partition, -1)").alias("partition"),
        sql.expr("coalesce(f_offset, e_offset, -1)").alias("offset"),
        sql.explode(sql.array_compact(sql.array(*wrong))).alias("wrong"),
    ).select("wrong.kind", "id", "topic", "partition", "offset", "wrong.n", "wrong.detail")


def _reordered(
    expected: DataFrame, found: DataFrame, compared: Sequence[str], findings_max: int
) -> tuple[int | None, list[AuditFinding]]:
    """Records whose sequence is not above that of the record before them, by the same producer in the partition."""
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    places = {"partition", "offset", "sequence"}
    if places <= set(found.columns):
        frame = found
    elif places <= set(expected.columns) and "offset" in compared:
        frame = expected  # the places were compared before: differences are reported already
    elif "sequence" in expected.columns and {"partition", "offset"} <= set(found.columns):
        said = expected.select("id", "sequence", *(c for c in ("producer",) if c in expected.columns))
        frame = found.join(said, "id")
    else:
        return None, []
    keys = [column for column in ("topic", "partition", "producer") if column in frame.columns]
    before = sql.lag("sequence").over(Window.partitionBy(*keys).orderBy("offset"))
    rows = frame.select("id", *keys, "offset", "sequence", before.alias("before")).where("sequence < before").persist()
    try:
        count = rows.count()
        listed = rows.orderBy(*keys, "offset").limit(max(0, findings_max)).collect() if count else []
    finally:
        rows.unpersist()
    return count, [
        AuditFinding(
            "reordered",
            row.id,
            row.topic if "topic" in keys else None,
            row.partition,
            row.offset,
            f"sequence {row.sequence} after {row.before}",
        )
        for row in listed
    ]
