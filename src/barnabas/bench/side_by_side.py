"""``barnabas bench``: the same load from the same client, on Barnabas and Apache Kafka 3.9.2, side by side in one run.

Both clusters (one broker each, logs on the same disk) stand at the same time; both get the same warm-up, and then
rounds in turn, A B A B. A figure is a ratio, Barnabas to Apache Kafka, taken pair by pair: the median of the pairs is
what counts, because machines drift. CPU is the broker process's own, user and system, as the kernel accounts it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rich.console import Console

from barnabas.bench.apache import ApacheCluster
from barnabas.bench.small_requests import HEADLINE, SHAPES, SmallRequests

console = Console(stderr=True)

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WARM_UP_S: Final = 35.0
_LOT: Final = 1000
_TOPIC_S: Final = 300
"""How long the making of a topic may take: one of 10,000 partitions keeps Kafka busy for a while."""


@dataclass
class Running:
    """A running cluster of one broker (the first, where it has more)."""

    name: str
    port: int
    pid: int
    ready_s: float

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """CPU seconds of the broker since its start."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / _TICKS  # utime and stime in proc_pid_stat(5)

    def memory_mb(self) -> float:
        """Resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"process {self.pid} has no VmRSS")


@contextlib.contextmanager
def running_barnabas(directory: Path, brokers: int = 1) -> Iterator[Running]:
    """A cluster made by ``barnabas up``; ready counts from the command's start until it returns."""
    command = [sys.executable, "-m", "barnabas"]
    begun = time.monotonic()
    up = subprocess.run(
        [*command, "up", "-n", str(brokers), "--dir", str(directory), "--format", "json"],
        capture_output=True,
        text=True,
    )
    if up.returncode != 0:
        raise RuntimeError(f"barnabas up failed: {up.stderr}")
    ready_s = time.monotonic() - begun
    broker = json.loads(up.stdout)["brokers"][0]
    try:
        yield Running("Barnabas", broker["port"], broker["pid"], ready_s)
    finally:
        subprocess.run([*command, "down", "--dir", str(directory)], capture_output=True, check=True)


@contextlib.contextmanager
def running_apache(directory: Path, brokers: int = 1) -> Iterator[Running]:
    """Real ZooKeeper and real Kafka; ready counts from ZooKeeper's start until every broker serves Metadata."""
    begun = time.monotonic()
    with ApacheCluster(directory, brokers) as cluster:
        ready_s = time.monotonic() - begun
        broker, port = next(iter(cluster.ports.items()))
        yield Running("Apache Kafka 3.9.2", port, cluster.processes[broker].pid, ready_s)


@contextlib.contextmanager
def both(directory: Path) -> Iterator[tuple[Running, Running]]:
    with running_barnabas(directory / "barnabas") as ours, running_apache(directory / "apache") as theirs:
        yield ours, theirs


# ------------------------------------------------------------------------------------------------ the loads


def make_topic(subject: Running, name: str, partitions: int = 1) -> None:
    """A topic with one replica; returns when all its partitions have leaders."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": subject.bootstrap, "socket.timeout.ms": _TOPIC_S * 1000, "log_level": 0})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config={"file.delete.delay.ms": "1000"})
    admin.create_topics([topic], operation_timeout=_TOPIC_S, request_timeout=_TOPIC_S)[name].result()
    deadline = time.monotonic() + _TOPIC_S
    while True:
        known = admin.list_topics(name, timeout=30).topics[name].partitions
        if len(known) == partitions and all(partition.leader >= 0 for partition in known.values()):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {name} has no leader")
        time.sleep(0.02)


def drop_topic(subject: Running, name: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": subject.bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(30)


def produce(
    subject: Running, topic: str, records: int, size: int, settings: Mapping[str, str] = MappingProxyType({})
) -> float:
    """Seconds for `records` values of `size` bytes by librdkafka, acks=1, in batches as large as they come."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": subject.bootstrap,
            "acks": 1,
            "linger.ms": 20,
            "batch.size": 900_000,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 400_000,
            "queue.buffering.max.kbytes": 400_000,
            **settings,
        }
    )
    producer.list_topics(topic, timeout=10)
    value = os.urandom(size)
    begun = time.monotonic()
    missing = records
    while missing:
        # In lots: one call a record costs the client a microsecond, and would measure the client's limit.
        lot = [{"value": value}] * min(_LOT, missing)
        queued = producer.produce_batch(topic, lot, partition=0)
        missing -= queued
        if queued < len(lot):
            producer.poll(0.01)
    if producer.flush(120) != 0:
        raise RuntimeError(f"{subject.name} did not take all records")
    return time.monotonic() - begun


def consume(subject: Running, topic: str, records: int, settings: Mapping[str, str] = MappingProxyType({})) -> float:
    """Seconds to read `records` of partition 0 from its start by librdkafka."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": subject.bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8_000_000,
            "queued.max.messages.kbytes": 200_000,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    begun = time.monotonic()
    got = 0
    while got < records:
        batch = consumer.consume(20_000, 10)
        if not batch:
            raise RuntimeError(f"{subject.name} gave {got} of {records} records")
        got += len(batch)
    took = time.monotonic() - begun
    consumer.close()
    return took


# ------------------------------------------------------------------------------------------------ the figures


def median_and_p99(latencies: Iterable[float]) -> dict[str, float]:
    """``p50`` and ``p99``, each one of the latencies."""
    ordered = sorted(latencies)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[math.ceil(len(ordered) * 0.99) - 1]}


@dataclass
class Figure:
    """One measured quantity; `ours` and `theirs` hold a value a round. `wanted` is the ratio the project aims at."""

    name: str
    unit: str
    wanted: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    names: tuple[str, str] = ("barnabas", "apache")
    """What JSON calls `ours` and `theirs`."""

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def add(self, value: float, *, ours: bool) -> None:
        (self.ours if ours else self.theirs).append(value)

    def met(self) -> bool:
        sign, bound = self.wanted.split()
        return self.ratio <= float(bound) if sign == "<=" else self.ratio >= float(bound)

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "unit": self.unit,
            self.names[0]: self.ours,
            self.names[1]: self.theirs,
            "ratio": round(self.ratio, 3),
            "wanted": self.wanted,
            "met": self.met(),
        }


def shown(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def in_turns(
    subjects: tuple[Running, Running],
    rounds: int,
    run: Callable[[Running, str], dict[str, float]],
    figures: dict[str, Figure],
) -> None:
    for number in range(rounds):
        for subject in subjects:
            topic = f"bench-{number}-{time.monotonic_ns()}"
            make_topic(subject, topic)
            for name, value in run(subject, topic).items():
                figure = figures[name]
                figure.add(value, ours=subject is subjects[0])
            drop_topic(subject, topic)
            console.print(f"  round {number + 1}/{rounds}  {subject.name}", style="dim")


def warm_up(subjects: tuple[Running, Running], load: Callable[[Running, str], object]) -> None:
    """The same load for at least 30 s on each: a cold JVM is several times slower and would prove nothing."""
    for subject in subjects:
        console.print(f"warming up {subject.name} for {_WARM_UP_S:.0f} s", style="dim")
        deadline = time.monotonic() + _WARM_UP_S
        while time.monotonic() < deadline:
            topic = f"warm-{time.monotonic_ns()}"
            make_topic(subject, topic)
            load(subject, topic)
            drop_topic(subject, topic)


def measure_produce(subjects: tuple[Running, Running], rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    for size, records in ((1000, 400_000), (100, 1_500_000)):
        cpu = Figure(f"produce {size} B, broker CPU per million records", "s", "<= 1")
        per_gb = Figure(f"produce {size} B, broker CPU per GB", "s", "<= 1")
        rate = Figure(f"produce {size} B, records per second", "1/s", ">= 1")

        def run(subject: Running, topic: str, size: int = size, records: int = records) -> dict[str, float]:
            before = subject.cpu_s()
            took = produce(subject, topic, records, size)
            used = subject.cpu_s() - before
            return {"cpu": used / records * 1e6, "gb": used / (records * size) * 1e9, "rate": records / took}

        warm_up(subjects, run)
        in_turns(subjects, rounds, run, {"cpu": cpu, "gb": per_gb, "rate": rate})
        figures += [cpu, per_gb, rate]
    memory = Figure("resident memory after the load", "MB", "<= 0.2")
    memory.ours.append(subjects[0].memory_mb())
    memory.theirs.append(subjects[1].memory_mb())
    return [*figures, memory]


def measure_consume(subjects: tuple[Running, Running], rounds: int) -> list[Figure]:
    size, records = 1000, 400_000
    cpu = Figure(f"consume {size} B, broker CPU per GB", "s", "<= 1")
    rate = Figure(f"consume {size} B, records per second", "1/s", ">= 1")

    def run(subject: Running, topic: str) -> dict[str, float]:
        produce(subject, topic, records, size)
        before = subject.cpu_s()
        took = consume(subject, topic, records)
        used = subject.cpu_s() - before
        return {"cpu": used / (records * size) * 1e9, "rate": records / took}

    warm_up(subjects, run)
    in_turns(subjects, rounds, run, {"cpu": cpu, "rate": rate})
    return [cpu, rate]


def measure_latency(subjects: tuple[Running, Running], rounds: int) -> list[Figure]:
    """Single-record requests in each shape that clients give them; the headline's figures come first."""
    requests = 40_000
    figures: dict[str, Figure] = {}
    for shape in sorted(SHAPES, key=lambda shape: shape is not HEADLINE):
        figures[f"{shape.name}/cpu"] = Figure(f"small requests, {shape.name}: broker CPU each", "µs", "<= 0.5")
        figures[f"{shape.name}/rate"] = Figure(f"small requests, {shape.name}: per second", "1/s", ">= 1")
    figures["p50"] = Figure("latency of a single record, p50", "ms", "<= 1")
    figures["p99"] = Figure("latency of a single record, p99", "ms", "<= 1")

    def run(subject: Running, topic: str) -> dict[str, float]:
        values: dict[str, float] = {}
        for shape in SHAPES:
            with SmallRequests(subject.port, topic, shape, requests) as load:
                before = subject.cpu_s()
                took = load.run()
                used = subject.cpu_s() - before
            values[f"{shape.name}/cpu"] = used / load.requests * 1e6
            values[f"{shape.name}/rate"] = load.requests / took
        with SmallRequests(subject.port, topic, SHAPES[0], requests // 2) as alone:
            values |= median_and_p99(alone.latencies_ms())
        return values

    warm_up(subjects, run)
    in_turns(subjects, rounds, run, figures)
    return list(figures.values())


def measure_start(directory: Path, rounds: int, brokers: int) -> list[Figure]:
    ready = Figure(f"{brokers} broker{'s' if brokers > 1 else ''} and coordination, time to ready", "s", "<= 0.2")
    for number in range(rounds):
        with running_barnabas(directory / f"barnabas-{number}", brokers) as ours:
            ready.ours.append(ours.ready_s)
        with running_apache(directory / f"apache-{number}", brokers) as theirs:
            ready.theirs.append(theirs.ready_s)
    return [ready]
