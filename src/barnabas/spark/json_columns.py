"""JSON Schema's values into an Arrow array and back.

Each value is validated by its writer's schema. Arrow's own reader converts all valid values to columns at once. Values
that it cannot read (a map, a whole number written as 1.0) are converted one by one.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow

from barnabas.spark.decoded import FAULTS, Decoded, by_name, of_values, payloads_of
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

    def encode(self, rows: Any, target: Any) -> Any:
        rows = by_name(rows, target)
        encoded = []
        for row in rows.to_pylist():
            value = _json(row, rows.type, nulls=False)
            if (fault := self._schema.fault(value)) is not None:
                value = self._with_required_nulls(value, _json(row, rows.type, nulls=True))
                if self._schema.fault(value) is not None:
                    raise ValueError(f"A row does not fit its JSON Schema: {fault}.")
            encoded.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
        return pyarrow.array(encoded, pyarrow.binary())

    def _with_required_nulls(self, value: Any, with_nulls: Any) -> Any:
        """The object with nulls for required properties, or, if that is not enough, with all nulls of the row."""
        for place, name in self._schema.missing(value):
            given, inside = with_nulls, value
            for step in place:
                given, inside = given[step], inside[step]
            inside |= {name: given[name]} if name in given else {}
        return value if self._schema.fault(value) is None else with_nulls


class JsonPayloads:
    """Converts values of one writer's schema into those of the expected schema."""

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


def _json(value: Any, kind: Any, *, nulls: bool) -> Any:
    """The JSON of an Arrow value; an object keeps its nulls or not, a map and a list keep theirs."""
    if value is None:
        return None
    if pyarrow.types.is_struct(kind):
        fields = {field.name: _json(value[field.name], field.type, nulls=nulls) for field in kind}
        return {name: inner for name, inner in fields.items() if nulls or inner is not None}
    if pyarrow.types.is_map(kind):
        made = {key: _json(inner, kind.item_type, nulls=nulls) for key, inner in value}
        if len(made) < len(value):
            raise ValueError("A row has a map with a key twice, which no JSON object has.")
        return made
    if pyarrow.types.is_list(kind):
        return [_json(inner, kind.value_type, nulls=nulls) for inner in value]
    return value
