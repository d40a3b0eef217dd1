"""``barnabas bench zookeeper``: the embedded coordinator beside Apache ZooKeeper 3.9, with one lean client for both.

Both servers run at the same time with their logs on the same disk, and both fsync. Both get the same warm-up, and then
short rounds in turn, A B A B. A figure is a ratio, taken pair by pair; the median of the pairs counts.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from barnabas.bench.apache_zookeeper import NEWER_VERSION, ZooKeeperEnsemble
from barnabas.bench.clusters import Running
from barnabas.bench.side_by_side import Figure, console
from barnabas.runtime.started_process import PYTHON

OTHER: Final = f"ZooKeeper {NEWER_VERSION}"
HEAP: Final = ("-Xmx1000m",)
"""The heap that ZooKeeper's own ``zkServer.sh`` sets."""
CLIENTS: Final = 64
PIPELINED_CLIENTS: Final = 8
UNDER_WAY: Final = 64
_LOADS: Final = {
    "reads, 64 clients": ("read", CLIENTS, 1),
    "reads, 8 clients with 64 under way each": ("read", PIPELINED_CLIENTS, UNDER_WAY),
    "durable writes, 1 client": ("write", 1, 1),
    "durable writes, 64 clients": ("write", CLIENTS, 1),
}


@contextlib.contextmanager
def running_coordinator(directory: Path) -> Iterator[Running]:
    """Runs our coordinator; `ready_s` counts from the command's start until it reports that it listens."""
    command = [*PYTHON, "-m", "barnabas", "coordinator", "--port", "0", "--dir", str(directory)]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            ready_s = time.monotonic() - begun
            if not line:
                raise RuntimeError(f"barnabas coordinator ended with {process.wait()}")
            yield Running("Barnabas", json.loads(line)["port"], process.pid, ready_s)
        finally:
            process.terminate()


@contextlib.contextmanager
def running_zookeeper(directory: Path) -> Iterator[Running]:
    """Runs ZooKeeper; `ready_s` counts from the JVM's start until it answers ``srvr``."""
    config = {"tickTime": "2000"}
    server = ZooKeeperEnsemble(directory, version=NEWER_VERSION, jvm=HEAP, config=config)
    begun = time.monotonic()
    with server:
        ready_s = time.monotonic() - begun
        port = int(server.connect.rpartition(":")[2])
        yield Running(OTHER, port, server.processes[1].pid, ready_s)


def load(subject: Running, kind: str, clients: int, under_way: int, seconds: float) -> float:
    """Requests per second by a load in another process."""
    done = subprocess.run(
        [
            *(*PYTHON, "-m", "barnabas.bench.zookeeper_load", str(subject.port), kind),
            *(str(clients), str(under_way), str(seconds)),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the load on {subject.name} failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout or 0)


def measure(directory: Path, rounds: int, seconds: float, warm_up_s: float) -> list[Figure]:
    figures = {name: Figure(name, "1/s", ">= 1.0") for name in _LOADS}
    memory = Figure("memory after the load", "MB", "<= 0.1")
    cpus = {
        "reads, 64 clients": Figure("CPU for a read of 64 clients", "µs", "<= 1.0"),
        "reads, 8 clients with 64 under way each": Figure("CPU for a pipelined read", "µs", "<= 1.0"),
        "durable writes, 64 clients": Figure("CPU for a durable write of 64 clients", "µs", "<= 1.0"),
    }
    with running_coordinator(directory / "barnabas") as ours, running_zookeeper(directory / "zookeeper") as theirs:
        subjects = ours, theirs
        for subject in subjects:
            load(subject, "fill", 1, 1, 0)
        for subject in subjects:
            console.print(f"  warming {subject.name} up", style="dim")
            for kind, clients, under_way in _LOADS.values():
                load(subject, kind, clients, under_way, warm_up_s / len(_LOADS))
        for number in range(rounds):
            for name, (kind, clients, under_way) in _LOADS.items():
                for subject in subjects:
                    before = subject.cpu_s()
                    rate = load(subject, kind, clients, under_way, seconds)
                    is_ours = subject is ours
                    figures[name].add(rate, ours=is_ours)
                    if name in cpus:
                        cost = (subject.cpu_s() - before) / (rate * seconds) * 1e6
                        cpus[name].add(cost, ours=is_ours)
            console.print(f"  round {number + 1}/{rounds}", style="dim")
        memory.ours.append(ours.memory_mb())
        memory.theirs.append(theirs.memory_mb())
    return [*figures.values(), *cpus.values(), memory]


def measure_start(directory: Path, rounds: int) -> Figure:
    start = Figure("start until it serves", "s", "<= 0.2")
    for number in range(rounds):
        with running_coordinator(directory / f"ours-{number}") as ours:
            start.ours.append(ours.ready_s)
        with running_zookeeper(directory / f"theirs-{number}") as theirs:
            start.theirs.append(theirs.ready_s)
    return start
