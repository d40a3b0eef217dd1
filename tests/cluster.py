"""A cluster for tests, made as a user makes one: by the ``barnabas`` command."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from barnabas.bench.apache import cluster_view
from barnabas.runtime.started_process import StartedProcess

BARNABAS = [sys.executable, "-m", "barnabas"]


def barnabas(*arguments: str, text: str | None = None, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    """Runs the command; the caller judges what it answered."""
    return subprocess.run(
        [*BARNABAS, *arguments], input=text or "", capture_output=True, text=True, timeout=timeout, check=False
    )


def until(fact: Callable[[], Any], what: str, timeout: float = 60) -> Any:
    """The first true answer of `fact`; fails naming `what` where there is none in time."""
    deadline = time.monotonic() + timeout
    while True:
        found = fact()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.02)


class Cluster:
    """A running cluster under `directory`."""

    def __init__(self, directory: Path, state: dict[str, Any]) -> None:
        self.directory = directory
        self.state = state

    @property
    def bootstrap(self) -> str:
        return str(self.state["bootstrap"])

    @property
    def zookeeper(self) -> str:
        return str(self.state["zookeeper"])

    def broker(self, broker_id: int) -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.state["brokers"] if each["id"] == broker_id)
        return found

    def kill(self, broker_id: int) -> None:
        os.kill(self.broker(broker_id)["pid"], signal.SIGKILL)

    def stop(self, broker_id: int) -> None:
        """A controlled shutdown, of which a process may yet be there when no ISR has its broker any more."""
        process = StartedProcess(self.broker(broker_id)["pid"])
        process.signal(signal.SIGTERM)
        until(lambda: not process.alive, f"broker {broker_id} has ended")

    def up(self, timeout: float = 90) -> None:
        """Starts what is down."""
        count = str(len(self.state["brokers"]))
        done = barnabas("up", "-n", count, "--dir", str(self.directory), "--format", "json", timeout=timeout)
        assert done.returncode == 0, done.stderr
        self.state = json.loads(done.stdout)

    def view(self) -> tuple[dict[int, str], int]:
        """Brokers and controller as any live broker tells them."""
        for broker in self.state["brokers"]:
            with contextlib.suppress(OSError):
                return cluster_view("127.0.0.1", broker["port"])
        return {}, -1


@contextlib.contextmanager
def running(directory: Path, brokers: int = 3, *config: str) -> Iterator[Cluster]:
    options = [word for each in config for word in ("--config", each)]
    up = barnabas("up", "-n", str(brokers), "--dir", str(directory), "--format", "json", *options)
    assert up.returncode == 0, up.stderr
    try:
        yield Cluster(directory, json.loads(up.stdout))
    finally:
        down = barnabas("down", "--dir", str(directory), "--kill")
        assert down.returncode == 0, down.stderr
