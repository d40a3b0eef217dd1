"""The measured clusters, Barnabas and Apache Kafka 3.9.2, of one broker or of several; and their topics."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from barnabas.bench.apache import ApacheCluster
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.runtime.started_process import PYTHON, StartedProcess

_CPU_CLOCK: Final = 2
"""The low bits of the id of a process's CPU clock on Linux (``clock_getcpuclockid``)."""
_NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})
_CONFIG: Final[Mapping[str, str]] = MappingProxyType({"log.segment.delete.delay.ms": "1000"})
"""The configuration of all measured brokers. Both kinds remove deleted topics at this interval, by default once a
minute; meanwhile a bench fills gigabytes of new memory. On a virtual machine whose host takes free memory back, a new
page costs ten times a page that was just freed (measured: 2.3 and 0.2 s a GB), so the comparison would depend on the
number of new pages."""
PATIENCE_S: Final = 600.0
_TOPIC_S: Final = 300
"""How long the creation of a topic may take: with 10,000 partitions it takes Kafka a while."""


def process_cpu_s(pid: int) -> float:
    """CPU seconds of a process since its start, to the nanosecond; ``/proc`` has only hundredths of a second."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK)


def process_memory_mb(pid: int) -> float:
    """Resident memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


class LoadTarget(Protocol):
    """The facts of a broker or a cluster that a load needs."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def bootstrap(self) -> str: ...

    def cpu_s(self) -> float: ...


@dataclass
class Running:
    """A running server of one process."""

    name: str
    port: int
    pid: int
    ready_s: float

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        return process_cpu_s(self.pid)

    def memory_mb(self) -> float:
        return process_memory_mb(self.pid)


class Subject(ABC):
    """A running cluster, whose brokers have the ids from 0 on."""

    name: str
    zookeeper: str
    ports: dict[int, int]
    ready_s: float
    """Seconds from nothing to brokers that answer, coordination included."""

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def pids(self) -> list[int]:
        return [self.pid(broker) for broker in self.ports]

    def cpu_s(self) -> float:
        """Of all brokers, since their start."""
        return sum(map(process_cpu_s, self.pids))

    def memory_mb(self) -> float:
        """Of one broker."""
        return sum(map(process_memory_mb, self.pids)) / len(self.ports)

    @abstractmethod
    def pid(self, broker: int) -> int: ...

    @abstractmethod
    def log_dir(self, broker: int) -> Path: ...

    @abstractmethod
    def kill(self, broker: int) -> None: ...

    @abstractmethod
    def stop(self, broker: int) -> None:
        """A controlled shutdown; returns when the process has ended."""

    @abstractmethod
    def start(self, broker: int) -> None: ...


class BarnabasSubject(Subject):
    """A cluster made by ``barnabas up``; `ready_s` counts from the command's start until it returns."""

    name = "Barnabas"

    def __init__(self, directory: Path, brokers: int = 1, config: Mapping[str, str] = _NO_CONFIG) -> None:
        self._directory = directory
        self._brokers = brokers
        self._config = {**_CONFIG, **config}
        begun = time.monotonic()
        self._up()
        self.ready_s = time.monotonic() - begun

    def _up(self) -> None:
        options = [word for key, value in self._config.items() for word in ("--config", f"{key}={value}")]
        command = [*PYTHON, "-m", "barnabas", "up", "-n", str(self._brokers), "--dir", str(self._directory)]
        up = subprocess.run([*command, *options, "--format", "json"], capture_output=True, text=True)
        if up.returncode != 0:
            raise RuntimeError(f"barnabas up failed: {up.stderr}")
        self._state: dict[str, Any] = json.loads(up.stdout)
        self.zookeeper = self._state["zookeeper"]
        self.ports = {broker["id"]: broker["port"] for broker in self._state["brokers"]}

    def pid(self, broker: int) -> int:
        return int(self._state["brokers"][broker]["pid"])

    def log_dir(self, broker: int) -> Path:
        return Path(self._state["brokers"][broker]["log_dir"])

    def kill(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGKILL)

    def stop(self, broker: int) -> None:
        process = StartedProcess(self.pid(broker))
        process.signal(signal.SIGTERM)
        until(lambda: not process.alive, "the end of a broker's process")

    def start(self, broker: int) -> None:
        self._up()

    def close(self) -> None:
        command = [*PYTHON, "-m", "barnabas", "down", "--kill", "--dir", str(self._directory)]
        subprocess.run(command, capture_output=True, check=True)


class ApacheSubject(Subject):
    """Real ZooKeeper and real Kafka; `ready_s` counts from ZooKeeper's start until every broker answers Metadata."""

    name = "Apache Kafka 3.9.2"

    def __init__(self, cluster: ApacheCluster, ready_s: float) -> None:
        self._cluster = cluster
        self.zookeeper = cluster.zookeeper
        self.ports = cluster.ports
        self.ready_s = ready_s

    def pid(self, broker: int) -> int:
        return self._cluster.processes[broker].pid

    def log_dir(self, broker: int) -> Path:
        return self._cluster.log_dir(broker)

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def stop(self, broker: int) -> None:
        self._cluster.stop(broker, PATIENCE_S)

    def start(self, broker: int) -> None:
        self._cluster.start(broker)


@contextlib.contextmanager
def running_barnabas(
    directory: Path, brokers: int = 1, config: Mapping[str, str] = _NO_CONFIG
) -> Iterator[BarnabasSubject]:
    subject = BarnabasSubject(directory, brokers, config)
    try:
        yield subject
    finally:
        subject.close()


@contextlib.contextmanager
def running_apache(
    directory: Path, brokers: int = 1, config: Mapping[str, str] = _NO_CONFIG
) -> Iterator[ApacheSubject]:
    begun = time.monotonic()
    heap = "512m" if brokers == 1 else "1g"
    with ApacheCluster(directory, brokers, config={**_CONFIG, **config}, heap=heap, timeout=PATIENCE_S) as cluster:
        yield ApacheSubject(cluster, time.monotonic() - begun)


@contextlib.contextmanager
def both(
    directory: Path, brokers: int = 1, config: Mapping[str, str] = _NO_CONFIG
) -> Iterator[tuple[Subject, Subject]]:
    """Runs ours and Apache's cluster at the same time, with their logs on the same disk."""
    with (
        running_barnabas(directory / "barnabas", brokers, config) as ours,
        running_apache(directory / "apache", brokers, config) as theirs,
    ):
        yield ours, theirs


@contextlib.contextmanager
def standing_still(subject: Subject) -> Iterator[None]:
    """Pauses the brokers of `subject`. The block must be shorter than their ZooKeeper sessions."""
    for pid in subject.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in subject.pids:
            os.kill(pid, signal.SIGCONT)


# ------------------------------------------------------------------------------------------------ topics


def make_topic(subject: LoadTarget, name: str, assignment: Sequence[Sequence[int]] = ((0,),)) -> None:
    """Creates a topic with these replicas; returns when its partitions have leaders."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": subject.bootstrap, "socket.timeout.ms": _TOPIC_S * 1000, "log_level": 0})
    config = {"min.insync.replicas": str(min(2, len(assignment[0]))), "file.delete.delay.ms": "1000"}
    replicas = [list(brokers) for brokers in assignment]
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=replicas, config=config)
    admin.create_topics([topic], operation_timeout=_TOPIC_S, request_timeout=_TOPIC_S)[name].result()

    def led() -> bool:
        known = seen_by(subject.port).topics.get(name)
        leaders = [] if known is None else [partition.leader for partition in known.partitions.values()]
        return len(leaders) == len(assignment) and min(leaders) >= 0

    until(led, f"leaders of {name}")


def drop_topic(subject: LoadTarget, name: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": subject.bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(60)


def seen_by(port: int) -> ClusterMetadata:
    """The cluster by the Metadata of the broker at `port`; empty if the broker does not answer."""
    try:
        with BlockingConnection("127.0.0.1", port, "barnabas-bench", request_timeout_ms=60_000) as connection:
            return read_metadata(connection.send(metadata_request(None)))
    except OSError:
        return ClusterMetadata()


def until(fact: Callable[[], bool], what: str) -> None:
    """Waits for `fact`. Raises ``TimeoutError`` naming `what`."""
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(0.02)
