"""CPU of this process and of all its descendants, ended ones included.

Spark's Python daemons ignore SIGCHLD: when their workers end, no process gets the workers' times, and the sum over
living processes falls. So each process is looked at again and again, and its last known time is kept.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas.bench.clusters import process_cpu_s

_INTERVAL_S: Final = 0.25
"""The most time of an ending process that is missed."""

_used: dict[tuple[int, int], float] = {}
"""CPU seconds by process id and start time."""
_lock: Final = threading.Lock()


def tree_cpu_s() -> float:
    """CPU seconds, user and system, of this process and of all its descendants that were ever seen."""
    with _lock:
        _look()
        return sum(_used.values())


@contextmanager
def watched() -> Iterator[None]:
    """Looks at living processes regularly: `tree_cpu_s` alone misses processes that start and end between two calls."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_INTERVAL_S):
            with _lock:
                _look()

    watcher = threading.Thread(target=watch, name="tree-cpu", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _look() -> None:
    parents: dict[int, int] = {}
    identities: dict[int, tuple[int, int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):  # ended meanwhile
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            parents[int(entry)] = int(fields[1])
            identities[int(entry)] = int(entry), int(fields[19])
    # A process that was seen once stays ours, even if its parent has ended and it has another one.
    ours = {os.getpid()} | {pid for pid, identity in identities.items() if identity in _used}
    grown = True
    while grown:
        grown = False
        for pid, parent in parents.items():
            if parent in ours and pid not in ours:
                ours.add(pid)
                grown = True
    for pid in ours:
        with contextlib.suppress(OSError):
            _used[identities[pid]] = process_cpu_s(pid)
