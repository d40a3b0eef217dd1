"""CPU of this process and all below it, of those that have ended as well.

Spark's daemons of Python ignore SIGCHLD: the times of their workers go to nobody when these end, and the sum over the
processes that are there falls. So each process is looked at again and again, and what it had used counts for good.
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
"""How much at most of a process that ends is not seen."""

_used: dict[tuple[int, int], float] = {}
"""By process id and start, the seconds that it has had of the CPU."""
_lock: Final = threading.Lock()


def tree_cpu_s() -> float:
    """CPU seconds, user and system, of this process and of all that were ever seen below it."""
    with _lock:
        _look()
        return sum(_used.values())


@contextmanager
def watched() -> Iterator[None]:
    """Sees processes while they live, for `tree_cpu_s`, which misses those that came and went between two calls."""
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
    # Who was seen once is ours, also where its parent has ended and left it to another one.
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
