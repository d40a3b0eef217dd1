"""Real processes for tests: a coordinator and brokers on loopback, each in a directory of the test's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from barnabas.bench.apache import cluster_view, free_port

T = TypeVar("T")

REPOSITORY = Path(__file__).parents[2]


def eventually(fact: Callable[[], T], *, within: float = 60.0, what: str = "") -> T:
    """The first true value of `fact`; fails with its last value or error when none comes in time."""
    deadline = time.monotonic() + within
    last: object = None
    while time.monotonic() < deadline:
        try:
            value = fact()
        except Exception as error:
            last = error
        else:
            if value:
                return value
            last = value
        time.sleep(0.05)
    raise AssertionError(f"{what or fact} did not come true within {within} s; last: {last!r}")


def read(consumer: Any, complaints: list[str]) -> list[Any]:
    """The messages of a librdkafka consumer that are records. Errors, which come among them, are `complaints`: a broker
    may yet have to be told of a new topic."""
    messages = consumer.consume(10_000, 0.2)
    complaints += [str(message.error()) for message in messages if message.error() is not None]
    return [message for message in messages if message.error() is None]


def answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


class Process:
    """A command of ours in the background, its output in a file beside its directory."""

    def __init__(self, name: str, directory: Path, *arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", *self.arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """As a crash: nothing is said to anybody."""
        if self.running:
            self.signal(signal.SIGKILL)
            self.wait()

    def stop(self, within: float = 60.0) -> int:
        """As an operator: SIGTERM, and wait. Returns the exit code."""
        if self.running:
            self.signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(within)

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Cluster:
    """`brokers` broker processes and the embedded coordinator."""

    def __init__(self, directory: Path, brokers: int = 3, config: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.zookeeper_port = free_port()
        self.coordinator = Process(
            "coordinator",
            directory,
            "coordinator",
            "--port",
            str(self.zookeeper_port),
            "--dir",
            str(directory / "coordinator"),
        )
        self.ports = [free_port() for _ in range(brokers)]
        self.brokers = []
        for broker_id, port in enumerate(self.ports):
            values = {
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
                "zookeeper.session.timeout.ms": "3000",
                "log.dirs": str(directory / f"logs-{broker_id}"),
                "offsets.topic.num.partitions": "4",
                "offsets.topic.replication.factor": str(min(3, brokers)),
                "controlled.shutdown.retry.backoff.ms": "200",
                "group.initial.rebalance.delay.ms": "0",
                **(config or {}),
            }
            file = directory / f"broker-{broker_id}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            self.brokers.append(Process(f"broker-{broker_id}", directory, "broker", str(file)))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        self.coordinator.start()
        for broker in self.brokers:
            broker.start()
        eventually(self.ready, what="every broker knows every other")

    def start_broker(self, broker_id: int) -> None:
        self.brokers[broker_id].start()
        eventually(lambda: answers(self.ports[broker_id]), what=f"broker {broker_id} answers")

    def metadata(self, topic: str | None = None):
        """Cluster metadata from a client that has never asked before."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(topic, timeout=5)

    def ready(self) -> bool:
        """Whether every broker knows all, and a controller."""
        for broker, port in zip(self.brokers, self.ports, strict=True):
            assert broker.running, f"{broker.name} ended:\n{broker.output()}"
            known, controller = cluster_view("127.0.0.1", port)
            if len(known) < len(self.brokers) or controller not in known:
                return False
        return True

    def controller(self) -> int:
        found = eventually(lambda: {self.metadata().controller_id} - {-1}, what="there is a controller")
        return int(found.pop())

    def stop(self) -> None:
        for process in [*self.brokers, self.coordinator]:
            process.kill() if process.running else None

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
