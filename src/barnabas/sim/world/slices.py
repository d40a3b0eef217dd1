"""Long work in slices of a few elements, so that other work comes between, which elsewhere only huge requests allow.

Bounds that only a huge cluster or a hasty client reaches are lowered with them: what is beyond a bound is cut short, is
dropped or waits, here as there.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from barnabas import broker, controller, coordinator, replica
from barnabas.broker import framed_connection, shares
from barnabas.coordinator import transaction_coordinator
from barnabas.log import cleaner, index_file, log_segments, segment
from barnabas.replica import fetching, log_dir_moves
from barnabas.sim.world.probes import Probes
from barnabas.zk.client import client as zk_client
from barnabas.zk.client import session as zk_session

BOUNDS: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (framed_connection, "MAX_WAITING_BYTES", 200),
    (shares, "PARTITIONS_AT_ONCE", 1),
    (transaction_coordinator, "TOMBSTONE_BATCH_BYTES", 16),
    (cleaner, "PIECE_BYTES", 1_000),
    (index_file, "GATHERED_ENTRIES", 1),
    (log_segments, "OPEN_MAX", 1),
    (segment, "TAIL_BATCHES", 8),
    (fetching, "READ_AT_ONCE", 1),
    (log_dir_moves, "FLUSH_BYTES", 1_000),
    (zk_client, "OUTSTANDING_MAX", 2),
    (zk_session, "SET_WATCHES_BYTES_MAX", 200),
)
"""What each is to be for one element."""


@contextmanager
def small_slices(elements: int) -> Iterator[None]:
    """Until its end, every broker's long work yields after so many `elements`, and `BOUNDS` are as low; 0 leaves
    both as they are."""
    probes = Probes()
    try:
        for module, bound, for_one in BOUNDS if elements else ():
            probes.instead(module, bound, elements * for_one)
        for module in _those_with_slices() if elements else ():
            probes.instead(module, "SLICE", elements)
        yield
    finally:
        probes.remove()


@cache
def _those_with_slices() -> tuple[ModuleType, ...]:
    """The brokers' modules that work in slices; some are imported only by the first request of their kind."""
    packages = (broker, controller, coordinator, replica)
    found = (each.name for home in packages for each in pkgutil.walk_packages(home.__path__, f"{home.__name__}."))
    modules = [import_module(name) for name in sorted(found) if not name.endswith("__main__")]
    return tuple(module for module in modules if "SLICE" in vars(module))
