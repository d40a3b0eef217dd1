"""JSON Schema's values into an Arrow array and back.

Each value is validated by its writer's schema. What is valid becomes columns by Arrow's own reader, all at once; where
that cannot (a map, a whole number written as 1.0), value by value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow

from barnabas.spark.decoded import FAULTS, Decoded, of_values, payloads_of
from barnabas.spark.json_schema import JsonSchema
from barnabas.spark.registry import Schema
from barnabas.spark.values import fitted_json, json_at_once


class JsonColumns:
    """JSON Schema's `SchemaFormat`."""

    def __init__(self, schema: Schema, message: str | None = None) -> None:
        self._schema = JsonSchema(schema.text, schema.imports)

    def spark_type(self) -> str:
        return self._schema.spark_type()

    def payloads(self, written: Schema, target: Any) -> JsonPayloads:
        return JsonPayloads(JsonSchema(written.text, written.imports), target)

    def encode(self, rows: Any) -> Sequence[bytes]:
        encoded = []
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            value = _without_nulls(row)
            if (fault := self._schema.fault(value)) is not None:
                # A required property may be null: the row is tried with its nulls.
                value = row
                if self._schema.fault(value) is not None:
                    raise ValueError(f"A row does not fit its JSON Schema: {fault}.")
            encoded.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
        return encoded


class JsonPayloads:
    """How values of one writer's schema become those of the schema that is expected."""

    def __init__(self, written: JsonSchema, target: Any) -> None:
        self._written = written
        self._target = target

    def decode(self, values: Any) -> Decoded:
        payloads = payloads_of(values)
        parsed: list[Any] = []
        faults: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            value = None
            try:
                value = json.loads(payload)
                fault = self._written.fault(value)
            except ValueError as error:
                fault = f"it is no JSON: {error}"
            if fault is None and not isinstance(value, dict):
                fault = "it is JSON, but no object"
            if fault is not None:
                faults[row], value = fault, None
            parsed.append(value)
        valid = [None if row in faults else payload for row, payload in enumerate(payloads)]
        found = json_at_once(pyarrow.array(valid, pyarrow.binary()), self._target)
        if found is not None:
            return Decoded(found, faults)
        for row, value in enumerate(parsed):
            try:
                parsed[row] = fitted_json(value, self._target)
            except FAULTS as error:
                faults[row], parsed[row] = str(error), None
        return of_values(parsed, faults, self._target)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
