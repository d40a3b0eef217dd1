"""``df.write.format("barnabas").save()`` without a mode, as the official connector allows it.

Spark demands a mode for a source in Python and does not ask the source for a default; so the ``DataFrameWriter`` sets
it.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, Final

_FORMAT: Final = "barnabas"
_DEFAULT: Final = "ErrorIfExists"


def append_by_default(writer: type[Any]) -> None:
    """`writer` is a ``DataFrameWriter``, PySpark's or Spark Connect's. To a topic its ErrorIfExists becomes append."""
    plain = writer.save
    if getattr(plain, "__wrapped__", None) is not None:
        return

    @functools.wraps(plain)
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        chosen, before = _chosen(self)
        if mode is None and before in (None, _DEFAULT) and (format or chosen) == _FORMAT:
            mode = "append"
        plain(self, path, format, mode, partitionBy, **options)

    writer.save = save


def writer_of(spark: Any) -> type[Any]:
    """The class of the writers that `spark`'s DataFrames have."""
    connect = type(spark).__module__.startswith("pyspark.sql.connect")
    module = import_module("pyspark.sql.connect.readwriter" if connect else "pyspark.sql.readwriter")
    found: type[Any] = module.DataFrameWriter
    return found


def _chosen(writer: Any) -> tuple[str | None, str | None]:
    """The format and mode that a writer has so far."""
    if hasattr(writer, "_jwrite"):
        return str(writer._jwrite.source()), str(writer._jwrite.curmode())
    return writer._write.source, writer._write.mode
