"""A cluster on this machine: the coordinator and n brokers as background processes, their state under one directory.

``D/cluster.json`` has the processes' pids, ports and directories. A process is the cluster's if its pid is alive and
has the recorded start time (the system reuses pids). Starting a cluster writes a ``server.properties`` for each broker
and spawns all processes at once, each in a session of its own. It waits first for each process's notice on a pipe, then
until every broker's Metadata names all brokers and a controller.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from barnabas.cli import secured
from barnabas.cli.local_brokers import server_properties, wait_for_metadata
from barnabas.cli.local_state import (
    STATE_FILE,
    BrokerState,
    ClusterState,
    CoordinatorState,
    cluster_in,
    state_in,
)
from barnabas.cli.output import CommandError, UsageError, complain
from barnabas.cli.plain import HOST, KAFKA_OPTS, READY_FD, SECURITY, STATUS_FILE
from barnabas.runtime.started_process import PYTHON, StartedProcess, birth_of

OWN_PORTS: Final = range(16_384, 32_768)
"""Linux and macOS take the local ports of outgoing connections from above this range. A port from there, chosen for a
broker that has not bound it yet, may belong to a client a moment later."""
START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 60.0
DEATH_CHECK_S: Final = 0.5
"""How often `up` checks that ready processes still live: without one the others would wait in vain."""


_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _signals_by(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Sets `handler` for the signals that stop a command, except for ignored ones: `nohup` ignores SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, handler) for kind in _STOPS if signal.getsignal(kind) != signal.SIG_IGN}
    try:
        yield
    finally:
        for kind, heard in before.items():
            signal.signal(kind, heard)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Holds back stopping signals until the end of the block, when all processes started in it are known and can be
    ended."""
    came: list[int] = []
    with _signals_by(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Adds the path to an error in writing: the system's own error, such as that of a full disk, names no file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise CommandError(f"{path} cannot be written ({reason}): make room, or name another place by --dir.") from None


class LocalCluster:
    """The cluster whose state is under `directory`."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory).absolute()
        self.state_file = self.directory / STATE_FILE

    # state

    def save(self, state: ClusterState) -> None:
        temporary = self.state_file.with_suffix(".tmp")
        with _writing(self.state_file):
            temporary.unlink(missing_ok=True)
            # The state has the values of `--config`, even passwords, and others may be able to read the directory.
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(json.dumps(asdict(state), indent=1) + "\n")
            temporary.replace(self.state_file)

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Holds a lock: one ``up`` or ``down`` runs at a time."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise CommandError(
                f"{self.directory} is no directory, nor a link to one: name another place by --dir."
            ) from None
        except OSError as error:
            raise CommandError(
                f"{self.directory} cannot be written ({os.strerror(error.errno or 0)}): name another place by --dir."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    # starting

    def up(
        self,
        count: int | None,
        *,
        base_port: int | None = None,
        zookeeper: str | None = None,
        config: Mapping[str, str] | None = None,
        secure: bool = False,
    ) -> ClusterState:
        """Starts the processes that do not run yet, and returns when every broker answers."""
        if "," in str(self.directory):
            raise UsageError(
                f"{self.directory} contains a comma, which separates directories in log.dirs: choose another --dir."
            )
        if str(self.directory).encode(errors="ignore").decode() != str(self.directory):
            raise UsageError(
                f"{str(self.directory)!a} is not valid UTF-8, which configurations must be: choose another --dir."
            )
        with self.exclusively():
            state = state_in(self.directory)
            if state is not None:
                _await_shutdowns(state)
            if state is None:
                state = self._new_state(count or 3, base_port, zookeeper, secure=secure)
            elif all(process.alive for process in state.processes()):
                raise CommandError(
                    f"The cluster in {self.directory} is already running at {state.bootstrap}: "
                    f"`barnabas status` shows it, `barnabas down` stops it."
                )
            else:
                self._check_unchanged(state, count, base_port, zookeeper, secure=secure)
            state.config.update(config or {})
            self._check_config(state)
            if state.security:
                with _writing(Path(state.security)):
                    secured.name_places(state.security)
            self._take_ports(state)
            started: list[_Child] = []
            with _signals_by(_interrupt):
                try:
                    with _interrupts_held():
                        self._spawn_missing(state, started)
                        self.save(state)
                    self._wait_until_ready(state, started)
                except BaseException:
                    self._stop_started(state, started)
                    raise
            return state

    def _new_state(
        self, count: int, base_port: int | None, zookeeper: str | None, *, secure: bool = False
    ) -> ClusterState:
        highest = 65535 - (2 * count if secure else count)
        if base_port is not None and not 0 < base_port <= highest:
            raise UsageError(
                f"--base-port {base_port} leaves no room for {count} brokers: take one from 1 to {highest}."
            )
        state = ClusterState(zookeeper or "", None if zookeeper else CoordinatorState(), [], base_port)
        state.brokers = [BrokerState(id=number) for number in range(count)]
        if secure:
            place = self.directory / SECURITY
            with _writing(place):
                secured.make(place)
            state.security = str(place)
        state.give_ports()
        return state

    def _check_unchanged(
        self,
        state: ClusterState,
        count: int | None,
        base_port: int | None,
        zookeeper: str | None,
        *,
        secure: bool = False,
    ) -> None:
        start_again = f"stop it and start with another --dir, or remove {self.directory}."
        if count is not None and count > len(state.brokers):
            self._grow(state, count)
        elif count is not None and count < len(state.brokers):
            raise CommandError(
                f"The cluster in {self.directory} has {len(state.brokers)} brokers, not {count}: {start_again}"
            )
        if secure and not state.security:
            raise CommandError(f"The cluster in {self.directory} was created without --secure: {start_again}")
        if base_port is not None and base_port != state.base_port:
            raise CommandError(f"The cluster in {self.directory} has its ports already: {start_again}")
        if zookeeper is not None and (state.coordinator is not None or zookeeper != state.zookeeper):
            self._move(state, zookeeper)

    def _grow(self, state: ClusterState, count: int) -> None:
        """Adds brokers with the next ids; partitions stay where they are until they are reassigned."""
        if any(process.alive for process in state.processes()):
            raise CommandError(
                f"The cluster in {self.directory} has {len(state.brokers)} brokers; some of its processes run: "
                f"`barnabas down` first, then `barnabas up -n {count}`."
            )
        if state.base_port is not None and state.base_port > 65535 - (2 * count if state.security else count):
            raise UsageError(f"--base-port {state.base_port} leaves no room for {count} brokers: choose another --dir.")
        for number in range(len(state.brokers), count):
            state.brokers.append(BrokerState(id=number))
        state.give_ports()

    def _move(self, state: ClusterState, zookeeper: str) -> None:
        """Moves the cluster to another ZooKeeper, which must have the cluster's znodes already: the cluster ids are
        compared."""
        if any(process.alive for process in state.processes()):
            raise CommandError(
                f"The cluster in {self.directory} uses {state.zookeeper}; some of its processes run: "
                "`barnabas down` first. A cluster can move to another ZooKeeper only while it is stopped."
            )
        from barnabas.cli.zookeeper import Where, cluster_id

        there, own = cluster_id(Where(zookeeper)), self._cluster_id(state)
        if own is not None and there != own:
            holds = "no cluster" if there is None else f"the cluster {there}"
            raise CommandError(
                f"The cluster in {self.directory} has the id {own}, but {zookeeper} has {holds}: `barnabas zk export` "
                f"its tree and `barnabas zk import` it there first, or start another cluster with another --dir."
            )
        state.zookeeper = zookeeper
        state.coordinator = None

    def _cluster_id(self, state: ClusterState) -> str | None:
        """The cluster's id in its log directories; None before the first start."""
        from barnabas.model.config import parse_properties

        for broker in state.brokers:
            with contextlib.suppress(OSError):
                values = parse_properties((Path(broker.log_dir) / "meta.properties").read_text())
                if "cluster.id" in values:
                    return values["cluster.id"]
        return None

    def _check_config(self, state: ClusterState) -> None:
        from barnabas.model.config import broker_config

        for name in ("broker.id", "listeners", "zookeeper.connect", "log.dirs", "log.dir"):
            if name in state.config:
                raise UsageError(f"--config {name} cannot be set: `barnabas up` gives every broker its own.")
        checked = broker_config(state.config)
        for name, near in checked.unknown():
            hint = f" Did you mean {near}?" if near else ""
            print(f"barnabas: {name} is no configuration that a broker knows.{hint}", file=sys.stderr)

    def _spawn_missing(self, state: ClusterState, started: list[_Child]) -> None:
        """Starts every process that does not run, and adds each to `started` as soon as it runs.

        A single broker without security runs the coordinator in its own process: that saves the start of an
        interpreter.
        """
        znodes = str(self.directory / "coordinator")
        to_start = state.coordinator is not None and not state.coordinator.alive
        embed = to_start and len(state.brokers) == 1 and not state.brokers[0].alive and not state.security
        if state.coordinator is not None and to_start and not embed:
            words = ["coordinator", "--dir", znodes]
            if state.security:
                words += secured.coordinator_words(state.security, state.coordinator.port)
            else:
                words += ["--port", str(state.coordinator.port)]
            log = self.directory / "coordinator.log"
            started.append(self._spawn("the coordinator", state.coordinator, log, words))
            self.save(state)  # if we are killed before the brokers are recorded, `down` must still find the coordinator
        wanting: list[tuple[BrokerState, Path, Path]] = []
        for broker in state.brokers:
            if not broker.alive:
                place = self.directory / f"broker-{broker.id}"
                broker.log_dir = str(place / "data")
                properties = place / "server.properties"
                with _writing(properties):
                    place.mkdir(mode=0o700, exist_ok=True)
                    properties.write_text(server_properties(state, broker))
                wanting.append((broker, place / "broker.log", properties))
        if len(wanting) > 1 and hasattr(os, "fork"):
            started += self._spawn_together(wanting)
            return
        for broker, log, properties in wanting:
            words = ["broker", str(properties), "--status", str(properties.with_name(STATUS_FILE))]
            if embed:
                words += ["--coordinator", znodes]
            started.append(self._spawn(f"broker {broker.id}", broker, log, words))
            if embed and state.coordinator is not None:
                state.coordinator.pid, state.coordinator.began = broker.pid, broker.began

    def _take_ports(self, state: ClusterState) -> None:
        """Gives every process that will be started a free port, if possible the one it had before."""
        wanting: list[tuple[CoordinatorState | BrokerState, str]] = [
            (process, "port")
            for process in [*state.brokers, state.coordinator]
            if process is not None and not process.alive
        ]
        if state.security:
            wanting += [(broker, "broker_port") for broker in state.brokers if not broker.alive]
        held: list[socket.socket] = []
        try:
            for process, name in wanting:
                reserved = socket.socket()
                held.append(reserved)
                setattr(process, name, self._bind(reserved, getattr(process, name), chosen=state.base_port is not None))
        finally:
            for reserved in held:
                reserved.close()
        if state.coordinator is not None:
            state.zookeeper = f"{HOST}:{state.coordinator.port}"

    def _bind(self, reserved: socket.socket, port: int, *, chosen: bool) -> int:
        """Binds `port`; if it is taken and the user has not `chosen` it, binds a free one. Returns the bound port."""
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not port:
            return _bind_free_port(reserved)
        try:
            reserved.bind((HOST, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            if chosen:
                why = "is in use by another process" if error.errno == errno.EADDRINUSE else "is not yours to bind"
                raise CommandError(f"Port {port} {why}: choose another --base-port or free it.") from None
            return _bind_free_port(reserved)
        return port

    def _spawn(self, name: str, process: StartedProcess, log: Path, arguments: Sequence[str]) -> _Child:
        receiving, sending = os.pipe()
        try:
            with open(log, "ab") as output:
                child = subprocess.Popen(
                    [*PYTHON, "-m", "barnabas", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[sending],
                    start_new_session=True,
                    env={**os.environ, KAFKA_OPTS: "", READY_FD: str(sending)},
                )
        except OSError as error:
            os.close(receiving)
            raise CommandError(f"{name} cannot be started: {error}.") from error
        finally:
            os.close(sending)
        process.pid = child.pid
        process.began = birth_of(child.pid)
        return _Child(name, process, child, receiving, log)

    def _spawn_together(self, wanting: Sequence[tuple[BrokerState, Path, Path]]) -> list[_Child]:
        """Starts several brokers from one process, which imports their modules once and ends when they run."""
        pipes = [os.pipe() for _ in wanting]
        _, first_log, _ = wanting[0]
        words: list[str] = []
        for (_, sending), (_, log, properties) in zip(pipes, wanting, strict=True):
            words += [str(sending), str(log), str(properties)]
        try:
            with open(first_log, "ab") as output:
                nursery = subprocess.Popen(
                    [*PYTHON, "-m", "barnabas", "brokers", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=[sending for _, sending in pipes],
                    start_new_session=True,
                    env={**os.environ, KAFKA_OPTS: ""},
                )
        except OSError as error:
            for receiving, _ in pipes:
                os.close(receiving)
            raise CommandError(f"the brokers cannot be started: {error}.") from error
        finally:
            for _, sending in pipes:
                os.close(sending)
        # `wait_for_metadata` needs this module: it is imported while the brokers' process does its own imports.
        importlib.import_module("barnabas.client.blocking")
        try:
            told, _ = nursery.communicate(timeout=START_TIMEOUT_S)
            pids = json.loads(told or b"[]")
        except BaseException as error:
            os.killpg(nursery.pid, signal.SIGKILL)
            nursery.wait()
            for receiving, _ in pipes:
                os.close(receiving)
            if isinstance(error, subprocess.TimeoutExpired):
                raise CommandError(
                    f"The brokers did not start within {START_TIMEOUT_S:g} s: see {first_log}."
                ) from None
            raise
        started: list[_Child] = []
        for (broker, log, _), (receiving, _) in zip(wanting, pipes, strict=True):
            broker.pid = pids.pop(0) if pids else None
            broker.began = birth_of(broker.pid)
            started.append(_Child(f"broker {broker.id}", broker, nursery, receiving, log))
        return started

    def _wait_until_ready(self, state: ClusterState, started: Sequence[_Child]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            for child in started:
                selector.register(child.pipe, selectors.EVENT_READ, child)
            while selector.get_map():
                events = selector.select(DEATH_CHECK_S)
                for child in started:
                    if child.ready and not child.process.alive:
                        raise CommandError(f"{child.name} ended during the cluster's start{child.last_words()}.")
                if time.monotonic() > deadline:
                    waiting = ", ".join(str(key.data.name) for key in selector.get_map().values())
                    raise CommandError(
                        f"{waiting} was not ready within {START_TIMEOUT_S:.0f} s: see {started[-1].log}."
                    )
                for key, _ in events:
                    child = key.data
                    chunk = os.read(child.pipe, 65536)
                    child.heard += chunk
                    if not chunk or chunk.endswith(b"\n"):
                        selector.unregister(child.pipe)
                        os.close(child.pipe)
                        child.judge()
        wait_for_metadata(state, deadline)
        if state.security and not state.users_made:
            secured.make_users(state, deadline)
            state.users_made = True
            self.save(state)

    def _stop_started(self, state: ClusterState, started: Sequence[_Child]) -> None:
        """Kills every process that this call started."""
        for child in started:
            child.process.signal(signal.SIGKILL)
            child.popen.wait()
            _gone(child.process, STOP_TIMEOUT_S)
            child.process.pid = None
        if state.coordinator is not None and not state.coordinator.alive:
            state.coordinator.pid = None
        # The failed start is the error to report; a dead pid in the state does no harm.
        with contextlib.suppress(CommandError):
            self.save(state)

    # stopping

    def down(self, *, kill: bool = False) -> list[str]:
        """Stops every process, brokers first; returns the names of those that ran. If one does not end in time, the
        others are stopped all the same. Raises `CommandError`."""
        cluster_in(self.directory)  # raises without a cluster, before a directory is made
        with self.exclusively():
            state = cluster_in(self.directory)
            ordered: list[tuple[str, StartedProcess]] = [
                (f"broker {broker.id}", broker) for broker in reversed(state.brokers)
            ]
            if state.coordinator is not None:
                ordered.append(("coordinator", state.coordinator))
            running = [(name, process) for name, process in ordered if process.alive]
            for process in {process.pid: process for _, process in running}.values():
                process.signal(signal.SIGKILL if kill else signal.SIGTERM)
                process.signal(signal.SIGCONT)  # a paused process handles SIGTERM only after it (systemd does the same)
                _gone(process, STOP_TIMEOUT_S)
            remaining = [f"The {name} (pid {process.pid})" for name, process in running if process.alive]
            self._note_ends(state)
            if remaining:
                raise CommandError(
                    f"{', '.join(remaining)} did not stop within {STOP_TIMEOUT_S:.0f} s: "
                    f"`barnabas down --kill` ends it at once."
                )
            return [name for name, _ in running]

    def _note_ends(self, state: ClusterState) -> None:
        """Clears the pids of processes that have ended. If the state cannot be written, that does no harm."""
        ended = [process for process in state.processes() if process.pid is not None and not process.alive]
        for process in ended:
            process.pid = None
        try:
            if ended:
                self.save(state)
        except CommandError as error:
            complain(f"{error} The file still names processes that have ended, which does no harm.")


def _await_shutdowns(state: ClusterState) -> None:
    """Waits for brokers in controlled shutdown to end, up to the timeout, so that they can be started again."""
    for broker in state.brokers:
        status = broker.status()
        if status is not None and status.get("state") == "SHUTTING_DOWN":
            _gone(broker, STOP_TIMEOUT_S)


def _gone(process: StartedProcess, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    pause = 0.005
    while process.alive:
        if time.monotonic() > deadline:
            return False
        if process.pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    return True


@dataclass
class _Child:
    name: str
    process: StartedProcess
    popen: subprocess.Popen[bytes]
    pipe: int
    log: Path
    heard: bytes = b""
    ready: bool = False

    def judge(self) -> None:
        """Records that the child is ready, or raises `CommandError` with the child's error."""
        if self.heard:
            notice = json.loads(self.heard)
            if "error" not in notice:
                self.ready = True
                return
            raise CommandError(f"{self.name} did not start: {notice['error']}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(5)
        raise CommandError(f"{self.name} ended before it was ready{self.last_words()}.")

    def last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        last = f" ({lines[-1].strip().removeprefix('barnabas: ').removesuffix('.')})" if lines else ""
        return f"{last}: see {self.log}"


def _bind_free_port(reserved: socket.socket) -> int:
    for port in random.sample(OWN_PORTS, 100):
        with contextlib.suppress(OSError):
            reserved.bind((HOST, port))
            return port
    reserved.bind((HOST, 0))
    return int(reserved.getsockname()[1])
