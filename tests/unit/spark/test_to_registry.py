"""Rows that become values of a registry: framed, in their order, and a null stays null."""

from __future__ import annotations

import json

import pyarrow
import pytest

from barnabas.spark.registry import Schema
from barnabas.spark.registry_columns import _RowWriter

ROW = pyarrow.struct({"id": pyarrow.int64()})
SCHEMAS = {
    "AVRO": json.dumps({"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}),
    "JSON": json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}),
    "PROTOBUF": 'syntax = "proto3"; message Row { int64 id = 1; }',
}
PAYLOADS = {
    "AVRO": lambda number: bytes([2 * number]),
    "JSON": lambda number: json.dumps({"id": number}, separators=(",", ":")).encode(),
    "PROTOBUF": lambda number: bytes([0, 8, number]),
}


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("ids", [[1, 2, 3], [None, 1, None, None, 2], [3, None], [None, None], []])
def test_a_null_row_stays_null_among_the_values(kind: str, ids: list[int | None]) -> None:
    rows = [None if number is None else {"id": number} for number in [9, *ids]]
    found = _RowWriter(Schema(kind, SCHEMAS[kind], id=258), None, ROW)(pyarrow.array(rows, ROW).slice(1))
    assert found.to_pylist() == [None if number is None else b"\0\0\0\1\2" + PAYLOADS[kind](number) for number in ids]
    assert found.type == pyarrow.binary()
