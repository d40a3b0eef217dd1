"""``value.format``: record values as strings, JSON or Avro, decoded while they are read.

Raw and string need only a type. JSON is parsed by Arrow's own reader and Avro as in `registry_columns`, a batch at
once; a batch of JSON with an invalid value is read value by value, so that the error can name the record. Avro values
begin with the Confluent prefix, a zero byte and four bytes of the writer's schema id; the schema comes from a registry
or local files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

from barnabas.model.comma_list import comma_list
from barnabas.spark.avro import AvroSchemas

if TYPE_CHECKING:
    from barnabas.spark.avro_columns import AvroPayloads

FORMATS: Final = ("raw", "string", "json", "avro")
_JSON_ROWS_BYTES_MAX: Final = 64 * 1024 * 1024

Place: TypeAlias = Callable[[int], str]
"""Names the record of a row, for errors: ``orders-0@17``."""


class ValueUnfit(ValueError):
    """A record's value is not what ``value.format`` says."""


@dataclass(frozen=True)
class ValueFormat:
    kind: str
    schema: str | None
    permissive: bool
    """Values that do not fit become null; otherwise they end the query."""
    schemas: AvroSchemas | None

    OPTIONS: ClassVar[tuple[str, ...]] = (
        "value.format",
        "value.schema",
        "value.mode",
        "value.schema.registry",
        "value.schema.files",
    )

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """`given` has lower-case names. Raises ``ValueError``."""
        kind = given.get("value.format", "raw").lower()
        if kind not in FORMATS:
            raise ValueError(f"Option value.format is {kind!r}: it takes {', '.join(FORMATS)}.")
        mode = given.get("value.mode", "FAILFAST").upper()
        if mode not in ("FAILFAST", "PERMISSIVE"):
            raise ValueError(f"Option value.mode is {mode!r}: it takes FAILFAST or PERMISSIVE.")
        schema, registry, files = (given.get(n) for n in cls.OPTIONS[1:2] + cls.OPTIONS[3:])
        if kind == "json" and not schema:
            raise ValueError(
                "Option value.schema is missing: value.format=json needs one, such as 'id LONG, name STRING'."
            )
        schemas = None
        if kind == "avro":
            if (registry is None) == (files is None):
                raise ValueError("value.format=avro needs either value.schema.registry (a URL) or value.schema.files.")
            subject = _subject(given)
            if registry is not None and not schema and subject is None:
                raise ValueError("value.format=avro needs value.schema where more than one topic is subscribed to.")
            schemas = AvroSchemas(registry, files, subject, schema)
        elif registry is not None or files is not None:
            raise ValueError("Options value.schema.registry and value.schema.files are for value.format=avro.")
        return cls(kind, schema, mode == "PERMISSIVE", schemas)

    def spark_type(self) -> str:
        """The type of the column ``value`` in Spark's DDL."""
        if self.kind == "raw":
            return "binary"
        if self.kind == "string":
            return "string"
        if self.schemas is not None:
            return self.schemas.expected.spark_type()
        assert self.schema is not None
        text = self.schema.strip()
        if text.startswith("{"):
            from pyspark.sql.types import StructType

            try:
                return str(StructType.fromJson(json.loads(text)).simpleString())
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"Option value.schema is no StructType as JSON: {error!r}.") from None
        return text if text.lower().startswith("struct<") else f"struct<{text}>"

    def check_fields(self, wanted: Sequence[str]) -> None:
        """Fixes the schema that Avro values are read as, before the executors get it. Raises ``ValueError`` if it lacks
        a field: by default it is the newest schema, and a frame may be older."""
        if self.schemas is None:
            return
        there = [field["name"] for field in self.schemas.expected.root["fields"]]
        if gone := [name for name in wanted if name not in there]:
            raise ValueError(
                f"The schema has value.{gone[0]}, and the Avro schema has no such field (but {', '.join(there)}): load "
                "the topic again, or set value.schema to what the values are to become."
            )

    def decode(self, values: Any, target: Any, place: Place) -> Any:
        """An Arrow binary array as an array of the Arrow type `target`. Raises `ValueUnfit`."""
        if self.kind == "raw":
            return values
        if self.kind == "string":
            return _strings(values, target, self.permissive, place)
        if self.kind == "json":
            return _json(values, target, self.permissive, place)
        # Imported here: the planner's processes do not need it.
        from barnabas.spark.registry_columns import decode

        found = decode(values, lambda schema_id: self._avro_payloads(schema_id, target), target)
        if found.faults and not self.permissive:
            row = min(found.faults)
            raise _unfit(place(row), found.faults[row])
        return found.array

    def _avro_payloads(self, schema_id: int, target: Any) -> AvroPayloads:
        payloads = self._payloads.get(schema_id)
        if payloads is None:
            from barnabas.spark.avro_columns import AvroPayloads

            assert self.schemas is not None
            payloads = AvroPayloads(self.schemas.texts_of(schema_id), self.schemas.expected, target)
            self._payloads[schema_id] = payloads
        return payloads

    @cached_property
    def _payloads(self) -> dict[int, AvroPayloads]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_payloads"}


def _subject(given: Mapping[str, str]) -> str | None:
    topics = comma_list(given.get("subscribe", ""))
    if "assign" in given:
        try:
            topics = list(json.loads(given["assign"]))
        except (ValueError, TypeError):
            topics = []
    return f"{topics[0]}-value" if len(topics) == 1 else None


def _strings(values: Any, target: Any, permissive: bool, place: Place) -> Any:
    import pyarrow

    try:
        return values.cast(target)
    except pyarrow.ArrowInvalid:
        return _one_by_one(values, target, lambda value: str(value, "utf-8"), permissive, place)


def json_at_once(values: Any, target: Any) -> Any:
    """A binary array of JSON objects as an array of the struct `target`, by Arrow's reader; None if it cannot.

    All values as one newline-separated text; a null becomes an object without fields and is masked afterwards.
    """
    import pyarrow
    import pyarrow.compute
    import pyarrow.json

    if not len(values) or values.nbytes > _JSON_ROWS_BYTES_MAX or not _all_enclosed(values):
        return None
    text = b"\n".join(value if value is not None else b"{}" for value in values.to_pylist())
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pyarrow.schema(list(target)),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError):
        return None
    # Two documents in one value would shift all later rows.
    if table.num_rows != len(values) or table.schema.types != [f.type for f in target]:
        return None
    columns = [column.combine_chunks() for column in table.columns]
    mask = pyarrow.compute.is_null(values) if values.null_count else None
    return pyarrow.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _all_enclosed(values: Any) -> bool:
    """Whether each value begins with ``{`` and ends with ``}``.

    Then it has a whole document at least, where the text of all can be read: no string goes on over the end of a line,
    and no ``{`` comes right behind a ``}`` inside another. So as many documents as values are one in each. And none is
    a bare ``null``, from which Arrow's reader crashes.
    """
    import pyarrow.compute

    both = pyarrow.compute.and_(
        pyarrow.compute.starts_with(values, pattern="{"), pyarrow.compute.ends_with(values, pattern="}")
    )
    if pyarrow.compute.all(both, min_count=0).as_py():
        return True
    trimmed = (value.strip() for value in values.to_pylist() if value is not None)
    return all(value.startswith(b"{") and value.endswith(b"}") for value in trimmed)


def _json(values: Any, target: Any, permissive: bool, place: Place) -> Any:
    found = json_at_once(values, target)
    if found is not None:
        return found

    def parsed(value: bytes) -> Any:
        found = json.loads(value)
        if not isinstance(found, dict):
            raise ValueError(f"it is JSON, but no object: {str(found)[:60]!r}")
        return fitted_json(found, target)

    return _one_by_one(values, target, parsed, permissive, place)


def fitted_json(found: Any, target: Any) -> Any:
    """Converts what Arrow's constructor does not: timestamps and dates from their ISO text."""
    import datetime

    import pyarrow

    if found is None:
        return None
    if pyarrow.types.is_struct(target):
        return {field.name: fitted_json(found.get(field.name), field.type) for field in target}
    if pyarrow.types.is_list(target):
        return [fitted_json(element, target.value_type) for element in found]
    if pyarrow.types.is_map(target):
        return [(key, fitted_json(value, target.item_type)) for key, value in found.items()]
    if pyarrow.types.is_timestamp(target) and isinstance(found, str):
        moment = datetime.datetime.fromisoformat(found)
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    if pyarrow.types.is_date(target) and isinstance(found, str):
        return datetime.date.fromisoformat(found)
    if pyarrow.types.is_binary(target) and isinstance(found, str):
        return found.encode()
    if pyarrow.types.is_integer(target) and isinstance(found, float):
        if not found.is_integer():  # Arrow's constructor would cut it off
            raise ValueError(f"it has {found} where a whole number is expected")
        return int(found)
    if pyarrow.types.is_floating(target) and type(found) is int:
        return float(found)  # Arrow's constructor refuses an integer that has to be rounded
    if pyarrow.types.is_decimal(target):
        import decimal

        return decimal.Decimal(str(found))
    return found


def _one_by_one(values: Any, target: Any, decode: Callable[[bytes], Any], permissive: bool, place: Place) -> Any:
    import pyarrow

    decoded: list[Any] = []
    for row, value in enumerate(values.to_pylist()):
        fit = None
        if value is not None:
            try:
                fit = decode(value)
                pyarrow.array([fit], target)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, pyarrow.ArrowException) as error:
                if not permissive:
                    raise _unfit(place(row), error) from None
                fit = None
        decoded.append(fit)
    return pyarrow.array(decoded, target)


def _unfit(place: str, why: object) -> ValueUnfit:
    return ValueUnfit(
        f"The value of {place} does not fit value.format and value.schema: {str(why).rstrip('.')}. "
        "Set value.mode=PERMISSIVE to get null for such values."
    )
