"""Compiled encoding of records (numba): from the buffers of Arrow columns to the records of a batch of magic 2.

The counterpart of `kernels`, with its rules: plain loops, no objects; `sink_encoding` owns the buffers. A column of
bytes comes as three arrays: data, where each row's bytes begin, and how many they are (-1 for null).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from barnabas.spark.kernels import as_kernel, copy_bytes

POSITION: Final = 0
COUNT: Final = 1
BASE_TIMESTAMP: Final = 2
MAX_TIMESTAMP: Final = 3
NEEDED: Final = 4
STATE_FIELDS: Final = 5
"""The state of an open batch: the next record's position, the number of records, the timestamps (ms) of the first and
the latest, and the bytes of the record that found no room."""


def _size_py(number: Any) -> Any:
    """Bytes of the zigzag varint of `number`."""
    left = (number << 1) ^ (number >> 63)
    size = 1
    while left >= 0x80:
        left >>= 7
        size += 1
    return size


def _put_py(buffer: Any, position: int, number: Any) -> Any:
    """Writes the zigzag varint of `number`; returns the position after it."""
    left = (number << 1) ^ (number >> 63)
    while left >= 0x80:
        buffer[position] = np.uint8((left & 0x7F) | 0x80)
        left >>= 7
        position += 1
    buffer[position] = np.uint8(left)
    return position + 1


_size = njit(nogil=True, inline="always")(_size_py)
_put = njit(nogil=True, inline="always")(_put_py)


def _encode_py(
    rows: Any,
    first: int,
    timestamps: Any,
    keys: Any,
    key_starts: Any,
    key_lengths: Any,
    values: Any,
    value_starts: Any,
    value_lengths: Any,
    tails: Any,
    tail_ends: Any,
    buffer: Any,
    state: Any,
) -> Any:
    """Appends `rows[first:]` while there is room; returns the index of the first row that found none.

    `tails` are the rows' headers as `encode_headers` makes them; empty where no row has any.
    """
    limit = buffer.shape[0]
    has_tails = tails.shape[0] > 0
    position = state[POSITION]
    count = state[COUNT]
    base_timestamp = state[BASE_TIMESTAMP]
    max_timestamp = state[MAX_TIMESTAMP]
    number = first
    while number < rows.shape[0]:
        row = rows[number]
        timestamp = timestamps[row]
        delta = timestamp - base_timestamp if count else 0
        key_length = np.int64(key_lengths[row])
        value_length = np.int64(value_lengths[row])
        tail_from = np.int64(tail_ends[row]) if has_tails else 0
        tail_length = tail_ends[row + 1] - tail_from if has_tails else 1
        length = (
            1
            + _size(delta)
            + _size(count)
            + _size(key_length)
            + max(key_length, 0)
            + _size(value_length)
            + max(value_length, 0)
            + tail_length
        )
        needed = _size(length) + length
        if position + needed > limit:
            state[NEEDED] = needed
            break
        position = _put(buffer, position, length)
        buffer[position] = 0
        position = _put(buffer, position + 1, delta)
        position = _put(buffer, position, count)
        position = _put(buffer, position, key_length)
        if key_length > 0:
            copy_bytes(buffer, position, keys, key_starts[row], key_length)
            position += key_length
        position = _put(buffer, position, value_length)
        if value_length > 0:
            copy_bytes(buffer, position, values, value_starts[row], value_length)
            position += value_length
        if has_tails:
            copy_bytes(buffer, position, tails, tail_from, tail_length)
        else:
            buffer[position] = 0
        position += tail_length
        if count == 0:
            base_timestamp = timestamp
            max_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
        number += 1
    state[POSITION] = position
    state[COUNT] = count
    state[BASE_TIMESTAMP] = base_timestamp
    state[MAX_TIMESTAMP] = max_timestamp
    return number


def _encode_headers_py(
    counts: Any,
    names: Any,
    name_starts: Any,
    name_lengths: Any,
    values: Any,
    value_starts: Any,
    value_lengths: Any,
    tails: Any,
    tail_ends: Any,
) -> None:
    """The end of each record: the number of headers, then each one's name and value. `tails` has room for all."""
    position = 0
    entry = 0
    for row in range(counts.shape[0]):
        position = _put(tails, position, np.int64(counts[row]))
        for _ in range(counts[row]):
            length = np.int64(name_lengths[entry])
            position = _put(tails, position, length)
            copy_bytes(tails, position, names, name_starts[entry], length)
            position += length
            length = np.int64(value_lengths[entry])
            position = _put(tails, position, length)
            if length > 0:
                copy_bytes(tails, position, values, value_starts[entry], length)
                position += length
            entry += 1
        tail_ends[row + 1] = position


def _group_py(targets: Any, rows: Any, ends: Any) -> None:
    """The rows of each target in their order, one target after another; -1 is the first target."""
    ends[:] = 0
    for row in range(targets.shape[0]):
        ends[targets[row] + 2] += 1
    for index in range(1, ends.shape[0]):
        ends[index] += ends[index - 1]
    # A target's beginning becomes its end when all its rows are placed.
    for row in range(targets.shape[0]):
        at = targets[row] + 1
        rows[ends[at]] = row
        ends[at] += 1


encode = as_kernel(_encode_py)
encode_headers = as_kernel(_encode_headers_py)
group = as_kernel(_group_py)
