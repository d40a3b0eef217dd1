"""Reads Avro values by the kernel (``wire/_avro.h``): makes nodes and columns of two schemas, and an array of the
result.

A node says how bytes are read, a column how a value is stored; the kernel knows no schema. It refuses an invalid or
unsupported value, and `avro` reads that one. Columns grow when they are full; each batch begins with the sizes of the
one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from barnabas.spark.avro import (
    AvroError,
    AvroSchema,
    beside_null,
    decimal_scale,
    default_of,
    is_millis,
    reader_of,
    readers_fields,
    symbols_of,
    takes_bytes,
    takes_null,
)
from barnabas.wire.kernel import kernel

IS_BUILT: Final = hasattr(kernel, "avro")
"""Whether the extension in C is installed, and of this version's source."""

_NULL, _REFUSED, _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _FIXED, _ENUM, _UNION, _RECORD, _ARRAY, _MAP = range(
    14
)
_READ: Final = {
    "null": _NULL,
    "boolean": _BOOLEAN,
    "int": _INT,
    "long": _LONG,
    "float": _FLOAT,
    "double": _DOUBLE,
    "bytes": _BYTES,
    "string": _BYTES,
    "fixed": _FIXED,
}
_BITS, _INTS, _LONGS, _MILLIS, _FLOATS, _DOUBLES, _BINARY, _TEXT, _DECIMAL, _LIST, _STRUCT = range(11)
_DTYPES: Final = {_INTS: "<i4", _LONGS: "<i8", _MILLIS: "<i8", _FLOATS: "<f4", _DOUBLES: "<f8", _DECIMAL: "V16"}
_TAKEN: Final = {
    _BITS: {"boolean"},
    _INTS: {"int"},
    _LONGS: {"int", "long"},
    _MILLIS: {"long"},
    _FLOATS: {"int", "long", "float"},
    _DOUBLES: {"int", "long", "float", "double"},
    _BINARY: {"bytes", "string", "fixed"},
    _TEXT: {"bytes", "string", "enum"},
    _DECIMAL: {"bytes", "fixed"},
}
"""What a writer may have where a column is kept so."""
_NOTHING: Final = numpy.empty(0, numpy.uint8)
_GUESSED_BYTES: Final = 16


class Unplanned(Exception):
    """The kernel does not support this kind of schema: `avro` reads its values."""


class _Column(NamedTuple):
    """The place of a kept value: the kernel's column, and the array's type."""

    number: int
    """-1 for a constant."""
    kind: Any
    inner: tuple[_Column, ...] = ()
    constant: Any = None


@dataclass
class _Rooms:
    """How many values and bytes for each row a column had in the last batch."""

    values: float = 2.0
    size: float = _GUESSED_BYTES


class AvroPlan:
    """Converts values of one schema into a struct array of another."""

    def __init__(self, written: AvroSchema, expected: AvroSchema, target: Any) -> None:
        """Raises `Unplanned`, and `AvroError` if the schemas do not match."""
        if written.root["type"] != "record":
            raise Unplanned
        tables = _Tables()
        self._made = tables.value(written.root, expected.root, target, nullable=True, of_row=True)
        if self._made.number != 0:
            raise Unplanned
        self._kept = [column[0] for column in tables.columns]
        self._nullable, self._of_row = tables.nullable, tables.of_row
        self._rooms = [_Rooms() for _ in tables.columns]
        self._tables = (
            numpy.array(tables.nodes, numpy.int32),
            numpy.array(tables.columns, numpy.int32),
            numpy.cumsum([0, *map(len, tables.symbols)], dtype=numpy.int32),
            b"".join(tables.symbols),
        )

    def read(self, values: Any, skipped: int) -> tuple[Any, list[int]]:
        """A binary array without nulls, each value from its byte `skipped` on: the structs, and the rows refused.

        Raises ``OverflowError`` for a column above the 2 GiB of an Arrow array.
        """
        rows = len(values)
        width = 8 if pyarrow.types.is_large_binary(values.type) else 4
        _, ends, data = values.buffers()
        ends = ends.slice(values.offset * width) if ends is not None else bytes(width)
        state = numpy.zeros(2 + len(self._kept), numpy.int64)
        refused = numpy.empty(rows, numpy.int32)
        buffers = [buffer for number in range(len(self._kept)) for buffer in self._buffers(number, rows)]
        given = (*self._tables, data or b"", ends)
        while kernel.avro(*given, refused, state, width, skipped, rows, buffers) < rows:
            self._grow(int(state[1]), buffers)
        counts = state[2:].tolist()
        array = self._array(self._made, counts, rows, buffers)
        for number, rooms in enumerate(self._rooms):
            rooms.values = counts[number] / max(rows, 1) * 1.25
            if self._kept[number] in (_BINARY, _TEXT):
                rooms.size = int(buffers[3 * number + 1][counts[number]]) / max(rows, 1) * 1.25
        return array, refused[: state[0]].tolist()

    def _buffers(self, number: int, rows: int) -> tuple[Any, Any, Any]:
        kept, rooms = self._kept[number], self._rooms[number]
        room = rows if self._of_row[number] else int(rows * rooms.values) + 8
        bits = numpy.zeros((room >> 3) + 1, numpy.uint8) if self._nullable[number] else _NOTHING
        if kept == _STRUCT:
            return bits, _NOTHING, _NOTHING
        if kept == _BITS:
            return bits, numpy.zeros((room >> 3) + 1, numpy.uint8), _NOTHING
        if kept in _DTYPES:
            return bits, numpy.empty(room, _DTYPES[kept]), _NOTHING
        ends = numpy.empty(room + 1, numpy.int32)
        ends[0] = 0
        size = 0 if kept == _LIST else int(rows * rooms.size) + 64
        return bits, ends, numpy.empty(size, numpy.uint8)

    def _grow(self, number: int, buffers: list[Any]) -> None:
        """Twice the room for all of the column: the kernel reports that it is short, not of what."""
        for at in range(3 * number, 3 * number + 3):
            old = buffers[at]
            if len(old):
                if len(old) > 1 << 31:
                    raise OverflowError("a column of Avro values is larger than an Arrow array")
                buffers[at] = numpy.zeros(2 * len(old), old.dtype)
                buffers[at][: len(old)] = old

    def _array(self, made: _Column, counts: list[int], rows: int, buffers: list[Any]) -> Any:
        if made.number < 0:
            return pyarrow.repeat(made.constant, rows)
        kept = self._kept[made.number]
        count = counts[made.number]
        bits, data, texts = buffers[3 * made.number : 3 * made.number + 3]
        valid = pyarrow.py_buffer(bits) if len(bits) else None
        nulls = -1 if len(bits) else 0
        if kept == _STRUCT:
            children = [self._array(inner, counts, count, buffers) for inner in made.inner]
            return pyarrow.Array.from_buffers(made.kind, count, [valid], nulls, children=children)
        if kept == _LIST:
            items = int(data[count])
            children = [self._array(inner, counts, items, buffers) for inner in made.inner]
            if pyarrow.types.is_map(made.kind):
                entries = pyarrow.struct([made.kind.key_field, made.kind.item_field])
                children = [pyarrow.Array.from_buffers(entries, items, [None], 0, children=children)]
            ends = pyarrow.py_buffer(data[: count + 1])
            return pyarrow.Array.from_buffers(made.kind, count, [valid, ends], nulls, children=children)
        if kept in (_BINARY, _TEXT):
            held = [valid, pyarrow.py_buffer(data[: count + 1]), pyarrow.py_buffer(texts[: data[count]])]
            return pyarrow.Array.from_buffers(made.kind, count, held, nulls)
        return pyarrow.Array.from_buffers(made.kind, count, [valid, pyarrow.py_buffer(data)], nulls)


@dataclass
class _Tables:
    """The kernel's tables, while they are made from a writer's and a reader's schema."""

    nodes: list[list[int]] = field(default_factory=list)
    columns: list[list[int]] = field(default_factory=list)
    nullable: list[bool] = field(default_factory=list)
    of_row: list[bool] = field(default_factory=list)
    """Whether a column has a value for each row: it is in no list."""
    symbols: list[bytes] = field(default_factory=list)
    _inside: tuple[str, ...] = ()
    """The records that the one which is dropped is in."""

    def _node(self, kind: int, argument: int = 0, count: int = 0, column: int = -1) -> list[int]:
        node = [kind, argument, count, len(self.nodes) + 1, column]
        self.nodes.append(node)
        return node

    def _column(self, kept: int, *, nullable: bool, of_row: bool, argument: int = 0) -> list[int]:
        column = [kept, argument, len(self.columns) + 1]
        self.columns.append(column)
        self.nullable.append(nullable)
        self.of_row.append(of_row)
        return column

    def value(self, written: Any, expected: Any, target: Any, *, nullable: bool, of_row: bool) -> _Column:
        """Adds nodes and columns for `written` as `expected`; `nullable`: a row may be refused, or null by a union."""
        if written["type"] == "union":
            return self._chosen(written, expected, target, nullable=nullable, of_row=of_row)
        if expected["type"] == "union":
            inner = beside_null(expected)
            if inner is None:
                raise Unplanned
            return self.value(written, inner, target, nullable=nullable or takes_null(expected), of_row=of_row)
        kind = written["type"]
        if kind == "null":
            if expected["type"] != "null":
                raise Unplanned  # a column of nulls alone
            self._node(_NULL)
            return _Column(-1, target, constant=pyarrow.scalar(None, target))
        if kind in ("record", "array", "map") and kind != expected["type"]:
            raise Unplanned
        if kind == "record":
            return self._fields(written, expected, target, nullable=nullable, of_row=of_row)
        if kind in ("array", "map"):
            return self._items(written, expected, target, nullable=nullable, of_row=of_row)
        kept, argument = _kept(written, expected, target)
        number = len(self.columns)
        self._column(kept, nullable=nullable, of_row=of_row, argument=argument)
        self._plain(written, number, expected)
        return _Column(number, target)

    def _plain(self, written: Any, column: int, expected: Any = None) -> None:
        if written["type"] == "enum":
            symbols = [symbol.encode() for symbol in symbols_of(written, expected) if isinstance(symbol, str)]
            if len(symbols) < len(written["symbols"]):
                raise Unplanned  # each of its values has to be checked
            self._node(_ENUM, len(self.symbols), len(symbols), column)
            self.symbols += symbols
        else:
            self._node(_READ[written["type"]], int(written.get("size", 0)), 0, column)

    def _chosen(self, written: Any, expected: Any, target: Any, *, nullable: bool, of_row: bool) -> _Column:
        """A union: null where `expected` takes it, one branch that is kept, and others that are refused."""
        node = self._node(_UNION, count=len(written["of"]))
        may_be_null = expected["type"] == "union" and takes_null(expected)
        made: _Column | None = None
        nulls: list[list[int]] = []
        for branch in written["of"]:
            if branch["type"] == "null":
                null = self._node(_NULL if may_be_null else _REFUSED)
                nulls += [null] if may_be_null else []
                continue
            try:
                reader_of(branch, expected)
            except AvroError:
                self._node(_REFUSED)
                continue
            if made is not None:
                raise Unplanned  # two branches that become one column
            made = self.value(branch, expected, target, nullable=nullable, of_row=of_row)
        if made is None or made.number < 0:
            raise Unplanned
        for null in nulls:
            null[4] = made.number
        node[3] = len(self.nodes)
        return made

    def _fields(self, written: Any, expected: Any, target: Any, *, nullable: bool, of_row: bool) -> _Column:
        if not pyarrow.types.is_struct(target):
            raise Unplanned
        number = len(self.columns)
        column = self._column(_STRUCT, nullable=nullable, of_row=of_row)
        node = self._node(_RECORD, column=number)
        wanted = {field["name"]: field for field in expected["fields"]}
        names = {name: mine["name"] for name, mine in readers_fields(written, expected).items()}
        types = {field.name: field.type for field in target}
        if len(types) != len(target) or not types.keys() <= wanted.keys():
            raise Unplanned
        made = {}
        for part in written["fields"]:
            name = names.get(part["name"])
            if name in types:
                made[name] = self.value(part["type"], wanted[name]["type"], types[name], nullable=False, of_row=of_row)
            else:
                self._dropped(part["type"])
        for name in types.keys() - made.keys():
            try:
                constant = pyarrow.scalar(default_of(wanted[name]), types[name])
            except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
                raise Unplanned from None  # the reader in Python reports its error
            made[name] = _Column(-1, types[name], constant=constant)
        column[2], node[3] = len(self.columns), len(self.nodes)
        return _Column(number, target, tuple(made[name] for name in types))

    def _items(self, written: Any, expected: Any, target: Any, *, nullable: bool, of_row: bool) -> _Column:
        is_map = written["type"] == "map"
        if not (pyarrow.types.is_map(target) if is_map else pyarrow.types.is_list(target)):
            raise Unplanned
        inner = "values" if is_map else "items"
        if not is_map and not takes_bytes(written[inner]):
            raise Unplanned  # a block of five bytes can announce billions of such items
        number = len(self.columns)
        column = self._column(_LIST, nullable=nullable, of_row=of_row)
        node = self._node(_MAP if is_map else _ARRAY, column=number)
        parts = []
        if is_map:
            if not pyarrow.types.is_string(target.key_type):
                raise Unplanned
            parts.append(_Column(len(self.columns), target.key_type))
            self._column(_TEXT, nullable=False, of_row=False)
        kind = target.item_type if is_map else target.value_type
        parts.append(self.value(written[inner], expected[inner], kind, nullable=False, of_row=False))
        column[2], node[3] = len(self.columns), len(self.nodes)
        return _Column(number, target, tuple(parts))

    def _dropped(self, written: Any) -> None:
        """The nodes of fields without a column."""
        kind = written["type"]
        if kind in ("union", "record"):
            inner = written["of"] if kind == "union" else [part["type"] for part in written["fields"]]
            if kind == "record":
                if written["name"] in self._inside:
                    raise Unplanned  # it contains itself
                self._inside = (*self._inside, written["name"])
            node = self._node(_UNION if kind == "union" else _RECORD, count=len(inner))
            for part in inner:
                self._dropped(part)
            node[3] = len(self.nodes)
            if kind == "record":
                self._inside = self._inside[:-1]
        elif kind in ("array", "map"):
            node = self._node(_ARRAY if kind == "array" else _MAP)
            if kind == "array" and not takes_bytes(written["items"]):
                raise Unplanned
            self._dropped(written["items" if kind == "array" else "values"])
            node[3] = len(self.nodes)
        else:
            self._plain(written, -1)


def _kept(written: Any, expected: Any, target: Any) -> tuple[int, int]:
    """How the column stores a writer's plain value, and the kernel's parameters for that."""
    is_time = pyarrow.types.is_timestamp(target)
    kept, argument = -1, 0
    if pyarrow.types.is_boolean(target):
        kept = _BITS
    elif pyarrow.types.is_int32(target) or pyarrow.types.is_date32(target):
        kept = _INTS
    elif pyarrow.types.is_int64(target) or (is_time and target.unit == "us"):
        kept = _MILLIS if is_time and is_millis(written, expected) else _LONGS
    elif pyarrow.types.is_float32(target) or pyarrow.types.is_float64(target):
        kept = _FLOATS if pyarrow.types.is_float32(target) else _DOUBLES
    elif pyarrow.types.is_binary(target) or pyarrow.types.is_string(target):
        kept = _BINARY if pyarrow.types.is_binary(target) else _TEXT
    elif pyarrow.types.is_decimal128(target) and decimal_scale(written, expected) == target.scale:
        kept, argument = _DECIMAL, target.precision
    if written["type"] not in _TAKEN.get(kept, ()):
        raise Unplanned
    return kept, argument
