"""``barnabas bench spark``: ``format("barnabas")`` beside the official connector, on the same topics in one session.

One broker (Barnabas), topics of two partitions filled before anything is measured, one Spark session on `local[2]` with
both. Rounds are pairs: ours, the connector, ours, the connector; two pairs warm both up and do not count. A write sends
generated rows in a batch, with each sink's defaults (idempotent producers, acks=all). CPU is that of this process and
all its descendants (the JVM, Python's workers and runners), user and system, including processes that have ended,
without the broker's. A rate is rows per second of that CPU, or of the wall clock.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.bench import spark_land, spark_registry
from barnabas.bench.clusters import Subject, make_topic, running_barnabas
from barnabas.bench.plots import Panel, draw, medians
from barnabas.bench.side_by_side import Figure, console
from barnabas.bench.spark_connector import VERSION, connector_jars
from barnabas.bench.tree_cpu import tree_cpu_s, watched
from barnabas.spark.session import session

OTHER: Final = f"official connector {VERSION}"
PARTITIONS: Final = 2
_BATCHES_BEFORE: Final = 2
RESULTS: Final = "spark.json"
PLOT: Final = "spark-record-size.svg"
"""The plot of batch reads of all columns over record size, if several sizes were measured."""


class Measured(NamedTuple):
    """The cost of one run."""

    rows: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Case:
    """One measured task. `run` takes the session, the bootstrap address, the topic, the format and the rows."""

    name: str
    record_bytes: int
    run: Callable[[Any, str, str, str, int], Measured]
    cpu_wanted: str
    wall_wanted: str
    writes: bool = False
    lands: bool = False
    kind: str = ""
    """The format of values of a schema registry: ``AVRO``, ``JSON`` or ``PROTOBUF``; else empty."""

    @property
    def topic(self) -> str:
        return f"{'written' if self.writes else self.kind or 'bench'}-{self.record_bytes}"

    def rows(self, records: int) -> int:
        """The number of rows, if `records` is the number for 100 B. Larger records get at most the bytes of a sixth of
        `records` at 1 KB; writes get a third."""
        rows = max(1, min(records, records * 1000 // 6 // self.record_bytes))
        return max(1, rows // 3) if self.writes else rows


def _whole(read: Callable[[Any, str, str, str], None]) -> Callable[[Any, str, str, str, int], Measured]:
    """`read` measured from its beginning to its end."""

    def run(spark: Any, bootstrap: str, topic: str, source: str, rows: int) -> Measured:
        used, begun = tree_cpu_s(), time.monotonic()
        read(spark, bootstrap, topic, source)
        return Measured(rows, tree_cpu_s() - used, time.monotonic() - begun)

    return run


def _frame(
    spark: Any, bootstrap: str, topic: str, source: str, columns: str = "", options: Mapping[str, str] | None = None
) -> Any:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.options(**(options or {}))
    if columns and source == "barnabas":
        reader = reader.option("columns", columns)
    return reader.load()


def _every_column(spark: Any, bootstrap: str, topic: str, source: str) -> None:
    _frame(spark, bootstrap, topic, source).write.format("noop").mode("overwrite").save()


def _value_only(spark: Any, bootstrap: str, topic: str, source: str) -> None:
    _frame(spark, bootstrap, topic, source, "value").select("value").write.format("noop").mode("overwrite").save()


def _count(spark: Any, bootstrap: str, topic: str, source: str) -> None:
    _frame(spark, bootstrap, topic, source, "offset").count()


def _offset_audit(spark: Any, bootstrap: str, topic: str, source: str) -> None:
    from pyspark.sql import functions as F

    frame = _frame(spark, bootstrap, topic, source, "partition,offset")
    found = frame.groupBy("partition").agg(F.count("*"), F.min("offset"), F.max("offset"), F.sum("offset")).collect()
    for partition, count, low, high, total in found:
        if not (low == 0 and high == count - 1 and total == count * (count - 1) // 2):
            raise RuntimeError(f"{source} read {count} records of partition {partition}, offsets {low} to {high}")


def _stream(spark: Any, bootstrap: str, topic: str, source: str, rows: int) -> Measured:
    """Ten micro-batches, measured from the end of the second one: the query and Python's processes start only once."""
    checkpoint = Path(spark.conf.get("barnabas.bench.directory")) / f"checkpoint-{uuid.uuid4().hex}"
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", -(-rows // 10)).load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive and len(query.recentProgress) < _BATCHES_BEFORE:
        time.sleep(0.02)
    used, begun = tree_cpu_s(), time.monotonic()
    before = sum(progress["numInputRows"] for progress in query.recentProgress)
    query.awaitTermination()
    took, used = time.monotonic() - begun, tree_cpu_s() - used
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    shutil.rmtree(checkpoint, ignore_errors=True)
    if read != rows or before == read:
        raise RuntimeError(f"{source} read {read} rows of {rows} in a stream, {before} of them before it was measured")
    return Measured(read - before, used, took)


def _write(spark: Any, bootstrap: str, topic: str, source: str, rows: int) -> Measured:
    """Writes rows with a key, and a value of the size in the topic's name."""
    size = int(topic.rpartition("-")[2])
    made = spark.range(0, rows, 1, PARTITIONS)
    frame = made.selectExpr("string(id) AS key", f"rpad(string(id), {size}, 'abcdefghijklmnopqrstuvwxyz') AS value")
    before, used, begun = _end(bootstrap, topic), tree_cpu_s(), time.monotonic()
    frame.write.format(source).option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode("append").save()
    took, used = time.monotonic() - begun, tree_cpu_s() - used
    if (written := _end(bootstrap, topic) - before) != rows:
        raise RuntimeError(f"{source} wrote {written} records for {rows} rows")
    return Measured(rows, used, took)


def _land(spark: Any, bootstrap: str, topic: str, source: str, rows: int) -> Measured:
    """From a topic to a new Delta table, from the job's beginning to its end."""
    used, begun = tree_cpu_s(), time.monotonic()
    table = spark_land.landed(spark, bootstrap, topic, source)
    used, took = tree_cpu_s() - used, time.monotonic() - begun
    spark_land.check(table, rows, PARTITIONS)
    for path in (table, table.with_name(f"{table.name}-checkpoint")):
        shutil.rmtree(path, ignore_errors=True)
    return Measured(rows, used, took)


def _registered(way: str) -> Case:
    """`from_registry`, or the source's own option, beside `way`."""
    kind, column, called, in_source = spark_registry.WAYS[way]

    def read(spark: Any, bootstrap: str, topic: str, source: str) -> None:
        url = spark.conf.get("barnabas.bench.registry")
        if source == "barnabas" and in_source:
            frame = _frame(spark, bootstrap, topic, source, "value", spark_registry.in_source(url))
        else:
            made = spark_registry.ours(kind, url) if source == "barnabas" else column(url)
            frame = _frame(spark, bootstrap, topic, source, "value").select(made.alias("order"))
        frame.write.format("noop").mode("overwrite").save()

    size = spark_registry.BYTES[kind]
    name = f"{kind.capitalize()}{' in the source' if in_source else ''}, {size} B, beside {called}"
    return Case(name, size, _whole(read), ">= 2.0", ">= 1.0", kind=kind)


def _end(bootstrap: str, topic: str) -> int:
    """The sum of the partitions' ends."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-ends"})
    try:
        return sum(
            reader.get_watermark_offsets(TopicPartition(topic, partition), 30)[1] for partition in range(PARTITIONS)
        )
    finally:
        reader.close()


CASES: Final = {
    "batch-100": Case("batch, 100 B, all columns", 100, _whole(_every_column), ">= 1.6", ">= 2.0"),
    "value-100": Case("batch, 100 B, value only", 100, _whole(_value_only), ">= 1.6", ">= 2.0"),
    "count-100": Case("count, 100 B", 100, _whole(_count), ">= 3.0", ">= 3.0"),
    "audit-100": Case("audit of offsets, 100 B", 100, _whole(_offset_audit), ">= 3.0", ">= 3.0"),
    "batch-300": Case("batch, 300 B, all columns", 300, _whole(_every_column), ">= 1.0", ">= 1.7"),
    "batch-1000": Case("batch, 1 KB, all columns", 1000, _whole(_every_column), ">= 1.0", ">= 1.7"),
    "batch-3000": Case("batch, 3 KB, all columns", 3000, _whole(_every_column), ">= 1.0", ">= 1.0"),
    "batch-10000": Case("batch, 10 KB, all columns", 10_000, _whole(_every_column), ">= 1.0", ">= 1.0"),
    "stream-100": Case("stream once started, 100 B", 100, _stream, ">= 1.0", ">= 1.0"),
    "write-100": Case("batch write, 100 B", 100, _write, ">= 1.0", ">= 1.0", writes=True),
    "write-1000": Case("batch write, 1 KB", 1000, _write, ">= 1.0", ">= 1.0", writes=True),
    "land-100": Case("land in a Delta table, 100 B", 100, _land, ">= 1.0", ">= 1.0", lands=True),
    "land-1000": Case("land in a Delta table, 1 KB", 1000, _land, ">= 1.0", ">= 1.0", lands=True),
    **{name: _registered(name) for name in spark_registry.WAYS},
}
_WARM_UPS: Final = 2
"""Pairs before the first round. The JVM compiles for longer than one pair, which would favour the source that does more
in Python."""
_BY_RECORD_SIZE: Final = ("batch-100", "batch-300", "batch-1000", "batch-3000", "batch-10000")


class Pair(NamedTuple):
    """The results of one case, in rows."""

    a_cpu_second: Figure
    a_second: Figure


def measure(directory: Path, rounds: int, records: int, cases: Sequence[str]) -> dict[str, Pair]:
    """Measures each case. `records` is the number for 100 B: see `Case.rows`. Raises `SparkUnavailable`,
    `ApacheUnavailable`."""
    # SIGTERM ends the cluster and the JVM, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    lands = any(CASES[name].lands for name in cases)
    jars = ",".join(map(str, [*connector_jars(), *(spark_land.delta_jars() if lands else ())]))
    # The broker is not a descendant of this process once it runs, so its CPU is not counted.
    with running_barnabas(directory / "barnabas") as broker, watched(), spark_registry.registry() as registry:
        for case in {CASES[name].topic: CASES[name] for name in cases}.values():
            make_topic(broker, case.topic, [[0]] * PARTITIONS)
            if not case.writes:
                _fill(broker, case, case.rows(records))
        config = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
        if lands:
            config |= spark_land.CONFIG
        spark = session("bench", master="local[2]", config=config)
        spark.conf.set("barnabas.bench.directory", str(directory))
        spark.conf.set("barnabas.bench.registry", registry)
        try:
            return {name: _pair(spark, broker.bootstrap, CASES[name], rounds, records) for name in cases}
        finally:
            spark.stop()


def _pair(spark: Any, bootstrap: str, case: Case, rounds: int, records: int) -> Pair:
    cpu = Figure(f"{case.name}: rows a CPU second", "1/s", case.cpu_wanted)
    wall = Figure(f"{case.name}: rows a second", "1/s", case.wall_wanted)
    for number in range(1 - _WARM_UPS, rounds + 1):
        for source in ("barnabas", "kafka"):
            measured = case.run(spark, bootstrap, case.topic, source, case.rows(records))
            told = f"{source}: {measured.rows} rows, {measured.wall_s:.2f} s, {measured.cpu_s:.2f} s of CPU"
            turn = f"round {number}" if number > 0 else "warm-up"
            console.print(f"  {case.name}, {turn}, {told}", style="dim", soft_wrap=True)
            if number > 0:
                cpu.add(measured.rows / measured.cpu_s, ours=source == "barnabas")
                wall.add(measured.rows / measured.wall_s, ours=source == "barnabas")
    return Pair(cpu, wall)


def write(pairs: Mapping[str, Pair], directory: Path) -> None:
    """`RESULTS` below `directory`, and `PLOT` where it has two points at least."""
    directory.mkdir(parents=True, exist_ok=True)
    found = {name: [figure.as_json() for figure in pair] for name, pair in pairs.items()}
    (directory / RESULTS).write_text(json.dumps(found, indent=1) + "\n")
    sizes = {CASES[name].record_bytes: pairs[name] for name in _BY_RECORD_SIZE if name in pairs}
    if len(sizes) > 1:
        wall = medians([pair.a_second for pair in sizes.values()])
        cpu = medians([pair.a_cpu_second for pair in sizes.values()])
        panels = [Panel("rows per second", "rows", *wall), Panel("rows per second of CPU", "rows", *cpu)]
        draw(directory / PLOT, "record size (bytes), all columns", list(sizes), panels, OTHER)


def _fill(broker: Subject, case: Case, records: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 20,
            "batch.size": 900_000,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 400_000,
        }
    )
    block, size = os.urandom(1 << 16), case.record_bytes
    values = spark_registry.orders(case.kind) if case.kind else []
    sent = [0] * PARTITIONS
    while (missing := records - sum(sent)) > 0:
        partition = sent.index(min(sent))
        at = sum(sent) % ((1 << 16) - size)
        wanted = min(1000, missing, -(-records // PARTITIONS) - sent[partition] or missing)
        lot = [
            {
                "value": values[number % len(values)] if values else block[at : at + size],
                "key": b"%08d" % (sum(sent) + number),
            }
            for number in range(wanted)
        ]
        queued = producer.produce_batch(case.topic, lot, partition=partition)
        sent[partition] += queued
        if queued < len(lot):
            producer.poll(0.01)
    if producer.flush(120) != 0:
        raise RuntimeError(f"topic {case.topic} could not be filled")
