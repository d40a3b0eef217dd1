"""Ports for servers that bind them only later."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from barnabas.bench.apache import free_port


def test_a_port_is_given_once_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other_port = free_port(), 14_999
    chosen = iter((first, other_port))
    other = "import random, sys\nfrom barnabas.bench.apache import free_port\n"
    other += "chosen = iter(map(int, sys.argv[1:]))\nrandom.SystemRandom.randrange = lambda *_: next(chosen)\n"
    done = subprocess.run(
        [sys.executable, "-c", other + "print(free_port())", str(first), str(first), str(other_port)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == other_port, "another process is not given it"
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: next(chosen))
    assert free_port() == other_port, "nor is this one again"
