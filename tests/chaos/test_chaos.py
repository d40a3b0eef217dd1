"""One minute of what `make chaos` does for as long as it is told, with a fault as soon as the one before is over."""

from __future__ import annotations

import os
import secrets

import chaos
import pytest


@pytest.mark.timeout(480)
def test_a_cluster_of_processes_loses_nothing_under_chaos():
    in_ci = os.environ.get("CI") == "true"
    report = chaos.run(minutes=1, every_s=10, seed=secrets.randbelow(1 << 32), install=in_ci)
    print(report.text())
    assert report.ok, report.text()
    assert sum(map(len, report.faults.values())) >= 3, "too few faults to mean anything"
