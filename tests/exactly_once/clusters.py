"""What the exactly-once run breaks: three brokers, of Barnabas or Apache Kafka, and a Spark standalone cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache
import pyspark

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition
from barnabas.spark.session import java_home
from barnabas.testing import KafkaCluster

DEAD_S = 12.0
"""How long a broker stays dead: twice its session's timeout."""


class Brokers:
    """Kills the broker that has a task, and starts it again."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._dead: dict[int, float] = {}

    @property
    def bootstrap(self) -> str:
        return str(self._cluster.bootstrap)

    def which(self, task: str) -> int:
        """The broker that is ``leader`` of out-0, ``controller``, or ``coordinator`` of the sink's transactions."""
        with BlockingCluster(self.bootstrap) as client:
            if task == "controller":
                return client.refresh([]).controller_id
            if task == "leader":
                client.leader(TopicPartition("out", 0))
                return client.metadata.leader(TopicPartition("out", 0))
            port = client.coordinator("exactly-once", key_type=1).port
            return next(each.broker_id for each in client.refresh([]).brokers.values() if each.port == port)

    def kill(self, task: str) -> int:
        """``kill -9``; who was killed before is back in every ISR by then: one broker of three may be gone, no more."""
        self.recovered()
        _until(self._is_whole, "every replica is in sync", 100)
        broker = self.which(task)
        if isinstance(self._cluster, KafkaCluster):
            self._cluster.broker(broker).kill()
        else:
            self._cluster.kill(broker)
        self._dead[broker] = time.monotonic()
        return broker

    def recovered(self) -> None:
        """Waits until nobody is dead."""
        _until(lambda: self.recover() or not self._dead, "the dead are back", DEAD_S + 1)

    def recover(self) -> None:
        """Starts the broker that has been dead for long enough: Apache's ends where its old session still lives."""
        for broker in [each for each, since in self._dead.items() if time.monotonic() - since >= DEAD_S]:
            del self._dead[broker]
            if isinstance(self._cluster, KafkaCluster):
                self._cluster.broker(broker).start()
            else:
                self._cluster.start(broker)

    def _is_whole(self) -> bool:
        with BlockingCluster(self.bootstrap) as client:
            known = client.refresh().topics
        return all(
            len(each.isr) == len(each.replicas) for topic in known.values() for each in topic.partitions.values()
        )


@contextlib.contextmanager
def brokers(kind: str, directory: Path) -> Iterator[Brokers]:
    """Three of them, of ``barnabas`` or ``apache``, with minimum in-sync replicas of 2."""
    config = {"min.insync.replicas": "2", "offsets.topic.num.partitions": "5"}
    config |= {"transaction.state.log.num.partitions": "5", "default.replication.factor": "3"}
    if kind == "barnabas":
        config["barnabas.transaction.two.phase.commit.enable"] = "true"
        with KafkaCluster(3, processes=True, directory=directory, config=config) as cluster:
            yield Brokers(cluster)
    else:
        with apache.ApacheCluster(directory, 3, config=config | {"zookeeper.session.timeout.ms": "6000"}) as real:
            yield Brokers(real)


class Standalone:
    """A Spark standalone cluster."""

    def __init__(self, master: str, workers: list[int]) -> None:
        self.master = master
        self._workers = workers

    def kill_executor(self) -> int:
        """``kill -9`` for an executor of any worker; its process id."""
        found = _until(self._executors, "an executor runs", 60)
        os.kill(found[0], signal.SIGKILL)
        return int(found[0])

    def _executors(self) -> list[int]:
        children: list[int] = []
        for worker in self._workers:
            for thread in Path(f"/proc/{worker}/task").iterdir():
                with contextlib.suppress(OSError):  # threads end
                    children += map(int, (thread / "children").read_text().split())
        return [each for each in children if b"CoarseGrainedExecutorBackend" in _command(each)]


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def standalone(directory: Path, environment: dict[str, str]) -> Iterator[Standalone]:
    """One master and two workers of one core each, as processes."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **environment,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false",
    }
    port = apache.free_port()
    processes: list[subprocess.Popen[bytes]] = []

    def launch(name: str, *arguments: str) -> None:
        with open(directory / f"{name}.log", "wb") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))

    try:
        launch("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        _until(lambda: _listens(port), "the master listens", 120)
        url = f"spark://127.0.0.1:{port}"
        for number in range(2):
            work = directory / f"worker-{number}"
            launch(
                *(f"worker-{number}", "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(work), url),
            )
        registered = "Successfully registered with master"
        for number in range(2):
            log = directory / f"worker-{number}.log"
            _until(lambda log=log: registered in log.read_text(errors="replace"), "a worker registers", 120)  # type: ignore[misc]
        yield Standalone(url, [each.pid for each in processes[1:]])
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _until(fact: Any, what: str, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)
    return found
