"""A process's CPU, as all benches count it."""

from __future__ import annotations

import os
import time

from barnabas.bench.clusters import process_cpu_s


def test_a_process_cpu_is_what_the_process_says_itself_and_finer_than_a_tick() -> None:
    before = time.process_time()
    told = process_cpu_s(os.getpid())
    assert before <= told <= time.process_time()
    deadline = told + 0.002
    while time.process_time() < deadline:
        pass
    assert process_cpu_s(os.getpid()) - told >= 0.002
