"""What dashboards expect of a streaming query, and what a source in Python cannot tell Spark.

The official connector fills a source's ``metrics`` in each progress; a data source in Python cannot. The numbers follow
from the offsets in the progress, so a listener computes them, on the driver, and keeps them as Prometheus gauges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from barnabas.model.ids import TopicPartition
from barnabas.spark.lag import lag_of

__all__ = ["LagListener", "metrics"]

_BY_QUERY: Final = ("query",)


def metrics(sources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The official connector's ``metrics``, by its names, of a progress's ``sources``; {} before the first batch."""
    behind = lag_of(sources).values()
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "minOffsetsBehindLatest": str(min(behind)),
    }


class LagListener(StreamingQueryListener):  # type: ignore[misc]
    """``spark.streams.addListener(LagListener())``; ``prometheus_client.start_http_server(port)`` then shows it.

    A query goes by its name, or else by its id. What it told is forgotten when it ends.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._behind = Gauge(
            "barnabas_spark_offsets_behind_latest",
            "Offsets between what a streaming query has read of a partition and the partition's end",
            (*_BY_QUERY, "topic", "partition"),
            registry=registry,
        )
        self._rate = Gauge(
            "barnabas_spark_processed_rows_per_second",
            "Rows a second of a streaming query's last batch",
            _BY_QUERY,
            registry=registry,
        )
        self._batch = Gauge(
            "barnabas_spark_batch_id", "Number of a streaming query's last batch", _BY_QUERY, registry=registry
        )
        self._names: dict[str, str] = {}
        self._partitions: dict[str, set[TopicPartition]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        query = self._names.setdefault(str(progress["id"]), progress["name"] or str(progress["id"]))
        self._rate.labels(query).set(progress["processedRowsPerSecond"] or 0.0)
        self._batch.labels(query).set(progress["batchId"])
        behind = lag_of(progress["sources"])
        told = self._partitions.setdefault(query, set())
        for gone in told - set(behind):
            self._behind.remove(query, gone.topic, str(gone.partition))
        for partition, offsets in behind.items():
            self._behind.labels(query, partition.topic, str(partition.partition)).set(offsets)
        self._partitions[query] = set(behind)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._names.pop(str(event.id), "")
        told = self._partitions.pop(query, None)
        if told is None:
            return  # it ended before its first progress
        for partition in told:
            self._behind.remove(query, partition.topic, str(partition.partition))
        self._rate.remove(query)
        self._batch.remove(query)
