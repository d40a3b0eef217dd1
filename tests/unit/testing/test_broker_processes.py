"""Brokers that are processes of their own end with the test's process, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import until

PAUSED_AND_KILLED = """
import os
import signal
import sys
from barnabas.testing import KafkaCluster

with KafkaCluster(1, processes=True, directory=sys.argv[1]) as cluster:
    cluster.broker(0).pause()
    print(cluster.host._processes[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_gone(pid: int) -> bool:
    """Whether it ended; who should have reaped it may not do so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a stopped process that its parent died")
def test_a_paused_broker_does_not_outlive_a_test_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PAUSED_AND_KILLED, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    try:
        until(lambda: is_gone(pid), f"broker process {pid} has ended", timeout=5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
