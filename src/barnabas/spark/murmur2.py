"""Kafka's murmur2 over an Arrow column of keys, all at once."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

_M = numpy.uint32(0x5BD1E995)
_SEED = 0x9747B28C


def positive_murmur2(keys: pyarrow.BinaryArray) -> Any:
    """The hash that Kafka's partitioner divides by the partition count, as an int32 column; 0 for a null key.

    The same as `barnabas.client.partitioner.murmur2`, without its sign bit.
    """
    offsets = numpy.frombuffer(keys.buffers()[1], dtype=numpy.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = numpy.frombuffer(keys.buffers()[2] or b"", dtype=numpy.uint8).astype(numpy.uint32)
    starts = offsets[:-1].astype(numpy.int64)
    lengths = offsets[1:].astype(numpy.int64) - starts
    hashed = numpy.uint32(_SEED) ^ lengths.astype(numpy.uint32)
    words = lengths // 4
    for word in range(int(numpy.max(words, initial=0))):
        has = numpy.flatnonzero(words > word)
        at = starts[has] + 4 * word
        k = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        k *= _M
        k ^= k >> 24
        k *= _M
        hashed[has] = hashed[has] * _M ^ k
    rest = lengths % 4
    for byte in (2, 1, 0):
        has = numpy.flatnonzero(rest > byte)
        hashed[has] ^= data[starts[has] + 4 * words[has] + byte] << numpy.uint32(8 * byte)
    has = numpy.flatnonzero(rest)
    hashed[has] *= _M
    hashed ^= hashed >> 13
    hashed *= _M
    hashed ^= hashed >> 15
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    return pyarrow.array(numpy.where(valid, hashed & 0x7FFFFFFF, 0).astype(numpy.int32))
