"""Columns of Avro values: at once and one by one the same comes of them, faults and evolution included."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import Any

import pyarrow
import pytest

from barnabas.spark import avro_columns, avro_plan
from barnabas.spark.avro import AvroError, AvroSchema
from barnabas.spark.avro_columns import AvroColumns, AvroPayloads, compilable, fits_by_field
from barnabas.spark.registry import Schema
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


@pytest.fixture(params=["kernel", "pyruhvro", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "kernel" and not avro_plan.IS_BUILT:
        pytest.skip("the kernel was not built")
    if request.param != "kernel":
        monkeypatch.setattr(avro_plan, "IS_BUILT", False)
    if request.param == "one by one":
        monkeypatch.setattr(avro_columns, "_has_pyruhvro", lambda: False)
    return str(request.param)


def decoded(values: list[bytes | None], expected: Any, target: Any, **schemas: Any) -> Any:
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


def of(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind, **more}]}


def read(way: str, written: Any, expected: Any, target: Any, *payloads: bytes, **more: Any) -> Any:
    """The values of the one field, None for a record that is none; and the faults."""
    values: list[bytes | None] = [framed(1, payload) for payload in payloads]
    found = decoded(values, of(expected, **more), pyarrow.struct({"x": target}), _1=of(written))
    found.array.validate(full=True)
    return [row and row["x"] for row in found.array.to_pylist()], found.faults


def test_a_null_is_none_of_a_type_that_takes_no_null(way: str) -> None:
    found, faults = read(way, ["null", "string"], "string", pyarrow.string(), long(1) + text("a"), long(0))
    assert found == ["a", None]
    assert faults == {1: "the writer's schema has null where string is expected"}
    with pytest.raises(AvroError, match="null where string"):
        AvroSchema(json.dumps(of("null"))).reader(AvroSchema(json.dumps(of("string"))))
    assert read(way, "null", ["null", "string"], pyarrow.string(), b"") == ([None], {})


def test_a_union_is_read_where_its_branch_fits(way: str) -> None:
    found, faults = read(way, ["int", "string"], "long", pyarrow.int64(), long(0) + long(7), long(1) + text("seven"))
    assert found == [7, None]
    assert faults == {1: "the writer's schema has string where long is expected"}


def test_a_field_may_become_null(way: str) -> None:
    assert read(way, "string", ["null", "string"], pyarrow.string(), text("a")) == (["a"], {})


@pytest.mark.parametrize(
    ("written", "expected", "micros"),
    [
        ("timestamp-millis", "timestamp-millis", 5000),
        ("timestamp-micros", "timestamp-micros", 5),
        ("timestamp-millis", "timestamp-micros", 5000),
        ("timestamp-micros", "timestamp-millis", 5),
        (None, "timestamp-millis", 5000),
        (None, "timestamp-micros", 5),
    ],
)
def test_a_time_has_the_unit_of_its_writer_else_of_its_reader(
    way: str, written: str | None, expected: str, micros: int
) -> None:
    one, other = ({"type": "long", **({"logicalType": name} if name else {})} for name in (written, expected))
    ((found,), faults) = read(way, one, other, MOMENT, long(5))
    assert (found.microsecond, faults) == (micros, {})


def test_a_time_that_is_read_as_a_number_is_the_number_that_was_written(way: str) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    assert read(way, millis, "long", pyarrow.int64(), long(5)) == ([5], {})


def test_a_default_is_of_its_fields_type(way: str) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes", "default": "\u00ff"}]}
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 5},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            "default": "\u0019",
        },
        {"name": "inner", "type": inner, "default": {}},
        {"name": "many", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
    ]
    expected = {"type": "record", "name": "R", "fields": fields}
    target = pyarrow.struct(
        {
            "at": MOMENT,
            "raw": pyarrow.binary(),
            "price": pyarrow.decimal128(4, 1),
            "inner": pyarrow.struct({"b": pyarrow.binary()}),
            "many": pyarrow.map_(pyarrow.string(), pyarrow.int32()),
        }
    )
    written = of("int")
    (row,) = decoded([framed(1, long(1))], expected, target, _1=written).array.to_pylist()
    assert (row["at"].microsecond, row["raw"], str(row["price"])) == (5000, b"\xff", "2.5")
    assert (row["inner"], row["many"]) == ({"b": b"\xff"}, [("k", 1)])


def test_a_default_that_is_no_value_of_its_type_is_told() -> None:
    expected = {"type": "record", "name": "R", "fields": [{"name": "raw", "type": "bytes", "default": 5}]}
    with pytest.raises(AvroError, match="the default of 'raw' is no value of its type"):
        AvroPayloads(
            [json.dumps(of("int"))], AvroSchema(json.dumps(expected)), pyarrow.struct({"raw": pyarrow.binary()})
        )


def test_decimals_have_all_their_digits(way: str) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    most = 10**38 - 1
    payloads = [long(16) + number.to_bytes(16, "big", signed=True) for number in (most, -most)]
    found, faults = read(way, kind, kind, pyarrow.decimal128(38, 2), *payloads)
    assert [str(number) for number in found] == [f"{'9' * 36}.99", f"-{'9' * 36}.99"]
    assert faults == {}


def test_a_number_that_no_double_has_becomes_the_next_one(way: str) -> None:
    assert read(way, "long", "double", pyarrow.float64(), long(2**53 + 1)) == ([2.0**53], {})


def test_what_stands_behind_a_value_is_not_looked_at(way: str) -> None:
    assert read(way, "bytes", "bytes", pyarrow.binary(), long(1) + b"a" + b"more") == ([b"a"], {})


def test_a_dropped_text_may_be_any_and_a_dropped_record_may_contain_itself(way: str) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    dropped = [{"name": "text", "type": "string"}, {"name": "node", "type": node}]
    written = {"type": "record", "name": "R", "fields": [*dropped, {"name": "x", "type": "int"}]}
    payloads = [long(1) + b"\xff" + depth * long(1) + long(0) + long(7) for depth in (3, 100_000)]
    found = decoded(
        [framed(1, payload) for payload in payloads], of("int"), pyarrow.struct({"x": pyarrow.int32()}), _1=written
    )
    assert found.array.to_pylist() == [{"x": 7}, None]
    assert found.faults == {1: "it contains itself too often to be read"}


@pytest.mark.parametrize("more", [{}, {"default": 1}])
def test_a_field_is_found_by_its_alias_too(way: str, more: dict[str, Any]) -> None:
    later = {"name": "new", "type": "int", "aliases": ["older", "x"], **more}
    inner = {**of("int"), "fields": [later], "name": "Inner"}
    target = pyarrow.struct({"new": pyarrow.int32()})
    assert decoded([framed(1, long(7))], inner, target, _1=of("int")).array.to_pylist() == [{"new": 7}]
    assert read(way, {**of("int"), "name": "Inner"}, inner, target, long(7)) == ([{"new": 7}], {})
    both = [{"name": "x", "type": "int"}, later]
    written = {**of("int"), "fields": [*of("int")["fields"], {"name": "older", "type": "int"}]}
    target = pyarrow.struct({"x": pyarrow.int32(), "new": pyarrow.int32()})
    found = decoded([framed(1, long(1) + long(2))], {**of("int"), "fields": both}, target, _1=written)
    assert found.array.to_pylist() == [{"x": 1, "new": 2}]


def test_a_symbol_that_the_reader_lacks_is_its_default_or_a_fault(way: str) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    later = {**enum, "symbols": ["A", "B", "C"]}
    payloads = [long(1), long(2)]
    assert read(way, later, {**enum, "default": "A"}, pyarrow.string(), *payloads) == (["B", "A"], {})
    found, faults = read(way, later, enum, pyarrow.string(), *payloads)
    assert found == ["B", None]
    assert faults == {1: "the expected schema's enum has no symbol 'C', and no default"}


def test_a_name_means_first_what_its_own_namespace_declares(way: str) -> None:
    outside = {"type": "record", "name": "Foo", "namespace": "", "fields": [{"name": "x", "type": "int"}]}
    inside = {"type": "record", "name": "Foo", "fields": [{"name": "y", "type": "string"}]}
    kinds = {"a": outside, "b": inside, "c": "Foo"}
    schema = {"type": "record", "name": "ns.R", "fields": [{"name": name, "type": kinds[name]} for name in kinds]}
    assert AvroSchema(json.dumps(schema)).spark_type() == (
        "struct<`a`:struct<`x`:int>,`b`:struct<`y`:string>,`c`:struct<`y`:string>>"
    )


@pytest.mark.parametrize(
    ("schema", "ddl"),
    [
        ({"type": "string", "logicalType": "date"}, "string"),
        ({"type": "long", "logicalType": "date"}, "bigint"),
        ({"type": "int", "logicalType": "timestamp-millis"}, "int"),
        ({"type": "string", "logicalType": "decimal", "precision": 4, "scale": 2}, "string"),
        ({"type": "bytes", "logicalType": "decimal"}, "binary"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4}, "binary"),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 0}, "binary"),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 5}, "decimal(5,0)"),
    ],
)
def test_a_logical_type_that_is_amiss_is_passed_over(schema: dict[str, Any], ddl: str) -> None:
    assert AvroSchema(json.dumps(of(schema))).spark_type() == f"struct<`x`:{ddl}>"


def test_a_decimal_of_more_digits_than_spark_has_is_refused() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
    with pytest.raises(AvroError, match="a decimal of 40 digits; Spark's have 38"):
        AvroSchema(json.dumps(of(schema))).spark_type()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-nanos"}, {"type": "long", "logicalType": "timestamp-micros"}),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            {"type": "long", "logicalType": "timestamp-micros"},
        ),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}),
        ({"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 2}),
    ],
)
def test_times_of_another_meaning_and_bytes_of_another_number_do_not_match(
    written: dict[str, Any], expected: dict[str, Any]
) -> None:
    with pytest.raises(AvroError, match=r"the writer's schema has .* expected"):
        AvroSchema(json.dumps(of(written))).reader(AvroSchema(json.dumps(of(expected))))


def test_a_number_is_a_time_where_the_reader_says_so(way: str) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    found, faults = read(way, "int", millis, MOMENT, long(5))
    assert ([each.timestamp() for each in found], faults) == ([0.005], {})
    assert read(way, millis, "double", pyarrow.float64(), long(5)) == ([5.0], {})
    assert read(way, {"type": "int", "logicalType": "date"}, "long", pyarrow.int64(), long(5)) == ([5], {})


def test_a_record_without_fields_is_read(way: str) -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    assert read(way, empty, empty, pyarrow.struct([]), b"") == ([{}], {})


def test_a_whole_value_may_be_null_by_its_schema(way: str) -> None:
    target = pyarrow.struct({"x": pyarrow.int32()})
    found = decoded(
        [framed(1, long(1) + long(7)), framed(1, long(0))], ["null", of("int")], target, _1=["null", of("int")]
    )
    assert (found.array.to_pylist(), found.faults) == ([{"x": 7}, None], {})
    schema = Schema("AVRO", json.dumps(["null", of("int")]))
    columns = AvroColumns(schema)
    assert columns.encode(pyarrow.array([{"x": 7}], target), target).to_pylist() == [long(1) + long(7)]
    for written in (schema, Schema("AVRO", json.dumps(of("int")))):
        assert columns.payloads(written, target)


@pytest.mark.skipif(not avro_plan.IS_BUILT, reason="the kernel was not built")
def test_the_kernel_knows_what_orders_have_and_more() -> None:
    fields = [
        ("a", "int", pyarrow.int32()),
        ("b", ["null", "bytes"], pyarrow.binary()),
        ("c", {"type": "fixed", "name": "F", "size": 4}, pyarrow.binary()),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pyarrow.decimal128(9, 2)),
        ("e", {"type": "enum", "name": "E", "symbols": ["A"]}, pyarrow.string()),
        ("f", {"type": "array", "items": {"type": "map", "values": ["null", "long"]}}, None),
        ("g", {"type": "string", "logicalType": "uuid"}, pyarrow.string()),
    ]
    inner = pyarrow.list_(pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    target = pyarrow.struct([(name, kind or inner) for name, _, kind in fields])
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind, _ in fields]}
    assert AvroPayloads([json.dumps(schema)], AvroSchema(json.dumps(schema)), target)._plan is not None


@pytest.mark.skipif(not avro_plan.IS_BUILT, reason="the kernel was not built")
def test_who_reads_by_the_kernel_loads_no_pyruhvro() -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]})
    story = f"""
import sys
import pyarrow
from barnabas.spark.avro_columns import AvroColumns
from barnabas.spark.registry import Schema

schema = Schema("AVRO", {text!r})
payloads = AvroColumns(schema).payloads(schema, pyarrow.struct({{"x": pyarrow.int32()}}))
assert payloads.decode(pyarrow.array([bytes(5) + bytes([14])])).array.to_pylist() == [{{"x": 7}}]
assert "pyruhvro" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", story], check=True)
