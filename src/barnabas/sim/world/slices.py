"""Long work in slices of a few elements, so that others come between where only huge requests would let them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

from barnabas import broker, controller, coordinator, replica
from barnabas.sim.world.probes import Probes


@contextmanager
def small_slices(elements: int) -> Iterator[None]:
    """Until the end, every story of a broker gives way after so many `elements`; 0 leaves it as it is."""
    probes = Probes()
    try:
        for module in _those_with_slices() if elements else ():
            probes.instead(module, "SLICE", elements)
        yield
    finally:
        probes.remove()


@cache
def _those_with_slices() -> tuple[ModuleType, ...]:
    """All modules of brokers that work in slices; some of them are imported by the first request of their kind."""
    packages = (broker, controller, coordinator, replica)
    found = (each.name for home in packages for each in pkgutil.walk_packages(home.__path__, f"{home.__name__}."))
    modules = [import_module(name) for name in sorted(found) if not name.endswith("__main__")]
    return tuple(module for module in modules if "SLICE" in vars(module))
