"""Avro values of one schema into an Arrow array and back.

The kernel reads them (`avro_plan`). If it was not built, or does not support the schema, pyruhvro (Rust) does. Schemas
that neither supports, and values that the kernel refuses, are read in Python, one by one. Rows are written by pyruhvro,
or by fastavro for types that pyruhvro does not support: bytes, fixed, decimals.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final

import numpy
import pyarrow
import pyarrow.compute

from barnabas.spark import avro_plan
from barnabas.spark.avro import AvroSchema, beside_null, default_of, readers_fields, takes_bytes, takes_null
from barnabas.spark.avro_plan import AvroPlan, Unplanned
from barnabas.spark.decoded import FAULTS, PREFIX, Decoded, by_name, in_halves, of_values, payloads_of
from barnabas.spark.registry import Schema

_COMPILED: Final = {"null", "boolean", "int", "long", "float", "double", "string", "enum"}
_COMPILED_LOGICAL: Final = {None, "date", "timestamp-millis", "timestamp-micros"}
_MILLIS: Final = pyarrow.timestamp("ms", tz="UTC")
_WIDER: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
}


class AvroColumns:
    """Avro's `SchemaFormat`."""

    def __init__(self, schema: Schema, message: str | None = None) -> None:
        self._texts = schema.texts
        self._schema = AvroSchema(schema.texts[-1], schema.texts[:-1])
        self._imports = schema.imports

    @cached_property
    def _compiled(self) -> bool:
        # Imported when rows are written: a reader with the kernel need not load pyruhvro.
        root = self._schema.root
        return not self._imports and root["type"] == "record" and _has_pyruhvro() and compilable(root)

    def spark_type(self) -> str:
        return self._schema.spark_type(strict=True)

    def payloads(self, written: Schema, target: Any) -> AvroPayloads:
        mine, theirs = self._schema.root, AvroSchema(written.texts[-1], written.texts[:-1]).root
        # By the specification records match by the last part of their names. That tells several types of record in
        # one topic apart even where all their fields have defaults.
        mine, theirs = ((schema["type"] == "union" and beside_null(schema)) or schema for schema in (mine, theirs))
        names = {name.rpartition(".")[2] for name in (mine.get("name", ""), *mine.get("aliases", ()))}
        if theirs["type"] == "record" and theirs["name"].rpartition(".")[2] not in names:
            raise ValueError(f"its schema is of {theirs['name']}, not of {mine.get('name')}")
        return AvroPayloads(written.texts, self._schema, target)

    def encode(self, rows: Any, target: Any) -> Any:
        rows = by_name(rows, target, self._missing)
        _require_values(rows, self._schema.root, "")
        if self._compiled and not _has_deep_millis(self._schema.root):
            return self._at_once(rows)
        return self._one_by_one(rows)

    def _missing(self, place: Sequence[str]) -> Any:
        """The default of the field there; None if it has none."""
        schema, field = self._schema.root, {}
        for name in place:
            while schema["type"] in ("union", "array"):
                schema = beside_null(schema) if schema["type"] == "union" else schema["items"]
            field = next(each for each in schema["fields"] if each["name"] == name)
            schema = field["type"]
        return default_of(field) if "default" in field else None

    def _at_once(self, rows: Any) -> Any:
        import pyruhvro

        columns = {}
        for field, column in zip(self._schema.root["fields"], rows.flatten(), strict=True):
            millis = _is_millis(field["type"])
            columns[field["name"]] = column.cast(_MILLIS, safe=False) if millis else column
        (encoded,) = pyruhvro.serialize_record_batch(pyarrow.record_batch(columns), self._texts[-1], 1)
        return encoded

    def _one_by_one(self, rows: Any) -> Any:
        import fastavro

        names: dict[str, Any] = {}
        for text in self._texts:
            parsed = fastavro.parse_schema(json.loads(text), named_schemas=names)
        encoded = []
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, row)
            encoded.append(out.getvalue())
        return pyarrow.array(encoded, pyarrow.binary())


class AvroPayloads:
    """Converts values of one writer's schema into those of the expected schema."""

    def __init__(self, texts: Sequence[str], expected: AvroSchema, target: Any) -> None:
        self._texts = list(texts)
        self._schema = AvroSchema(texts[-1], texts[:-1])
        self._target = target
        self._expected = expected
        self._read = self._schema.reader(expected)
        self._plan = self._planned()
        self._compiled = (
            self._plan is None
            and _has_pyruhvro()
            and compilable(self._schema.root)
            and fits_by_field(self._schema, expected)
        )

    def _planned(self) -> AvroPlan | None:
        try:
            return AvroPlan(self._schema, self._expected, self._target) if avro_plan.IS_BUILT else None
        except Unplanned:
            return None

    def decode(self, values: Any) -> Decoded:
        if self._plan is not None:
            return self._by_kernel(self._plan, values)
        payloads = payloads_of(values)
        return in_halves(payloads, self._at_once, self._target) if self._compiled else self._one_by_one(payloads)

    def _by_kernel(self, plan: AvroPlan, values: Any) -> Decoded:
        array, refused = plan.read(values, PREFIX)
        if not refused:
            return Decoded(array, {})
        # Python's reader reports their errors, or reads values that the kernel cannot.
        read = self._one_by_one(payloads_of(values.take(pyarrow.array(refused))))
        faults = {refused[row]: told for row, told in read.faults.items()}
        if len(faults) < len(refused):
            places = numpy.arange(len(values))
            places[refused] = numpy.arange(len(values), len(values) + len(refused))
            array = pyarrow.concat_arrays([array, read.array]).take(pyarrow.array(places))
        return Decoded(array, faults)

    def _at_once(self, payloads: list[bytes]) -> Any:
        import pyruhvro

        schema = self._texts[0] if len(self._texts) == 1 else self._texts
        batch = pyruhvro.deserialize_array(payloads, schema)
        fields = {field["name"]: field for field in self._expected.root["fields"]}
        columns = []
        for field in self._target:
            index = batch.schema.get_field_index(field.name)
            if index >= 0:
                # A long without an exact double becomes the nearest one, as Avro says.
                options = pyarrow.compute.CastOptions(field.type, allow_float_truncate=True)
                columns.append(batch.column(index).cast(options=options))
            else:
                default = pyarrow.array([default_of(fields[field.name])], field.type)
                columns.append(pyarrow.compute.take(default, pyarrow.repeat(0, len(payloads))))
        made = pyarrow.StructArray.from_arrays(columns, fields=list(self._target))
        made.validate(full=True)  # pyruhvro accepts any bytes as text
        return made

    def _one_by_one(self, payloads: list[bytes]) -> Decoded:
        found: list[Any] = []
        faults: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                found.append(self._read(payload, 0))
            except FAULTS as error:
                found.append(None)
                faults[row] = str(error)
        return of_values(found, faults, self._target)


def compilable(schema: dict[str, Any], inside: tuple[str, ...] = ()) -> bool:
    """Whether pyruhvro knows all types of a resolved schema."""
    kind = schema["type"]
    if schema.get("logicalType") not in _COMPILED_LOGICAL:
        return False
    if kind == "record":
        if schema["name"] in inside or not schema["fields"]:
            return False
        return all(compilable(field["type"], (*inside, schema["name"])) for field in schema["fields"])
    if kind == "union":
        other = beside_null(schema)
        return other is not None and len(schema["of"]) == 2 and compilable(other, inside)
    if kind in ("array", "map"):
        inner = schema["items" if kind == "array" else "values"]
        return compilable(inner, inside) and (kind == "map" or takes_bytes(inner))
    return kind in _COMPILED and bool(inside)


def fits_by_field(written: AvroSchema, expected: AvroSchema) -> bool:
    """Whether the two differ only in which fields they have, and in the width of numbers."""
    mine, theirs = written.root, expected.root
    if mine["type"] != "record" or theirs["type"] != "record":
        return False
    found = readers_fields(mine, theirs)
    if any(name != field["name"] for name, field in found.items()):
        return False
    for field in theirs["fields"]:
        if field["name"] not in found and "default" not in field:
            return False
    for field in mine["fields"]:
        if (wanted := found.get(field["name"])) is None:
            continue
        one, other = field["type"], wanted["type"]
        plain = "logicalType" not in one and "logicalType" not in other
        if _shape(one) != _shape(other) and not (plain and (one["type"], other["type"]) in _WIDER):
            return False
    return True


def _shape(schema: dict[str, Any]) -> str:
    """A resolved schema as JSON, without attributes that change neither bytes nor values."""

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: stripped(v) for k, v in value.items() if k not in ("doc", "aliases", "default", "order")}
        return [stripped(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(stripped(schema), sort_keys=True)


def _is_millis(schema: dict[str, Any]) -> bool:
    inner = schema["of"] if schema["type"] == "union" else [schema]
    return any(branch.get("logicalType") == "timestamp-millis" for branch in inner)


def _has_deep_millis(root: dict[str, Any]) -> bool:
    """Whether a record has times in milliseconds deeper than its own fields, where `_at_once` does not convert them."""
    return any("timestamp-millis" in json.dumps(f["type"]) and not _is_millis(f["type"]) for f in root["fields"])


def _require_values(array: Any, schema: dict[str, Any], place: str) -> None:
    """Raises ``ValueError`` for a null that the schema does not allow: pyruhvro would write a zero or an empty text."""
    if schema["type"] == "union":
        if not takes_null(schema) and array.null_count:
            raise ValueError(f"{place or 'The row'} is null, and its schema takes no null.")
        others = [branch for branch in schema["of"] if branch["type"] != "null"]
        schema, array = others[0], array.drop_null()
    elif schema["type"] != "null" and array.null_count:
        raise ValueError(f"{place or 'The row'} is null, and its schema takes no null.")
    if schema["type"] == "record":
        for field, column in zip(schema["fields"], array.flatten(), strict=True):
            _require_values(column, field["type"], f"{place}.{field['name']}".lstrip("."))
    elif schema["type"] == "array":
        _require_values(array.flatten(), schema["items"], f"{place}[]")
    elif schema["type"] == "map":
        _require_values(array.items, schema["values"], f"{place}{{}}")


@cache
def _has_pyruhvro() -> bool:
    try:
        import pyruhvro  # noqa: F401
    except ImportError:
        return False
    return True
