"""Protobuf's messages into an Arrow array and back, field by field for a whole column.

A value is read as the expected message: Protobuf matches fields by number and skips unknown fields, which is how its
schemas evolve. The indexes in front of a value name its message in the writer's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final

import pyarrow
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError

from barnabas.spark.compiled import COMPILED_VALUES_MIN, takes_compiled
from barnabas.spark.decoded import FAULTS, Decoded, by_name, in_halves, payloads_of
from barnabas.spark.protobuf_compiled import NotHere, compilable, struct_of
from barnabas.spark.protobuf_schema import (
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    ProtobufSchema,
    is_map,
    message_class,
    require_same,
    spark_type,
)
from barnabas.spark.registry import Schema

_NANOS: Final = 1000
_MICROS: Final = 1_000_000
_INDEXES_MAX: Final = 64

_values_here = 0
"""How many values this process has read: a worker runs many tasks."""


class ProtobufColumns:
    """Protobuf's `SchemaFormat`."""

    def __init__(self, schema: Schema, message: str | None = None) -> None:
        compiled = ProtobufSchema(schema.text, schema.imports)
        self._message = compiled.named(message)
        self._prefix = _indexes_as_bytes(compiled.indexes_of(self._message))

    def spark_type(self) -> str:
        return spark_type(self._message)

    def payloads(self, written: Schema, target: Any) -> ProtobufPayloads:
        return ProtobufPayloads(ProtobufSchema(written.text, written.imports), self._message, target)

    def encode(self, rows: Any, target: Any) -> Any:
        made, fill = message_class(self._message), _filler(self._message)
        encoded = []
        for row in by_name(rows, target).to_pylist(maps_as_pydicts="strict"):
            message = made()
            try:
                fill(message, row)
                encoded.append(self._prefix + message.SerializeToString())
            except (*FAULTS, EncodeError) as error:
                raise ValueError(
                    f"A row does not fit the Protobuf schema's {self._message.full_name}: {error}"
                ) from None
        return pyarrow.array(encoded, pyarrow.binary())


class ProtobufPayloads:
    """Values of one writer's schema, read as the message that is expected."""

    def __init__(self, written: ProtobufSchema, expected: Descriptor, target: Any) -> None:
        self._written = written
        self._expected = expected
        self._class = message_class(expected)
        self._target = target
        self._compilable = compilable(expected)
        self._taken: set[bytes] = set()
        """Message indexes of values that are of the expected message."""

    def decode(self, values: Any) -> Decoded:
        payloads = payloads_of(values)
        global _values_here
        _values_here += len(payloads)
        if self._compilable and takes_compiled("auto", _values_here, records_min=COMPILED_VALUES_MIN):
            try:
                return Decoded(self.by_kernels(payloads), {})
            except (NotHere, *FAULTS):
                pass  # Protobuf's own reader reports the error, and its value
        return in_halves(payloads, self._at_once, self._target)

    def by_kernels(self, payloads: list[bytes]) -> Any:
        """Raises `NotHere` if the kernels cannot read all of them, ``ValueError`` for another message."""
        begin = self._begin(payloads[0])
        prefix = payloads[0][:begin]
        if not all(payload.startswith(prefix) for payload in payloads):
            raise NotHere
        return struct_of(self._expected, payloads, begin, self._target)

    def _at_once(self, payloads: list[bytes]) -> Any:
        parse = self._class.FromString
        try:
            messages = [parse(payload[self._begin(payload) :]) for payload in payloads]
        except DecodeError as error:
            raise ValueError(f"its bytes are no {self._expected.full_name}: {error}") from None
        return _struct(self._expected, messages, self._target)

    def _begin(self, payload: bytes) -> int:
        """The position of the message. Raises ``ValueError`` for an unexpected message."""
        if payload[:1] == b"\0":
            end, indexes = 1, [0]
        else:
            count, end = _varint(payload, 0)
            if not 0 < count <= _INDEXES_MAX:
                raise ValueError(f"it says it has {count} message indexes")
            indexes = []
            for _ in range(count):
                index, end = _varint(payload, end)
                indexes.append(index)
        prefix = payload[:end]
        if prefix not in self._taken:
            written = self._written.at(indexes)
            if written.full_name != self._expected.full_name:
                raise ValueError(f"it is a message {written.full_name}, not {self._expected.full_name}")
            require_same(written, self._expected)
            self._taken.add(prefix)
        return end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Zigzag, as in the indexes."""
    number = shift = 0
    while True:
        if position >= len(data):
            raise ValueError("it ends inside its message indexes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7


def _indexes_as_bytes(indexes: Sequence[int]) -> bytes:
    if list(indexes) == [0]:
        return b"\0"
    out = bytearray()
    for number in (len(indexes), *indexes):
        zigzag = number << 1
        while zigzag > 0x7F:
            out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        out.append(zigzag)
    return bytes(out)


def _struct(message: Descriptor, messages: Sequence[Any], target: Any) -> Any:
    """`messages` may have None, for null."""
    absent = [inner is None for inner in messages]
    mask = pyarrow.array(absent) if any(absent) else None
    if mask is not None:
        empty = message_class(message)()
        messages = [empty if inner is None else inner for inner in messages]
    columns = [
        _column(field, messages, column.type) for field, column in zip(message.fields, list(target), strict=True)
    ]
    if not columns:
        return pyarrow.array([None if none else {} for none in absent], target)
    return pyarrow.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _column(field: FieldDescriptor, messages: Sequence[Any], target: Any) -> Any:
    name = field.name
    if field.is_repeated:
        lots = [getattr(message, name) for message in messages]
        offsets = pyarrow.array([0, *accumulate(map(len, lots))], pyarrow.int32())
        if is_map(field):
            key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
            keys = _values(key, [entry for lot in lots for entry in lot], target.key_type)
            items = _values(value, [lot[entry] for lot in lots for entry in lot], target.item_type)
            return pyarrow.MapArray.from_arrays(offsets, keys, items, type=target)
        items = _values(field, [element for lot in lots for element in lot], target.value_type)
        return pyarrow.ListArray.from_arrays(offsets, items, type=target)
    if field.has_presence:
        return _values(
            field, [getattr(message, name) if message.HasField(name) else None for message in messages], target
        )
    return _values(field, [getattr(message, name) for message in messages], target)


def _values(field: FieldDescriptor, values: Sequence[Any], target: Any) -> Any:
    kind = field.message_type.full_name if field.message_type is not None else None
    if kind in (TIMESTAMP, DURATION):
        micros = [None if value is None else value.seconds * _MICROS + value.nanos // _NANOS for value in values]
        return pyarrow.array(micros, pyarrow.int64()).cast(target)
    if kind in WRAPPERS:
        inner = field.message_type.fields_by_name["value"]
        return _values(inner, [None if value is None else value.value for value in values], target)
    if field.message_type is not None:
        return _struct(field.message_type, values, target)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return pyarrow.array([None if value is None else names.get(value, str(value)) for value in values], target)
    if pyarrow.types.is_decimal(target):
        return pyarrow.array([None if value is None else Decimal(value) for value in values], target)
    return pyarrow.array(values, target)


def _filler(message: Descriptor) -> Callable[[Any, dict[str, Any]], None]:
    setters = {field.name: _setter(field) for field in message.fields}
    choices = [[field.name for field in oneof.fields] for oneof in message.oneofs]

    def fill(made: Any, row: dict[str, Any]) -> None:
        for names in choices:
            if len(given := [name for name in names if row.get(name) is not None]) > 1:
                raise ValueError(f"it has {' and '.join(given)}, of which {message.full_name} takes one")
        for name, value in row.items():
            if value is not None:
                setters[name](made, value)

    return fill


def _setter(field: FieldDescriptor) -> Callable[[Any, Any], None]:
    name = field.name
    if is_map(field):
        return _map_setter(field)
    if field.message_type is not None:
        fill = _inner_filler(field.message_type)
        if field.is_repeated:

            def extend(made: Any, value: Any) -> None:
                for element in value:
                    fill(getattr(made, name).add(), element)

            return extend

        def inner(made: Any, value: Any) -> None:
            part = getattr(made, name)
            part.SetInParent()
            fill(part, value)

        return inner
    plain = _plain(field)
    if field.is_repeated:
        return lambda made, value: getattr(made, name).extend(plain(element) for element in value)
    return lambda made, value: setattr(made, name, plain(value))


def _map_setter(field: FieldDescriptor) -> Callable[[Any, Any], None]:
    name, plain_key = field.name, _plain(field.message_type.fields_by_name["key"])
    value = field.message_type.fields_by_name["value"]
    if value.message_type is None:
        plain = _plain(value)

        def scalars(made: Any, entries: Any) -> None:
            getattr(made, name).update({plain_key(key): plain(entry) for key, entry in entries.items()})

        return scalars
    fill = _inner_filler(value.message_type)

    def messages(made: Any, entries: Any) -> None:
        for key, entry in entries.items():
            part = getattr(made, name)[plain_key(key)]
            part.SetInParent()
            fill(part, entry)

    return messages


def _inner_filler(message: Descriptor) -> Callable[[Any, Any], None]:
    if message.full_name == TIMESTAMP:
        return lambda made, value: made.FromDatetime(value)
    if message.full_name == DURATION:
        return lambda made, value: made.FromTimedelta(value)
    if message.full_name in WRAPPERS:
        plain = _plain(message.fields_by_name["value"])
        return lambda made, value: setattr(made, "value", plain(value))
    return _filler(message)


def _plain(field: FieldDescriptor) -> Callable[[Any], Any]:
    """The value that protobuf accepts for a scalar of a column."""
    if field.enum_type is not None:
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}

        def enum(value: str) -> int:
            if value not in numbers and not value.lstrip("-").isdigit():
                raise ValueError(f"{field.full_name} has no value {value}")
            return numbers[value] if value in numbers else int(value)

        return enum
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return int
    return lambda value: value
