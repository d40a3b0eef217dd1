"""Returns memory that a server no longer needs to the system.

Three parts of a process keep freed memory. Python's collector scans its oldest generation only when a quarter as many
objects have newly survived: in an idle process, cycles stay forever, such as an exception with its traceback and the
request in it. Small objects lie in slabs, whose pages go back when they are empty (the kernel's ``slabs``, where it was
built). And glibc keeps freed memory in the middle of its heap: after four thousand groups with 100 KB each had come and
gone, a broker stayed as large as with them.

When a process has been larger for a while, by `GROWTH_BYTES`, than after the last cleaning, all three are cleaned
(``gc.collect``, ``malloc_trim``). The cost is bounded:

- The collector takes 0.3 s for a broker with five thousand partitions, so a busy process skips it if it would scan more
  than `LOOKED_AT_MAX` objects.
- Trimming the heap takes 0.3 ms for each megabyte. A busy process does it if a third of its resident memory (`WASTE`)
  has been free in the heap all the while.
- Either is followed by a rest of `REST` times its CPU time, up to `REST_MAX_S`. (By the clock it would soon be a second
  on a busy machine, and minutes of rest.)
- A process with little to do returns each time as much as takes a few milliseconds (`Heap.sweep`); otherwise up to
  `GROWTH_BYTES` of each part would stay forever.
- It collects up to `LOOKED_AT_MAX` objects once each time that it becomes idle (`LOOKS`). That also empties CPython's
  free lists: they keep up to 2,000 tuples of each length, and each may be the last object in its page.

Two sizes count: the resident memory, and the unused part of it, since memory that was in use at the last cleaning may
be free now while the process is no larger. Python's own arenas have only objects from before there were slabs.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

logger = logging.getLogger(__name__)

GROWTH_BYTES: Final = 4 << 20
INTERVAL_S: Final = 5.0
LOOKS: Final = 4
"""How many times in a row the process has to be larger before it acts."""
BUSY: Final = 0.25
"""The share of a core, used or waited for, above which a process counts as busy."""
LOOKED_AT_MAX: Final = 200_000
"""How many objects the collector looks at, at most, while the process is busy."""
WASTE: Final = 1 / 3
"""The share of resident memory that must be free before a busy process gives it back."""
REST: Final = 100
REST_MAX_S: Final = 20.0
"""A collection among millions of live objects takes seconds. After this pause an idle process may do another."""
LARGE_BYTES: Final = 4 << 20
"""Ordinary requests are smaller: mappings of their own, page by page, would be expensive for them."""
KEPT_BYTES: Final = 64 << 20
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


class _MallInfo(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    ]


class KernelFigures:
    """A file of the operating system's kernel about this process. It stays open, so that it can be read even when
    connections have taken all descriptors."""

    def __init__(self, name: str) -> None:
        self._descriptor = os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> list[int]:
        return [int(figure) for figure in os.pread(self._descriptor, 256, 0).split()]


class Heap:
    """glibc's heap, by its own figures, and the slabs of small objects (the kernel's ``slabs``)."""

    def __init__(self, slabs: Callable[[int], int] | None = None) -> None:
        self._slabs = slabs or (lambda back: -1)
        self._pages = KernelFigures("statm")
        self._scheduled: KernelFigures | None = None
        with suppress(OSError):  # not every kernel has the file
            self._scheduled = KernelFigures("schedstat")
        libc = ctypes.CDLL(None)
        self._trim = libc.malloc_trim
        self._option: Callable[[int, int], int] = libc.mallopt
        self._info: Callable[[], _MallInfo] = libc.mallinfo2
        libc.mallinfo2.restype = _MallInfo
        self._slabs(0)

    def used_bytes(self) -> int:
        """Bytes allocated and not freed, without those in mappings of their own."""
        return int(self._info().uordblks) + max(self._slabs(0), 0)

    def wanted_s(self) -> float:
        """Seconds of CPU that the process has used, or its first thread has used and waited for: on an overloaded
        machine a busy process may get as little as an idle one takes."""
        if self._scheduled is None:
            return time.process_time()
        had_ns, waited_ns, _ = self._scheduled.read()
        return max(time.process_time(), (had_ns + waited_ns) / 1e9)

    def sweep(self) -> None:
        """Gives back memory that costs next to nothing: of young cycles, empty slabs, free pages."""
        gc.collect(1)
        self._slabs(1)
        self._trim(0)

    def resident_bytes(self) -> int:
        return self._pages.read()[1] * os.sysconf("SC_PAGE_SIZE")

    def keep_large_apart(self) -> None:
        """Gives blocks from `LARGE_BYTES` on mappings of their own, which go back when they are freed.

        By default glibc raises this limit when a block is freed: after the first request of 16 MiB such requests lie in
        the heap, which lasting objects above them keep from shrinking.
        """
        self._option(_M_MMAP_THRESHOLD, LARGE_BYTES)
        self._option(_M_TRIM_THRESHOLD, KEPT_BYTES)  # the value that glibc would adapt to

    def trim(self) -> None:
        self._slabs(1)
        self._trim(0)


def heap(slabs: Callable[[int], int] | None = None) -> Heap | None:
    """The process's heap; None for another C library, or a glibc older than 2.33."""
    try:
        return Heap(slabs)
    except (OSError, AttributeError):
        return None


async def give_memory_back(known: Heap) -> None:
    """Watches the process, and gives memory back, until it is cancelled."""
    known.keep_large_apart()

    def sizes() -> tuple[int, int]:
        resident = known.resident_bytes()
        return resident, resident - known.used_bytes()

    least = sizes()
    looks = quiet_looks = 0
    worked_meanwhile = False
    rest_s = 0.0
    while True:
        began, wanted = time.monotonic(), known.wanted_s()
        await asyncio.sleep(INTERVAL_S + rest_s)
        rest_s = 0.0
        share = BUSY * (time.monotonic() - began)
        wanted_s = known.wanted_s() - wanted
        quiet_looks = quiet_looks + 1 if wanted_s <= share else 0
        if quiet_looks:
            if quiet_looks == LOOKS and len(gc.get_objects()) <= LOOKED_AT_MAX:
                gc.collect()
            known.sweep()
        resident, unused = sizes()
        larger = resident >= least[0] + GROWTH_BYTES or unused >= least[1] + GROWTH_BYTES
        # The objects are counted only if it matters: the count makes a list of all of them.
        busy = larger and wanted_s > share and len(gc.get_objects()) > LOOKED_AT_MAX
        wasted = unused - least[1] >= WASTE * resident
        least = min(resident, least[0]), min(unused, least[1])
        worked_meanwhile = busy or (worked_meanwhile and looks > 0)
        looks = looks + 1 if larger and (wasted or not worked_meanwhile) else 0
        if looks >= LOOKS:
            worked = time.thread_time()
            if not worked_meanwhile:
                gc.collect()
            known.trim()
            rest_s = min(REST * (time.thread_time() - worked), REST_MAX_S)
            after = sizes()
            # Objects that the collector has not examined still count as growth once the process is less busy.
            least = least[0] if worked_meanwhile else after[0], after[1]
            looks = 0
            logger.info("%.0f MB that nobody needed went back to the system", (resident - after[0]) / 1e6)
