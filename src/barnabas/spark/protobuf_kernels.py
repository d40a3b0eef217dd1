"""Compiled reading of Protobuf (numba): finds the fields of many messages of one kind.

`scan` walks messages and notes each single field's last value, or the bytes that it covers, and how many elements each
repeated field has; `elements` walks them again for those elements. A field that is a message is a range of bytes, which
the next level reads. Rare features (groups, a message in two parts) and invalid values are not read here: a negative
result says so, and Protobuf's own reader takes over.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from barnabas.spark.kernels import as_kernel, copy_bytes

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
"""The wire types of a tag."""

_NOT_HERE: Final = -1
_VARINT_BITS: Final = 63
_TAG_MAX: Final = (1 << 32) - 1


def _varint_py(data: Any, position: int, end: int) -> Any:
    """A varint's 64 bits and the position after it; position -1 if it has more, or does not end before `end`."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = data[position]
        position += 1
        if shift == np.uint64(_VARINT_BITS) and byte > 1:
            break
        number |= np.uint64(byte & np.uint8(0x7F)) << shift
        if byte < 0x80:
            return number, position
        shift += np.uint64(7)
    return np.uint64(0), np.int64(-1)


_varint = njit(nogil=True, inline="always")(_varint_py)


def _fixed_py(data: Any, position: int, size: int) -> Any:
    """Little-endian."""
    number = np.uint64(0)
    for index in range(size):
        number |= np.uint64(data[position + index]) << np.uint64(8 * index)
    return number


_fixed = njit(nogil=True, inline="always")(_fixed_py)


def _field_py(data: Any, position: int, end: int) -> Any:
    """The next field: its number, its wire type, its value or the start of its bytes, and the field's end.

    The end is -1 for a field that is broken, or of a wire type that is not read here.
    """
    tag, position = _varint(data, position, end)
    if position < 0 or tag > np.uint64(_TAG_MAX) or tag < np.uint64(8):
        return np.int64(0), np.int64(0), np.uint64(0), np.int64(-1)
    number, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
    if wire == VARINT:
        value, position = _varint(data, position, end)
        return number, wire, value, position
    if wire == BYTES:
        size, position = _varint(data, position, end)
        if position < 0 or size > np.uint64(end - position):
            return number, wire, np.uint64(0), np.int64(-1)
        return number, wire, np.uint64(position), position + np.int64(size)
    width = 8 if wire == FIXED64 else 4
    if (wire != FIXED64 and wire != FIXED32) or end - position < width:
        return number, wire, np.uint64(0), np.int64(-1)
    return number, wire, _fixed(data, position, width), position + width


_field = njit(nogil=True, inline="always")(_field_py)


def _scan_py(
    data: Any,
    starts: Any,
    ends: Any,
    strictly: bool,
    slots: Any,
    wires: Any,
    repeated: Any,
    choices: Any,
    values: Any,
    until: Any,
    present: Any,
    counts: Any,
) -> Any:
    """`slots` has for each field number the row in the other arrays, or -1; `values`, `until`, `present` and `counts`
    have a column for each message. `strictly`: messages with unknown fields are not read here."""
    for row in range(starts.shape[0]):
        position, end = starts[row], ends[row]
        while position < end:
            number, wire, value, after = _field(data, position, end)
            if after < 0:
                return _NOT_HERE
            position = after
            slot = slots[number] if number < slots.shape[0] else -1
            if strictly and (slot < 0 or wire != wires[slot]):
                return _NOT_HERE
            if slot < 0:
                continue
            if repeated[slot]:
                if wire == wires[slot]:
                    counts[slot, row] += 1
                elif wire == BYTES:  # packed
                    begin = np.int64(value)
                    if wires[slot] == VARINT:
                        if begin < after and data[after - 1] >= 0x80:
                            return _NOT_HERE
                        for index in range(begin, after):
                            counts[slot, row] += data[index] < 0x80
                    else:
                        width = 8 if wires[slot] == FIXED64 else 4
                        if (after - begin) % width:
                            return _NOT_HERE
                        counts[slot, row] += (after - begin) // width
                continue
            if wire != wires[slot]:
                continue
            if present[slot, row] and wires[slot] == BYTES:
                return _NOT_HERE  # two parts, to be merged; or one that is replaced, and may be broken
            if choices[slot] >= 0:
                for other in range(choices.shape[0]):
                    if choices[other] == choices[slot] and present[other, row]:
                        if wires[other] == BYTES:
                            return _NOT_HERE
                        present[other, row] = 0
            values[slot, row] = value
            until[slot, row] = after
            present[slot, row] = 1
    return 0


def _elements_py(
    data: Any,
    starts: Any,
    ends: Any,
    slots: Any,
    wires: Any,
    repeated: Any,
    first: Any,
    limits: Any,
    values: Any,
    until: Any,
) -> Any:
    """The elements of all repeated fields, as `scan` has counted them: a field's from `first[slot]`, which moves on, to
    `limits[slot]`."""
    for row in range(starts.shape[0]):
        position, end = starts[row], ends[row]
        while position < end:
            number, wire, value, after = _field(data, position, end)
            if after < 0:
                return _NOT_HERE
            position = after
            slot = slots[number] if number < slots.shape[0] else -1
            if slot < 0 or not repeated[slot]:
                continue
            if wire == wires[slot]:
                if first[slot] >= limits[slot]:
                    return _NOT_HERE
                values[first[slot]] = value
                until[first[slot]] = after
                first[slot] += 1
            elif wire == BYTES:
                at = np.int64(value)
                while at < after:
                    if wires[slot] == VARINT:
                        value, at = _varint(data, at, after)
                        if at < 0:
                            return _NOT_HERE
                    else:
                        width = 8 if wires[slot] == FIXED64 else 4
                        value = _fixed(data, at, width)
                        at += width
                    if first[slot] >= limits[slot]:
                        return _NOT_HERE
                    values[first[slot]] = value
                    first[slot] += 1
    return 0


def _gather_py(data: Any, starts: Any, ends: Any, offsets: Any, out: Any) -> None:
    """The ranges of `data`, one after another; `offsets` has the start of each."""
    for row in range(starts.shape[0]):
        copy_bytes(out, offsets[row], data, starts[row], ends[row] - starts[row])


scan = as_kernel(_scan_py)
elements = as_kernel(_elements_py)
gather = as_kernel(_gather_py)
