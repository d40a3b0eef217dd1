"""Spark's classes for a micro-batch's limits; Spark 4.1 has none for sources in Python, so stand-ins replace them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:

    class ReadLimit:  # type: ignore[no-redef]
        """Spark's."""

    @dataclass
    class ReadAllAvailable:  # type: ignore[no-redef]
        """Spark's."""

    @dataclass
    class ReadMinRows:  # type: ignore[no-redef]
        """Spark's."""

        min_rows: int

    @dataclass
    class ReadMaxRows:  # type: ignore[no-redef]
        """Spark's."""

        max_rows: int

    @dataclass
    class ReadMaxBytes:  # type: ignore[no-redef]
        """Spark's."""

        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark's."""
