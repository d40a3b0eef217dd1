"""The findings of a check, and the common forms of their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SHOWN_MAX: Final = 5
"""How many items of a long list a sentence names."""

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, order=True)
class ZnodeFinding:
    """One finding: the rule's name, the znode, what is wrong with it, and how to repair it."""

    rule: str
    path: str
    problem: str
    fix: str


def listed(things: Sequence[object]) -> str:
    """``a, b, c and 7 more``."""
    shown = ", ".join(map(str, things[:SHOWN_MAX]))
    more = len(things) - SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def agreed(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def duration(milliseconds: int) -> str:
    """The largest whole unit: ``40 s``, ``3 min``, ``5 h``, ``2 days``."""
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            amount = seconds // length
            return counted(amount, unit) if unit == "day" else f"{amount} {unit}"
    return f"{seconds} s"
