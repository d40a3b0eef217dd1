"""All chance in a run: streams of draws that come from the seed, split by name; and the hash that proves a run is the
same."""

from __future__ import annotations

import hashlib
import math
import random
import struct
import zlib
from collections.abc import Iterable, MutableSequence, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")


class Chance:
    """A stream of draws. Streams of different names are independent: one more draw in one leaves the others alone."""

    __slots__ = ("_random", "name", "seed")

    def __init__(self, seed: int, name: str) -> None:
        self.seed = seed
        self.name = name
        self._random = random.Random(f"{seed}/{name}")  # a str is hashed by SHA-512, whatever PYTHONHASHSEED is

    def stream(self, name: str) -> Chance:
        return Chance(self.seed, f"{self.name}/{name}")

    def whole(self, low: int, high: int) -> int:
        """A whole number, `low` <= n <= `high`."""
        return self._random.randint(low, high)

    def share(self) -> float:
        """0 <= x < 1."""
        return self._random.random()

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def one_of(self, items: Sequence[T]) -> T:
        return items[self._random.randrange(len(items))]

    def shuffle(self, items: MutableSequence[Any]) -> None:
        self._random.shuffle(items)

    def shuffled(self, items: Iterable[T]) -> list[T]:
        mixed = list(items)
        self._random.shuffle(mixed)
        return mixed

    def bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def exponential_ns(self, mean_ns: int) -> int:
        return round(-math.log(1.0 - self._random.random()) * mean_ns)


class EventHash:
    """A running hash over all events. Two runs of one seed are the same run exactly if their hashes are equal."""

    __slots__ = ("_hash", "pending")

    TURN: Final = struct.Struct(">qi").pack
    """Of a turn of the loop, which puts it into `pending` itself: when it is, and how many callbacks it has."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.pending: Final = bytearray()
        """What is to be hashed next: many events at once are hashed faster than one by one."""

    def event(self, now_ns: int, kind: str, detail: bytes = b"") -> None:
        pending = self.pending
        pending += _EVENT(now_ns, zlib.crc32(detail)) + kind.encode()
        if len(pending) > _HASHED_AT_ONCE:
            self._hash.update(pending)
            pending.clear()

    def hexdigest(self) -> str:
        self._hash.update(self.pending)
        self.pending.clear()
        return self._hash.hexdigest()[:32]


_EVENT: Final = struct.Struct(">qI").pack
_HASHED_AT_ONCE: Final = 16_384
"""In bytes."""
