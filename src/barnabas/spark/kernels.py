"""Compiled decoding of record batches by numba: from unpacked records of magic 2 to the buffers of Arrow columns.

It is used where the extension in C, which does the same, was not built (`record_columns`).

One call decodes many batches: a call costs ten microseconds, a record less than a tenth of one. The functions are
written for the compiler, with plain loops and no objects; `arrow` owns the buffers and knows what they mean. The first
use on a machine compiles for some seconds, later ones load what numba has kept in its cache directory.

`decode` returns the number of records it wrote, or one of the negative numbers of `record_columns.FAULTS`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from barnabas.spark.record_columns import NO_APPEND_TIME

_END_TOO_EARLY: Final = -1
_FIELDS_AMISS: Final = -2
_BYTES_LEFT: Final = -3
_HEADER_COUNT: Final = -4


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    """LLVM's memcpy: twice as fast as a loop over bytes."""
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0])
        of = context.make_array(signature.args[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(
            builder,
            builder.gep(to.data, [arguments[1]]),
            builder.gep(of.data, [arguments[3]]),
            arguments[4],
            1,
        )
        return context.get_dummy_value()

    return signature, generate


def _signed_py(source: Any, position: int, end: int) -> Any:
    """A zigzag varint and the position after it; position -1 if it does not end before `end`."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = source[position]
        position += 1
        number |= np.uint64(byte & np.uint8(0x7F)) << shift
        if byte < 0x80:
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), position
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), np.int64(-1)


_signed = njit(nogil=True, inline="always")(_signed_py)


def _decode_py(
    source: Any,
    sections: Any,
    first: int,
    end: int,
    with_keys: bool,
    with_values: bool,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    key_ends: Any,
    keys: Any,
    key_validity: Any,
    value_ends: Any,
    values: Any,
    value_validity: Any,
    header_positions: Any,
    header_counts: Any,
    totals: Any,
) -> Any:
    row = 0
    key_at = 0
    value_at = 0
    null_keys = 0
    null_values = 0
    all_headers = 0
    bare = 0
    for number in range(sections.shape[0]):
        position = sections[number, 0]
        section_end = sections[number, 1]
        base_offset = sections[number, 3]
        base_timestamp = sections[number, 4]
        append_time = sections[number, 5]
        for _ in range(sections[number, 2]):
            length, position = _signed(source, position, section_end)
            if position < 0 or length < 0 or length > section_end - position:
                return _END_TOO_EARLY
            record_end = position + length
            timestamp, position = _signed(source, position + 1, record_end)
            if position < 0:
                return _END_TOO_EARLY
            delta, position = _signed(source, position, record_end)
            if position < 0:
                return _END_TOO_EARLY
            key_length, key_from = _signed(source, position, record_end)
            if key_from < 0:
                return _END_TOO_EARLY
            if key_length > record_end - key_from:
                return _FIELDS_AMISS
            position = key_from + max(key_length, 0)
            value_length, value_from = _signed(source, position, record_end)
            if value_from < 0:
                return _END_TOO_EARLY
            if value_length > record_end - value_from:
                return _FIELDS_AMISS
            position = value_from + max(value_length, 0)
            header_count, position = _signed(source, position, record_end)
            if position < 0:
                return _END_TOO_EARLY
            if header_count < 0 or header_count > record_end - position:
                return _HEADER_COUNT
            if header_count == 0 and position != record_end:
                return _FIELDS_AMISS
            header_from = position
            position = record_end
            offset = base_offset + delta
            if offset < first or offset >= end:
                continue
            offsets[row] = offset
            timestamps[row] = (base_timestamp + timestamp if append_time == NO_APPEND_TIME else append_time) * 1000
            timestamp_types[row] = sections[number, 6]
            if with_keys:
                if key_length >= 0:
                    copy_bytes(keys, key_at, source, key_from, key_length)
                    key_at += key_length
                    key_validity[row >> 3] |= np.uint8(1 << (row & 7))
                else:
                    null_keys += 1
                key_ends[row + 1] = key_at
            if with_values:
                if value_length >= 0:
                    copy_bytes(values, value_at, source, value_from, value_length)
                    value_at += value_length
                    value_validity[row >> 3] |= np.uint8(1 << (row & 7))
                else:
                    null_values += 1
                value_ends[row + 1] = value_at
            header_positions[row] = header_from
            header_counts[row] = header_count
            all_headers += header_count
            if header_count == 0:
                bare += 1
            row += 1
        if position != section_end:
            return _BYTES_LEFT
    totals[0] = key_at
    totals[1] = null_keys
    totals[2] = value_at
    totals[3] = null_values
    totals[4] = all_headers
    totals[5] = bare
    return row


def _headers_py(
    source: Any,
    rows: int,
    positions: Any,
    counts: Any,
    list_ends: Any,
    list_validity: Any,
    name_ends: Any,
    names: Any,
    value_ends: Any,
    values: Any,
    value_validity: Any,
    totals: Any,
) -> Any:
    """Copies the headers that `decode` has counted; checks their lengths against the source and the buffers."""
    number = 0
    name_at = 0
    value_at = 0
    null_values = 0
    size = source.shape[0]
    for row in range(rows):
        position = positions[row]
        if counts[row] > 0:
            list_validity[row >> 3] |= np.uint8(1 << (row & 7))
        for _ in range(counts[row]):
            length, position = _signed(source, position, size)
            if position < 0 or length < 0 or length > size - position:
                return _FIELDS_AMISS
            if length > names.shape[0] - name_at:
                return _FIELDS_AMISS
            copy_bytes(names, name_at, source, position, length)
            position += length
            name_at += length
            name_ends[number + 1] = name_at
            length, position = _signed(source, position, size)
            if position < 0 or length > size - position:
                return _FIELDS_AMISS
            if length >= 0:
                if length > values.shape[0] - value_at:
                    return _FIELDS_AMISS
                copy_bytes(values, value_at, source, position, length)
                position += length
                value_at += length
                value_validity[number >> 3] |= np.uint8(1 << (number & 7))
            else:
                null_values += 1
            value_ends[number + 1] = value_at
            number += 1
        list_ends[row + 1] = number
    totals[0] = name_at
    totals[1] = value_at
    totals[2] = null_values
    return number


def as_kernel(function: Any) -> Any:
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable directory: every process compiles for itself
        return njit(nogil=True)(function)


decode = as_kernel(_decode_py)
decode_headers = as_kernel(_headers_py)
