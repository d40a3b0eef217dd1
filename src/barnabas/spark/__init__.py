"""Topics in and out of Spark through PySpark, with no connector JAR.

``pyspark_barnabas`` makes Spark find the source by itself: ``spark.read.format("barnabas")``. What runs in an executor
imports only `client`, `wire` and `model`, so that a Python worker starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.spark.dead_letter_topic import dead_letters
    from barnabas.spark.registry import from_registry
    from barnabas.spark.shuffle import by_target_partition

__all__ = ["by_target_partition", "dead_letters", "from_registry"]


def __getattr__(name: str) -> Any:
    # A worker imports this package for its modules: what only a driver wants is imported when it is asked for.
    if name == "by_target_partition":
        from barnabas.spark.shuffle import by_target_partition

        return by_target_partition
    if name == "dead_letters":
        from barnabas.spark.dead_letter_topic import dead_letters

        return dead_letters
    if name == "from_registry":
        from barnabas.spark.registry import from_registry

        return from_registry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
