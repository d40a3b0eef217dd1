"""Spark finds data sources in top-level modules named ``pyspark_*``; this one registers ``format("barnabas")``."""

from barnabas.spark.source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
