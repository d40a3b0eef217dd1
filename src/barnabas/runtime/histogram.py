"""Histograms of durations: plain integers, counted as things happen and read on request.

Buckets double, from a microsecond on, so that an observation costs a shift and two additions, and no object.
"""

from __future__ import annotations

from array import array
from operator import add
from typing import Final

BUCKETS: Final = 36
"""The last bucket is for nine hours or more."""


class Histogram:
    """Durations. ``buckets[n]`` counts those of less than 2**n microseconds that are in no bucket before it."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = array("q", bytes(8 * BUCKETS))
        self.total_ns = 0

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def observe(self, duration_ns: int, weight: int = 1) -> None:
        """Counts a duration; `weight` is the number that it stands for, if only one of several is measured."""
        at = (duration_ns // 1000).bit_length()
        self.buckets[at if at < BUCKETS else -1] += weight
        self.total_ns += duration_ns * weight

    def observe_ms(self, duration_ms: int) -> None:
        self.observe(duration_ms * 1_000_000)

    def add(self, other: Histogram) -> None:
        self.buckets = array("q", map(add, self.buckets, other.buckets))
        self.total_ns += other.total_ns
