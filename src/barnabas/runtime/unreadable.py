"""Counts and logs stored things that cannot be read and are skipped.

Bytes from a disk, an internal topic or a znode may be wrong: a bit flips, or a newer version or a stranger wrote them.
As in Kafka, code that meets such a thing goes on without it, and reports it here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from barnabas.runtime.doors import Clock

logger = logging.getLogger(__name__)

LINES_MAX: Final = 10
"""How many lines of a kind are logged within `INTERVAL_MS`; further ones are only counted."""
INTERVAL_MS: Final = 60_000

Skip: TypeAlias = Callable[[str, str, object], None]
"""Notes one skipped item: its kind, its place, and why it cannot be read."""


def told(name: str, where: str, why: object) -> None:
    """A `Skip` that logs each item."""
    logger.warning("%s passed over, it cannot be read: %s: %s", name, where, why)


class _Kind:
    """The count of one kind, and how many of them were logged since `since_ms`."""

    __slots__ = ("count", "lines", "since_ms", "untold")

    def __init__(self, now_ms: int) -> None:
        self.count = 0
        self.lines = 0
        self.untold = 0
        self.since_ms = now_ms


class Unreadable:
    """One part's account of what it could not read. `kind` is a word for it, such as ``checkpoint``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many items of each kind were skipped so far."""
        return {name: kind.count for name, kind in sorted(self._kinds.items())}

    def skip(self, name: str, where: str, why: object) -> None:
        """Counts an item of this kind, and logs it unless there were many of late."""
        now_ms = self._clock.monotonic_ms()
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(now_ms)
        kind.count += 1
        if now_ms - kind.since_ms >= INTERVAL_MS:
            if kind.untold:
                logger.warning("%s: %d more could not be read and were passed over", name, kind.untold)
            kind.lines = kind.untold = 0
            kind.since_ms = now_ms
        if kind.lines == LINES_MAX:
            kind.untold += 1
            return
        kind.lines += 1
        told(name, where, why if kind.lines < LINES_MAX else f"{why}; the next ones are counted only")
