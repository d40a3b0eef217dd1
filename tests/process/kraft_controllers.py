"""Apache Kafka's controllers in KRaft mode, a quorum of them, which a cluster in ZooKeeper mode goes over to."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from test_migration import kafka_storage
from test_roll import kafka_server_start

from barnabas.bench.apache import free_port

FIRST_ID = 3000


class KraftControllers:
    """`size` controllers with the ids from `FIRST_ID` on, each with a file, a directory and a log of its own.

    `config` is for all of them. Nothing runs before `format` and `start`.
    """

    def __init__(self, directory: Path, size: int = 1) -> None:
        self.directory = directory
        self.addresses = {FIRST_ID + number: f"127.0.0.1:{free_port()}" for number in range(size)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def voters(self) -> str:
        """``controller.quorum.voters``."""
        return ",".join(f"{number}@{address}" for number, address in self.addresses.items())

    def format(self, cluster_id: str, config: Mapping[str, str]) -> None:
        kafka_server_start(self.directory)
        kafka_storage(self.directory)
        storage = str(self.directory / "bin" / "kafka-storage")
        for number, address in self.addresses.items():
            values = {
                "process.roles": "controller",
                "node.id": str(number),
                "controller.quorum.voters": self.voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://{address}",
                "log.dirs": str(self.directory / f"controller-{number}"),
                "zookeeper.metadata.migration.enable": "true",
                **config,
            }
            self._file(number).write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            command = [storage, "format", "-t", cluster_id, "-c", str(self._file(number))]
            subprocess.run(command, check=True, capture_output=True)

    def start(self, *numbers: int) -> None:
        """Those with these ids; without any, all."""
        for number in numbers or self.addresses:
            with self._log(number).open("ab") as out:
                command = [str(self.directory / "bin" / "kafka-server-start"), str(self._file(number))]
                self.processes[number] = subprocess.Popen(command, stdout=out, stderr=out)

    def told(self, number: int) -> str:
        return self._log(number).read_text(errors="replace")

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    def pause(self, number: int) -> None:
        """It is there, and says nothing."""
        self.processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGCONT)

    def close(self) -> None:
        for number in self.processes:
            self.kill(number)

    def _file(self, number: int) -> Path:
        return self.directory / f"controller-{number}.properties"

    def _log(self, number: int) -> Path:
        return self.directory / f"controller-{number}.log"
