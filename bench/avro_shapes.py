# ruff: noqa: TID251 -- a bench reads the real clock
"""What reading a value of Avro costs without Spark, by its shape: ``python bench/avro_shapes.py [ROUNDS]``.

Nanoseconds a value, of 10,000 at once, the least of the rounds: by the kernel alone, and of rows that `to_registry`
writes. Compare two versions in turns.
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro
import pyarrow

from barnabas.bench import spark_registry
from barnabas.spark.registry import Schema
from barnabas.spark.registry_columns import _RowWriter, decode, format_of

VALUES: Final = 10_000
PREFIX: Final = b"\0\0\0\0\1"
TEXT: Final = pyarrow.string()
DRAWN: Final = random.Random(1)
PLAIN: Final[Mapping[str, tuple[Any, Callable[[], Any]]]] = {
    "long": (pyarrow.int64(), lambda: DRAWN.randrange(1 << 40)),
    "string": (TEXT, lambda: "x" * DRAWN.randrange(12)),
    "double": (pyarrow.float64(), DRAWN.random),
    "int": (pyarrow.int32(), lambda: DRAWN.randrange(100)),
    "boolean": (pyarrow.bool_(), lambda: DRAWN.random() < 0.5),
}


def main(rounds: int = 200) -> None:
    names = {f"field_{number}": list(PLAIN)[number % len(PLAIN)] for number in range(15)}
    flat = [{name: PLAIN[kind][1]() for name, kind in names.items()} for _ in range(VALUES)]
    sparse = [{name: value if DRAWN.random() < 0.7 else None for name, value in row.items()} for row in flat]
    target = pyarrow.struct([(name, PLAIN[kind][0]) for name, kind in names.items()])
    told("fifteen plain fields", record(names), target, written(record(names), flat), rounds)
    nullable = record({name: ["null", kind] for name, kind in names.items()})
    told("fifteen fields, three tenths null", nullable, target, written(nullable, sparse), rounds)
    fields = {
        "counts": {"type": "map", "values": "long"},
        "lines": {"type": "array", "items": json.loads(record({"x": "int", "y": "string"}, "Line"))},
    }
    rows = [
        {
            "counts": {f"k{number}": number for number in range(DRAWN.randrange(6))},
            "lines": [{"x": number, "y": f"t{number}"} for number in range(DRAWN.randrange(5))],
        }
        for _ in range(VALUES)
    ]
    line = pyarrow.struct([("x", pyarrow.int32()), ("y", TEXT)])
    target = pyarrow.struct([("counts", pyarrow.map_(TEXT, pyarrow.int64())), ("lines", pyarrow.list_(line))])
    told("a map and an array of records", record(fields), target, written(record(fields), rows), rounds)
    order = pyarrow.struct(
        [
            ("id", pyarrow.int64()),
            ("customer", TEXT),
            ("product", TEXT),
            ("quantity", pyarrow.int64()),
            ("price", pyarrow.float64()),
            ("note", TEXT),
            ("tags", pyarrow.list_(TEXT)),
            ("address", pyarrow.struct([("street", TEXT), ("city", TEXT)])),
        ]
    )
    values = spark_registry.orders("AVRO")
    values = [values[number % len(values)] for number in range(VALUES)]
    told("an order", spark_registry.AVRO, order, values, rounds)
    found = decode(pyarrow.array(values), lambda _: payloads(spark_registry.AVRO, order), order).array
    write = _RowWriter(Schema("AVRO", spark_registry.AVRO, id=1), None, order)
    print(f"{'an order, written by to_registry':<40} {least(lambda: write(found), rounds // 4):6.0f} ns")


def record(fields: Mapping[str, Any], name: str = "Row") -> str:
    described = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "fields": described})


def written(text: str, rows: list[dict[str, Any]]) -> list[bytes]:
    schema = fastavro.parse_schema(json.loads(text))
    values = []
    for row in rows:
        out = io.BytesIO(PREFIX)
        out.seek(len(PREFIX))
        fastavro.schemaless_writer(out, schema, row)
        values.append(out.getvalue())
    return values


def payloads(text: str, target: Any) -> Any:
    schema = Schema("AVRO", text, id=1)
    return format_of(schema).payloads(schema, target)


def told(shape: str, text: str, target: Any, values: list[bytes], rounds: int) -> None:
    reader, given = payloads(text, target), pyarrow.array(values, pyarrow.binary())
    print(f"{shape:<40} {least(lambda: reader.decode(given), rounds):6.0f} ns", flush=True)


def least(run: Callable[[], Any], rounds: int) -> float:
    found = float("inf")
    for _ in range(max(1, rounds)):
        begun = time.perf_counter_ns()
        run()
        found = min(found, (time.perf_counter_ns() - begun) / VALUES)
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
