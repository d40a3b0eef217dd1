"""What a process has used counts after it has ended, also where nobody waits for it."""

from __future__ import annotations

import subprocess
import sys

from barnabas.bench.tree_cpu import tree_cpu_s, watched

IGNORING = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's daemons of Python do
if os.fork() == 0:
    while time.process_time() < 1.0:
        pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    print("it has ended", flush=True)
input()
"""


def test_a_child_that_nobody_waits_for_counts_when_it_has_ended() -> None:
    with watched():
        before = tree_cpu_s()
        parent = subprocess.Popen(
            [sys.executable, "-c", IGNORING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        assert parent.stdout.readline() == "it has ended\n"
        assert tree_cpu_s() - before > 0.5
        parent.communicate("\n", timeout=60)
