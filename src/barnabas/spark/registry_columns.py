"""``from_registry`` and ``to_registry``: columns from and to a topic's values in Confluent's wire format.

A value begins with a zero byte and four bytes of its schema's id. Rows are grouped by that id, each group is read at
once with its schema, and the rows are put back into their order. One of `avro_columns`, `json_columns` and
`protobuf_columns` reads the bytes after the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy
import pyarrow
import pyarrow.compute

from barnabas.spark.dead_letter_topic import dead_letter
from barnabas.spark.decoded import PREFIX, Decoded, Payloads, SchemaFormat
from barnabas.spark.registry import Registry, Schema
from barnabas.spark.versions import arrow_type_of
from barnabas.spark.worker import keep_libraries, keep_memory

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["from_registry", "to_registry"]

MODES: Final = ("FAILFAST", "PERMISSIVE", "REPORT", "DEADLETTER")
_FORMATS: Final = {
    "AVRO": ("barnabas.spark.avro_columns", "AvroColumns"),
    "JSON": ("barnabas.spark.json_columns", "JsonColumns"),
    "PROTOBUF": ("barnabas.spark.protobuf_columns", "ProtobufColumns"),
}


def from_registry(
    column: Column | str,
    registry: Registry | str | Mapping[str, str],
    *,
    subject: str | None = None,
    schema: str | Schema | None = None,
    message: str | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """A binary column's values in Confluent's wire format, as a struct: Avro, JSON Schema or Protobuf.

    Each value is read with the schema whose id it has, and becomes a value of `subject`'s newest schema, or of
    `schema`: a text of Avro or a `Schema`. With Protobuf that is the file's first message, or `message`. `mode` decides
    about a value that fits no schema: ``FAILFAST`` ends the query, ``PERMISSIVE`` makes it null, ``REPORT`` makes the
    column ``struct<value, error>`` with the reason in `error`; ``DEADLETTER`` makes it ``struct<value, dead_letter>``,
    for `dead_letters`, and needs the source's columns `topic`, `partition`, `offset` and `key` beside it.

    Raises ``ValueError`` for a schema that no column can hold, `RegistryDown`.
    """
    from pyspark.sql.functions import arrow_udf, col, struct
    from pyspark.sql.types import StringType, StructType

    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}: it takes {', '.join(MODES)}")
    if (subject is None) == (schema is None):
        raise ValueError("Name either a subject, whose newest schema counts, or a schema.")
    source = Registry.of(registry)
    expected = source.newest(subject or "") if schema is None else _schema_of(schema)
    value_type = _value_type(expected, message)
    reader = _Reader(source, expected, message, arrow_type_of(value_type), mode)
    reports = mode in ("REPORT", "DEADLETTER")
    result = StructType().add("value", value_type).add("error", StringType()) if reports else value_type

    def decoded(values: pyarrow.Array) -> pyarrow.Array:
        return reader(values)

    decoded.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    made = arrow_udf(decoded, returnType=result)(column)
    if mode != "DEADLETTER":
        return made
    return struct(
        made["value"].alias("value"),
        dead_letter(made["error"], col(column) if isinstance(column, str) else column).alias("dead_letter"),
    )


def to_registry(
    column: Column | str,
    registry: Registry | str | Mapping[str, str],
    *,
    subject: str,
    schema: str | Schema | None = None,
    message: str | None = None,
) -> Column:
    """A struct column as binary values in Confluent's wire format, by the newest schema of `subject`.

    `schema`, a text of Avro or a `Schema`, is registered there first. The struct's fields are matched with the schema's
    by name; those that it lacks are null, or what the schema has as default. A null row stays null: a tombstone. A row
    that is no value of the schema ends the query.

    Raises ``ValueError`` for a schema that no column can hold, or that the registry refuses, `RegistryDown`.
    """
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import BinaryType

    source = Registry.of(registry)
    written = source.newest(subject) if schema is None else source.register(subject, _schema_of(schema))
    if written.id is None:
        raise ValueError(f"The registry told no id of the newest schema of {subject}.")
    writer = _RowWriter(written, message, arrow_type_of(_value_type(written, message).toNullable()))

    def encoded(rows: pyarrow.Array) -> pyarrow.Array:
        return writer(rows)

    encoded.__annotations__ = {"rows": pyarrow.Array, "return": pyarrow.Array}
    return arrow_udf(encoded, returnType=BinaryType())(column)


def _schema_of(schema: str | Schema) -> Schema:
    return Schema("AVRO", schema) if isinstance(schema, str) else schema


def _value_type(schema: Schema, message: str | None) -> Any:
    from pyspark.sql.types import StructType

    ddl = format_of(schema, message).spark_type()
    if not ddl.startswith("struct<"):
        raise ValueError(f"A schema's values are to be records or objects, and those of this one are {ddl}.")
    return StructType.fromDDL(ddl.removeprefix("struct<").removesuffix(">"))


@lru_cache(maxsize=256)
def format_of(schema: Schema, message: str | None = None) -> SchemaFormat:
    """Raises ``ValueError`` for an unknown kind of schema, and for one whose libraries are not installed."""
    if schema.kind not in _FORMATS:
        raise ValueError(f"A schema is of kind {schema.kind}: there are {', '.join(_FORMATS)}.")
    if message is not None and schema.kind != "PROTOBUF":
        raise ValueError(f"message={message} is for Protobuf, and the schema is {schema.kind}.")
    module, name = _FORMATS[schema.kind]
    try:
        made: SchemaFormat = getattr(import_module(module), name)(schema, message)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"Schemas of kind {schema.kind} need {error.name}: pip install 'barnabas[registry]', on executors, too."
        ) from None
    return made


@lru_cache(maxsize=1024)
def _payloads_of(registry: Registry, expected: Schema, message: str | None, target: Any, schema_id: int) -> Payloads:
    """Kept for the life of the process: a Python worker runs many tasks, each with a `_Reader` of its own."""
    written = registry.by_id(schema_id)
    if written.kind != expected.kind:
        raise ValueError(f"schema {schema_id} is {written.kind}, not {expected.kind}")
    return format_of(expected, message).payloads(written, target)


@dataclass(frozen=True)
class _Reader:
    """What goes to the executors."""

    registry: Registry
    expected: Schema
    message: str | None
    target: Any
    mode: str

    def __call__(self, values: Any) -> Any:
        keep_libraries()
        keep_memory()
        found = decode(values, self._payloads, self.target)
        if self.mode in ("REPORT", "DEADLETTER"):
            return _reported(found)
        if found.faults and self.mode == "FAILFAST":
            row = min(found.faults)
            raise ValueError(
                f"A value does not fit its schema: {found.faults[row]}; it begins with "
                f"{values[row].as_py()[:32].hex()}. "
                "With mode='PERMISSIVE' it is null, with mode='REPORT' the reason is beside it, with "
                "mode='DEADLETTER' it goes to another topic."
            )
        return found.array

    def _payloads(self, schema_id: int) -> Payloads:
        return _payloads_of(self.registry, self.expected, self.message, self.target, schema_id)


@dataclass(frozen=True)
class _RowWriter:
    """What goes to the executors."""

    written: Schema
    message: str | None
    target: Any

    def __call__(self, rows: Any) -> Any:
        keep_libraries()
        assert self.written.id is not None
        prefix = b"\0" + self.written.id.to_bytes(4, "big")
        if rows.null_count == len(rows):
            return pyarrow.nulls(len(rows), pyarrow.binary())
        # `drop_null` copies all columns, also where there is no null.
        there = rows.drop_null() if rows.null_count else rows
        encoded = format_of(self.written, self.message).encode(there, self.target)
        values = pyarrow.compute.binary_join_element_wise(prefix, encoded, b"")
        if not rows.null_count:
            return values
        valid = rows.is_valid().to_numpy(zero_copy_only=False)
        return values.take(pyarrow.array(numpy.cumsum(valid) - 1, mask=~valid))


def decode(values: Any, payloads: Callable[[int], Payloads], target: Any) -> Decoded:
    """An Arrow binary array; `payloads` gives the reader of a schema id, or raises ``ValueError`` of an unknown one.

    Other errors, such as the ``OSError`` of an unreachable registry, are no fault of a value and are raised.
    """
    arrays: list[Any] = []
    places = numpy.full(len(values), -1)
    faults: dict[int, str] = {}
    base = 0
    for prefix, members in _by_prefix(values):
        try:
            if len(prefix) < PREFIX or prefix[0] != 0:
                raise ValueError("it does not begin with the Confluent prefix (a zero byte and a schema id of four)")
            one = payloads(int.from_bytes(prefix[1:], "big"))
        except ValueError as error:
            faults |= dict.fromkeys(members.tolist(), str(error))
            continue
        every = len(members) == len(values)
        found = one.decode(values if every else values.take(pyarrow.array(members)))
        faults |= {int(members[row]): told for row, told in found.faults.items()}
        if every:
            return Decoded(found.array, faults)
        arrays.append(found.array)
        places[members] = numpy.arange(base, base + len(members))
        base += len(members)
    if not arrays:
        return Decoded(pyarrow.nulls(len(values), target), faults)
    return Decoded(pyarrow.concat_arrays(arrays).take(pyarrow.array(places, mask=places < 0)), faults)


def _by_prefix(values: Any) -> Iterator[tuple[bytes, Any]]:
    """Prefixes, and the rows that have each; nulls are left out."""
    if len(values) and not values.null_count:
        prefix = values[0].as_py()[:PREFIX]
        # Usually all rows have one schema: that check takes less time than to group the rows.
        if len(prefix) == PREFIX and pyarrow.compute.all(pyarrow.compute.starts_with(values, prefix)).as_py():
            yield prefix, numpy.arange(len(values))
            return
    prefixes = pyarrow.compute.binary_slice(values, 0, PREFIX).dictionary_encode()
    of_row = prefixes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for number, prefix in enumerate(prefixes.dictionary.to_pylist()):
        yield prefix, numpy.flatnonzero(of_row == number)


def _reported(found: Decoded) -> Any:
    errors = pyarrow.array([found.faults.get(row) for row in range(len(found.array))], pyarrow.string())
    return pyarrow.StructArray.from_arrays([found.array, errors], ["value", "error"])
