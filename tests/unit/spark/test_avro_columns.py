"""Columns of Avro values: at once and one by one the same comes of them, faults and evolution included."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow
import pytest

from barnabas.spark import avro_columns
from barnabas.spark.avro import AvroSchema
from barnabas.spark.avro_columns import AvroPayloads, compilable, fits_by_field
from barnabas.spark.registry_columns import decode

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "product", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
LATER = {
    **ORDER,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": "double", "default": 1.5},
    ],
}


def long(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def text(value: str) -> bytes:
    return long(len(value.encode())) + value.encode()


def order(number: int, product: str, note: str | None) -> bytes:
    return long(number) + text(product) + (long(0) if note is None else long(1) + text(note))


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">i", schema_id) + payload


ORDER_TYPE = pyarrow.struct({"id": pyarrow.int32(), "product": pyarrow.string(), "note": pyarrow.string()})
LATER_TYPE = pyarrow.struct({"id": pyarrow.int64(), "note": pyarrow.string(), "price": pyarrow.float64()})
MOMENT = pyarrow.timestamp("us", tz="UTC")


@pytest.fixture(params=["compiled", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "one by one":
        monkeypatch.setattr(avro_columns, "_has_pyruhvro", lambda: False)
    return str(request.param)


def decoded(values: list[bytes | None], expected: dict[str, Any], target: Any, **schemas: dict[str, Any]) -> Any:
    schema = AvroSchema(json.dumps(expected))
    known = {int(name[1:]): AvroPayloads([json.dumps(each)], schema, target) for name, each in schemas.items()}

    def writer(schema_id: int) -> AvroPayloads:
        if schema_id not in known:
            raise ValueError(f"nobody knows schema {schema_id}")
        return known[schema_id]

    found = decode(pyarrow.array(values, pyarrow.binary()), writer, target)
    assert found.array.type == target
    return found


def test_writers_are_told_apart_and_rows_keep_their_places(way: str) -> None:
    values = [
        framed(1, order(1, "a", None)),
        None,
        framed(2, long(2) + long(1) + text("n") + struct.pack("<d", 2.5)),
        framed(1, order(3, "c", "m")),
    ]
    found = decoded(values, LATER, LATER_TYPE, _1=ORDER, _2=LATER)
    assert found.faults == {}
    assert found.array.to_pylist() == [
        {"id": 1, "note": None, "price": 1.5},
        None,
        {"id": 2, "note": "n", "price": 2.5},
        {"id": 3, "note": "m", "price": 1.5},
    ]


def test_faulty_values_are_found_among_many(way: str) -> None:
    values = [framed(1, order(n, "p", None)) for n in range(50)]
    values[7], values[20], values[49] = b"plain", framed(1, b"\x02\x7f"), framed(9, b"")
    found = decoded(values, ORDER, ORDER_TYPE, _1=ORDER)
    assert sorted(found.faults) == [7, 20, 49]
    assert "Confluent prefix" in found.faults[7]
    assert found.faults[49] == "nobody knows schema 9"
    assert [row["id"] if row else None for row in found.array.to_pylist()] == [
        None if n in found.faults else n for n in range(50)
    ]


def test_a_text_that_is_no_text_is_a_fault(way: str) -> None:
    values = [framed(1, order(1, "a", None)), framed(1, order(2, "bb", None).replace(b"bb", b"b\xff"))]
    found = decoded(values, ORDER, ORDER_TYPE, _1=ORDER)
    assert sorted(found.faults) == [1]
    assert [row and row["id"] for row in found.array.to_pylist()] == [1, None]


def test_items_without_bytes_are_no_more_than_their_value_is_long(way: str) -> None:
    nothing = {"type": "record", "name": "Nothing", "fields": [{"name": "x", "type": "null"}]}
    for items, of in (("null", pyarrow.null()), (nothing, pyarrow.struct({"x": pyarrow.null()}))):
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}
        found = decoded(
            [framed(1, long(1 << 24) + long(0))], schema, pyarrow.struct({"a": pyarrow.list_(of)}), _1=schema
        )
        assert "block of 16777216 items" in found.faults[0]


def test_nothing_and_only_faults_make_a_column_all_the_same(way: str) -> None:
    assert decoded([], ORDER, ORDER_TYPE, _1=ORDER).array.to_pylist() == []
    assert decoded([None, b"x"], ORDER, ORDER_TYPE, _1=ORDER).array.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("bytes", False),
        ({"type": "fixed", "name": "F", "size": 4}, False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, False),
        ({"type": "string", "logicalType": "uuid"}, False),
        (["null", "int", "string"], False),
        ({"type": "long", "logicalType": "timestamp-millis"}, True),
        ({"type": "array", "items": {"type": "map", "values": ["null", "long"]}}, True),
        ({"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "bytes"}]}, False),
    ],
)
def test_what_is_compiled_is_what_pyruhvro_knows(kind: Any, known: bool) -> None:
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}))
    assert compilable(schema.root) is known
    assert not compilable(AvroSchema('"long"').root)


def test_only_fields_and_widths_may_differ_where_columns_are_compiled() -> None:
    order, later = AvroSchema(json.dumps(ORDER)), AvroSchema(json.dumps(LATER))
    assert fits_by_field(order, later)
    assert not fits_by_field(later, order)
    inner = [{"type": "record", "name": "I", "fields": [{"name": name, "type": "int"}]} for name in ("a", "b")]
    one, other = (
        AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": each}]}))
        for each in inner
    )
    assert not fits_by_field(one, other)


def test_a_schema_may_refer_to_others(way: str) -> None:
    line = '{"type":"record","name":"Line","namespace":"n","fields":[{"name":"x","type":"int"}]}'
    whole = '{"type":"record","name":"Whole","namespace":"n","fields":[{"name":"line","type":"n.Line"}]}'
    schema = AvroSchema(whole, [line])
    target = pyarrow.struct({"line": pyarrow.struct({"x": pyarrow.int32()})})
    writer = AvroPayloads([line, whole], schema, target)
    found = decode(pyarrow.array([framed(1, long(5))]), lambda _: writer, target)
    assert found.array.to_pylist() == [{"line": {"x": 5}}]


def test_times_are_in_utc_on_both_ways(way: str) -> None:
    fields = [
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ]
    schema = {"type": "record", "name": "T", "fields": fields}
    target = pyarrow.struct({"ms": MOMENT, "us": MOMENT, "day": pyarrow.date32()})
    found = decoded([framed(1, long(1000) + long(1) + long(7) + long(3))], schema, target, _1=schema)
    (row,) = found.array.to_pylist()
    assert (row["ms"].isoformat(), row["us"].microsecond, row["day"].isoformat()) == (
        "1970-01-01T00:00:01+00:00",
        7,
        "1970-01-04",
    )
