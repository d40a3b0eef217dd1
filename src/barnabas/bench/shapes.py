"""``barnabas bench shapes``: produce requests in clients' shapes, on three brokers of each kind, beside Apache Kafka
3.9.2.

`replication` and `latency` send to one partition as fast as they can. Here a request has several partitions, their
leaders are on one broker or on all, and records have keys and are compressed. Some loads are paced: a fixed number of
records a second, one at a time, as services send them; there the broker's work between two records counts as well. All
have three replicas and acks=all, use plain sockets with frames made in advance, and have one request in flight for each
broker.

CPU is that of all three brokers of a cluster.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.bench.clusters import Subject, both, drop_topic, make_topic, standing_still
from barnabas.bench.controller import BROKERS
from barnabas.bench.replication import PATIENT
from barnabas.bench.side_by_side import Figure, console, median_and_p99, warming_up
from barnabas.bench.small_requests import PRODUCE_VERSION, Refused, connect
from barnabas.bench.undisturbed import undisturbed
from barnabas.wire import frames
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch

ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000
_RECORD_BYTES: Final = 100
_WARM_UP_REQUESTS: Final = 200
_LEADERS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LoadShape:
    """A request for each broker that leads some of `partitions`, with a batch of `records` for each of them. `pace`:
    requests a second; 0: each is sent when the one before is answered."""

    name: str
    partitions: int = 1
    everywhere: bool = False
    """Whether the leaders are on all brokers, or on one."""
    records: int = 1
    keyed: bool = False
    compression: str = "none"
    pace: int = 0

    def assignment(self) -> list[list[int]]:
        """Replicas by partition, the leader first."""
        leaders = [number % BROKERS if self.everywhere else 0 for number in range(self.partitions)]
        return [[(leader + turn) % BROKERS for turn in range(BROKERS)] for leader in leaders]

    @property
    def records_in_all(self) -> int:
        return self.partitions * self.records


SHAPES: Final = (
    LoadShape("1 partition"),
    LoadShape("8 partitions a request", 8),
    LoadShape("64 partitions a request", 64),
    LoadShape("8 partitions, leaders on all brokers", 8, everywhere=True),
    LoadShape("64 partitions, leaders on all brokers", 64, everywhere=True),
    LoadShape("100 records with keys", records=100, keyed=True),
    LoadShape("100 records with keys, gzip", records=100, keyed=True, compression="gzip"),
    LoadShape("100 records with keys, lz4", records=100, keyed=True, compression="lz4"),
    LoadShape("100 records with keys, zstd", records=100, keyed=True, compression="zstd"),
    LoadShape("30 records a second", pace=30),
    LoadShape("100 records a second", pace=100),
    LoadShape("1,000 records a second", pace=1000),
)
_WARM_UP: Final = SHAPES[3]


def batch_of(shape: LoadShape) -> bytes:
    # Half of each value is the same, so that values can be compressed.
    made = [
        Record(number, 1_700_000_000_000, b"key-%04d" % number if shape.keyed else None, _value(), [])
        for number in range(shape.records)
    ]
    return build_batch(made, compression=shape.compression)


def _value() -> bytes:
    return os.urandom(_RECORD_BYTES // 2) + bytes(_RECORD_BYTES // 2)


def requests_of(shape: LoadShape, topic: str) -> dict[int, bytes]:
    """A complete request for each broker that leads a partition."""
    led: dict[int, list[ProduceRequest.PartitionProduceData]] = {}
    for number, replicas in enumerate(shape.assignment()):
        led.setdefault(replicas[0], []).append(ProduceRequest.PartitionProduceData(number, batch_of(shape)))
    made = {}
    for broker, data in led.items():
        message = ProduceRequest(None, ACKS_ALL, _TIMEOUT_MS, [ProduceRequest.TopicProduceData(topic, data)])
        made[broker] = b"".join(frames.encode_request(message, PRODUCE_VERSION, 1, "bench"))
    return made


class RoundTrips(ExitStack):
    """Connections to the leaders of one topic; each `once` sends to all of them, and waits for all answers."""

    def __init__(self, ports: dict[int, int], requests: dict[int, bytes]) -> None:
        super().__init__()
        self._leaders = [(self.enter_context(connect(ports[broker])), frame) for broker, frame in requests.items()]

    def once(self) -> None:
        """Raises `Refused`."""
        for connection, frame in self._leaders:
            connection.sendall(frame)
        answers = [_answer(connection) for connection, _ in self._leaders]
        for answer in answers:
            check(answer)

    def until_taken(self) -> None:
        """Repeats the request until all leaders accept it: a new topic's leaders learn of it one after the other.
        Raises `Refused`."""
        deadline = time.monotonic() + _LEADERS_S
        while True:
            try:
                self.once()
                return
            except Refused:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


def _answer(connection: socket.socket) -> bytes:
    data = bytearray()
    wanted = 4
    while len(data) < wanted:
        received = connection.recv(1 << 16)
        if not received:
            raise Refused("the connection was closed")
        data += received
        if len(data) >= 4:
            wanted = 4 + int(struct.unpack_from(">i", data)[0])
    return bytes(data[4:])


def check(answer: bytes) -> None:
    """Raises `Refused` for any partition's error."""
    _, response = frames.decode_response(ProduceResponse, PRODUCE_VERSION, answer)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise Refused(f"a produce to {topic.name}-{partition.index} got error {partition.error_code}")


def run(subject: Subject, other: Subject, topic: str, shape: LoadShape, seconds: float) -> dict[str, float]:
    """Records a second, CPU per record in µs, and the median and 99th percentile of a round trip."""
    make_topic(subject, topic, shape.assignment())

    def measure() -> dict[str, float]:
        with RoundTrips(subject.ports, requests_of(shape, topic)) as trips, standing_still(other):
            trips.until_taken()
            for _ in range(_WARM_UP_REQUESTS if not shape.pace else 5):
                trips.once()
            before, begun = subject.cpu_s(), time.monotonic()
            took: list[float] = []
            while (now := time.monotonic()) < begun + seconds:
                if shape.pace and (early := begun + len(took) / shape.pace - now) > 0:
                    time.sleep(early)
                sent = time.perf_counter()
                trips.once()
                took.append((time.perf_counter() - sent) * 1000)
            elapsed, used = time.monotonic() - begun, subject.cpu_s() - before
        records = len(took) * shape.records_in_all
        return {
            "rate": records / elapsed,
            "cpu": used / records * 1e6,
            **median_and_p99(took),
        }

    values = undisturbed(measure, os.sync)
    drop_topic(subject, topic)
    return values


def figures_of(shape: LoadShape) -> dict[str, Figure]:
    figures = {
        "cpu": Figure(f"{shape.name}: CPU of three brokers a record", "µs", "<= 0.7"),
        "p50": Figure(f"{shape.name}: p50", "ms", "<= 1"),
        "p99": Figure(f"{shape.name}: p99", "ms", "<= 1"),
    }
    if not shape.pace:
        figures["rate"] = Figure(f"{shape.name}: records per second", "1/s", ">= 1")
    return figures


def measure(
    directory: Path, shapes: Sequence[LoadShape], rounds: int, seconds: float, warm_up_s: float
) -> list[Figure]:
    figures = {shape.name: figures_of(shape) for shape in shapes}
    with both(directory, BROKERS, PATIENT) as (ours, theirs):
        for subject, other in ((ours, theirs), (theirs, ours)):
            for name in warming_up(subject.name, warm_up_s):
                run(subject, other, name, _WARM_UP, min(2.0, warm_up_s))
        for number in range(rounds):
            for at, shape in enumerate(shapes):
                for subject, other in ((ours, theirs), (theirs, ours)):
                    values = run(subject, other, f"bench-{number}-{at}", shape, seconds)
                    for name, figure in figures[shape.name].items():
                        figure.add(values[name], ours=subject is ours)
            console.print(f"  round {number + 1}/{rounds}", style="dim")
    return [figure for by_name in figures.values() for figure in by_name.values()]
