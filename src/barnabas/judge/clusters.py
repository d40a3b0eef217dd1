"""Adapters by which a nemesis controls the brokers of a cluster, one for each kind of cluster."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from barnabas.bench.apache import ApacheCluster
from barnabas.runtime.started_process import PYTHON, StartedProcess

PATIENCE_S: Final = 300


class JudgedClusterError(Exception):
    """A cluster could not be started, or did not do as it was told."""


class Brokers(Protocol):
    """Processes that can be killed, paused and started again. All methods raise `JudgedClusterError`."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def ids(self) -> Sequence[int]: ...

    def kill(self, broker: int) -> None:
        """Ends the process at once, as by ``kill -9``. Does nothing if the process has ended by itself."""

    def shutdown(self, broker: int) -> None:
        """A controlled shutdown; returns when the process has ended."""

    def pause(self, broker: int) -> None: ...

    def resume(self, broker: int) -> None: ...

    def start(self, broker: int) -> None:
        """Starts the broker; returns when it answers."""

    def fill_disk(self, broker: int) -> None:
        """Lets no file of the broker grow, until `start`."""


class LocalBrokers:
    """The brokers that ``barnabas up`` has started under `directory`."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory).absolute()
        self._state()

    def _state(self) -> Mapping[int, tuple[StartedProcess, int]]:
        """The process and the port of each broker."""
        try:
            told = json.loads((self._directory / "cluster.json").read_text())
            return {
                int(broker["id"]): (StartedProcess(broker["pid"], broker.get("began")), int(broker["port"]))
                for broker in told["brokers"]
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JudgedClusterError(f"there is no cluster in {self._directory} ({error})") from None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for _, port in self._state().values())

    @property
    def ids(self) -> Sequence[int]:
        return list(self._state())

    def _running(self, broker: int) -> StartedProcess:
        process, _ = self._state()[broker]
        if not process.alive:
            raise JudgedClusterError(f"broker {broker} does not run")
        return process

    def kill(self, broker: int) -> None:
        process, _ = self._state()[broker]
        process.signal(signal.SIGKILL)
        self._ended(process)

    def shutdown(self, broker: int) -> None:
        process = self._running(broker)
        process.signal(signal.SIGTERM)
        self._ended(process)

    @staticmethod
    def _ended(process: StartedProcess) -> None:
        _until(lambda: not process.alive, f"the process {process.pid} to end")

    def fill_disk(self, broker: int) -> None:
        pid = self._running(broker).pid
        assert pid is not None
        _let_no_file_grow(pid)

    def pause(self, broker: int) -> None:
        self._running(broker).signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self._running(broker).signal(signal.SIGCONT)

    def start(self, broker: int) -> None:
        command = [*PYTHON, "-m", "barnabas", "up", "--dir", str(self._directory)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise JudgedClusterError(f"broker {broker} did not start within {PATIENCE_S} s") from None
        if done.returncode:
            raise JudgedClusterError(f"broker {broker} did not start: {done.stderr.strip()}")


class ApacheBrokers:
    """The brokers of a cluster that was made for the run (`barnabas.judge.made`)."""

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def ids(self) -> Sequence[int]:
        return list(self._cluster.ports)

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def shutdown(self, broker: int) -> None:
        try:
            self._cluster.stop(broker, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise JudgedClusterError(f"broker {broker} did not stop within {PATIENCE_S} s") from None

    def fill_disk(self, broker: int) -> None:
        _let_no_file_grow(self._cluster.processes[broker].pid)

    def pause(self, broker: int) -> None:
        self._cluster.processes[broker].send_signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self._cluster.processes[broker].send_signal(signal.SIGCONT)

    def start(self, broker: int) -> None:
        try:
            self._cluster.start(broker)
        except (RuntimeError, TimeoutError) as error:
            raise JudgedClusterError(str(error)) from None


class ScriptBrokers:
    """Any cluster: ``SCRIPT kill|shutdown|pause|resume|fill-disk|start BROKER``, which exits with 0 on success.

    ``SCRIPT brokers`` prints the brokers' ids in a line.
    """

    def __init__(self, script: Path | str, bootstrap: str) -> None:
        self._script = str(script)
        self.bootstrap = bootstrap
        words = self._run("brokers").split()
        if not words or not all(word.isdigit() for word in words):
            raise JudgedClusterError(f"{script} brokers prints {' '.join(words)!r}, which are not broker ids")
        self.ids: Sequence[int] = [int(word) for word in words]

    def _run(self, *words: str) -> str:
        try:
            done = subprocess.run([self._script, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JudgedClusterError(f"{self._script} {' '.join(words)}: {error}") from None
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise JudgedClusterError(f"{self._script} {' '.join(words)}: {said}")
        return done.stdout

    def kill(self, broker: int) -> None:
        self._run("kill", str(broker))

    def shutdown(self, broker: int) -> None:
        self._run("shutdown", str(broker))

    def fill_disk(self, broker: int) -> None:
        self._run("fill-disk", str(broker))

    def pause(self, broker: int) -> None:
        self._run("pause", str(broker))

    def resume(self, broker: int) -> None:
        self._run("resume", str(broker))

    def start(self, broker: int) -> None:
        self._run("start", str(broker))


def _let_no_file_grow(pid: int) -> None:
    """Makes writes beyond the end of any file fail, as on a full disk. Only on Linux can one process limit another."""
    if sys.platform != "linux":
        raise JudgedClusterError("disk-full needs Linux")
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    except OSError as error:
        raise JudgedClusterError(f"the process {pid} cannot be limited: {error.strerror}") from None


def _until(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        if time.monotonic() > deadline:
            raise JudgedClusterError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.05)
