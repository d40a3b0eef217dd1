"""``barnabas bench clients``: widely used clients, with their defaults, on three brokers of each kind.

`produce_load`, `small_requests` and `shapes` send frames that are made before the clock starts, so they do not show how
a client uses connections, batches and fetch sessions. Here Java's client, franz-go and librdkafka send records of 1 KB
to 64 partitions whose leaders are on all brokers, idempotent with acks=all: as fast as possible, in transactions, and
paced. They also read the records from the start. The other cluster is stopped meanwhile.

CPU is that of all three brokers for each record. It is counted while the client's process lives, its start included,
since idle brokers use next to nothing. A rate is the client's own figure, and depends on the client as much as on the
brokers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.bench import BenchError
from barnabas.bench.apache import tool
from barnabas.bench.clusters import Subject, both, drop_topic, make_topic, standing_still
from barnabas.bench.controller import BROKERS
from barnabas.bench.go_programs import built
from barnabas.bench.replication import PATIENT
from barnabas.bench.side_by_side import Figure, console, warming_up
from barnabas.bench.undisturbed import undisturbed

if TYPE_CHECKING:
    from confluent_kafka import Producer

PARTITIONS: Final = 64
_RECORD_BYTES: Final = 1000
_LOT: Final = 100
_LIMIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """`records` in a run. `rate`: records a second, 0: as fast as possible. `transaction_ms`: the duration of each
    transaction, 0: no transactions. `read`: records are read from the topic's start, not written."""

    name: str
    records: int
    rate: int = 0
    transaction_ms: int = 0
    read: bool = False


LOADS: Final = (
    ClientLoad("as fast as it goes", 400_000),
    ClientLoad("transactions of 100 ms", 100_000, transaction_ms=100),
    ClientLoad("1,000 records a second", 5_000, rate=1000),
    ClientLoad("read from the start", 400_000, read=True),
)


class BenchClient(Protocol):
    name: str

    def produce(self, servers: str, topic: str, load: ClientLoad) -> float:
        """Records a second. Raises `BenchError`."""
        ...

    def consume(self, servers: str, topic: str, load: ClientLoad) -> float:
        """Records a second. Raises `BenchError`."""
        ...


class Librdkafka:
    name = "librdkafka"

    def produce(self, servers: str, topic: str, load: ClientLoad) -> float:
        from confluent_kafka import Producer

        settings: dict[str, str | int | bool] = {"bootstrap.servers": servers, "enable.idempotence": True}
        if load.transaction_ms:
            settings["transactional.id"] = f"bench-{time.monotonic_ns()}"
        producer = Producer(settings)
        if load.transaction_ms:
            producer.init_transactions(_LIMIT_S)
        value = os.urandom(_RECORD_BYTES)
        begun = time.monotonic()
        sent, ends_at = 0, 0.0
        while sent < load.records:
            if load.transaction_ms and (now := time.monotonic()) > ends_at:
                if sent:
                    producer.commit_transaction(_LIMIT_S)
                producer.begin_transaction()
                ends_at = now + load.transaction_ms / 1000
            if load.rate:
                time.sleep(max(0.0, begun + sent / load.rate - time.monotonic()))
            # Many records at a time: one call for each record costs the client a microsecond, and would measure the
            # client's limit.
            lot = 1 if load.rate else min(_LOT, load.records - sent)
            queued = producer.produce_batch(topic, [{"value": value}] * lot)
            producer.poll(0 if queued == lot else 0.01)
            sent += queued
        if load.transaction_ms:
            producer.commit_transaction(_LIMIT_S)
        _flush(producer, load.records)
        return load.records / (time.monotonic() - begun)

    def consume(self, servers: str, topic: str, load: ClientLoad) -> float:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": servers, "group.id": f"bench-{time.monotonic_ns()}"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        try:
            consumer.subscribe([topic])
            begun = time.monotonic()
            read = 0
            while read < load.records:
                batch = consumer.consume(20_000, 1.0)
                read += sum(message.error() is None for message in batch)
                if time.monotonic() > begun + _LIMIT_S:
                    raise BenchError(f"librdkafka read {read} of {load.records} records in {_LIMIT_S:.0f} s.")
            return read / (time.monotonic() - begun)
        finally:
            consumer.close()


def fill(servers: str, topic: str, records: int) -> None:
    """Writes the same number of records to each partition of either cluster. At the end of its partitions a fetch of
    Java's consumer waits half a second (`fetch.max.wait.ms`): with partitions of random sizes the figures would mostly
    be that wait. Raises `BenchError`."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "queue.buffering.max.messages": records}
        | {"queue.buffering.max.kbytes": 2 * records * _RECORD_BYTES // 1024}
    )
    lot = [{"value": os.urandom(_RECORD_BYTES)}] * _LOT
    for number in range(records // _LOT):
        producer.produce_batch(topic, lot, partition=number % PARTITIONS)
    _flush(producer, records)


def _flush(producer: Producer, records: int) -> None:
    if left := producer.flush(_LIMIT_S):
        raise BenchError(f"librdkafka has no answer for {left} of {records} records after {_LIMIT_S:.0f} s.")


class Java:
    """By ``kafka-producer-perf-test`` and ``kafka-consumer-perf-test``."""

    name = "Java"
    _SENT = re.compile(r"^\d+ records sent, ([\d.]+) records/sec .* 99.9th", re.MULTILINE)

    def produce(self, servers: str, topic: str, load: ClientLoad) -> float:
        options = ["--topic", topic, "--num-records", str(load.records), "--record-size", str(_RECORD_BYTES)]
        options += ["--throughput", str(load.rate or -1)]
        if load.transaction_ms:
            options += ["--transaction-duration-ms", str(load.transaction_ms)]
        told = _told("kafka-producer-perf-test", *options, "--producer-props", f"bootstrap.servers={servers}")
        sent = self._SENT.search(told)
        if sent is None:
            raise BenchError(f"kafka-producer-perf-test did not end: {told[-500:]}")
        return float(sent[1])

    def consume(self, servers: str, topic: str, load: ClientLoad) -> float:
        told = _told(
            "kafka-consumer-perf-test", "--bootstrap-server", servers, "--topic", topic,
            "--messages", str(load.records), "--hide-header", "--timeout", "60000",
        )  # fmt: skip
        *_, fetched_per_s = told.strip().splitlines()[-1].split(",")
        return float(fetched_per_s)


def _told(name: str, *options: str) -> str:
    done = tool(name, *options, timeout=_LIMIT_S)
    if done.returncode != 0:
        raise BenchError(f"{name} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


class FranzGo:
    """Loads by the Go program beside this file, which ``go`` builds once."""

    name = "franz-go"

    def __init__(self) -> None:
        self._program = built(Path(__file__).parent / "franz_go", "bench")

    def _run(self, *arguments: str | int) -> float:
        """The seconds that the program reports. Raises `BenchError`."""
        words = [str(self._program), *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S)
        if done.returncode != 0:
            raise BenchError(f"The load by franz-go failed: {done.stderr.strip()[-500:]}")
        return float(json.loads(done.stdout)["seconds"])

    def produce(self, servers: str, topic: str, load: ClientLoad) -> float:
        words = ("produce", servers, topic, load.records, _RECORD_BYTES, load.rate, load.transaction_ms)
        return load.records / self._run(*words)

    def consume(self, servers: str, topic: str, load: ClientLoad) -> float:
        return load.records / self._run("consume", servers, topic, load.records)


def clients(names: Sequence[str]) -> list[BenchClient]:
    """The clients of these names; without names all, except franz-go if Go is missing. Raises `BenchError` for an
    unknown name."""
    makers: dict[str, Callable[[], BenchClient]] = {"librdkafka": Librdkafka, "Java": Java, "franz-go": FranzGo}
    for name in names:
        if name not in makers:
            raise BenchError(f"There is no client {name}; there are {', '.join(makers)}.")
    if not names and shutil.which("go") is None:
        console.print("franz-go is left out: go is not on PATH", style="yellow")
        del makers["franz-go"]
    return [maker() for name, maker in makers.items() if not names or name in names]


class ClientCost(NamedTuple):
    cpu_us: float
    """CPU of three brokers for each record."""
    rate: float


def run(subject: Subject, other: Subject, client: BenchClient, load: ClientLoad, topic: str) -> ClientCost:
    """Raises `BenchError`."""
    make_topic(subject, topic, [[(first + turn) % BROKERS for turn in range(BROKERS)] for first in range(PARTITIONS)])
    servers = subject.bootstrap
    if load.read:
        fill(servers, topic, load.records)

    def measure() -> ClientCost:
        with standing_still(other):
            before = subject.cpu_s()
            rate = (client.consume if load.read else client.produce)(servers, topic, load)
            return ClientCost((subject.cpu_s() - before) / load.records * 1e6, rate)

    values = undisturbed(measure, os.sync)
    drop_topic(subject, topic)
    return values


def measure(
    directory: Path, chosen: Sequence[BenchClient], loads: Sequence[ClientLoad], rounds: int, warm_up_s: float
) -> list[Figure]:
    figures: dict[tuple[str, str], tuple[Figure, Figure | None]] = {}
    for client in chosen:
        for load in loads:
            name = f"{client.name}, {load.name}"
            cpu = Figure(f"{name}: CPU of three brokers a record", "µs", "<= 0.6")
            rate = None if load.rate else Figure(f"{name}: records per second", "1/s", ">= 1")
            figures[client.name, load.name] = cpu, rate
    with both(directory, BROKERS, PATIENT) as (ours, theirs):
        pairs = (ours, theirs), (theirs, ours)
        for subject, other in pairs:
            for name in warming_up(subject.name, warm_up_s):
                run(subject, other, Librdkafka(), LOADS[0], name)
        for number in range(rounds):
            for client in chosen:
                for load in loads:
                    for subject, other in pairs:
                        values = run(subject, other, client, load, f"bench-{number}-{time.monotonic_ns()}")
                        cpu, rate = figures[client.name, load.name]
                        cpu.add(values.cpu_us, ours=subject is ours)
                        if rate is not None:
                            rate.add(values.rate, ours=subject is ours)
            console.print(f"  round {number + 1}/{rounds}", style="dim")
    return [figure for pair in figures.values() for figure in pair if figure is not None]
