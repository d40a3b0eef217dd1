"""Avro's binary encoding (specification 1.11): schemas, their Spark types, values, and the Confluent schema registry.

A schema becomes a tree of closures once. They read a value: each takes the bytes and a position and returns the value
and the next position. The writer's schema decides how bytes are read, the expected schema which fields are kept: fields
are matched by name, missing fields take their default.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from barnabas.spark.registry import Registry, Schema

_Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_BITS: Final = (1 << 64) - 1
_TIMES: Final = ("timestamp-millis", "timestamp-micros")
_LOGICAL: Final = {
    "date": "int",
    "time-millis": "int",
    **dict.fromkeys(("time-micros", *_TIMES, "local-timestamp-millis", "local-timestamp-micros"), "long"),
    **dict.fromkeys(("timestamp-nanos", "local-timestamp-nanos"), "long"),
}
"""Logical types of times, and the type that each applies to."""
_DIGITS_MAX: Final = 38


class AvroError(ValueError):
    """A schema that cannot be used, or bytes that are not of it."""


class AvroSchema:
    """A parsed schema; names are resolved where they are used."""

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        """`references`: schemas that declare names which `text` uses, each after those that it uses itself."""
        self.text = text
        self._named: dict[str, dict[str, Any]] = {}
        for schema in (*references, text):
            try:
                declared = json.loads(schema)
            except ValueError:
                declared = schema.strip().strip('"')
            self.root = self._resolve(declared, "")

    def _resolve(self, declared: Any, namespace: str) -> Any:
        """The schema with each name replaced by its declaration. Raises `AvroError` for one not declared before."""
        if isinstance(declared, str):
            if declared in _PRIMITIVES or declared == "null":
                return {"type": declared}
            for name in (f"{namespace}.{declared}", declared):
                if name in self._named:
                    return self._named[name]
            raise AvroError(f"the Avro schema uses {declared!r}, which it does not declare")
        if isinstance(declared, list):
            return {"type": "union", "of": [self._resolve(branch, namespace) for branch in declared]}
        kind = declared.get("type")
        if isinstance(kind, dict | list):
            return self._resolve(kind, namespace)
        if kind in ("record", "enum", "fixed"):
            return self._declare(declared, kind, namespace)
        if kind == "array":
            return {"type": "array", "items": self._resolve(declared["items"], namespace)}
        if kind == "map":
            return {"type": "map", "values": self._resolve(declared["values"], namespace)}
        if kind in _PRIMITIVES or kind == "null":
            return _sound(declared)
        return self._resolve(kind, namespace)

    def _declare(self, declared: dict[str, Any], kind: str, namespace: str) -> dict[str, Any]:
        name = declared["name"]
        namespace = name.rpartition(".")[0] if "." in name else declared.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        made = _sound({**declared, "type": kind, "name": full})
        self._named[full] = made
        if kind == "record":
            made["fields"] = [
                {**field, "type": self._resolve(field["type"], namespace)} for field in declared["fields"]
            ]
        return made

    def spark_type(self, *, strict: bool = False) -> str:
        """In Spark's DDL; `strict`: with NOT NULL at fields that are never null in this schema.

        Raises `AvroError` for a union other than of null and one type.
        """
        return _spark_type(self.root, (), strict)

    def reader(self, expected: AvroSchema) -> Callable[[bytes, int], Any]:
        """Reads a value written with this schema as one of `expected`; raises `AvroError` where they don't match.

        Bytes after a whole value are ignored.
        """
        read = reader_of(self.root, expected.root)

        def whole(data: bytes, position: int) -> Any:
            try:
                return read(data, position)[0]
            except (IndexError, struct.error, UnicodeDecodeError):
                raise AvroError("its bytes are not of its Avro schema") from None
            except RecursionError:
                raise AvroError("it contains itself too often to be read") from None

        return whole


def _sound(declared: dict[str, Any]) -> dict[str, Any]:
    """Drops an invalid logical type, or one that does not apply to its type: the specification ignores these."""
    kind, logical = declared["type"], declared.get("logicalType")
    right = kind == _LOGICAL.get(str(logical), kind)
    if logical == "decimal":
        precision, scale = declared.get("precision", 0), declared.get("scale", 0)
        whole = isinstance(precision, int) and isinstance(scale, int)
        right = kind in ("bytes", "fixed") and whole and 0 <= scale <= precision and precision > 0
    return declared if right else {word: told for word, told in declared.items() if word != "logicalType"}


def beside_null(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The one type beside null in a union."""
    others = [branch for branch in schema["of"] if branch["type"] != "null"]
    return others[0] if len(others) == 1 else None


def _spark_type(schema: dict[str, Any], inside: tuple[str, ...], strict: bool) -> str:
    kind = schema["type"]
    if kind == "union":
        inner = beside_null(schema)
        if inner is None:
            raise AvroError("the Avro schema has a union of several types, which no Spark column can hold")
        return _spark_type(inner, inside, strict)
    logical = schema.get("logicalType")
    if logical == "decimal":
        if schema["precision"] > _DIGITS_MAX:
            raise AvroError(
                f"the Avro schema has a decimal of {schema['precision']} digits; Spark's have {_DIGITS_MAX}"
            )
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical == "date":
        return "date"
    if logical in _TIMES:
        return "timestamp"
    if kind == "record":
        if schema["name"] in inside:
            raise AvroError(f"the Avro schema's {schema['name']} contains itself, which no Spark column can hold")
        inside = (*inside, schema["name"])
        fields = []
        for field in schema["fields"]:
            # The default for a field that the writer lacks may be null even if its type allows no null.
            told = strict and not ("default" in field and _has_wrong_null(field["type"], field["default"]))
            never_null = " NOT NULL" if told and not _may_be_null(field["type"]) else ""
            fields.append(f"`{field['name']}`:{_spark_type(field['type'], inside, told)}{never_null}")
        return f"struct<{','.join(fields)}>"
    if kind == "array":
        return f"array<{_spark_type(schema['items'], inside, strict)}>"
    if kind == "map":
        return f"map<string,{_spark_type(schema['values'], inside, strict)}>"
    if kind == "null":
        return "void"
    return {"enum": "string", "fixed": "binary", **_PRIMITIVES}[str(kind)]


def reader_of(written: dict[str, Any], expected: dict[str, Any] | None) -> _Read:
    """Raises `AvroError` where the two do not match. `expected` None: the value is read and dropped."""
    kind = written["type"]
    if kind == "union":
        return _union(written, expected)
    if expected is not None and expected["type"] == "union":
        if kind == "null" and takes_null(expected):
            return _null
        expected = beside_null(expected)
    if expected is not None and expected["type"] != kind and (kind, expected["type"]) not in _PROMOTED:
        raise AvroError(f"the writer's schema has {kind} where {expected['type']} is expected")
    if expected is not None:
        _require_same(written, expected)
    if kind == "null":
        return _null
    if kind == "record":
        return _dropped_record(written) if expected is None else _record(written, expected)
    if kind == "array":
        return _blocks(reader_of(written["items"], expected["items"] if expected else None))
    if kind == "map":
        return _blocks(_pair(reader_of(written["values"], expected["values"] if expected else None), expected is None))
    if kind == "enum":
        return _enum(symbols_of(written, expected))
    read = _fixed(written["size"]) if kind == "fixed" else _PLAIN[kind]
    if expected is None:
        return _bytes if kind == "string" else read
    if (kind, expected["type"]) == ("bytes", "string"):
        read = _text
    elif (kind, expected["type"]) == ("string", "bytes"):
        read = _bytes
    elif kind in ("int", "long") and expected["type"] in ("float", "double"):
        return _changed(read, float)
    return _logical(written, expected, read)


def _require_same(written: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raises `AvroError` for times of another unit or meaning, but for timestamps, and for bytes of another number."""
    mine, theirs = written.get("logicalType"), expected.get("logicalType")
    if mine in _LOGICAL and theirs in _LOGICAL and mine != theirs and not {mine, theirs} <= set(_TIMES):
        raise AvroError(f"the writer's schema has {mine} where {theirs} is expected")
    if written["type"] == expected["type"] == "fixed" and written["size"] != expected["size"]:
        raise AvroError(f"the writer's schema has {written['size']} bytes where {expected['size']} are expected")


def _union(written: dict[str, Any], expected: dict[str, Any] | None) -> _Read:
    """A branch that does not fit `expected` is an error of the values that have it. Raises `AvroError` if none fits."""
    branches: list[_Read] = []
    errors: list[AvroError] = []
    for branch in written["of"]:
        try:
            branches.append(reader_of(branch, expected))
        except AvroError as error:
            branches.append(_refused(str(error)))
            errors.append(error)
    if errors and len(errors) == len(branches):
        raise errors[0]

    def union(data: bytes, position: int) -> tuple[Any, int]:
        branch, position = _long(data, position)
        if not 0 <= branch < len(branches):
            raise AvroError(f"it chooses branch {branch} of a union of {len(branches)}")
        return branches[branch](data, position)

    return union


def _refused(why: str) -> _Read:
    def refused(data: bytes, position: int) -> tuple[Any, int]:
        raise AvroError(why)

    return refused


def symbols_of(written: dict[str, Any], expected: dict[str, Any] | None) -> list[str | AvroError]:
    """The reading of each of the writer's symbols: for one that the reader lacks, the reader's default or an error."""
    if expected is None:
        return list(written["symbols"])

    def read(symbol: str) -> str | AvroError:
        if symbol in expected["symbols"]:
            return symbol
        why = f"the expected schema's enum has no symbol {symbol!r}, and no default"
        return expected.get("default") or AvroError(why)

    return [read(symbol) for symbol in written["symbols"]]


def _enum(symbols: list[str | AvroError]) -> _Read:
    def enum(data: bytes, position: int) -> tuple[Any, int]:
        number, position = _long(data, position)
        if not 0 <= number < len(symbols):
            raise AvroError(f"it has symbol {number} of an enum of {len(symbols)}")
        symbol = symbols[number]
        if isinstance(symbol, AvroError):
            raise symbol
        return symbol, position

    return enum


def _changed(read: _Read, change: Callable[[Any], Any]) -> _Read:
    def changed(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read(data, position)
        return change(value), position

    return changed


def _logical(written: dict[str, Any], expected: dict[str, Any], read: _Read) -> _Read:
    scale = decimal_scale(written, expected)
    if scale is not None:
        return _changed(read, lambda unscaled: _decimal(unscaled, scale))
    return _changed(read, lambda value: value * 1000) if is_millis(written, expected) else read


def decimal_scale(written: dict[str, Any], expected: dict[str, Any]) -> int | None:
    """The scale of a decimal: the writer's, or the reader's if the writer has plain bytes."""
    if expected.get("logicalType") != "decimal":
        return None
    return int((written if written.get("logicalType") == "decimal" else expected).get("scale", 0))


def is_millis(written: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a number is a time in milliseconds: by the writer's schema, or by the reader's if that is silent."""
    if expected.get("logicalType") not in _TIMES:
        return False
    return (written if written.get("logicalType") in _TIMES else expected).get("logicalType") == "timestamp-millis"


def _decimal(unscaled: bytes, scale: int) -> decimal.Decimal:
    # Not by `scaleb`, which rounds to the 28 digits of the context.
    return decimal.Decimal(f"{int.from_bytes(unscaled, 'big', signed=True)}E{-scale}")


def takes_null(union: dict[str, Any]) -> bool:
    return any(branch["type"] == "null" for branch in union["of"])


def _may_be_null(schema: dict[str, Any]) -> bool:
    return takes_null(schema) if schema["type"] == "union" else bool(schema["type"] == "null")


def _has_wrong_null(schema: dict[str, Any], default: Any) -> bool:
    """Whether a default, of JSON, has a null where its type allows none: some schemas in use have such."""
    if default is None:
        return not _may_be_null(schema)
    kind = schema["type"]
    if kind == "union":
        inner = beside_null(schema)
        return inner is not None and _has_wrong_null(inner, default)
    if kind == "record" and isinstance(default, dict):
        return any(_has_wrong_null(f["type"], default[f["name"]]) for f in schema["fields"] if f["name"] in default)
    if kind == "array" and isinstance(default, list):
        return any(_has_wrong_null(schema["items"], item) for item in default)
    if kind == "map" and isinstance(default, dict):
        return any(_has_wrong_null(schema["values"], inner) for inner in default.values())
    return False


def takes_bytes(schema: dict[str, Any]) -> bool:
    """Whether each value takes at least one byte. With items of no bytes a block of five bytes can announce billions:
    `AvroSchema.reader` refuses that, pyruhvro does not."""
    kind = schema["type"]
    if kind == "record":
        return any(takes_bytes(field["type"]) for field in schema["fields"])
    return kind != "null" and (kind != "fixed" or int(schema["size"]) > 0)


def default_of(field: dict[str, Any]) -> Any:
    """The value of a reader's field that the writer lacks. Raises `AvroError` if its default does not fit its type."""
    try:
        return _of_json(field["type"], field["default"])
    except (AttributeError, TypeError, KeyError, UnicodeEncodeError):
        raise AvroError(f"the default of {field['name']!r} is no value of its type") from None


def _of_json(schema: dict[str, Any], value: Any) -> Any:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "union":
        inner = beside_null(schema)
        return None if value is None or inner is None else _of_json(inner, value)
    if kind in ("bytes", "fixed"):
        unscaled = value.encode("latin-1")
        return _decimal(unscaled, int(schema.get("scale", 0))) if logical == "decimal" else unscaled
    if kind == "record":
        return {
            field["name"]: _of_json(field["type"], value[field["name"]])
            if field["name"] in value
            else default_of(field)
            for field in schema["fields"]
        }
    if kind == "array":
        return [_of_json(schema["items"], item) for item in value]
    if kind == "map":
        return [(key, _of_json(schema["values"], inner)) for key, inner in value.items()]
    return value * 1000 if logical == "timestamp-millis" else value


def _dropped_record(written: dict[str, Any]) -> _Read:
    # Made only when a value has it: a dropped record may contain itself.
    steps: list[_Read] = []

    def dropped(data: bytes, position: int) -> tuple[Any, int]:
        if not steps:
            steps.extend(reader_of(field["type"], None) for field in written["fields"])
        for step in steps:
            _, position = step(data, position)
        return None, position

    return dropped


def readers_fields(written: dict[str, Any], expected: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The reader's fields by the writer's names: fields with the same name, or else with it as an alias."""
    there = {field["name"] for field in written["fields"]}
    found = {field["name"]: field for field in expected["fields"] if field["name"] in there}
    for field in expected["fields"]:
        if field["name"] not in there:
            before = [alias for alias in field.get("aliases", ()) if alias in there and alias not in found]
            found |= dict.fromkeys(before[:1], field)
    return found


def _record(written: dict[str, Any], expected: dict[str, Any]) -> _Read:
    wanted = readers_fields(written, expected)
    steps: list[tuple[str | None, _Read]] = []
    for field in written["fields"]:
        mine = wanted.get(field["name"])
        steps.append((mine["name"] if mine else None, reader_of(field["type"], mine["type"] if mine else None)))
    there = {field["name"] for field in wanted.values()}
    defaults = {}
    for field in expected["fields"]:
        if field["name"] not in there:
            if "default" not in field:
                raise AvroError(f"the writer's schema has no field {field['name']!r}, and it has no default")
            defaults[field["name"]] = default_of(field)

    def record(data: bytes, position: int) -> tuple[Any, int]:
        fields = dict(defaults)
        for name, read in steps:
            value, position = read(data, position)
            if name is not None:
                fields[name] = value
        return fields, position

    return record


def _pair(read: _Read, is_dropped: bool) -> _Read:
    read_key = _bytes if is_dropped else _text

    def pair(data: bytes, position: int) -> tuple[Any, int]:
        key, position = read_key(data, position)
        value, position = read(data, position)
        return (key, value), position

    return pair


def _blocks(read: _Read) -> _Read:
    def blocks(data: bytes, position: int) -> tuple[Any, int]:
        found: list[Any] = []
        while True:
            count, position = _long(data, position)
            if count == 0:
                return found, position
            if count < 0:  # the block's size in bytes follows
                count = -count
                _, position = _long(data, position)
            if len(found) + count > len(data):
                raise AvroError(f"it says it has a block of {count} items")
            for _ in range(count):
                value, position = read(data, position)
                found.append(value)

    return blocks


def _null(data: bytes, position: int) -> tuple[Any, int]:
    return None, position


def _boolean(data: bytes, position: int) -> tuple[Any, int]:
    return data[position] != 0, position + 1


def _long(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= _BITS
            return (number >> 1) ^ -(number & 1), position
    raise AvroError("it has a number of more than 64 bits")


def _int(data: bytes, position: int) -> tuple[int, int]:
    number, position = _long(data, position)
    if not -(1 << 31) <= number < 1 << 31:
        raise AvroError(f"it has {number} where its Avro schema has an int")
    return number, position


def _float(data: bytes, position: int) -> tuple[Any, int]:
    return _FLOAT.unpack_from(data, position)[0], position + 4


def _double(data: bytes, position: int) -> tuple[Any, int]:
    return _DOUBLE.unpack_from(data, position)[0], position + 8


def _bytes(data: bytes, position: int) -> tuple[Any, int]:
    length, position = _long(data, position)
    if not 0 <= length <= len(data) - position:
        raise AvroError(f"it says it has a field of {length} bytes")
    return data[position : position + length], position + length


def _text(data: bytes, position: int) -> tuple[Any, int]:
    found, position = _bytes(data, position)
    return str(found, "utf-8"), position


def _fixed(size: int) -> _Read:
    def fixed(data: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(data):
            raise AvroError(f"it ends inside a field of {size} bytes")
        return data[position : position + size], position + size

    return fixed


_PLAIN: Final[dict[str, _Read]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _text,
}


@dataclasses.dataclass(frozen=True)
class AvroSchemas:
    """The source of schemas: a registry's URL, or files (``ID.avsc`` in a directory, or one file for every id)."""

    registry: str | None = dataclasses.field(repr=False)
    """It may have a password."""
    files: str | None
    subject: str | None
    declared: str | None

    @cached_property
    def expected(self) -> AvroSchema:
        """The column's schema: ``value.schema``, else the newest one when the query is planned.

        It goes to the executors with the reader: a schema that is registered later does not change a running query.
        Raises `AvroError`, `RegistryDown`.
        """
        if self.declared:
            return AvroSchema(self.declared)
        if self.registry is not None:
            texts = self._registered(lambda registry: registry.newest(self.subject or ""))
            return AvroSchema(texts[-1], texts[:-1])
        assert self.files is not None
        path = Path(self.files)
        if path.is_dir():
            numbered = [file for file in path.glob("*.avsc") if file.stem.isdigit()]
            if not numbered:
                raise AvroError(f"value.schema.files={self.files} holds no file such as 1.avsc.")
            path = max(numbered, key=lambda file: int(file.stem))
        return AvroSchema(_text_of(path))

    def texts_of(self, schema_id: int) -> tuple[str, ...]:
        """The writer's schema, after those that it refers to. Raises `AvroError`, `RegistryDown`."""
        if self.registry is not None:
            return self._registered(lambda registry: registry.by_id(schema_id))
        assert self.files is not None
        path = Path(self.files)
        return (_text_of(path / f"{schema_id}.avsc" if path.is_dir() else path),)

    def _registered(self, asked: Callable[[Registry], Schema]) -> tuple[str, ...]:
        # Imported here: it takes longer to import than all the rest, and few queries use a registry.
        from barnabas.spark.registry import Registry

        assert self.registry is not None
        try:
            found = asked(Registry.of(self.registry))
        except ValueError as error:
            raise AvroError(str(error)) from None
        if found.kind != "AVRO":
            raise AvroError(f"the schema registry has a schema of kind {found.kind} there, and value.format is avro")
        return found.texts


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise AvroError(f"the Avro schema {path} cannot be read: {error.strerror}.") from None
