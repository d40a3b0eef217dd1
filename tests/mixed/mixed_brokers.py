"""A cluster of Apache Kafka 3.9.2 brokers and ours on a real ZooKeeper, as `barnabas judge` reaches brokers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from apache import ApacheCluster
from apaches_words import STORY_LEVELS
from cluster import BARNABAS, until
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.bench.apache import free_port, is_in_cluster
from barnabas.judge.clusters import PATIENCE_S, JudgedClusterError

SESSION_MS = 3000
PATIENT_SESSION_S = 40.0
"""Of who looks on: the longest that ZooKeeper gives."""
STARTS = 4
APACHES = "apache"
OURS = "ours"
CONFIG = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class Shape(NamedTuple):
    """How many brokers of each kind there are, and their inter.broker.protocol.version."""

    apaches: int
    ours: int
    protocol: str = "3.9"

    def __str__(self) -> str:
        return f"{self.apaches}+{self.ours}@{self.protocol}"


SHAPES = (
    *(Shape(2, 2, protocol) for protocol in os.environ.get("MIXED_PROTOCOLS", "3.9").split(",")),
    Shape(2, 1),
    Shape(1, 2),
)
"""Two of each kind, with each of ``MIXED_PROTOCOLS=2.6,2.8`` (`make mixed`); and one of either kind among three."""


class Supervised(ApacheCluster):
    """A broker of Kafka's ends where its session ends while it starts. It is started again, as on a machine."""

    def wait_ready(self, broker: int, begun: float | None = None) -> None:
        for starts in range(1, STARTS + 1):
            try:
                super().wait_ready(broker, begun)
            except RuntimeError as error:
                if starts == STARTS or "SessionExpiredException" not in str(error):
                    raise
                self.launch(broker)
            else:
                return


class BothKinds:
    """The brokers of Apache Kafka have the ids from 0 on, then come `ours`. `Brokers` of `barnabas judge`."""

    def __init__(self, directory: Path, apache: ApacheCluster, ours: int, config: Mapping[str, str]) -> None:
        self.apache = apache
        self._config = config
        self._directory = directory
        self.ports = dict(apache.ports) | {len(apache.ports) + number: free_port() for number in range(ours)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.zookeeper = KazooClient(apache.zookeeper, timeout=PATIENT_SESSION_S)
        self.zookeeper.start(30)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def ids(self) -> Sequence[int]:
        return list(self.ports)

    def kind(self, broker: int) -> str:
        return APACHES if broker in self.apache.ports else OURS

    def log_dir(self, broker: int) -> Path:
        return self.apache.log_dir(broker) if broker in self.apache.ports else self._directory / f"logs-{broker}"

    def log(self, broker: int) -> Path:
        """What the broker writes of itself."""
        if broker in self.apache.ports:
            return self.apache.directory / f"broker-{broker}" / "server.log"
        return self._directory / f"broker-{broker}.log"

    def controller(self) -> int:
        """-1 where nobody is."""
        with contextlib.suppress(NoNodeError):
            return int(json.loads(self.zookeeper.get("/controller")[0])["brokerid"])
        return -1

    def depose(self) -> None:
        """Whoever is the controller has to run for it again, against the others."""
        with contextlib.suppress(NoNodeError):
            self.zookeeper.delete("/controller")

    def kill(self, broker: int) -> None:
        self.process(broker).kill()
        self.process(broker).wait()

    def shutdown(self, broker: int) -> None:
        self.process(broker).terminate()
        try:
            self.process(broker).wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise JudgedClusterError(f"broker {broker} did not stop within {PATIENCE_S} s") from None

    def pause(self, broker: int) -> None:
        self.process(broker).send_signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """Not before its session is over: whoever held a role finds that it is somebody else's."""
        try:
            self._wait_for_its_end(broker)
        except AssertionError as error:
            raise JudgedClusterError(str(error)) from None
        finally:
            self.process(broker).send_signal(signal.SIGCONT)

    def _wait_for_its_end(self, broker: int) -> None:
        gone = f"broker {broker}'s session is over"
        until(lambda: self.zookeeper.exists(f"/brokers/ids/{broker}") is None, gone, PATIENCE_S)

    def start(self, broker: int) -> None:
        """One of Kafka's not before the session of the process before it is over: it would end, for its id is taken."""
        try:
            if broker in self.apache.ports:
                self._wait_for_its_end(broker)
                self.apache.start(broker)
            else:
                self.launch(broker)
                until(lambda: self._answers(broker), f"broker {broker} answers", PATIENCE_S)
        except (RuntimeError, TimeoutError, AssertionError) as error:
            raise JudgedClusterError(str(error)) from None

    def launch(self, broker: int) -> None:
        """One of ours, without waiting for it."""
        values = {
            **self._config,
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "zookeeper.connect": self.apache.zookeeper,
            "log.dirs": str(self.log_dir(broker)),
        }
        file = self._directory / f"broker-{broker}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        with self.log(broker).open("ab") as out:
            self.processes[broker] = subprocess.Popen([*BARNABAS, "broker", str(file)], stdout=out, stderr=out)

    def close(self) -> None:
        self.zookeeper.stop()
        self.zookeeper.close()
        for process in self.processes.values():
            process.kill()
            process.wait()

    def process(self, broker: int) -> subprocess.Popen[bytes]:
        processes: Mapping[int, subprocess.Popen[bytes]] = {**self.apache.processes, **self.processes}
        return processes[broker]

    def _answers(self, broker: int) -> bool:
        if self.process(broker).poll() is not None:
            raise RuntimeError(f"broker {broker} ended with {self.process(broker).returncode}")
        return is_in_cluster(broker, self.ports[broker])


@contextlib.contextmanager
def both_kinds(directory: Path, shape: Shape) -> Iterator[BothKinds]:
    """A cluster that answers at every broker."""
    values = CONFIG | {"inter.broker.protocol.version": shape.protocol}
    size = shape.apaches + shape.ours
    with Supervised(
        directory / "apache", shape.apaches, config=values, cluster_size=size, heap="256m", log_levels=STORY_LEVELS
    ) as apache:
        made = BothKinds(directory, apache, shape.ours, values)
        try:
            for broker in made.ports:
                if made.kind(broker) == OURS:
                    made.launch(broker)
            until(
                lambda: all(made._answers(b) for b in made.ports if made.kind(b) == OURS), "every broker answers", 120
            )
            yield made
        finally:
            made.close()
