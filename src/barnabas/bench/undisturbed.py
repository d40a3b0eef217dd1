"""Measurements on a virtual machine, whose host gives its cores to others now and then.

Such a pause is a millisecond or more, five times what a small request takes: where it strikes one in a hundred, the p99
is the host's and not the broker's.
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
"""Where ``/proc/stat`` has it in its first line, which begins with ``cpu`` and sums up all cores."""


def stolen_s() -> float:
    """Seconds of this machine's cores that its host has given to others so far; 0 where there is no host."""
    return int(Path("/proc/stat").read_text().split(maxsplit=_STEAL + 1)[_STEAL]) / _TICKS


def _nothing() -> None:
    """There is nothing to prepare."""


def undisturbed(
    measure: Callable[[], Outcome],
    prepare: Callable[[], None] = _nothing,
    stolen_s: Callable[[], float] = stolen_s,
    now_s: Callable[[], float] = time.monotonic,
) -> Outcome:
    """What `measure` returns when the host took no more than `STOLEN_MAX` of the cores meanwhile, or the least of
    `ATTEMPTS` attempts. Each begins with `prepare`, which does not count."""
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
