"""The broker's process and its Python, by the names that `prometheus_client` gives them."""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable, Iterator
from typing import Final

from barnabas.broker.server import Broker
from barnabas.runtime import process_figures as figures
from barnabas.web.metrics import Kind, Metric, Reading


def _metric(kind: Kind, name: str, help_: str, read: Callable[[], float]) -> Metric:
    def readings(_: Broker) -> Iterator[Reading]:
        try:
            yield (), read()
        except OSError:  # this system has no such figures
            return

    return Metric(f"process_{name}", kind, (), "", help_, readings)


def _collector(name: str, help_: str, figure: str) -> Metric:
    def readings(_: Broker) -> Iterator[Reading]:
        for generation, counts in enumerate(gc.get_stats()):
            yield (str(generation),), counts[figure]

    return Metric(f"python_gc_{name}", Kind.COUNTER, ("generation",), "", help_, readings)


_version: Final = platform.python_version_tuple()
_PLATFORM: Final = {
    "implementation": platform.python_implementation(),
    "major": _version[0],
    "minor": _version[1],
    "patchlevel": _version[2],
    "version": platform.python_version(),
}


PROCESS_METRICS: Final = (
    _metric(Kind.GAUGE, "virtual_memory_bytes", "Virtual memory size in bytes.", figures.virtual_memory_bytes),
    _metric(Kind.GAUGE, "resident_memory_bytes", "Resident memory size in bytes.", figures.resident_memory_bytes),
    _metric(
        Kind.GAUGE, "start_time_seconds", "Start time of the process since unix epoch in seconds.", figures.began_s
    ),
    _metric(Kind.COUNTER, "cpu_seconds", "Total user and system CPU time spent in seconds.", figures.cpu_seconds),
    _metric(Kind.GAUGE, "max_fds", "Maximum number of open file descriptors.", figures.most_descriptors),
    _metric(Kind.GAUGE, "open_fds", "Number of open file descriptors.", figures.open_descriptors),
    _collector("objects_collected", "Objects collected during gc", "collected"),
    _collector("objects_uncollectable", "Uncollectable objects found during GC", "uncollectable"),
    _collector("collections", "Number of times this generation was collected", "collections"),
    Metric(
        "python_info",
        Kind.GAUGE,
        (*_PLATFORM,),
        "",
        "Python platform information",
        lambda broker: [((*_PLATFORM.values(),), 1)],
    ),
)
