"""What a broker tells of its process is what `prometheus_client`'s own collector would tell."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from barnabas.web.exposition import exposed_name
from barnabas.web.process_metrics import PROCESS_METRICS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="their collector reads /proc")


def test_each_value_is_told_under_the_name_and_as_the_collector_tells_it() -> None:
    broker: Any = SimpleNamespace()
    ours = {exposed_name(metric): next(iter(metric.read(broker)))[1] for metric in PROCESS_METRICS}
    families = list(ProcessCollector(registry=CollectorRegistry()).collect())
    theirs = {family.samples[0].name: family.samples[0].value for family in families}
    assert ours.keys() == theirs.keys()
    words = {exposed_name(metric): (metric.kind.value, metric.help) for metric in PROCESS_METRICS}
    assert words == {family.samples[0].name: (family.type, family.documentation) for family in families}
    for name in ("process_max_fds", "process_start_time_seconds"):
        assert ours[name] == theirs[name], name
    # A directory that is listed is open meanwhile.
    assert theirs["process_open_fds"] - 1 <= float(str(ours["process_open_fds"])) <= theirs["process_open_fds"]
    for name in ("process_virtual_memory_bytes", "process_resident_memory_bytes", "process_cpu_seconds_total"):
        assert ours[name] == pytest.approx(theirs[name], rel=0.1), name
