"""``barnabas bench``: the same load from the same client, on Barnabas and Apache Kafka 3.9.2, side by side in one run.

Both clusters (one broker each, logs on the same disk) run at the same time. Both get the same warm-up, and then rounds
in turn, A B A B. A figure is the ratio of Barnabas to Apache Kafka, taken pair by pair; because machines drift, the
median of the pairs counts. CPU is the broker process's own, user and system, as the kernel accounts it.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from rich.console import Console

from barnabas.bench.clusters import LoadTarget, Subject, drop_topic, make_topic, running_apache, running_barnabas
from barnabas.bench.small_requests import HEADLINE, SHAPES, SmallRequests

console = Console(stderr=True)

M = TypeVar("M", bound=LoadTarget)

_WARM_UP_S: Final = 35.0
_LOT: Final = 1000


# ------------------------------------------------------------------------------------------------ the loads


def produce(
    subject: LoadTarget, topic: str, records: int, size: int, settings: Mapping[str, Any] = MappingProxyType({})
) -> float:
    """Seconds for `records` values of `size` bytes by librdkafka, acks=1 by default, in batches of librdkafka's choice.

    The clock starts at the first acknowledgement. librdkafka 2.16 gets its producer id half a second later if the
    metadata arrive before it has asked for the id, and from Barnabas they do so more often than from Apache Kafka.
    """
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
            "log_level": 0,
            **settings,
        }
    )

    def flush() -> None:
        if producer.flush(600) != 0:
            raise RuntimeError(f"{subject.name} did not take all records")

    value = os.urandom(size)
    producer.produce(topic, value, partition=0)
    flush()
    begun = time.monotonic()
    missing = records - 1
    while missing:
        # Many records at a time: one call for each record costs the client a microsecond, and would measure the
        # client's limit.
        lot = [{"value": value}] * min(_LOT, missing)
        queued = producer.produce_batch(topic, lot, partition=0)
        missing -= queued
        if queued < len(lot):
            producer.poll(0.01)
    flush()
    return time.monotonic() - begun


def consume(subject: LoadTarget, topic: str, records: int, settings: Mapping[str, str] = MappingProxyType({})) -> float:
    """Seconds to read `records` of partition 0 from its start by librdkafka."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": subject.bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8_000_000,
            "queued.max.messages.kbytes": 200_000,
            # Without this, librdkafka pauses for a second when it has read far ahead, which would be measured for
            # either broker.
            "fetch.queue.backoff.ms": 1,
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
    """One measured quantity; `ours` and `theirs` hold a value a round. `wanted` is the aim for the ratio."""

    name: str
    unit: str
    wanted: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    names: tuple[str, str] = ("barnabas", "apache")
    """The names of `ours` and `theirs` in JSON."""

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
    """A number with three digits, or with all its digits before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def in_turns(
    subjects: tuple[M, M],
    rounds: int,
    run: Callable[[M, str], dict[str, float]],
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


def warming_up(name: str, seconds: float) -> Iterator[str]:
    """Names for topics, one after the other, until the time is over."""
    console.print(f"warming up {name} for {seconds:.0f} s", style="dim")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield f"warm-{time.monotonic_ns()}"


def warm_up(subjects: tuple[M, M], load: Callable[[M, str], object]) -> None:
    """The same load for at least 30 s on each: a cold JVM is several times slower and would prove nothing."""
    for subject in subjects:
        for topic in warming_up(subject.name, _WARM_UP_S):
            make_topic(subject, topic)
            load(subject, topic)
            drop_topic(subject, topic)


def measure_produce(subjects: tuple[Subject, Subject], rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    for size, records in ((1000, 400_000), (100, 1_500_000)):
        cpu = Figure(f"produce {size} B, broker CPU per million records", "s", "<= 1")
        per_gb = Figure(f"produce {size} B, broker CPU per GB", "s", "<= 1")
        rate = Figure(f"produce {size} B, records per second", "1/s", ">= 1")

        def run(subject: Subject, topic: str, size: int = size, records: int = records) -> dict[str, float]:
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


def measure_consume(subjects: tuple[Subject, Subject], rounds: int) -> list[Figure]:
    size, records = 1000, 400_000
    cpu = Figure(f"consume {size} B, broker CPU per GB", "s", "<= 1")
    rate = Figure(f"consume {size} B, records per second", "1/s", ">= 1")

    def run(subject: Subject, topic: str) -> dict[str, float]:
        produce(subject, topic, records, size)
        before = subject.cpu_s()
        took = consume(subject, topic, records)
        used = subject.cpu_s() - before
        return {"cpu": used / (records * size) * 1e9, "rate": records / took}

    warm_up(subjects, run)
    in_turns(subjects, rounds, run, {"cpu": cpu, "rate": rate})
    return [cpu, rate]


def measure_latency(subjects: tuple[Subject, Subject], rounds: int) -> list[Figure]:
    """Measures requests of one record in each shape of `small_requests`; the headline's figures come first."""
    requests = 40_000
    figures: dict[str, Figure] = {}
    for shape in sorted(SHAPES, key=lambda shape: shape is not HEADLINE):
        figures[f"{shape.name}/cpu"] = Figure(f"small requests, {shape.name}: broker CPU each", "µs", "<= 0.5")
        figures[f"{shape.name}/rate"] = Figure(f"small requests, {shape.name}: per second", "1/s", ">= 1")
    figures["p50"] = Figure("latency of a single record, p50", "ms", "<= 1")
    figures["p99"] = Figure("latency of a single record, p99", "ms", "<= 1")

    def run(subject: Subject, topic: str) -> dict[str, float]:
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
