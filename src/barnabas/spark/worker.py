"""Settings of a Python worker that make its later tasks cheaper.

Spark's worker collects all garbage after each task and scans every object: with numpy, pyarrow and numba loaded, that
was two thirds of the cost of a stream's tasks. So objects of imported libraries are excluded from the collection.

glibc returns the memory of an answer and of its columns to the system when they are freed, and the next ones take new
memory page by page: that was a sixth of a reading worker's CPU. So freed memory is kept for the next answer, which is
as large.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from typing import Final

KEPT_BYTES: Final = 128 << 20
"""How much free memory a worker keeps: for a few fetch answers, each with its columns."""
APART_BYTES: Final = 32 << 20
"""Larger blocks have mappings of their own, which go back when they are freed; glibc takes no more than this."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

_modules_kept = 0


def keep_libraries() -> None:
    """Keeps all present objects out of later collections, if more was imported since the last call.

    Called at the beginning of a task: there is no garbage then.
    """
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        gc.freeze()
        _modules_kept = len(sys.modules)


@cache
def keep_memory() -> None:
    """Keeps freed memory, up to `KEPT_BYTES`, if glibc manages it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, APART_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
