"""``barnabas bench spark --real-time``: Spark's real-time mode on Barnabas beside the same on Apache Kafka 3.9.2.

Both use the official connector, unchanged: in this mode Spark does not allow sources in Python.

Each cluster has one broker. A query reads a topic and writes its records to another. A trip is one record, from its
sending until it is read from the second topic. Trips follow one after the other; the client is the same for both.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Final

from barnabas.bench.clusters import Subject, both, make_topic
from barnabas.bench.side_by_side import Figure, console, median_and_p99
from barnabas.bench.spark_connector import connector_jars
from barnabas.spark.session import session

_PATIENCE_S: Final = 60.0
_UNCOUNTED: Final = 100
"""Trips after the query's start that do not count."""


def measure(directory: Path, rounds: int, trips: int) -> list[Figure]:
    """Measures rounds of `trips` on each, in turn, after one round to warm up. Raises `SparkUnavailable`,
    `ApacheUnavailable`."""
    # SIGTERM ends the clusters and the JVM, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    p50 = Figure("real-time mode, round trip of a record, p50", "ms", "<= 1")
    p99 = Figure("real-time mode, round trip of a record, p99", "ms", "<= 1")
    with both(directory) as subjects:
        spark = session("bench", master="local[2]", config={"spark.jars": ",".join(map(str, connector_jars()))})
        # Spark logs it as an error of many lines when a query is stopped within a batch.
        spark.sparkContext.setLogLevel("OFF")
        try:
            for number in range(rounds + 1):
                for subject in subjects:
                    took = median_and_p99(_round(spark, subject, directory, trips))
                    told = f"p50 {took['p50']:.2f} ms, p99 {took['p99']:.2f} ms"
                    console.print(
                        f"  {f'round {number}' if number else 'warm-up'}  {subject.name}: {told}", style="dim"
                    )
                    if number:
                        p50.add(took["p50"], ours=subject is subjects[0])
                        p99.add(took["p99"], ours=subject is subjects[0])
        finally:
            spark.stop()
    return [p50, p99]


def _round(spark: Any, subject: Subject, directory: Path, trips: int) -> list[float]:
    """Milliseconds of each trip through a query of its own."""
    name = uuid.uuid4().hex
    asked, answered, checkpoint = f"asked-{name}", f"answered-{name}", directory / f"checkpoint-{name}"
    make_topic(subject, asked)
    make_topic(subject, answered)
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", subject.bootstrap)
    query = (
        rows.option("subscribe", asked)
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("topic", answered)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(realTime="10 minutes")  # no record waits for a batch to end
        .start()
    )
    try:
        return _trips(query, subject, asked, answered, trips)
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


def _trips(query: Any, subject: Subject, asked: str, answered: str, trips: int) -> list[float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": subject.bootstrap, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": subject.bootstrap, "group.id": answered, "enable.auto.commit": False})
    consumer.assign([TopicPartition(answered, 0, 0)])
    took = []
    try:
        for number in range(_UNCOUNTED + trips):
            sent = time.perf_counter()
            producer.produce(asked, b"%d" % number)
            producer.poll(0)
            deadline = sent + _PATIENCE_S
            while (message := consumer.poll(0.5)) is None:
                if not query.isActive or time.perf_counter() > deadline:
                    raise RuntimeError(f"record {number} did not come back from {subject.name}: {query.exception()}")
            took.append((time.perf_counter() - sent) * 1000)
            if message.error() is not None or message.value() != b"%d" % number:
                raise RuntimeError(f"{subject.name} answered record {number} with {message.error() or message.value()}")
    finally:
        producer.flush(_PATIENCE_S)
        consumer.close()
    return took[_UNCOUNTED:]
