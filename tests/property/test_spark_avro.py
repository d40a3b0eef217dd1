"""Avro's values by the kernel and by the reader in Python: the same column of them, and the same faults.

Writers and readers are drawn as they evolve: fields come and go and change places, numbers become wider, and what is
there may become null. Values are whole, or damaged.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.spark import avro_plan
from barnabas.spark.avro import AvroError, AvroSchema, beside_null
from barnabas.spark.avro_columns import AvroPayloads

pytestmark = pytest.mark.skipif(not avro_plan.IS_BUILT, reason="the kernel was not built")

WIDER = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}
OTHER = {"string": ["bytes"], "bytes": ["string"]}
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3},
]
KINDS = [pyarrow.binary(), pyarrow.large_binary()]
"""Which Spark hands on; the second with ``spark.sql.execution.arrow.useLargeVarTypes``."""
PLAIN = {
    "null": pyarrow.null(),
    "boolean": pyarrow.bool_(),
    "int": pyarrow.int32(),
    "long": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "bytes": pyarrow.binary(),
    "fixed": pyarrow.binary(),
    "string": pyarrow.string(),
    "enum": pyarrow.string(),
    "date": pyarrow.date32(),
    "timestamp-millis": pyarrow.timestamp("us", "UTC"),
    "timestamp-micros": pyarrow.timestamp("us", "UTC"),
    "decimal": pyarrow.decimal128(30, 3),
}
NUMBERS = {
    **PLAIN,
    **dict.fromkeys(["null", "date"], pyarrow.int32()),
    **dict.fromkeys(["timestamp-millis", "timestamp-micros"], pyarrow.int64()),
}
PREFIX = b"\0\0\0\0\1"


def long(number: int) -> bytes:
    zigzag, out = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def arrow_type(schema: Any, plain: Any = PLAIN, *, strict: bool = False) -> Any:
    """Of a reader's resolved schema, as Spark has it; `strict`: fields that are never null are told."""
    kind = schema["type"]
    if kind == "union":
        return arrow_type(beside_null(schema), plain, strict=strict)
    if kind == "record":
        return pyarrow.struct(
            pyarrow.field(
                field["name"],
                arrow_type(field["type"], plain, strict=strict),
                nullable=not strict or field["type"]["type"] in ("union", "null"),
            )
            for field in schema["fields"]
        )
    if kind == "array":
        return pyarrow.list_(pyarrow.field("element", arrow_type(schema["items"], plain, strict=strict)))
    if kind == "map":
        return pyarrow.map_(pyarrow.string(), arrow_type(schema["values"], plain, strict=strict))
    return plain[schema.get("logicalType", kind)]


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Any:
    """A writer's type and a reader's; either may lack what the other has."""
    kind = draw(st.sampled_from(["plain"] * 5 + ["logical", "enum", "fixed", "null"] + ["inner"] * (4 if depth else 0)))
    name = f"N{draw(st.integers(0, 1 << 60))}"
    one: Any
    other: Any
    if kind == "plain":
        one = draw(st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string"]))
        other = draw(st.sampled_from([one] * 3 + WIDER.get(one, []) + OTHER.get(one, [])))
    elif kind == "logical":
        one, other = (draw(st.sampled_from(LOGICAL)) for _ in range(2))
        if one["type"] != other["type"] or draw(st.booleans()):
            other = one
        if draw(st.booleans()):
            one = one["type"]
    elif kind == "enum":
        one = other = {"type": "enum", "name": name, "symbols": ["A", "BB", "C"]}
    elif kind == "fixed":
        one = other = {"type": "fixed", "name": name, "size": draw(st.integers(0, 5))}
    elif kind == "null":
        one = other = "null"
    else:
        kind = draw(st.sampled_from(["record", "array", "map"]))
        if kind == "record":
            one, other = draw(records(name, depth - 1))
        else:
            inner = "items" if kind == "array" else "values"
            one, other = ({"type": kind, inner: part} for part in draw(types(depth - 1)))
    if one != "null":
        nullable = draw(st.sampled_from(["neither"] * 2 + ["both", "reader", "writer", "strange"]))
        if nullable in ("both", "writer"):
            one = draw(st.permutations(["null", one]))
        if nullable in ("both", "reader"):
            other = ["null", other]
        if nullable == "strange":
            one = [{"type": "fixed", "name": f"{name}X", "size": 2}, one, "null"]
    return one, other


@st.composite
def records(draw: st.DrawFn, name: str, depth: int) -> Any:
    one, other = [], []
    for number in range(draw(st.integers(1, 4))):
        written, expected = draw(types(depth))
        field = f"f{number}"
        fate = draw(st.sampled_from(["both"] * 5 + ["dropped", "added"]))
        if fate != "added":
            one.append({"name": field, "type": written})
        if fate == "added":
            other.append({"name": field, "type": ["null", "int"], "default": None})
            other.append({"name": f"{field}d", "type": LOGICAL[1], "default": 1234})
        elif fate == "both":
            other.append({"name": field, "type": expected})
    other = list(draw(st.permutations(other))) or [{"name": "z", "type": "string", "default": "é"}]
    return {"type": "record", "name": name, "fields": one}, {"type": "record", "name": name, "fields": other}


@st.composite
def values(draw: st.DrawFn, schema: Any) -> bytes:
    """Bytes of a resolved schema."""
    kind = schema["type"]
    if kind == "union":
        branch = draw(st.integers(0, len(schema["of"]) - 1))
        return long(branch) + draw(values(schema["of"][branch]))
    if kind == "record":
        return b"".join(draw(values(field["type"])) for field in schema["fields"])
    if kind in ("array", "map"):
        out = b""
        for _ in range(draw(st.integers(0, 2))):
            count = draw(st.integers(1, 3))
            items = b""
            for _ in range(count):
                if kind == "map":
                    items += draw(texts())
                items += draw(values(schema["items" if kind == "array" else "values"]))
            out += long(-count) + long(len(items)) if draw(st.booleans()) else long(count)
            out += items
        return out + long(0)
    if kind == "enum":
        return long(draw(st.integers(0, 2)))
    if kind == "fixed":
        return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
    if kind == "string":
        return draw(texts())
    if kind == "bytes":
        found = draw(st.binary(max_size=20))
        return long(len(found)) + found
    if kind == "boolean":
        return draw(st.sampled_from([b"\0", b"\1"]))
    if kind in ("int", "long"):
        most = 1 << (31 if kind == "int" else 63)
        return long(draw(st.integers(-70, 70) | st.integers(-most, most - 1)))
    if kind in ("float", "double"):
        size = "<f" if kind == "float" else "<d"
        return struct.pack(size, draw(st.floats(width=32)))
    return b""


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    found = draw(st.text(max_size=20)).encode()
    return long(len(found)) + found


def damaged(draw: st.DrawFn, value: bytes) -> bytes:
    at = draw(st.integers(0, max(len(value) - 1, 0)))
    how = draw(st.sampled_from(["changed", "cut", "more", "less"]))
    if how == "cut":
        return value[:at]
    if how == "changed":
        return value[:at] + draw(st.binary(min_size=1, max_size=2)) + value[at + 1 :]
    return value[:at] + draw(st.binary(max_size=12)) + value[at:] if how == "more" else value[:at] + value[at + 1 :]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_kernel_and_python_read_the_same(data: st.DataObject) -> None:
    texts_of = [json.dumps(schema) for schema in data.draw(records("R", 2))]
    written, expected = map(AvroSchema, texts_of)
    target = arrow_type(expected.root, strict=data.draw(st.booleans()))
    try:
        payloads = AvroPayloads([texts_of[0]], expected, target)
    except AvroError:
        return
    given_values = []
    for _ in range(data.draw(st.integers(1, 5))):
        value = data.draw(values(written.root))
        given_values.append(damaged(data.draw, value) if data.draw(st.integers(0, 3)) == 0 else value)
    kind = data.draw(st.sampled_from(KINDS))
    array = pyarrow.array([b"before", *(PREFIX + value for value in given_values)], kind).slice(1)
    found = payloads.decode(array)
    payloads._plan, payloads._compiled = None, False
    wanted = payloads.decode(array)
    assert told(found.array, expected.root) == told(wanted.array, expected.root)
    assert found.faults == wanted.faults
    found.array.validate(full=True)
    assert found.array.type == wanted.array.type == target
    for array in (found.array, wanted.array):
        for row in array.drop_null().cast(arrow_type(expected.root, NUMBERS)).to_pylist():
            assert_never_null(row, target)


def assert_never_null(value: Any, kind: Any) -> None:
    """Where the type says so: of a null there Spark would make a 0."""
    if value is None:
        return
    if pyarrow.types.is_struct(kind):
        for field in kind:
            assert field.nullable or value[field.name] is not None
            assert_never_null(value[field.name], field.type)
    elif pyarrow.types.is_map(kind):
        for _, item in value:
            assert_never_null(item, kind.item_type)
    elif pyarrow.types.is_list(kind):
        for item in value:
            assert_never_null(item, kind.value_type)


def told(array: Any, schema: Any) -> str:
    # Not by equality, for which a NaN is none; and times as numbers, since Python has no year 10000.
    return repr(array.cast(arrow_type(schema, NUMBERS)).to_pylist())
