"""``barnabas bench growth``: throughput and CPU against five quantities (axes), beside Apache Kafka 3.9.2.

An axis is a row of points; at each one both clusters take the same load, in turn, A B A B, from one client that costs
next to nothing (`produce_load`). One broker each, and three each for the replication factor; both stand at the same
time, logs on the same disk, and both are warmed up first. CPU is that of all brokers of a cluster.

- record size: batches of 1 MB, full of records of one size; 4 connections with 5 requests in flight each
- batch size: records of 100 B, 4 connections with 5 in flight each
- clients: so many connections, each with one record of 100 B in flight
- partitions: 8 connections with one record of 100 B in flight each, to the partitions in turn
- replication factor: three brokers, acks=all, records of 1 KB in batches of 100 KB, 4 connections with 5 in flight each

A GB is of record values: what the protocol puts around them is a cost.
"""

from __future__ import annotations

import json
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.bench import BenchError
from barnabas.bench.clusters import Subject, both, drop_topic, make_topic
from barnabas.bench.controller import BROKERS, CONFIG
from barnabas.bench.plots import Panel, draw, medians, short
from barnabas.bench.produce_load import Load, ProduceLoad, measured
from barnabas.bench.side_by_side import Figure, console, shown

OTHER: Final = "Apache Kafka 3.9.2"
RESULTS: Final = "growth.json"
"""The file with the plots' figures."""
TABLES: Final = "growth.md"
"""The page with the figures as tables, and the plots."""
_GB: Final = 1_000_000_000
_MB: Final = 1_000_000
_WARM_UP_TURN_S: Final = 2.0
_DESCRIPTORS: Final = 12_000
"""Enough file descriptors for 10,000 logs."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`label` names the quantity that grows, with its unit. `per_request`: throughput is in requests and CPU per
    request; else both are in bytes."""

    name: str
    label: str
    points: tuple[int, ...]
    load: Callable[[int], Load]
    per_request: bool = False
    replicated: bool = False
    """On three brokers."""

    @property
    def title(self) -> str:
        return self.name.replace("-", " ").capitalize()

    def throughput(self, at: int) -> Figure:
        what = "requests per second" if self.per_request else "throughput"
        return Figure(f"{self.name} {at}: {what}", "1/s" if self.per_request else "MB/s", ">= 1")

    def cpu(self, at: int) -> Figure:
        if self.per_request:
            return Figure(f"{self.name} {at}: broker CPU of a request", "µs", "<= 1")
        return Figure(f"{self.name} {at}: broker CPU per GB", "s", "<= 1")


AXES: Final = {
    axis.name: axis
    for axis in (
        Axis(
            "record-size",
            "record size (bytes), in batches of 1 MB",
            (10, 100, 1_000, 10_000, 100_000, 1_000_000),
            lambda at: Load(4, 5, record_bytes=at, batch_bytes=_MB),
        ),
        Axis(
            "batch-size",
            "batch size (bytes), records of 100 B",
            (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000),
            lambda at: Load(4, 5, record_bytes=100, batch_bytes=at),
        ),
        Axis(
            "clients",
            "connections, one record of 100 B in flight each",
            (1, 3, 10, 30, 100, 300, 1_000),
            lambda at: Load(at, 1, record_bytes=100),
            per_request=True,
        ),
        Axis(
            "replication-factor",
            "replicas of three brokers, acks=all",
            (1, 2, 3),
            lambda at: Load(4, 5, record_bytes=1_000, batch_bytes=100_000, replicas=at, acks=-1),
            replicated=True,
        ),
        # At the end, since its topics take long to delete.
        Axis(
            "partitions",
            "partitions, one record of 100 B to each in turn",
            (1, 10, 100, 1_000, 10_000),
            lambda at: Load(8, 1, record_bytes=100, partitions=at),
            per_request=True,
        ),
    )
}


@dataclass
class Growth:
    """One axis measured: throughput and CPU by point."""

    axis: Axis
    points: dict[int, tuple[Figure, Figure]] = field(default_factory=dict)

    def figures(self) -> list[Figure]:
        return [figure for pair in self.points.values() for figure in pair]

    def panels(self) -> list[Panel]:
        throughput, cpu = zip(*self.points.values(), strict=True)
        of = "requests per second" if self.axis.per_request else "MB per second"
        cost = "µs per request" if self.axis.per_request else "seconds per GB"
        brokers = "CPU of all brokers" if self.axis.replicated else "CPU of the broker"
        return [Panel("throughput", of, *medians(throughput)), Panel(brokers, cost, *medians(cpu))]

    def table(self) -> str:
        """A table in Markdown, with a line for each point."""
        heads = [self.axis.label]
        for panel in self.panels():
            heads += [f"{panel.title}, {panel.y_label}: Barnabas", OTHER, "ratio"]
        lines = [heads, ["---"] * len(heads)]
        for at, pair in self.points.items():
            line = [f"{at:,}"]
            for figure in pair:
                line += [*map(shown, map(statistics.median, (figure.ours, figure.theirs))), f"{figure.ratio:.2f}"]
            lines.append(line)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ------------------------------------------------------------------------------------------------ the clusters


@dataclass(slots=True)
class _Cluster:
    """A cluster and its topic; partition 0 is led by the first broker."""

    subject: Subject
    topic: str = ""

    def new_topic(self, load: Load) -> None:
        """Creates a topic for `load` and deletes the one before. The last one is not deleted: ending the cluster is
        faster than deleting 10,000 partitions."""
        if self.topic:
            drop_topic(self.subject, self.topic)
        self.topic = f"growth-{time.monotonic_ns():020}"
        make_topic(self.subject, self.topic, [range(load.replicas)] * load.partitions)


# ------------------------------------------------------------------------------------------------ the measurement


def measure(directory: Path, axes: Sequence[str], rounds: int, seconds: float, warm_up_s: float) -> Iterator[Growth]:
    """Yields each of `axes` once it is measured: `rounds` values, of `seconds` of load each, at every point."""
    # SIGTERM ends the clusters, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    if "partitions" in axes:
        _allow_descriptors()
    for replicated in (True, False):
        chosen = [axis for axis in AXES.values() if axis.name in axes and axis.replicated == replicated]
        if not chosen:
            continue
        brokers, config = (BROKERS, CONFIG) if replicated else (1, {})
        with both(directory / str(brokers), brokers, config) as subjects:
            clusters = _Cluster(subjects[0]), _Cluster(subjects[1])
            for cluster in clusters:
                _warm_up(cluster, chosen, warm_up_s)
            for axis in chosen:
                yield _grow(clusters, axis, rounds, seconds)


def _allow_descriptors() -> None:
    """Raises the limit of open files, which brokers inherit. Raises `BenchError` if it stays too low."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    except (ValueError, PermissionError) as error:
        raise BenchError(
            f"10,000 partitions take some {_DESCRIPTORS:,} descriptors and the hard limit is {hard:,}: raise it "
            "(ulimit -Hn) or leave the axis out (--axis)."
        ) from error


def _warm_up(cluster: _Cluster, axes: Sequence[Axis], warm_up_s: float) -> None:
    """Sends the loads of all axes, each at its middle point, in turn."""
    console.print(f"warming up {cluster.subject.name} for {warm_up_s:.0f} s", style="dim")
    deadline = time.monotonic() + warm_up_s
    while time.monotonic() < deadline:
        for axis in axes:
            load = axis.load(axis.points[len(axis.points) // 2])
            cluster.new_topic(load)
            with ProduceLoad(cluster.subject.port, cluster.topic, load) as sending:
                sending.run(min(_WARM_UP_TURN_S, max(0.0, deadline - time.monotonic())))


def _grow(clusters: tuple[_Cluster, _Cluster], axis: Axis, rounds: int, seconds: float) -> Growth:
    growth = Growth(axis)
    for at in axis.points:
        load = axis.load(at)
        throughput, cpu = growth.points[at] = axis.throughput(at), axis.cpu(at)
        for cluster in clusters:
            cluster.new_topic(load)
        for _ in range(rounds):
            for cluster in clusters:
                rate, cost = _measured(cluster, load, axis.per_request, seconds)
                ours = cluster is clusters[0]
                throughput.add(rate, ours=ours)
                cpu.add(cost, ours=ours)
        told = (
            f"{statistics.median(figure.ours):,.4g} beside {statistics.median(figure.theirs):,.4g} {figure.unit}"
            for figure in (throughput, cpu)
        )
        console.print(f"  {axis.name} {short(at)}: {', CPU '.join(told)}", style="dim")
    return growth


def _measured(cluster: _Cluster, load: Load, per_request: bool, seconds: float) -> tuple[float, float]:
    """Throughput and CPU in the axis' units."""
    sent, used = measured(cluster.subject.port, cluster.topic, load, seconds, cluster.subject.cpu_s)
    if per_request:
        return sent.requests / sent.seconds, used / sent.requests * 1e6
    sent_bytes = sent.requests * load.value_bytes
    return sent_bytes / _MB / sent.seconds, used / sent_bytes * _GB


# ------------------------------------------------------------------------------------------------ the plots


def write(grown: Sequence[Growth], directory: Path) -> None:
    """Writes `RESULTS`, `TABLES` and a plot of each axis below `directory`; axes that were not measured keep theirs."""
    results = directory / RESULTS
    known = {growth.axis.name: growth for growth in read(results)} if results.exists() else {}
    known |= {growth.axis.name: growth for growth in grown}
    for growth in grown:
        plot = directory / f"{growth.axis.name}.svg"
        draw(plot, growth.axis.label, list(growth.points), growth.panels(), OTHER)
    everything = [known[name] for name in AXES if name in known]
    results.write_text(json.dumps([_as_json(growth) for growth in everything], indent=1) + "\n")
    tables = [
        f"## {growth.axis.title}\n\n![{growth.axis.label}]({growth.axis.name}.svg)\n\n{growth.table()}"
        for growth in everything
    ]
    told = "Medians of the rounds; the ratio is the median of the pairs' ratios."
    (directory / TABLES).write_text("\n".join([f"# What `barnabas bench growth` measured\n\n{told}\n", *tables]))


def read(results: Path) -> list[Growth]:
    """Reads the results of `write`. Raises `BenchError` for a file of another kind."""
    try:
        found = json.loads(results.read_text())
        return [
            Growth(
                AXES[entry["axis"]],
                {point["at"]: (_figure(point["throughput"]), _figure(point["cpu"])) for point in entry["points"]},
            )
            for entry in found
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{results} was not written by bench growth --plots: {error!r}.") from error


def _as_json(growth: Growth) -> dict[str, Any]:
    return {
        "axis": growth.axis.name,
        "points": [
            {"at": at, "throughput": throughput.as_json(), "cpu": cpu.as_json()}
            for at, (throughput, cpu) in growth.points.items()
        ],
    }


def _figure(found: dict[str, Any]) -> Figure:
    return Figure(found["figure"], found["unit"], found["wanted"], found["barnabas"], found["apache"])
