from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from cluster import Cluster, running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers for every client of this directory; each test makes topics of its own."""
    with running(tmp_path_factory.mktemp("cluster"), 3) as started:
        yield started


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
