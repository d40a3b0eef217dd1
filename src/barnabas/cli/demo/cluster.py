"""The demo's cluster, operated as a user does it: by the ``barnabas`` command, signals, Metadata requests and
ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.client.blocking import BlockingCluster
from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import KafkaError
from barnabas.runtime.real import real_runtime
from barnabas.runtime.started_process import PYTHON
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.errors import ZooKeeperError

T = TypeVar("T")

_COMMAND: Final = [*PYTHON, "-m", "barnabas"]
_PATIENCE_S: Final = 120


class Controller(NamedTuple):
    """The content of ``/controller`` and ``/controller_epoch``."""

    broker_id: int
    epoch: int


class DemoCluster:
    """Three broker processes and the coordinator under `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state: dict[str, Any] = {}

    def command(self, *arguments: str) -> str:
        """Runs ``barnabas``. Raises ``RuntimeError`` with its standard error."""
        done = subprocess.run([*_COMMAND, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"barnabas {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def up(self, *config: str) -> float:
        """Starts the cluster, or the brokers that are down; returns the seconds it took."""
        begun = time.monotonic()
        options = [word for setting in config for word in ("--config", setting)]
        printed = self.command("up", "-n", "3", "--dir", str(self.directory), "--format", "json", *options)
        self.state = json.loads(printed)
        return time.monotonic() - begun

    def down(self, *, kill: bool = False) -> None:
        if (self.directory / "cluster.json").exists():
            self.command("down", "--dir", str(self.directory), *(["--kill"] if kill else []))

    @property
    def bootstrap(self) -> str:
        return str(self.state["bootstrap"])

    def pid(self, broker: int) -> int:
        return int(next(process["pid"] for process in self.state["brokers"] if process["id"] == broker))

    def kill(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGKILL)

    def controller(self) -> Controller | None:
        """The controller by ZooKeeper; None while there is none."""
        return asyncio.run(_read_controller(self.state["zookeeper"]))

    def controller_other_than(self, broker: int | None) -> Controller:
        def ask() -> Controller | None:
            now = self.controller()
            return now if now is not None and now.broker_id != broker else None

        return self._until(ask, "a new controller")

    def metadata(self, topic: str) -> ClusterMetadata:
        with BlockingCluster(self.bootstrap, "demo", request_timeout_ms=3000, retry_timeout_ms=10_000) as cluster:
            return cluster.refresh([topic])

    def metadata_when(self, topic: str, fact: Callable[[ClusterMetadata], bool], what: str) -> ClusterMetadata:
        """Asks live brokers for the metadata until `fact` is true of an answer."""
        with BlockingCluster(self.bootstrap, "demo", request_timeout_ms=3000, retry_timeout_ms=10_000) as cluster:

            def ask() -> ClusterMetadata | None:
                try:
                    seen = cluster.refresh([topic])
                except (OSError, KafkaError):
                    return None
                return seen if fact(seen) else None

            return self._until(ask, what)

    @staticmethod
    def _until(ask: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + _PATIENCE_S
        while (found := ask()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not come within {_PATIENCE_S} s")
            time.sleep(0.02)
        return found


async def _read_controller(connect: str) -> Controller | None:
    client = ZooKeeperClient(real_runtime(), connect, session_timeout_ms=6000, connection_timeout_ms=6000, name="demo")
    await client.start()
    try:
        data, _ = await client.get("/controller")
        epoch, _ = await client.get("/controller_epoch")
    except ZooKeeperError:
        return None
    finally:
        await client.close()
    return Controller(json.loads(data or b"{}")["brokerid"], int(epoch or b""))
