"""A column of Confluent-framed Avro values into one Arrow array, by pyruhvro (Rust) where it knows the schema's types.

A value begins with a zero byte and the id of its writer's schema in four. Rows are parted by that id, each part is
decoded at once, and the parts are put back into their order. What pyruhvro does not know (bytes, fixed, decimals, a
schema that evolved deep inside) is decoded value by value, as it is where pyruhvro is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow
import pyarrow.compute

from barnabas.spark.avro import AvroSchema

PREFIX: Final = 5
_COMPILED: Final = {"null", "boolean", "int", "long", "float", "double", "string", "enum"}
_COMPILED_LOGICAL: Final = {None, "date", "timestamp-millis", "timestamp-micros"}
_WIDER: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
}
_FAULTS: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, pyarrow.ArrowException)


class Decoded(NamedTuple):
    array: Any
    """As long as the values; null where a value is, and where one is faulty."""
    faults: Mapping[int, str]
    """By row, what is wrong with its value."""


class Writer:
    """How values of one writer's schema become those of the schema that is expected."""

    def __init__(self, texts: Sequence[str], expected: AvroSchema, target: Any) -> None:
        self._texts = list(texts)
        self._schema = AvroSchema(texts[-1], texts[:-1])
        self._target = target
        self._expected = expected
        self._compiled = _has_pyruhvro() and compilable(self._schema.root) and fits_by_field(self._schema, expected)
        self._read: Callable[[bytes, int], Any] | None = None if self._compiled else self._schema.reader(expected)

    def decode(self, payloads: list[bytes]) -> Decoded:
        if self._read is not None:
            return self._one_by_one(payloads)
        try:
            return Decoded(self._at_once(payloads), {})
        except _FAULTS as error:
            if len(payloads) == 1:
                return Decoded(pyarrow.nulls(1, self._target), {0: str(error)})
        # One of them is faulty: halves tell which, and the others are decoded at once all the same.
        middle = len(payloads) // 2
        left, right = self.decode(payloads[:middle]), self.decode(payloads[middle:])
        faults = {**left.faults, **{middle + row: told for row, told in right.faults.items()}}
        return Decoded(pyarrow.concat_arrays([left.array, right.array]), faults)

    def _at_once(self, payloads: list[bytes]) -> Any:
        import pyruhvro

        schema = self._texts[0] if len(self._texts) == 1 else self._texts
        batch = pyruhvro.deserialize_array(payloads, schema)
        columns = []
        for field, expected in zip(self._target, self._expected.root["fields"], strict=True):
            index = batch.schema.get_field_index(field.name)
            if index >= 0:
                columns.append(batch.column(index).cast(field.type))
            else:
                default = pyarrow.array([expected["default"]], field.type)
                columns.append(pyarrow.compute.take(default, pyarrow.repeat(0, len(payloads))))
        return pyarrow.StructArray.from_arrays(columns, fields=list(self._target))

    def _one_by_one(self, payloads: list[bytes]) -> Decoded:
        assert self._read is not None
        found: list[Any] = []
        faults: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                found.append(self._read(payload, 0))
            except _FAULTS as error:
                found.append(None)
                faults[row] = str(error)
        try:
            return Decoded(pyarrow.array(found, self._target), faults)
        except _FAULTS:
            pass  # one of them is no value of the column's type
        for row, value in enumerate(found):
            try:
                pyarrow.array([value], self._target)
            except _FAULTS as error:
                found[row] = None
                faults[row] = str(error)
        return Decoded(pyarrow.array(found, self._target), faults)


def decode(values: Any, writer: Callable[[int], Writer], target: Any) -> Decoded:
    """An Arrow binary array; `writer` gives the one of a schema id, or raises ``ValueError`` of one that is not known.

    What it raises for other reasons, an ``OSError`` of a registry that is down, is no fault of a value and is raised.
    """
    rows: list[bytes | None] = values.to_pylist()
    parts: dict[bytes, list[int]] = {}
    for row, value in enumerate(rows):
        if value is not None:
            parts.setdefault(value[:PREFIX], []).append(row)
    arrays: list[Any] = []
    places: list[int | None] = [None] * len(rows)
    faults: dict[int, str] = {}
    base = 0
    for prefix, members in parts.items():
        try:
            if len(prefix) < PREFIX or prefix[0] != 0:
                raise ValueError("it does not begin with the Confluent prefix (a zero byte and a schema id of four)")
            one = writer(int.from_bytes(prefix[1:], "big"))
        except ValueError as error:
            faults |= dict.fromkeys(members, str(error))
            continue
        found = one.decode([rows[row][PREFIX:] for row in members])  # type: ignore[index]
        faults |= {members[row]: told for row, told in found.faults.items()}
        if len(members) == len(rows):
            return Decoded(found.array, faults)
        arrays.append(found.array)
        for index, row in enumerate(members):
            places[row] = base + index
        base += len(members)
    if not arrays:
        return Decoded(pyarrow.nulls(len(rows), target), faults)
    return Decoded(pyarrow.concat_arrays(arrays).take(pyarrow.array(places, pyarrow.int64())), faults)


def compilable(schema: dict[str, Any], inside: tuple[str, ...] = ()) -> bool:
    """Whether pyruhvro knows all types of a resolved schema."""
    kind = schema["type"]
    if schema.get("logicalType") not in _COMPILED_LOGICAL:
        return False
    if kind == "record":
        if schema["name"] in inside:
            return False
        return all(compilable(field["type"], (*inside, schema["name"])) for field in schema["fields"])
    if kind == "union":
        others = [each for each in schema["of"] if each["type"] != "null"]
        return len(others) == 1 and len(schema["of"]) == 2 and compilable(others[0], inside)
    if kind in ("array", "map"):
        return compilable(schema["items" if kind == "array" else "values"], inside)
    return kind in _COMPILED and bool(inside)


def fits_by_field(written: AvroSchema, expected: AvroSchema) -> bool:
    """Whether the two differ in no more than the fields that there are and the width of their numbers."""
    mine, theirs = written.root, expected.root
    if mine["type"] != "record" or theirs["type"] != "record":
        return False
    there = {field["name"]: field["type"] for field in mine["fields"]}
    for field in theirs["fields"]:
        if field["name"] not in there:
            if "default" not in field:
                return False
            continue
        one, other = there[field["name"]], field["type"]
        if _shape(one) != _shape(other) and (one["type"], other["type"]) not in _WIDER:
            return False
    return True


def _shape(schema: dict[str, Any]) -> str:
    """A resolved schema without what changes no byte and no value."""

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: stripped(v) for k, v in value.items() if k not in ("doc", "aliases", "default", "order")}
        return [stripped(each) for each in value] if isinstance(value, list) else value

    return json.dumps(stripped(schema), sort_keys=True)


@cache
def _has_pyruhvro() -> bool:
    try:
        import pyruhvro  # noqa: F401
    except ImportError:
        return False
    return True
