"""``barnabas bench metrics``: what it costs brokers that their metrics are read.

Under load, three brokers are compared with themselves: for some seconds somebody reads their metrics once a second as
Prometheus would, and for the next, of the same load on the same topic, nobody does, or the other way round. (Two
clusters of one kind differ by more than that for as long as they live, and so do a machine's minutes.)
What is there without a reader, the admin endpoint and the history that it records, is measured at rest, beside a second
cluster that has neither, before either of them has done anything: requests only count up integers, and do so with or
without an endpoint.

Prometheus would be on another machine. Here a process reads in its place and throws away what it gets, which takes a
little of the brokers' cores.
"""

from __future__ import annotations

import contextlib
import os
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
_LOADED_S: Final = 3.0
_REST_S: Final = 10.0
_RESTS: Final = 3
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


@contextlib.contextmanager
def reading(addresses: Sequence[str]) -> Iterator[subprocess.Popen[str] | None]:
    """A process reads the metrics at `addresses`, if there are any, once a second, and for the first time before the
    block begins: its start is not what is measured. Raises `BenchError` at the block's end where the process failed."""
    if not addresses:
        yield None
        return
    command = [sys.executable, "-S", "-c", _SCRAPER, *addresses]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as scraper:
        assert scraper.stdout is not None
        assert scraper.stderr is not None
        scraper.stdout.readline()
        try:
            yield scraper
            if scraper.poll() is not None:
                raise BenchError(f"The metrics could not be read: {scraper.stderr.read().strip()}.")
        finally:
            scraper.kill()


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
            with standing_still(other), reading(subject.admins):
                figures["rest"].add(1 + undisturbed(partial(_at_rest, subject)), ours=subject is seen)
        for name in warming_up("the cluster", warm_up_s):
            _round(seen, unseen, name, min(requests, 2_000), [seen.admins])
        for number in range(rounds):
            # The order changes: whoever is second waits for what the first has left to the disk.
            ways = ([], seen.admins) if number % 2 else (seen.admins, [])
            measured_ways = _round(seen, unseen, f"bench-{number}", requests, ways)
            for read, values in zip(ways, measured_ways, strict=True):
                for name, value in values.items():
                    figures[name].add(value, ours=bool(read))
            console.print(f"  round {number + 1}/{rounds}", style="dim")
        told = sum(_scrape_bytes(address) for address in seen.admins) // BROKERS
        console.print(f"a scrape of one broker has {told:,} bytes", style="dim")
    for figure in figures.values():
        console.print(f"{figure.name}: half of the ratios are {_middle_half(figure)}", style="dim")
    return list(figures.values())


def _at_rest(subject: Scraped) -> float:
    """Seconds of CPU a second."""
    before, began = subject.cpu_s(), time.monotonic()
    time.sleep(_REST_S)
    return (subject.cpu_s() - before) / (time.monotonic() - began)


def _scrape_bytes(address: str) -> int:
    with urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return len(answer.read())


def _middle_half(figure: Figure) -> str:
    """Ratios that scatter by more than the aim say little of it."""
    ratios = sorted(a / b for a, b in zip(figure.ours, figure.theirs, strict=True))
    quarter = len(ratios) // 4
    return f"{ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}"


def _round(
    subject: Scraped, other: Scraped, topic: str, requests: int, ways: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """Each load in each of the `ways`, one directly after the other: who is read meanwhile."""
    make_topic(subject, topic, [list(range(BROKERS))])
    port = subject.ports[0]

    def undisturbed_by(measure: Callable[[], dict[str, float]], read: Sequence[str]) -> dict[str, float]:
        def attempt() -> dict[str, float]:
            with standing_still(other), reading(read):
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

    values: list[dict[str, float]] = [{} for _ in ways]
    for measure in (alone, eight, batches):
        for read, found in zip(ways, values, strict=True):
            found |= undisturbed_by(measure, read)
    drop_topic(subject, topic)
    return values
