"""What a broker tells of its process is what `prometheus_client`'s own collectors would tell."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from barnabas.web.exposition import exposed_name
from barnabas.web.process_metrics import PROCESS_METRICS

BROKER: Any = SimpleNamespace()


@pytest.mark.skipif(sys.platform != "linux", reason="their collector reads /proc")
def test_each_value_of_the_process_is_told_under_the_name_and_as_the_collector_tells_it() -> None:
    told = [metric for metric in PROCESS_METRICS if metric.name.startswith("process_")]
    ours = {exposed_name(metric): next(iter(metric.read(BROKER)))[1] for metric in told}
    families = list(ProcessCollector(registry=CollectorRegistry()).collect())
    theirs = {family.samples[0].name: family.samples[0].value for family in families}
    assert ours.keys() == theirs.keys()
    words = {exposed_name(metric): (metric.kind.value, metric.help) for metric in told}
    assert words == {family.samples[0].name: (family.type, family.documentation) for family in families}
    for name in ("process_max_fds", "process_start_time_seconds"):
        assert ours[name] == theirs[name], name
    # A directory that is listed is open meanwhile.
    assert theirs["process_open_fds"] - 1 <= float(str(ours["process_open_fds"])) <= theirs["process_open_fds"]
    for name in ("process_virtual_memory_bytes", "process_resident_memory_bytes", "process_cpu_seconds_total"):
        assert ours[name] == pytest.approx(theirs[name], rel=0.1), name


def test_python_and_its_collector_are_told_as_the_collectors_tell_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = [{"collected": 10 * at, "uncollectable": at, "collections": 100 - at} for at in range(3)]
    monkeypatch.setattr(gc, "get_stats", lambda: stats)
    registry = CollectorRegistry()
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    theirs = {
        (sample.name, *sorted(sample.labels.items())): (sample.value, family.type, family.documentation)
        for family in registry.collect()
        for sample in family.samples
    }
    ours = {
        (exposed_name(metric), *zip(metric.labels, labels, strict=True)): (value, metric.kind.value, metric.help)
        for metric in PROCESS_METRICS
        if metric.name.startswith("python_")
        for labels, value in metric.read(BROKER)
    }
    assert ours == theirs
