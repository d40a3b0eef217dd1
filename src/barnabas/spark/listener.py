"""Metrics of a streaming query for dashboards, which a source in Python cannot give to Spark.

The official connector fills a source's ``metrics`` in each progress; a data source in Python cannot. A listener on the
driver computes the metrics from the offsets in the progress, and keeps them as Prometheus gauges.
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
from barnabas.spark.lag import lag_of, seconds_of

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

    A query's label is its name, or else its id. Its metrics are removed when it ends.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._behind = Gauge(
            "barnabas_spark_offsets_behind_latest",
            "Offsets between what a streaming query has read of a partition and the partition's end",
            (*_BY_QUERY, "topic", "partition"),
            registry=registry,
        )
        self._age = Gauge(
            "barnabas_spark_seconds_behind_latest",
            "Age of the first record of a partition that a streaming query has not read, 0 where it has read all",
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
        self._told: dict[str, set[tuple[Gauge, TopicPartition]]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        query = self._names.setdefault(str(progress["id"]), progress["name"] or str(progress["id"]))
        self._rate.labels(query).set(progress["processedRowsPerSecond"] or 0.0)
        self._batch.labels(query).set(progress["batchId"])
        sources = progress["sources"]
        told = {
            (gauge, partition): value
            for gauge, values in ((self._behind, lag_of(sources)), (self._age, seconds_of(sources)))
            for partition, value in values.items()
        }
        self._forget(query, self._told.get(query, set()) - set(told))
        for (gauge, partition), value in told.items():
            gauge.labels(query, partition.topic, str(partition.partition)).set(value)
        self._told[query] = set(told)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._names.pop(str(event.id), "")
        told = self._told.pop(query, None)
        if told is None:
            return  # it ended before its first progress
        self._forget(query, told)
        self._rate.remove(query)
        self._batch.remove(query)

    def _forget(self, query: str, told: Iterable[tuple[Gauge, TopicPartition]]) -> None:
        for gauge, partition in told:
            gauge.remove(query, partition.topic, str(partition.partition))
