# ruff: noqa: TID251 -- a bench reads the real clock
"""What `from_registry` costs, and what of it is Spark's: ``python bench/registry_floor.py [RECORDS [ROUNDS]]``.

CPU seconds of a million Avro values of ``bench spark --case avro-jvm``, of Python's workers and of the JVM, in one
session on ``local[2]``. Beside ours and `from_avro` stand what each has to do at least: the sources alone, and a UDF of
Arrow arrays that gives back what it got, or a struct array that was there. The least of the rounds counts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow

from barnabas.bench import spark_registry
from barnabas.bench.clusters import make_topic, running_barnabas
from barnabas.bench.spark import PARTITIONS, Case, _fill, _frame, _whole
from barnabas.bench.spark_connector import connector_jars
from barnabas.bench.tree_cpu import watched
from barnabas.spark.registry_columns import _Reader
from barnabas.spark.session import session


def main(records: int = 2_000_000, rounds: int = 3) -> None:
    case = Case("Avro", spark_registry.BYTES["AVRO"], _whole(lambda *_: None), "", "", kind="AVRO")
    jars = ",".join(map(str, connector_jars()))
    with (
        tempfile.TemporaryDirectory() as directory,
        running_barnabas(Path(directory)) as broker,
        watched(),
        spark_registry.registry() as registry,
    ):
        make_topic(broker, case.topic, [[0]] * PARTITIONS)
        _fill(broker, case, records)
        spark = session("floor", master="local[2]", config={"spark.jars": jars, "spark.driver.memory": "2g"})
        frame = partial(_frame, spark, broker.bootstrap, case.topic)
        reads: dict[str, Callable[[], Any]] = {
            "format('kafka'), the value": lambda: frame("kafka").select("value"),
            "format('kafka') and from_avro": lambda: frame("kafka").select(spark_registry.WAYS["avro-jvm"].column("")),
            "format('barnabas'), the value": lambda: frame("barnabas", "value").select("value"),
            "and a UDF that gives its bytes back": lambda: frame("barnabas", "value").select(same()),
            "and a UDF that has its structs": lambda: frame("barnabas", "value").select(there(registry)),
            "and from_registry": lambda: frame("barnabas", "value").select(spark_registry.ours("AVRO", registry)),
            "format('barnabas') with value.format=avro": lambda: frame(
                "barnabas", "value", spark_registry.in_source(registry)
            ),
        }
        least = dict.fromkeys(reads, float("inf"))
        try:
            for number in range(rounds + 1):
                for name, read in reads.items():
                    run = _whole(lambda *_, read=read: read().write.format("noop").mode("overwrite").save())
                    used = run(spark, "", "", "", records).cpu_s / records * 1e6
                    least[name] = min(least[name], used) if number else least[name]
                    print(f"  {'warm-up' if not number else f'round {number}'}: {name}: {used:.2f}", flush=True)
        finally:
            spark.stop()
    print(f"{records:,} values, CPU seconds a million")
    for name, used in least.items():
        print(f"{name:<44} {used:5.2f}")


def same() -> Any:
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import BinaryType

    def given(values: pyarrow.Array) -> pyarrow.Array:
        return values

    given.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    return arrow_udf(given, returnType=BinaryType())("value")


def there(registry: str) -> Any:
    """The struct array of the first values, as often as it is asked for: what a reader that costs nothing would do."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import StructType

    from barnabas.spark.registry import Registry
    from barnabas.spark.versions import arrow_type_of

    source = Registry.of(registry)
    kind = StructType.fromDDL(spark_registry.DDL)
    reader = _Reader(
        source, source.newest(spark_registry.SUBJECT.format("AVRO")), None, arrow_type_of(kind), "FAILFAST"
    )
    kept: list[Any] = []

    def made(values: pyarrow.Array) -> pyarrow.Array:
        if not kept or len(kept[0]) < len(values):
            kept[:] = [reader(values)]
        return kept[0].slice(0, len(values))

    made.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    return arrow_udf(made, returnType=kind)("value")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
