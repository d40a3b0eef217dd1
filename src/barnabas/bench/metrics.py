"""``barnabas bench metrics``: what it costs brokers that their metrics are read.

Under load, three brokers are compared with themselves. A round has four turns of the same load on the same topic, one
directly after the other: in the first and the last somebody reads their metrics once a second as Prometheus would, and
in the two between nobody does, or the other way round; what rises or falls meanwhile counts for both alike. (Two
clusters of one kind differ by more than what is looked for, for as long as they live, and so do a machine's minutes.)
What is there without a reader, the admin endpoint and the history that it records, is measured at rest, beside a second
cluster that has neither, before either of them has done anything: requests only count up integers, and do so with or
without an endpoint.

Prometheus would be on another machine. Here a process reads in its place and throws away what it gets, which takes a
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
"""A scrape that is under way when its reader is stopped is answered by then."""
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
        """The admin endpoints of those brokers that have one."""
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
    """A process that reads the metrics at `addresses` once a second, and stands still while nobody is to read them: its
    start is in no turn. Raises `BenchError` when it is left, where the process failed."""

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
        """Nobody reads meanwhile."""
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
                # The order changes: what comes later waits for what came before to get to the disk.
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
    """Between what half of the ratios lie, and where their median would be in 19 of 20 runs (by order statistics)."""
    ratios = sorted(a / b for a, b in zip(figure.ours, figure.theirs, strict=True))
    quarter, low = len(ratios) // 4, max(0, math.floor(len(ratios) / 2 - 0.98 * math.sqrt(len(ratios))))
    return (
        f"ratio {statistics.median(ratios):.3f}, 95 % of {ratios[low]:.3f} to {ratios[-1 - low]:.3f}; "
        f"half of the rounds {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}"
    )


def _round(
    subject: Scraped, reader: MetricsReader, topic: str, requests: int, turns: Sequence[bool]
) -> list[dict[str, float]]:
    """Each load in each of the `turns`, one directly after the other: whether somebody reads meanwhile."""
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
