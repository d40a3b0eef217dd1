"""Lines of Prometheus' text, kept from one scrape to the next, since most of them do not change.

The series of one lot are written together. The lot's names, labels and the places of its numbers are bytes that are
made once; only lines with changed numbers are written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from barnabas.web.metrics import Kind

KEPT_LINES: Final = 20_000
"""The most kept lines, of 200 bytes each with their parts: a kind of request has 170 of them, a partition 11."""
FIRST_BUCKET: Final = 5
LAST_BUCKET: Final = 25
"""The buckets go from 0.032 ms to 33.6 s; shorter times count in the first one, longer ones in the last."""
BOUNDS: Final = tuple(f"{2**at / 1000:g}" for at in range(FIRST_BUCKET, LAST_BUCKET + 1))

_escapes: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Lines:
    """The lines of one lot under one or several names; only the names and the numbers differ."""

    __slots__ = ("_keeps", "_parts", "_told", "lot")

    def __init__(self, lot: Sequence[Any], parts: Iterable[str], *, keeps: bool) -> None:
        """Each of `parts` follows a name; it contains a ``%`` format for the number."""
        self.lot = lot
        self._parts = [b"", *(part.encode() for part in parts)]
        self._keeps = keeps
        self._told: dict[str, tuple[Sequence[int | float], bytes]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def told(self, name: str, numbers: Sequence[int | float], *, histogram: bool = False) -> bytes:
        """The text with these `numbers`. A histogram's numbers are its buckets and the sum in nanoseconds."""
        kept = self._told.get(name)
        if kept is not None and kept[0] == numbers:
            return kept[1]
        text = name.encode().join(self._parts) % (_cumulative(numbers) if histogram else (*numbers,))
        if self._keeps:
            self._told[name] = numbers, text
        return text


class KeptLines:
    """The lines of a scrape, which starts with those of the scrape before."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Lines] = {}
        self._now: dict[Hashable, Lines] = {}
        self._room = KEPT_LINES

    def of(
        self, key: Hashable, lot: Sequence[Any], parts: Callable[[Sequence[Any]], Iterable[str]], names: int = 1
    ) -> Lines:
        """The lines of `lot`, which `key` identifies."""
        lines = self._before.get(key)
        if lines is None or lines.lot != lot:
            lines = Lines(lot, parts(lot), keeps=self._room > 0)
        if self._room > 0:
            self._now[key] = lines
            self._room -= len(lines) * names
        return lines

    def forget(self) -> None:
        """Drops the lines of all scrapes so far."""
        self._before, self._now, self._room = {}, {}, KEPT_LINES

    def end(self) -> None:
        """Ends a scrape: lines that it did not use are dropped."""
        self._before, self._now, self._room = self._now, {}, KEPT_LINES


def head(name: str, kind: Kind, help_: str) -> str:
    return f"# HELP {name} {help_}\n# TYPE {name} {kind.value}\n"


def parts(kind: Kind, labels: tuple[str, ...], values: tuple[str | int, ...]) -> list[str]:
    """The part after the name in each line of one series, with a ``%`` format for its number."""
    pairs = zip(labels, values, strict=True)
    # A label without a value is left out.
    inner = ",".join(f'{label}="{str(value).translate(_escapes)}"' for label, value in pairs if value != "")
    inner = inner.replace("%", "%%")
    outer = f"{{{inner}}}" if inner else ""
    if kind is Kind.HISTOGRAM:
        before = f"{inner}," if inner else ""
        buckets = [f'_bucket{{{before}le="{bound}"}} %d\n' for bound in (*BOUNDS, "+Inf")]
        return [*buckets, f"_count{outer} %d\n", f"_sum{outer} %a\n"]
    if kind is Kind.SUMMARY:
        return [f"_count{outer} %a\n", f"_sum{outer} %a\n"]
    return [f"{outer} %a\n"]


def _cumulative(numbers: Sequence[int | float]) -> tuple[int | float, ...]:
    """The counts up to each of `BOUNDS` and +Inf, the count, and the sum in milliseconds."""
    *counts, total_ns = numbers
    counts = [*accumulate(counts)]
    return *counts[FIRST_BUCKET : LAST_BUCKET + 1], counts[-1], counts[-1], total_ns / 1_000_000
