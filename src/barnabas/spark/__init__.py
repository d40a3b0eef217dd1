"""Topics in and out of Spark through PySpark, with no connector JAR.

``pyspark_barnabas`` lets Spark find the source by itself: ``spark.read.format("barnabas")``. Code that runs in an
executor imports only `client`, `wire` and `model`, so that a Python worker starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.spark.dead_letter_topic import dead_letters
    from barnabas.spark.registry import Reference, Registry, Schema
    from barnabas.spark.registry_columns import from_registry, to_registry
    from barnabas.spark.shuffle import by_target_partition

__all__ = [
    "Reference",
    "Registry",
    "Schema",
    "by_target_partition",
    "dead_letters",
    "from_registry",
    "to_registry",
]

_PLACES = {
    "Reference": "registry",
    "Registry": "registry",
    "Schema": "registry",
    "by_target_partition": "shuffle",
    "dead_letters": "dead_letter_topic",
    "from_registry": "registry_columns",
    "to_registry": "registry_columns",
}


def __getattr__(name: str) -> Any:
    # A worker imports this package for its modules: what only a driver wants is imported when it is asked for.
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
