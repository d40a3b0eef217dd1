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

from barnabas.testing.temporary import TemporaryDirectory

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

KILLED = """
import os
import signal
from barnabas.testing import KafkaCluster

with KafkaCluster(2, processes=True) as cluster:
    cluster.create_topic("t", partitions=20)
    print(cluster.host.directory, flush=True)
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


def test_a_test_that_is_killed_leaves_no_directory_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Path(done.stdout.strip()).parent == tmp_path
    until(lambda: not list(tmp_path.iterdir()), "the cluster's directory is gone", timeout=5)


def test_a_directory_is_removed_although_a_forked_process_holds_it() -> None:
    directory = TemporaryDirectory()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[directory.held]):
        (directory.place / "file").write_text("")
        directory.remove()
        assert not directory.place.exists()
