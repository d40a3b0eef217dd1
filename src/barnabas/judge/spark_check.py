"""The verdict on a history by Spark: the in-memory checks on pieces of it, as `barnabas.judge.pieces` describes them.

A piece has all rows about one partition, and must fit into one task's memory. On the driver only the edges that go back
in the order of commits grow with the history.
"""

from __future__ import annotations

import bisect
import functools
import json
import operator
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.judge import pieces
from barnabas.judge.anomalies import ANOMALIES
from barnabas.judge.check import PLACED, JudgeVerdict, in_order
from barnabas.judge.cycles import NOT_ISOLATED, SAID
from barnabas.judge.findings import EXAMPLES, Example, Finding, Judged
from barnabas.judge.history import LATER, SCHEMA, TOMBSTONE, Context, HistoryError, Op, Status, context_of, of_table
from barnabas.judge.pieces import FOUND_DDL, JUDGED, ROW
from barnabas.judge.seen import READ_COMMITTED, reuses_sequences
from barnabas.judge.updates import WRONG_TOTAL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BY_TRANSACTION: Final = 64
"""The number of pieces by transaction."""


def check(spark: SparkSession, path: Path | str) -> JudgeVerdict:
    """`path` is a history's file, or a directory of files that continue each other in the order of their names.

    Raises `HistoryError` for a file that is not a history or contradicts itself, and ``OSError``.
    """
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise HistoryError(f"{path} has no Parquet file")
    try:
        context = context_of(pq.read_schema(files[0]), files[0])
    except pa.ArrowInvalid as error:
        raise HistoryError(f"{files[0]} is not a Parquet file: {error}") from None
    rows = _rows(spark, files).persist()
    try:
        counts = _operations(rows, context)
        _consistent(rows)
        common = _common(rows).toArrow()
        resolved = _resolved(rows, context)
        found = _by_place(rows, context, common, resolved)
        found = found.unionByName(_by_transaction(rows, context, common, resolved)).persist()
        try:
            judged = [*_judged(found), *_cycles(found), *_totals(rows, context, common)]
        finally:
            found.unpersist()
        return _verdict(rows, context, judged, counts)
    finally:
        rows.unpersist()


def _rows(spark: SparkSession, files: list[Path]) -> DataFrame:
    """The history with each row's number, and the partition it is about as one word (null: none)."""
    from pyspark.sql import functions as F

    names = F.array(*(F.lit(file.name) for file in files))
    row = (F.array_position(names, F.col("_metadata.file_name")) - 1) * (1 << 40) + F.col("_metadata.row_index")
    place = F.concat(F.col("topic"), F.lit("/"), F.col("partition").cast("string"))
    found = spark.read.parquet(*(str(file) for file in files))
    for name in LATER:
        if name not in found.columns:
            found = found.withColumn(name, F.lit(None).cast("bigint"))
    return found.select(*SCHEMA.names, row.alias(ROW), place.alias("place"))


def _operations(rows: DataFrame, context: Context) -> dict[str, dict[str, int]]:
    """The number of operations of each kind and outcome. Raises `HistoryError` for unknown words and clients."""
    from pyspark.sql import functions as F

    found = {(row["op"], row["status"]): row["count"] for row in rows.groupBy("op", "status").count().collect()}
    known = (("op", [kind.word for kind in Op]), ("status", [status.word for status in Status]))
    for number, (what, words) in enumerate(known):
        for strange in sorted({str(pair[number]) for pair in found} - set(words)):
            raise HistoryError(f"the history has the {what} {strange!r}, which is not one of {', '.join(words)}")
    strangers = (F.col("process") < 0) | (F.col("process") >= len(context.clients))
    if rows.where(strangers).limit(1).count():
        raise HistoryError("the history has rows of clients that its metadata does not name")
    told = {op.word: {s.word: found[op.word, s.word] for s in Status if (op.word, s.word) in found} for op in Op}
    return {word: by_status for word, by_status in told.items() if by_status}


def _consistent(rows: DataFrame) -> None:
    from pyspark.sql import functions as F

    op = F.col("op")
    wrong = F.coalesce(
        F.when(_is(*PLACED) & F.col("place").isNull(), "has no partition"),
        F.when(_is(Op.COMMIT, Op.ABORT) & F.col("txn").isNull(), "ends no transaction"),
        F.when(F.col("completed_ns") < F.col("invoked_ns"), "completes before it is invoked"),
        F.when(_is(Op.COMMIT_OFFSET, Op.FETCH_OFFSET) & F.col("name").isNull(), "names no group"),
        F.when(_is(Op.TOTAL) & F.col("name").isNull(), "names no bank"),
        F.when(_is(Op.SEND) & F.col("value").isNull(), "has no value"),
    )
    for row in rows.select(ROW, op, wrong.alias("wrong")).where("wrong is not null").orderBy(ROW).limit(1).collect():
        raise HistoryError(f"row {row[ROW]} ({row['op']}) {row['wrong']}")
    twice = rows.where(_is(Op.SEND)).groupBy("value").count().where("count > 1").orderBy("value").limit(1)
    for row in twice.collect():
        raise HistoryError(f"value {row['value']} is sent twice: a read of it would be ambiguous")


def _is(*ops: Op) -> Column:
    from pyspark.sql import functions as F

    return F.col("op").isin(*(op.word for op in ops))


def _common(rows: DataFrame) -> DataFrame:
    """The rows that every piece needs: the nemesis' rows, and each client's first end of unknown outcome."""
    from pyspark.sql import functions as F

    unknown = rows.where(_is(Op.COMMIT, Op.ABORT) & (F.col("status") == Status.UNKNOWN.word))
    first = unknown.groupBy("process").agg(F.min(ROW).alias(ROW)).select(ROW)
    return rows.where(_is(Op.NEMESIS)).unionByName(unknown.join(first, ROW).select(rows.columns))


def _resolved(rows: DataFrame, context: Context) -> list[int]:
    """The transactions that others know to be committed. Transactions of unknown outcome are few, so the rows about
    them fit into the driver's memory."""
    from pyspark.sql import functions as F

    ends, status = rows.where(_is(Op.COMMIT, Op.ABORT)), F.col("status")
    told = F.max(status == Status.OK.word), F.max((F.col("op") == Op.COMMIT.word) & (status == Status.UNKNOWN.word))
    open_still = ends.groupBy("txn").agg(told[0].alias("known"), told[1].alias("asked"))
    open_still = open_still.where("asked and not known").select("txn").persist()
    try:
        if not open_still.limit(1).count():
            return []
        readers = [number for number, client in enumerate(context.clients) if client.isolation == READ_COMMITTED]
        sends = rows.where(_is(Op.SEND)).join(open_still, "txn", "left_semi")
        reads = rows.where(_is(Op.READ) & F.col("process").isin(readers))
        reads = reads.join(sends.select("value"), "value", "left_semi")
        offsets = rows.where(_is(Op.COMMIT_OFFSET, Op.FETCH_OFFSET))
        own = offsets.join(open_still, "txn", "left_semi").select("name", "place", "offset").distinct()
        offsets = offsets.join(own, ["name", "place", "offset"], "left_semi")
        # Another commit of the same offset counts from the request of its own transaction's end.
        ends = ends.join(open_still.unionByName(offsets.select("txn")).distinct(), "txn", "left_semi")
        seen = sends.unionByName(reads).unionByName(offsets).unionByName(ends)
        return pieces.resolved_of(seen.toArrow(), context)
    finally:
        open_still.unpersist()


def _by_place(rows: DataFrame, context: Context, common: Any, resolved: list[int]) -> DataFrame:
    from pyspark.sql import functions as F

    own = rows.where("place is not null").withColumn("piece", F.col("place"))
    sends = rows.where(_is(Op.SEND))
    told = rows.where(_is(Op.READ, Op.MARKER) & (F.col("value").isNotNull()))
    elsewhere = (
        told.select("value", F.col("place").alias("piece"))
        .join(sends.select("value", "place", F.col(ROW).alias("sent")), "value")
        .where(F.col("piece") != F.col("place"))
        .select("piece", "sent")
        .distinct()
    )
    foreign = rows.join(elsewhere, F.col(ROW) == F.col("sent")).drop("sent")
    here = own.unionByName(foreign)
    # A transaction's ends, and its last send, which shows its begin and its client.
    last = sends.where("txn is not null").groupBy("txn").agg(F.max(ROW).alias("last")).select("last")
    lasts = rows.join(last, F.col(ROW) == F.col("last")).drop("last")
    stories = rows.where(_is(Op.COMMIT, Op.ABORT)).unionByName(lasts)
    touched = here.where("txn is not null").select("piece", "txn").distinct()
    whole = here.unionByName(stories.join(touched, "txn").select(here.columns))
    work = functools.partial(pieces.by_place, context=context, common=common, resolved=resolved)
    return whole.groupBy("piece").applyInArrow(lambda table: work(table), FOUND_DDL)


def _by_transaction(rows: DataFrame, context: Context, common: Any, resolved: list[int]) -> DataFrame:
    from pyspark.sql import functions as F

    own = rows.where("txn is not null").where(_is(Op.SEND, Op.COMMIT, Op.ABORT))
    sends = own.where(_is(Op.SEND))
    scans = [number for number, client in enumerate(context.clients) if client.scan]
    scanned = rows.where(_is(Op.READ) & F.col("process").isin(scans))
    of_txn = sends.select("value", F.col("txn").alias("sent_in"))
    mine = scanned.join(of_txn, "value").select(*rows.columns, "sent_in")
    whole = own.withColumn("sent_in", F.col("txn")).unionByName(mine)
    # A record without an answer to its producer must be there once a committed reader has read it.
    readers = [n for n, client in enumerate(context.clients) if client.isolation == READ_COMMITTED and not client.scan]
    unanswered = sends.where(F.col("status") == Status.UNKNOWN.word).select("value", F.col("txn").alias("sent_in"))
    had = rows.where(_is(Op.READ) & F.col("process").isin(readers)).join(unanswered, "value")
    whole = whole.unionByName(had.select(*rows.columns, "sent_in"))
    compacted = [topic for topic, config in context.topics.items() if "compact" in config.get("cleanup.policy", "")]
    if compacted:
        # The record of a key that compaction kept excuses the earlier ones, from any client.
        kept = own.where(_is(Op.COMMIT) & (F.col("status") != Status.FAILED.word)).select("txn").distinct()
        aborted = sends.select("value", "txn").join(kept, "txn", "left_anti").select("value")
        left = (
            scanned.where(F.col("topic").isin(compacted)).where("key is not null").join(aborted, "value", "left_anti")
        )
        keys = sends.select("place", "key", F.col("txn").alias("sent_in")).distinct()
        newest = left.groupBy("place", "key").agg(F.max_by(ROW, "offset").alias("newest")).join(keys, ["place", "key"])
        whole = whole.unionByName(
            rows.join(newest.select("newest", "sent_in"), F.col(ROW) == F.col("newest")).drop("newest")
        )
        # So do tombstones that were removed since; in the piece of their own transaction they are sends like others.
        gone = rows.where(_is(Op.SEND) & (F.col("name") == TOMBSTONE) & (F.col("status") != Status.FAILED.word))
        gone = gone.join(aborted, "value", "left_anti").join(keys, ["place", "key"])
        gone = gone.withColumns({"status": F.lit(Status.UNKNOWN.word), "txn": F.lit(None).cast("bigint")})
        whole = whole.unionByName(gone.select(*rows.columns, "sent_in"))
    reusing = [number for number, client in enumerate(context.clients) if reuses_sequences(client)]
    if reusing:
        # At the offset of an acknowledged record there may be one that the same client had given up.
        told = sends.where(F.col("process").isin(reusing) & (F.col("status") == Status.OK.word))
        told = told.select("place", "offset", F.col("value").alias("told"), F.col("txn").alias("sent_in"))
        there = scanned.join(told, ["place", "offset"]).where(F.col("value") != F.col("told"))
        given_up = sends.where(F.col("status") == Status.UNKNOWN.word).join(
            there.select("value", "sent_in").distinct(), "value"
        )
        for more in (there, given_up):
            whole = whole.unionByName(more.select(*rows.columns, "sent_in"))
    deletes = rows.where(_is(Op.DELETE) & (F.col("status") != Status.FAILED.word))
    furthest = deletes.groupBy("place").agg(F.max_by(ROW, "offset").alias("furthest")).select("furthest")
    everywhere = rows.where(_is(Op.SCANNED)).unionByName(
        rows.join(furthest, F.col(ROW) == F.col("furthest")).drop("furthest")
    )
    ends = pa.concat_tables([common, everywhere.toArrow().cast(common.schema)])
    work = functools.partial(pieces.by_transaction, context=context, common=ends, resolved=resolved)
    piece = F.pmod(F.hash("sent_in"), F.lit(_BY_TRANSACTION))
    return whole.withColumn("piece", piece).groupBy("piece").applyInArrow(lambda table: work(table), FOUND_DDL)


def _judged(found: DataFrame) -> list[Judged]:
    """The findings of all pieces, added up."""
    from pyspark.sql import functions as F

    evaluated: Counter[str] = Counter()
    counts: dict[str, Counter[str | None]] = {}
    examples: dict[tuple[str, str | None], list[Any]] = {}
    for line in found.where(F.col("what") == JUDGED).collect():
        anomaly, limit = line["anomaly"], line["limit"]
        evaluated[anomaly] += line["evaluated"]
        if line["count"]:
            counts.setdefault(anomaly, Counter())[limit] += line["count"]
            examples.setdefault((anomaly, limit), []).extend(json.loads(line["examples"]))
    return [
        Judged(
            anomaly,
            evaluated[anomaly],
            tuple(
                _finding(anomaly, limit, counts[anomaly][limit], examples[anomaly, limit])
                for limit in sorted(counts.get(anomaly, ()), key=lambda name: name or "")
            ),
        )
        for anomaly in ANOMALIES
        if anomaly not in (*SAID, WRONG_TOTAL)
    ]


def _finding(anomaly: str, limit: str | None, count: int, examples: list[Any]) -> Finding:
    first = sorted(examples, key=operator.itemgetter(1))[:EXAMPLES]
    return Finding(anomaly, limit, count, tuple(Example(said, tuple(rows)) for said, rows in first))


def _cycles(found: DataFrame) -> Iterator[Judged]:
    """G0 and G1c. Transactions, and edges between them, are few compared with records."""
    from pyspark.sql import functions as F

    edges = found.where(F.col("what") != JUDGED)
    counts = {row["kind"]: row["count"] for row in edges.groupBy("kind").count().collect()}
    writes, reads = edges.where(F.col("kind") == pieces.WRITES), edges.where(F.col("kind") == pieces.READS)
    over_writes, over_reads, over_both = _over(writes), _over(reads), _over(edges)
    g0 = [_cycle_finding("G0", NOT_ISOLATED, over_writes)]
    g1c = [_cycle_finding("G1c", None, over_reads)]
    g1c.append(_cycle_finding("G1c", NOT_ISOLATED, None if over_both is None else over_both.where("mixed")))
    yield Judged("G0", counts.get(pieces.WRITES, 0), tuple(finding for finding in g0 if finding is not None))
    yield Judged("G1c", counts.get(pieces.READS, 0), tuple(finding for finding in g1c if finding is not None))


def _totals(rows: DataFrame, context: Context, common: Any) -> list[Judged]:
    """The sums of banks. Readers seldom add up accounts, so these rows fit into the driver's memory."""
    return pieces.of_totals(rows.where(_is(Op.TOTAL)).toArrow(), context, common)


def _cycle_finding(anomaly: str, limit: str | None, found: DataFrame | None) -> Finding | None:
    count = 0 if found is None else found.count()
    if found is None or not count:
        return None
    shown = [[SAID[anomaly], json.loads(row["rows"])] for row in found.orderBy(ROW).limit(EXAMPLES).collect()]
    return _finding(anomaly, limit, count, shown)


def _over(edges: DataFrame) -> DataFrame | None:
    """The cycles over these edges, found in one stretch after the other; None if no edge goes back."""
    from pyspark.sql import functions as F

    once = edges.groupBy("begin", "end").agg(
        F.min(F.struct("kind", ROW)).alias("first"),
        F.min("begin_at").alias("begin_at"),
        F.min("end_at").alias("end_at"),
    )
    graph = once.select("begin", "end", "begin_at", "end_at", "first.kind", f"first.{ROW}").persist()
    back = graph.where("end_at < begin_at or (end_at = begin_at and end < begin)").toArrow()
    if not back.num_rows:
        return None
    begins, ends = pieces.stretches(back)

    def placed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            columns = batch.to_pydict()
            one = [_stretch(key, begins, ends) for key in zip(columns["begin_at"], columns["begin"], strict=True)]
            two = [_stretch(key, begins, ends) for key in zip(columns["end_at"], columns["end"], strict=True)]
            stretch = [a if a == b else -1 for a, b in zip(one, two, strict=True)]
            yield batch.append_column("stretch", pa.array(stretch, pa.int64()))

    kinds = "begin bigint, end bigint, begin_at bigint, end_at bigint, kind int, row bigint, stretch bigint"
    inside = graph.mapInArrow(placed, kinds).where("stretch >= 0")
    return inside.groupBy("stretch").applyInArrow(
        lambda table: pieces.in_stretch(table), "rows string, mixed boolean, row bigint"
    )


def _stretch(key: tuple[int, int], begins: list[tuple[int, int]], ends: list[tuple[int, int]]) -> int:
    """The number of the stretch that contains a commit, or -1."""
    at = bisect.bisect_right(begins, key) - 1
    return at if at >= 0 and key <= ends[at] else -1


def _verdict(
    rows: DataFrame, context: Context, judged: list[Judged], counts: dict[str, dict[str, int]]
) -> JudgeVerdict:
    """The verdict with the rows that examples name, and the history's first row, from which times are counted."""
    from pyspark.sql import functions as F

    shown = {row for one in judged for finding in one.findings for example in finding.examples for row in example.rows}
    table = rows.where(F.col(ROW).isin(sorted({0, *shown}))).orderBy(ROW).toArrow()
    place = {row: number for number, row in enumerate(table[ROW].to_pylist())}
    history = of_table(table.select(SCHEMA.names), context)

    def moved(one: Judged) -> Judged:
        return one._replace(
            findings=tuple(
                Finding(
                    finding.anomaly, finding.limit, finding.count,
                    tuple(Example(said, tuple(place[row] for row in rows)) for said, rows in finding.examples),
                )
                for finding in one.findings
            )
        )  # fmt: skip

    return JudgeVerdict(history, in_order(map(moved, judged)), counts)
