"""What a listener tells of a query's progress."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from barnabas.model.ids import Uuid
from barnabas.spark.lag import seconds_of
from barnabas.spark.listener import LagListener, metrics

ID = str(Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"))


def source(end: dict[str, int], latest: dict[str, int], behind: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "endOffset": json.dumps({"orders": {"id": ID, "offsets": end}}),
        "latestOffset": json.dumps({"orders": {"id": ID, "offsets": latest, "behind": behind or {}}}),
    }


def progress(*sources: dict[str, Any]) -> Any:
    return SimpleNamespace(
        progress={"id": "q", "name": None, "batchId": 7, "processedRowsPerSecond": 2.5, "sources": list(sources)}
    )


def test_the_connectors_metrics_follow_from_the_offsets() -> None:
    assert metrics([source({"0": 5, "1": 9}, {"0": 15, "1": 9})]) == {
        "avgOffsetsBehindLatest": "5.0",
        "maxOffsetsBehindLatest": "10",
        "minOffsetsBehindLatest": "0",
    }
    assert metrics([{"endOffset": None, "latestOffset": None}]) == {}
    assert seconds_of([{"endOffset": "no JSON", "latestOffset": "no JSON"}]) == {}


def test_gauges_follow_a_query_and_go_with_it() -> None:
    registry = CollectorRegistry()
    listener = LagListener(registry)

    def behind(partition: str) -> float | None:
        labels = {"query": "etl", "topic": "orders", "partition": partition}
        return registry.get_sample_value("barnabas_spark_offsets_behind_latest", labels)

    listener.onQueryStarted(SimpleNamespace(id="q", name="etl"))
    listener.onQueryProgress(progress(source({"0": 5, "1": 9}, {"0": 15, "1": 9})))
    assert (behind("0"), behind("1")) == (10, 0)
    assert registry.get_sample_value("barnabas_spark_batch_id", {"query": "etl"}) == 7
    listener.onQueryProgress(progress(source({"0": 15}, {"0": 15})))
    assert (behind("0"), behind("1")) == (0, None)
    listener.onQueryTerminated(SimpleNamespace(id="q"))
    assert behind("0") is None
    listener.onQueryTerminated(SimpleNamespace(id="never seen"))


def test_the_age_of_what_was_not_read_is_a_gauge_where_the_source_told_it() -> None:
    registry = CollectorRegistry()
    listener = LagListener(registry)

    def seconds(partition: str) -> float | None:
        labels = {"query": "q", "topic": "orders", "partition": partition}
        return registry.get_sample_value("barnabas_spark_seconds_behind_latest", labels)

    told = {"0": {"records": 10, "seconds": 2.5}, "2": {"records": 1}}
    listener.onQueryProgress(progress(source({"0": 5, "1": 9, "2": 0}, {"0": 15, "1": 9, "2": 1}, told)))
    assert (seconds("0"), seconds("1"), seconds("2")) == (2.5, 0.0, None)
    listener.onQueryProgress(progress(source({"0": 15, "1": 9, "2": 0}, {"0": 16, "1": 9, "2": 1}, {})))
    assert (seconds("0"), seconds("1"), seconds("2")) == (None, 0.0, None)
    listener.onQueryTerminated(SimpleNamespace(id="q"))
    assert seconds("1") is None
