"""Which partition a record goes to: Kafka's murmur2 over the key, a sticky choice where there is no key. Pure."""

from __future__ import annotations

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's variant of murmur2 (``Utils.murmur2``), as an unsigned 32-bit number."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = k * _M & _MASK
        k ^= k >> 24
        k = k * _M & _MASK
        h = h * _M & _MASK
        h ^= k
    if length & 3:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition Kafka's default partitioner gives `key`: murmur2, made positive by dropping the sign bit."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
