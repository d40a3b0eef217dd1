"""Java's habits that show in the output of Kafka's tools: the order of hash maps, and the format of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from barnabas.model.ids import TopicPartition
from barnabas.model.java_hash import string_hash

T = TypeVar("T")

_LOAD: Final = 0.75


def partition_hash(topic_partition: TopicPartition) -> int:
    """``TopicPartition.hashCode``."""
    return (31 * (31 + topic_partition.partition) + string_hash(topic_partition.topic)) & 0xFFFFFFFF


def hash_of(key: object) -> int:
    if isinstance(key, TopicPartition):
        return partition_hash(key)
    if isinstance(key, int):
        return key & 0xFFFFFFFF
    return string_hash(str(key)) & 0xFFFFFFFF


def in_hash_order(keys: Iterable[T], hashed: Callable[[T], int] = hash_of, *, sized_for: int = 0) -> list[T]:
    """The keys in the order of a ``HashMap`` or ``HashSet`` into which they were put one by one.

    A bucket keeps the order of arrival, even when the table doubles; it doubles when it is three quarters full.
    `sized_for` is the number of entries for which the table was made; 0 for Java's default.
    """
    unique = list(dict.fromkeys(keys))
    capacity = 16
    if sized_for:
        capacity = 1
        while capacity < sized_for:
            capacity *= 2
    while len(unique) > capacity * _LOAD:
        capacity *= 2

    def bucket(key: T) -> int:
        value = hashed(key)
        return (value ^ value >> 16) & (capacity - 1)

    return sorted(unique, key=bucket)


def double(value: float) -> str:
    """``Double.toString``: at least one digit after the point; an exponent from 10^7 on and below 10^-3."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = repr(abs(value)).replace(".", "").lstrip("0").rstrip("0") or "0"
        power = len(str(int(abs(value)))) - 1 if abs(value) >= 1 else int(f"{value:e}".partition("e")[2])
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
