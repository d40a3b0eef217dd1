"""``barnabas bench metrics``: the brokers' cost of reading their metrics.

Under load, three brokers are compared with themselves. A round has four turns of the same load on the same topic, one
directly after the other. In the first and the last turn a process reads the metrics once a second, as Prometheus would;
in the two between no process does; or the other way round. So a drift of the machine affects both alike. (Two clusters
of one kind differ from each other by more than the effect that is measured, and so do two minutes on one machine.)

The admin endpoint and its history cost something without a reader, too. That is measured at rest, beside a second
cluster without an endpoint, before either of them has done anything. Under load there is no such difference: requests
count up integers with or without an endpoint.

Prometheus would be on another machine. Here a process on the same machine reads and discards the metrics, which takes a
little of the brokers' cores.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from barnabas.bench import BenchError
from barnabas.bench.clusters import BarnabasSubject, drop_topic, make_topic, standing_still
from barnabas.bench.controller import BROKERS
from barnabas.bench.produce_load import Load, measured
from barnabas.bench.replication import ALONE, PATIENT
from barnabas.bench.side_by_side import Figure, console, median_and_p99, warming_up
from barnabas.bench.small_requests import HEADLINE, SmallRequests
from barnabas.bench.undisturbed import undisturbed

OTHER: Final = "not scraped"
OURS: Final = "scraped each second"
_LOADED_S: Final = 0.7
_REST_S: Final = 10.0
_RESTS: Final = 3
_SETTLED_S: Final = 0.05
"""After this time a scrape that was under way when its reader was paused has been answered."""
_BATCHES: Final = Load(4, 5, record_bytes=1000, batch_bytes=100_000, replicas=BROKERS, acks=-1)
_SCRAPER: Final = """
import socket, sys, time
connections = []
for address in sys.argv[1:]:
    host, port = address.split(":")
    connections.append(socket.create_connection((host, int(port))))
said = False
while True:
    began = time.monotonic()
    for connection in connections:
        connection.sendall(b"GET /metrics HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n")
        end = b""
        while not end.endswith(b"\\r\\n0\\r\\n\\r\\n"):
            received = connection.recv(1 << 18)
            if not received:
                sys.exit("an endpoint closed its connection")
            end = (end + received[-7:])[-7:]
    if not said:
        said = not print("read", flush=True)
    time.sleep(max(0, began + 1 - time.monotonic()))
"""


class Scraped(BarnabasSubject):
    @property
    def admins(self) -> list[str]:
        """The admin endpoints of the brokers that have one."""
        return [broker["admin"] for broker in self._state["brokers"] if broker["admin"]]


@contextlib.contextmanager
def running(directory: Path) -> Iterator[tuple[Scraped, Scraped]]:
    with contextlib.ExitStack() as stack:
        seen = Scraped(directory / "scraped", BROKERS, PATIENT)
        stack.callback(seen.close)
        unseen = Scraped(directory / "unseen", BROKERS, {**PATIENT, "barnabas.admin.listener": ""})
        stack.callback(unseen.close)
        yield seen, unseen


class MetricsReader:
    """A process that reads the metrics at `addresses` once a second, and is paused in turns without a reader, so that
    its start is in no turn. The end of the block raises `BenchError` if the process failed."""

    def __init__(self, addresses: Sequence[str]) -> None:
        command = [sys.executable, "-S", "-c", _SCRAPER, *addresses]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> MetricsReader:
        assert self.process.stdout is not None
        self.process.stdout.readline()  # it has read them once
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = self.process.poll() is not None
        self.process.kill()
        said = self.process.communicate()[1]
        if failed and kind is None:
            raise BenchError(f"The metrics could not be read: {said.strip()}.")

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Pauses the reader."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def _figure(name: str, unit: str, wanted: str) -> Figure:
    return Figure(name, unit, wanted, names=("scraped", "not scraped"))


def figures_of() -> dict[str, Figure]:
    return {
        "p50": _figure("acks=all, one record: p50", "ms", "<= 1.02"),
        "p99": _figure("acks=all, one record: p99", "ms", "<= 1.02"),
        "one/cpu": _figure("acks=all, one record: CPU of three brokers", "µs", "<= 1.02"),
        "eight/rate": _figure("8 connections, one record each: per second", "1/s", ">= 0.98"),
        "eight/cpu": _figure("8 connections, one record each: CPU of three brokers", "µs", "<= 1.02"),
        "batches/rate": _figure("acks=all, batches of 1 KB records: records per second", "1/s", ">= 0.98"),
        "batches/cpu": _figure("acks=all, batches of 1 KB records: CPU of three brokers per GB", "s", "<= 1.02"),
        "rest": _figure("at rest: one second, and what three brokers use of a core in it", "s", "<= 1.02"),
    }


def measure(directory: Path, rounds: int, requests: int, warm_up_s: float) -> list[Figure]:
    figures = figures_of()
    with running(directory) as (seen, unseen):
        for subject, other in ((seen, unseen), (unseen, seen)) * _RESTS:
            with standing_still(other), MetricsReader(subject.admins) if subject is seen else contextlib.nullcontext():
                figures["rest"].add(1 + undisturbed(partial(_at_rest, subject)), ours=subject is seen)
        with standing_still(unseen), MetricsReader(seen.admins) as reader:
            for name in warming_up("the cluster", warm_up_s):
                _round(seen, reader, name, min(requests, 2_000), [True])
            for number in range(rounds):
                # The order alternates: a later load waits until an earlier one's data are on the disk.
                turns = [False, True, True, False] if number % 2 else [True, False, False, True]
                measured_turns = _round(seen, reader, f"bench-{number}", requests, turns)
                for read in (True, False):
                    alike = [values for was_read, values in zip(turns, measured_turns, strict=True) if was_read is read]
                    for name in alike[0]:
                        figures[name].add(statistics.mean(values[name] for values in alike), ours=read)
                console.print(f"  round {number + 1}/{rounds}", style="dim")
        told = sum(_scrape_bytes(address) for address in seen.admins) // BROKERS
        console.print(f"a scrape of one broker has {told:,} bytes", style="dim")
    for figure in figures.values():
        console.print(f"{figure.name}: {_scatter(figure)}", style="dim")
    return list(figures.values())


def _at_rest(subject: Scraped) -> float:
    """Seconds of CPU a second."""
    before, began = subject.cpu_s(), time.monotonic()
    time.sleep(_REST_S)
    return (subject.cpu_s() - before) / (time.monotonic() - began)


def _scrape_bytes(address: str) -> int:
    with urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return len(answer.read())


def _scatter(figure: Figure) -> str:
    """The interval of the middle half of the ratios, and the 95 % interval of their median (by order statistics)."""
    ratios = sorted(a / b for a, b in zip(figure.ours, figure.theirs, strict=True))
    quarter, low = len(ratios) // 4, max(0, math.floor(len(ratios) / 2 - 0.98 * math.sqrt(len(ratios))))
    return (
        f"ratio {statistics.median(ratios):.3f}, 95 % of {ratios[low]:.3f} to {ratios[-1 - low]:.3f}; "
        f"half of the rounds {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}"
    )


def _round(
    subject: Scraped, reader: MetricsReader, topic: str, requests: int, turns: Sequence[bool]
) -> list[dict[str, float]]:
    """Measures each load in each of the `turns`, one directly after the other; a turn is true if the metrics are
    read."""
    make_topic(subject, topic, [list(range(BROKERS))])
    port = subject.ports[0]

    def undisturbed_by(measure: Callable[[], dict[str, float]], read: bool) -> dict[str, float]:
        def attempt() -> dict[str, float]:
            with contextlib.nullcontext() if read else reader.resting():
                time.sleep(_SETTLED_S)
                return measure()

        return undisturbed(attempt, os.sync)

    def alone() -> dict[str, float]:
        with SmallRequests(port, topic, ALONE, requests) as client:
            before = subject.cpu_s()
            took = client.latencies_ms()
            used = subject.cpu_s() - before
        return {**median_and_p99(took), "one/cpu": used / requests * 1e6}

    def eight() -> dict[str, float]:
        with SmallRequests(port, topic, HEADLINE, requests * HEADLINE.connections) as client:
            before = subject.cpu_s()
            took = client.run()
            used = subject.cpu_s() - before
        return {"eight/rate": client.requests / took, "eight/cpu": used / client.requests * 1e6}

    def batches() -> dict[str, float]:
        sent, used = measured(port, topic, _BATCHES, _LOADED_S, subject.cpu_s)
        values = sent.requests * _BATCHES.value_bytes
        return {"batches/rate": sent.requests * _BATCHES.records / sent.seconds, "batches/cpu": used / values * 1e9}

    values: list[dict[str, float]] = [{} for _ in turns]
    for measure in (alone, eight, batches):
        for read, found in zip(turns, values, strict=True):
            found |= undisturbed_by(measure, read)
    drop_topic(subject, topic)
    return values
