"""Long work in slices of a few elements, so that others come between where only huge requests would let them; and room
for as few requests that wait, of which only a client of many more would find that there is no more."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from barnabas import broker, controller, coordinator, replica
from barnabas.broker import framed_connection
from barnabas.sim.world.probes import Probes

ELEMENT_BYTES: Final = 200
"""About what a small request has."""


@contextmanager
def small_slices(elements: int) -> Iterator[None]:
    """Until the end, every story of a broker gives way after so many `elements`, and of a connection no more wait; 0
    leaves it as it is."""
    probes = Probes()
    try:
        if elements:
            probes.instead(framed_connection, "MAX_WAITING_BYTES", elements * ELEMENT_BYTES)
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
