"""Spark's official Kafka connector (``format("kafka")``) from Maven, to read the same topics beside ``barnabas``.

Nothing of it is needed to use Barnabas with Spark. Its token provider's release is the newest on Maven Central's
mirrors; its classes are loaded only for delegation tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from barnabas.bench.apache import VERSION as KAFKA_VERSION
from barnabas.bench.apache import Artifact, cache_directory, fetch_jars

VERSION: Final = "4.2.0"
_JARS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-avro_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def connector_jars() -> list[Path]:
    """The jars for ``spark.jars``, fetched on first use (10 MB). Raises `ApacheUnavailable`."""
    return jars_for_spark(f"spark-connector/{VERSION}-{KAFKA_VERSION}-avro", _JARS, without="*")


def jars_for_spark(cache: str, artifacts: Iterable[Artifact], *, without: str) -> list[Path]:
    """The jars of `fetch_jars`, as the list that Spark expects."""
    return sorted(fetch_jars(cache_directory() / cache, artifacts, without=without).glob("*.jar"))
