"""``barnabas bench controller``: what a controller does with many partitions, beside Apache Kafka 3.9.2.

Three brokers each, one cluster after the other (two of them at once would measure each other), `topics` of
`partitions` each with three replicas. Everything is seen from outside, the same way for both:

- creating all topics, until every broker's Metadata has a leader for each partition;
- a controller's failover: ``/controller`` is deleted, and a topic is created at once; the new controller makes it after
  the failover, and its queue and channels keep that order, so that every broker knows the topic only after the last
  UpdateMetadata of the failover;
- a broker's death: from the end of its registration until no other broker's Metadata has it as a leader;
- controlled shutdown of each broker in turn, from SIGTERM to the process's end; in between the ISRs become whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from barnabas.bench.apache import ApacheCluster
from barnabas.bench.side_by_side import Figure, console
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreateTopicsRequest

BROKERS: Final = 3
_LOT: Final = 50
_AFTER: Final = "bench-after"
_PATIENCE_S: Final = 600.0
CONFIG: Final = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "6000"}


class Subject(Protocol):
    """A running cluster of three brokers."""

    name: str
    zookeeper: str
    ports: dict[int, int]

    def pid(self, broker: int) -> int: ...

    def log_dir(self, broker: int) -> Path: ...

    def kill(self, broker: int) -> None: ...

    def stop(self, broker: int) -> None:
        """A controlled shutdown; returns when the process has ended."""
        ...

    def start(self, broker: int) -> None: ...


class BarnabasSubject:
    name = "Barnabas"

    def __init__(self, directory: Path, config: Mapping[str, str]) -> None:
        self._directory = directory
        self._config = config
        self._up()

    def _up(self) -> None:
        options = [word for key, value in self._config.items() for word in ("--config", f"{key}={value}")]
        command = [sys.executable, "-m", "barnabas", "up", "-n", str(BROKERS), "--dir", str(self._directory)]
        up = subprocess.run([*command, *options, "--format", "json"], capture_output=True, text=True)
        if up.returncode != 0:
            raise RuntimeError(f"barnabas up failed: {up.stderr}")
        self._state: dict[str, Any] = json.loads(up.stdout)
        self.zookeeper: str = self._state["zookeeper"]
        self.ports: dict[int, int] = {broker["id"]: broker["port"] for broker in self._state["brokers"]}

    def pid(self, broker: int) -> int:
        return int(self._state["brokers"][broker]["pid"])

    def log_dir(self, broker: int) -> Path:
        return Path(self._state["brokers"][broker]["log_dir"])

    def kill(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGKILL)

    def stop(self, broker: int) -> None:
        pid = self.pid(broker)
        os.kill(pid, signal.SIGTERM)
        until(lambda: not _lives(pid), "the end of a broker's process")

    def start(self, broker: int) -> None:
        self._up()

    def close(self) -> None:
        command = [sys.executable, "-m", "barnabas", "down", "--kill", "--dir", str(self._directory)]
        subprocess.run(command, capture_output=True, check=True)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class ApacheSubject:
    name = "Apache Kafka 3.9.2"

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster
        self.zookeeper = cluster.zookeeper
        self.ports = cluster.ports

    def pid(self, broker: int) -> int:
        return self._cluster.processes[broker].pid

    def log_dir(self, broker: int) -> Path:
        return self._cluster.log_dir(broker)

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def stop(self, broker: int) -> None:
        self._cluster.stop(broker, _PATIENCE_S)

    def start(self, broker: int) -> None:
        self._cluster.start(broker)


@contextlib.contextmanager
def running_barnabas(directory: Path, config: Mapping[str, str] = CONFIG) -> Iterator[Subject]:
    subject = BarnabasSubject(directory, config)
    try:
        yield subject
    finally:
        subject.close()


@contextlib.contextmanager
def running_apache(directory: Path, config: Mapping[str, str] = CONFIG) -> Iterator[Subject]:
    with ApacheCluster(directory, BROKERS, config=config, heap="1g", timeout=_PATIENCE_S) as cluster:
        yield ApacheSubject(cluster)


def measure(directory: Path, topics: int, partitions: int) -> list[Figure]:
    figures = {
        "create": Figure(f"creating {topics} topics of {partitions} partitions", "s", "<= 1.0"),
        "failover": Figure(f"controller failover with {topics * partitions} partitions", "s", "<= 0.5"),
        "death": Figure(f"a broker's death, {topics * partitions // BROKERS} partitions led", "s", "<= 0.5"),
        "shutdown": Figure("controlled shutdown of each broker in turn", "s", "<= 1.0"),
    }
    for running, is_ours in ((running_apache, False), (running_barnabas, True)):
        with running(directory / running.__name__) as subject:
            for name, seconds in _Play(subject, topics, partitions).run():
                figures[name].add(seconds, ours=is_ours)
                console.print(f"  {subject.name}: {figures[name].name}: {seconds:.2f} s", style="dim")
    return list(figures.values())


@dataclass
class _Play:
    """One cluster's turn."""

    subject: Subject
    topics: int
    partitions: int

    def run(self) -> Iterator[tuple[str, float]]:
        from kazoo.client import KazooClient

        zookeeper = KazooClient(self.subject.zookeeper)
        zookeeper.start()
        try:
            yield "create", self._create()
            yield "failover", self._fail_over(zookeeper)
            yield "death", self._die(zookeeper)
            yield "shutdown", self._shut_down_in_turn()
        finally:
            zookeeper.stop()
            zookeeper.close()

    def _create(self) -> float:
        from confluent_kafka.admin import AdminClient, NewTopic

        bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.subject.ports.values())
        admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 300_000, "log_level": 0})
        wanted = [
            NewTopic(
                f"bench-{number:05}",
                num_partitions=self.partitions,
                replica_assignment=[
                    [(number + partition + turn) % BROKERS for turn in range(BROKERS)]
                    for partition in range(self.partitions)
                ],
            )
            for number in range(self.topics)
        ]
        begun = time.monotonic()
        for first in range(0, self.topics, _LOT):
            lot = wanted[first : first + _LOT]
            for future in admin.create_topics(lot, operation_timeout=_PATIENCE_S, request_timeout=_PATIENCE_S).values():
                future.result()
        self._everywhere(self._has_all, "all partitions")
        return time.monotonic() - begun

    def _fail_over(self, zookeeper: Any) -> float:
        begun = time.monotonic()
        zookeeper.delete("/controller")
        until(lambda: self._asked_the_controller(zookeeper), "a controller that makes a topic")
        self._everywhere(lambda seen: _AFTER in seen.topics, "a topic made after the failover")
        return time.monotonic() - begun

    def _asked_the_controller(self, zookeeper: Any) -> bool:
        """Has the controller make a topic; False while there is none, or one that does not know yet that it is."""
        stat = zookeeper.exists("/controller")
        if stat is None:
            return False
        controller = json.loads(zookeeper.get("/controller")[0])["brokerid"]
        assignment = [CreateTopicsRequest.CreatableReplicaAssignment(0, list(self.subject.ports))]
        topic = CreateTopicsRequest.CreatableTopic(_AFTER, -1, -1, assignment)
        request = CreateTopicsRequest([topic], timeout_ms=int(_PATIENCE_S * 1000))
        with BlockingConnection("127.0.0.1", self.subject.ports[controller], "barnabas-bench") as connection:
            answer = connection.send(request, 7, int(_PATIENCE_S * 1000))
        return answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _die(self, zookeeper: Any) -> float:
        controller = json.loads(zookeeper.get("/controller")[0])["brokerid"]
        victim = next(broker for broker in self.subject.ports if broker != controller)
        self.subject.kill(victim)
        until(lambda: zookeeper.exists(f"/brokers/ids/{victim}") is None, "the end of a registration")
        begun = time.monotonic()

        def leads_nothing(seen: ClusterMetadata) -> bool:
            return all(
                partition.leader != victim for topic in seen.topics.values() for partition in topic.partitions.values()
            )

        self._everywhere(leads_nothing, "other leaders", but=victim)
        took = time.monotonic() - begun
        self.subject.start(victim)
        self._everywhere(self._is_whole, "whole ISRs")
        return took

    def _shut_down_in_turn(self) -> float:
        took = 0.0
        for broker in self.subject.ports:
            begun = time.monotonic()
            self.subject.stop(broker)
            took += time.monotonic() - begun
            self.subject.start(broker)
            self._everywhere(self._is_whole, "whole ISRs")
        return took

    def _has_all(self, seen: ClusterMetadata) -> bool:
        known = sum(
            partition.leader >= 0
            for name, topic in seen.topics.items()
            if name.startswith("bench-")
            for partition in topic.partitions.values()
        )
        return known >= self.topics * self.partitions

    def _is_whole(self, seen: ClusterMetadata) -> bool:
        return self._has_all(seen) and all(
            len(partition.isr) == len(partition.replicas)
            for topic in seen.topics.values()
            for partition in topic.partitions.values()
        )

    def _everywhere(self, fact: Callable[[ClusterMetadata], bool], what: str, but: int | None = None) -> None:
        for broker, port in self.subject.ports.items():
            if broker != but:
                until(lambda port=port: fact(seen_by(port)), f"{what} on broker {broker} of {self.subject.name}")  # type: ignore[misc]


def seen_by(port: int) -> ClusterMetadata:
    """The cluster by the Metadata of the broker at `port`; empty where it does not answer."""
    try:
        with BlockingConnection("127.0.0.1", port, "barnabas-bench", request_timeout_ms=60_000) as connection:
            return read_metadata(connection.send(metadata_request(None)))
    except OSError:
        return ClusterMetadata()


def until(fact: Callable[[], bool], what: str) -> None:
    """Waits for `fact`. Raises ``TimeoutError`` naming `what`."""
    deadline = time.monotonic() + _PATIENCE_S
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_PATIENCE_S:.0f} s")
        time.sleep(0.02)
