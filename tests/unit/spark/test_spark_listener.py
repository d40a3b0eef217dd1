"""What a listener tells of a query's progress."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from barnabas.model.ids import Uuid
from barnabas.spark.listener import LagListener, metrics

ID = str(Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"))


def source(end: dict[str, int], latest: dict[str, int]) -> dict[str, Any]:
    return {
        "endOffset": json.dumps({"orders": {"id": ID, "offsets": end}}),
        "latestOffset": json.dumps({"orders": {"id": ID, "offsets": latest}}),
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
