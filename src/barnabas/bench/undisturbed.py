"""Measurements on a virtual machine, whose host sometimes gives its cores to others.

Such a pause lasts a millisecond or more, five times the time of a small request. If it hits one request in a hundred,
the p99 shows the host and not the broker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeVar

Outcome = TypeVar("Outcome")

ATTEMPTS: Final = 6
STOLEN_MAX: Final = 0.01
"""The share of all cores' time that the host may take."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STEAL: Final = 8
"""The field of stolen time in the first line of ``/proc/stat``, which begins with ``cpu`` and sums up all cores."""


def stolen_s() -> float:
    """Seconds of this machine's cores that its host has given to others so far; 0 without a host."""
    return int(Path("/proc/stat").read_text().split(maxsplit=_STEAL + 1)[_STEAL]) / _TICKS


def _nothing() -> None:
    """The default: prepares nothing."""


def undisturbed(
    measure: Callable[[], Outcome],
    prepare: Callable[[], None] = _nothing,
    stolen_s: Callable[[], float] = stolen_s,
    now_s: Callable[[], float] = time.monotonic,
) -> Outcome:
    """The result of `measure` from the first attempt in which the host took at most `STOLEN_MAX` of the cores, or else
    from the least disturbed of `ATTEMPTS` attempts. Each attempt begins with `prepare`, which is not measured."""
    attempts: list[tuple[float, Outcome]] = []
    while len(attempts) < ATTEMPTS:
        prepare()
        stolen, begun = stolen_s(), now_s()
        outcome = measure()
        share = (stolen_s() - stolen) / (now_s() - begun) / (os.cpu_count() or 1)
        attempts.append((share, outcome))
        if share <= STOLEN_MAX:
            break
    return min(attempts, key=itemgetter(0))[1]
