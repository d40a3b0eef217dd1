"""The system's figures of this process, read in the cheapest way.

`prometheus_client`'s collector reads ``/proc/self/stat``, for which the kernel visits every thread, and lists every
descriptor: half a millisecond in one piece on a broker with few connections. A figure that a system does not have
raises `OSError`.
"""

from __future__ import annotations

import os
import resource
import time
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

from barnabas.runtime.memory import KernelFigures

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_DESCRIPTORS: Final = "/proc/self/fd"


def virtual_memory_bytes() -> int:
    return _pages(0) * _PAGE_BYTES


def resident_memory_bytes() -> int:
    return _pages(1) * _PAGE_BYTES


@cache
def _sizes() -> KernelFigures:
    return KernelFigures("statm")


def _pages(column: int) -> int:
    return _sizes().read()[column]


def cpu_seconds() -> float:
    """CPU time of all threads, in user and in kernel mode."""
    return time.process_time()


def open_descriptors() -> int:
    """Since 6.2 Linux gives the number of descriptors as the directory's size; before that the size is 0."""
    return os.stat(_DESCRIPTORS).st_size or len(os.listdir(_DESCRIPTORS))


def most_descriptors() -> float:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if most == resource.RLIM_INFINITY else most


@cache
def began_s() -> float:
    """The process's start, in seconds since the epoch; found once, so that its cost does not matter."""
    for family in ProcessCollector(registry=CollectorRegistry()).collect():
        if family.name == "process_start_time_seconds":
            return float(family.samples[0].value)
    raise OSError("This system does not tell when a process began.")
