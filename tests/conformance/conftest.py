from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import apache
import pytest
from cluster import Cluster, running

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "default.replication.factor": "3",
}
"""Of the two clusters of which the same program says the same."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers for every client of this directory; each test makes topics of its own."""
    config = [f"{key}={value}" for key, value in CONFIG.items()]
    with running(tmp_path_factory.mktemp("cluster"), 3, *config) as started:
        yield started


@pytest.fixture(scope="session")
def ours(cluster: Cluster) -> str:
    """Where three brokers of ours are."""
    return cluster.bootstrap


@pytest.fixture(scope="session")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where three of Apache Kafka 3.9.2 are."""
    apache.require()
    with apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 3, config=CONFIG) as started:
        yield started.bootstrap


@pytest.fixture(scope="session")
def kcat() -> str:
    """The ``kcat`` program; installed by apt where ``CI=true``."""
    found = shutil.which("kcat")
    if found is None and os.environ.get("CI") == "true":
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "kcat"]):
            subprocess.run(command, check=True, capture_output=True)
        found = shutil.which("kcat")
        assert found is not None, "apt installed kcat, and it is not on PATH"
    if found is None:
        pytest.skip("kcat is not installed (apt-get install kcat)")
    return found
