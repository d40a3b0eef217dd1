"""Protobuf's messages into an Arrow array by compiled kernels, a level of messages at a time.

The result is the same as by Protobuf's own reader in `protobuf_columns`; invalid values and rare features raise
`NotHere`. `compilable` says which schemas can be read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from barnabas.spark.protobuf_schema import DURATION, TIMESTAMP, WRAPPERS, is_map

_NUMBER_MAX: Final = 1 << 12
_BYTES_MAX: Final = (1 << 31) - 1
_MICROS: Final = 1_000_000
_NANOS: Final = 1000
_SECONDS_MAX: Final = 1 << 43
"""The longest timestamp or duration whose microseconds fit into 64 bits."""
_WIRES: Final = {
    **dict.fromkeys(
        (
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_UINT32,
            FieldDescriptor.TYPE_UINT64,
            FieldDescriptor.TYPE_SINT32,
            FieldDescriptor.TYPE_SINT64,
            FieldDescriptor.TYPE_BOOL,
            FieldDescriptor.TYPE_ENUM,
        ),
        0,
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64, FieldDescriptor.TYPE_DOUBLE), 1),
    **dict.fromkeys((FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE), 2),
    **dict.fromkeys((FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32, FieldDescriptor.TYPE_FLOAT), 5),
}


class NotHere(Exception):
    """Protobuf's own reader has to read these values."""


class _Level(NamedTuple):
    """A message's fields, as the kernels take them; each array but `slots` has a place for each field."""

    slots: Any
    wires: Any
    repeated: Any
    choices: Any


class _Found(NamedTuple):
    """One field of many messages, or all elements of a repeated one. Bytes begin at `values` and end at `until`."""

    values: Any
    until: Any
    absent: Any
    """Which messages lack the field; None if none does."""


def compilable(message: Descriptor) -> bool:
    for field in message.fields:
        if field.type not in _WIRES or field.number >= _NUMBER_MAX or field.is_required:
            return False
        if field.enum_type is not None and field.enum_type.is_closed:
            return False  # unknown numbers are no values of the enum
        if field.message_type is not None and not compilable(field.message_type):
            return False
    return True


def struct_of(message: Descriptor, payloads: Sequence[bytes], begin: int, target: Any) -> Any:
    """The messages in `payloads` after their first `begin` bytes. Raises `NotHere`."""
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1]
    data = np.frombuffer(b"".join(payloads), np.uint8)
    return _struct(message, data, starts + begin, ends, None, target)


def _struct(message: Descriptor, data: Any, starts: Any, ends: Any, absent: Any, target: Any) -> Any:
    from barnabas.spark.protobuf_kernels import elements, scan

    level = _level(message)
    rows, count = len(starts), len(level.wires)
    values, until = np.zeros((count, rows), np.uint64), np.zeros((count, rows), np.int64)
    present, counts = np.zeros((count, rows), np.uint8), np.zeros((count, rows), np.int64)
    # To Protobuf a map's entry that has an unknown field is itself an unknown field.
    strictly = bool(message.GetOptions().map_entry)
    if scan(data, starts, ends, strictly, *level, values, until, present, counts) < 0:
        raise NotHere
    totals = counts.sum(axis=1)
    limits = np.cumsum(totals)
    flat_values, flat_until = np.zeros(int(totals.sum()), np.uint64), np.zeros(int(totals.sum()), np.int64)
    if len(flat_values):
        first = limits - totals
        if elements(data, starts, ends, *level[:3], first, limits, flat_values, flat_until) < 0:
            raise NotHere
        if (first != limits).any():
            raise NotHere
    columns = []
    for slot, (field, wanted) in enumerate(zip(message.fields, list(target), strict=True)):
        if field.is_repeated:
            lot = slice(int(limits[slot] - totals[slot]), int(limits[slot]))
            found = _Found(flat_values[lot], flat_until[lot], None)
            offsets = np.zeros(rows + 1, np.int32)
            np.cumsum(counts[slot], out=offsets[1:])
            columns.append(_lists(field, data, found, offsets, wanted.type))
        else:
            none = present[slot] == 0 if field.has_presence else None
            columns.append(_array(field, data, _Found(values[slot], until[slot], none), wanted.type))
    mask = None if absent is None or not absent.any() else pyarrow.array(absent)
    if not columns:
        return pyarrow.array([None if none else {} for none in (np.zeros(rows) if absent is None else absent)], target)
    return pyarrow.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _lists(field: FieldDescriptor, data: Any, found: _Found, offsets: Any, target: Any) -> Any:
    if not is_map(field):
        items = _array(field, data, found, target.value_type)
        return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), items, type=target)
    entry = pyarrow.struct([("key", target.key_type), ("value", target.item_type)])
    keys, items = _entries(field.message_type, data, found, entry).flatten()
    rows = pyarrow.array(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
    if pyarrow.table({"row": rows, "key": keys}).group_by(["row", "key"]).aggregate([]).num_rows < len(keys):
        raise NotHere  # of entries with the same key the last counts
    return pyarrow.MapArray.from_arrays(pyarrow.array(offsets), keys, items, type=target)


def _entries(entry: Descriptor, data: Any, found: _Found, target: Any) -> Any:
    made = _struct(entry, data, found.values.astype(np.int64), found.until, None, target)
    if made.field("value").null_count:
        raise NotHere  # an entry without a value has an empty message
    return made


def _array(field: FieldDescriptor, data: Any, found: _Found, target: Any) -> Any:
    if field.message_type is not None:
        return _of_messages(field.message_type, data, found, target)
    if _WIRES[field.type] == 2:
        return _texts(data, found, target)
    if field.enum_type is not None:
        return _names(field, found, target)
    return pyarrow.array(_numbers(field, found.values), mask=found.absent).cast(target)


def _of_messages(message: Descriptor, data: Any, found: _Found, target: Any) -> Any:
    starts, ends = found.values.astype(np.int64), found.until
    if found.absent is not None:
        starts, ends = np.where(found.absent, 0, starts), np.where(found.absent, 0, ends)
    if message.full_name in (TIMESTAMP, DURATION):
        plain = pyarrow.struct([("seconds", pyarrow.int64()), ("nanos", pyarrow.int32())])
        made = _struct(message, data, starts, ends, None, plain)
        seconds, nanos = (column.to_numpy() for column in made.flatten())
        if len(seconds) and np.abs(seconds).max() >= _SECONDS_MAX:
            raise NotHere
        micros = seconds * _MICROS + nanos // _NANOS
        return pyarrow.array(micros, pyarrow.int64(), mask=found.absent).cast(target)
    if message.full_name in WRAPPERS:
        (inner,) = _struct(message, data, starts, ends, None, pyarrow.struct([("value", target)])).flatten()
        if found.absent is None or not found.absent.any():
            return inner
        return pyarrow.compute.if_else(pyarrow.array(~found.absent), inner, pyarrow.scalar(None, target))
    return _struct(message, data, starts, ends, found.absent, target)


def _texts(data: Any, found: _Found, target: Any) -> Any:
    from barnabas.spark.protobuf_kernels import gather

    starts, ends = found.values.astype(np.int64), found.until
    if found.absent is not None:
        starts, ends = np.where(found.absent, 0, starts), np.where(found.absent, 0, ends)
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    if offsets[-1] > _BYTES_MAX:
        raise NotHere
    out = np.empty(int(offsets[-1]), np.uint8)
    gather(data, starts, ends, offsets, out)
    validity = None
    if found.absent is not None and found.absent.any():
        validity = pyarrow.py_buffer(np.packbits(~found.absent, bitorder="little"))
    buffers = [validity, pyarrow.py_buffer(offsets.astype(np.int32)), pyarrow.py_buffer(out)]
    made = pyarrow.Array.from_buffers(target, len(starts), buffers)
    try:
        made.validate(full=True)
    except pyarrow.ArrowInvalid:
        raise NotHere from None  # no UTF-8
    return made


def _names(field: FieldDescriptor, found: _Found, target: Any) -> Any:
    numbers, places = np.unique(found.values.astype(np.int32), return_inverse=True)
    known = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    names = pyarrow.array([known.get(number, str(number)) for number in numbers.tolist()], target)
    indices = pyarrow.array(places.astype(np.int32), mask=found.absent)
    return pyarrow.DictionaryArray.from_arrays(indices, names).cast(target)


def _numbers(field: FieldDescriptor, values: Any) -> Any:
    """Values of 64 bits as numbers of the field's type."""
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return values != 0
        case FieldDescriptor.TYPE_DOUBLE:
            return values.view(np.float64)
        case FieldDescriptor.TYPE_FLOAT:
            return values.astype(np.uint32).view(np.float32)
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_SFIXED32:
            return values.astype(np.uint32).view(np.int32)
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
            return values.astype(np.uint32)
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return values
        case FieldDescriptor.TYPE_SINT32:
            small = values.astype(np.uint32)
            return (small >> 1).view(np.int32) ^ -(small & 1).view(np.int32)
        case FieldDescriptor.TYPE_SINT64:
            return (values >> 1).view(np.int64) ^ -(values & 1).view(np.int64)
        case _:
            return values.view(np.int64)


@cache
def _level(message: Descriptor) -> _Level:
    fields = list(message.fields)
    slots = np.full(max((field.number for field in fields), default=0) + 1, -1, np.int64)
    for slot, field in enumerate(fields):
        slots[field.number] = slot
    choice = {oneof.full_name: index for index, oneof in enumerate(message.oneofs)}
    return _Level(
        slots,
        np.array([_WIRES[field.type] for field in fields], np.int64),
        np.array([field.is_repeated for field in fields], np.bool_),
        np.array([-1 if (o := field.containing_oneof) is None else choice[o.full_name] for field in fields], np.int64),
    )
