"""Exactly once inside Spark, in miniature: processes of a query are killed at its steps, and it is started again.

The large one, with brokers, drivers and executors that are killed: ``make exactly-once``.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from committed_records import committed
from pyspark import SparkContext
from pyspark.sql import SparkSession
from sink_worlds import CONFIG

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.spark.session import SparkUnavailable, session
from barnabas.testing import KafkaCluster

pytestmark = [pytest.mark.long(3), pytest.mark.spark]
EXACTLY_ONCE = Path(__file__).parent.parent / "exactly_once"
RECORDS = 600


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("dying")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYING_IN", str(directory))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(EXACTLY_ONCE), os.environ.get("PYTHONPATH", "")]))
        patch.syspath_prepend(str(EXACTLY_ONCE))
        yield directory


def end_the_jvm() -> None:
    """The next session begins a JVM of its own: workers have the environment in which it was started."""
    context = SparkContext._active_spark_context
    if context is not None:
        SparkSession(context).stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="module")
def spark(dying: Path) -> Iterator[Any]:
    end_the_jvm()
    try:
        started = session("tests", master="local[2,4]", config={"spark.sql.shuffle.partitions": "2"})
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.stop()


def test_every_record_once_while_processes_die_at_the_steps_of_a_batch(spark: Any, dying: Path, tmp_path: Path) -> None:
    import query

    plan = ["worker:writing", "worker:written", "worker:decided"]
    (dying / "plan").write_text("\n".join(plan))
    with KafkaCluster(1, config=CONFIG) as kafka:
        for topic in ("in", "out"):
            kafka.create_topic(topic, partitions=2)
        with BlockingCluster(kafka.bootstrap) as cluster:
            producer = BlockingProducer(cluster)
            for number in range(RECORDS):
                producer.send("in", b"record %d" % number, key=b"%d" % number)
            producer.flush()
        given = {
            "bootstrap": kafka.bootstrap,
            "delivery": "exactly-once",
            "batch": RECORDS // 3,
            "checkpoint": f"file://{tmp_path}/checkpoint",
        }
        failures = 0
        while True:
            running = query.start(given, spark)
            try:
                running.awaitTermination()
                break
            except Exception:
                failures += 1
                assert failures <= len(plan), "each death ends one run at most"
        assert len(list(dying.glob("died-*"))) == len(plan)
        assert failures == 2, "a task that dies is tried again; a commit that dies ends the query"
        plain = [b"record %d" % number for number in range(RECORDS)]
        assert committed(kafka, "out") == sorted(b"%s:%d" % (each, zlib.crc32(each)) for each in plain)
