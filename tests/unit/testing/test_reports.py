"""What is said of a cluster whose test failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FAILS = """
def test_closes_and_fails(kafka_cluster):
    kafka_cluster.close()
    raise ValueError("by the test")


def test_goes_on():
    pass
"""


@pytest.mark.parametrize("traces", ["traces", "a file/traces"])
def test_a_report_of_a_cluster_that_cannot_be_made_ends_no_run(tmp_path: Path, traces: str) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "test_fails.py").write_text(FAILS)
    command = [sys.executable, "-m", "pytest", "-q", f"--kafka-traces={traces}", "-p", "no:cacheprovider", "."]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "1 failed, 1 passed" in run.stdout
    assert "ValueError: by the test" in run.stdout
    assert ("all in " if traces == "traces" else "not saved: ") in run.stdout
