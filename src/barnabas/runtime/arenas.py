"""Bounds the arenas of Python's small objects, so that what a process needed for a while can go back.

An arena goes back to the system only when all of its objects are gone (`barnabas.runtime.small_objects`). Where many
small requests are under way at once, their objects fill arenas among which something stays, and each keeps its
megabyte. So a process that is ready may have `ARENAS` more, and objects for which they have no room come from malloc,
as CPython does by itself where the system gives no memory for an arena. What is free in the arenas is used first:
ordinary requests live there. A process that grows for good gets one more arena at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ARENAS: Final = 16
"""How many arenas a process may have beyond those that it has when it is ready."""
BUSY_LOOKS: Final = 60
"""After how many looks at which an arena was refused a busy process gets one more; another gets it at once."""


class Arenas:
    """Those of this process. `more_arenas` is the kernel's ``arenas``: how many more there may be from now on; it
    returns how often one was refused since it was called last."""

    def __init__(self, more_arenas: Callable[[int], int]) -> None:
        self._more_arenas = more_arenas
        self._bounded = False
        self._refused = 0

    def bound(self) -> None:
        if not self._bounded:
            self._bounded = True
            self._more_arenas(ARENAS)

    def look(self, *, busy: bool) -> None:
        """To be called every few seconds."""
        if self._bounded and self._more_arenas(0):
            self._refused += 1
            if not busy or self._refused >= BUSY_LOOKS:
                self._refused = 0
                self._more_arenas(1)
