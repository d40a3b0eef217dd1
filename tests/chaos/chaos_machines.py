"""Three brokers and the coordinator, each a process, and where root allows it each on a machine of its own.

A machine is a network namespace with one address on a bridge, and a small file system in memory for its files. Without
root or iproute2 all processes share the loopback and the temporary directory; what cannot be done then is in `missing`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata

BROKERS = 3
SESSION_TIMEOUT_S = 3.0
DISK_BYTES = 256 * 1024 * 1024
_PORT = 9092
_ZOOKEEPER_PORT = 2181

CONFIG = {
    "zookeeper.session.timeout.ms": str(round(SESSION_TIMEOUT_S * 1000)),
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "4000",
    "controller.socket.timeout.ms": "4000",
    "request.timeout.ms": "4000",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": str(4 * 1024 * 1024),
    "barnabas.registration.timeout.ms": "60000",
}


def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done


def eventually(fact: Callable[[], object], within: float, what: str) -> None:
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:.0f} s: {what}")
        time.sleep(0.05)


class Abilities:
    """What this machine lets us do, and a sentence for each thing it does not."""

    def __init__(self, *, install: bool) -> None:
        self.missing: list[str] = []
        self.root = os.geteuid() == 0
        if not self.root:
            self.missing.append("not root: no network namespaces and no small disks, so links and disks are left alone")
        if self.root and install:
            self._install()
        self.namespaces = self.root and self._namespaces()
        self.drops = self.namespaces and self._have("iptables", "one-way drops and loss")
        self.netem = self.namespaces and self._netem()
        self.tmpfs = self.root and self._tmpfs()

    def _install(self) -> None:
        wanted = [package for tool, package in (("ip", "iproute2"), ("iptables", "iptables")) if not shutil.which(tool)]
        if wanted and shutil.which("apt-get"):
            run("apt-get", "update", "-q", check=False)
            run("apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted, check=False)

    def _have(self, tool: str, what_for: str) -> bool:
        if shutil.which(tool):
            return True
        self.missing.append(f"no {tool}: {what_for} are left out")
        return False

    def _namespaces(self) -> bool:
        if not self._have("ip", "network namespaces, and with them all faults of links,"):
            return False
        name = f"chaos-probe-{os.getpid()}"
        done = run("ip", "netns", "add", name, check=False)
        if done.returncode:
            self.missing.append(f"no network namespaces ({done.stderr.strip()}): links are left alone")
            return False
        run("ip", "netns", "del", name)
        return True

    def _netem(self) -> bool:
        name = f"chaos-probe-{os.getpid()}"
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "probe", "type", "veth", "peer", "name", "other")
            done = run(
                "ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "probe", "root", "netem", "delay", "1ms",
                check=False,
            )  # fmt: skip
        finally:
            run("ip", "netns", "del", name)
        if done.returncode:
            self.missing.append(
                "the kernel has no netem: a bad link is throttled (tbf) and loses packets (iptables), without delay"
            )
        return done.returncode == 0

    def _tmpfs(self) -> bool:
        place = Path(f"/tmp/chaos-probe-{os.getpid()}")
        place.mkdir()
        try:
            done = run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place), check=False)
            if done.returncode == 0:
                run("umount", str(place))
        finally:
            place.rmdir()
        if done.returncode:
            self.missing.append(f"no tmpfs ({done.stderr.strip()}): disks are not filled")
        return done.returncode == 0


class Machine:
    """One process and its place. `name` is ``broker-N`` or ``zookeeper``."""

    def __init__(self, cluster: Cluster, name: str, number: int) -> None:
        self.cluster = cluster
        self.name = name
        self.number = number
        self.namespace = f"{cluster.prefix}-{number}"
        self.disk = cluster.directory / name
        self.log = cluster.directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.wanted = False
        """It should be running; one that is not has ended by itself."""
        self.disk.mkdir()
        if cluster.able.namespaces:
            self.host = f"{cluster.subnet}.{number}"
            link = f"{cluster.prefix}v{number}"
            run("ip", "netns", "add", self.namespace)
            run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
            run("ip", "link", "set", link, "master", cluster.prefix, "up")
            run("ip", "-n", self.namespace, "addr", "add", f"{self.host}/24", "dev", "eth0")
            run("ip", "-n", self.namespace, "link", "set", "eth0", "up")
            run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        else:
            self.host = "127.0.0.1"
        if cluster.able.tmpfs:
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.disk))

    def inside(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("ip", "netns", "exec", self.namespace, *words, check=check)

    @property
    def port(self) -> int:
        if self.cluster.able.namespaces:
            return _ZOOKEEPER_PORT if self.name == "zookeeper" else _PORT
        return self.cluster.loopback_ports[self.number]

    @property
    def log_dir(self) -> Path:
        return self.disk / "data"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _words(self) -> list[str]:
        words = [sys.executable, "-m", "barnabas"]
        if self.name == "zookeeper":
            words += ["coordinator", "--host", self.host, "--port", str(self.port), "--dir", str(self.log_dir)]
        else:
            properties = self.cluster.directory / f"{self.name}.properties"
            values = {
                **CONFIG,
                "broker.id": str(self.number),
                "listeners": f"PLAINTEXT://{self.host}:{self.port}",
                "zookeeper.connect": f"{self.cluster.zookeeper.host}:{self.cluster.zookeeper.port}",
                "log.dirs": str(self.log_dir),
            }
            properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            words += ["broker", str(properties)]
        return ["ip", "netns", "exec", self.namespace, *words] if self.cluster.able.namespaces else words

    def start(self) -> None:
        if self.running:
            return
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self._words(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.wanted = True

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.wanted = False
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(30)

    def stop(self, within: float = 30) -> None:
        """A controlled shutdown; a kill, where it takes too long."""
        self.wanted = False
        self.signal(signal.SIGTERM)
        try:
            if self.process is not None:
                self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()

    def answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1):
                return True
        except OSError:
            return False

    def told(self, topics: list[str]) -> ClusterMetadata | None:
        """What the broker tells a client now."""
        try:
            with BlockingConnection(self.host, self.port, "chaos", request_timeout_ms=1_000) as connection:
                return read_metadata(connection.send(metadata_request(topics)))
        except OSError:
            return None

    def remove(self) -> None:
        self.signal(signal.SIGCONT)
        self.kill()
        if self.cluster.able.tmpfs:
            run("umount", "-l", str(self.disk), check=False)
        if self.cluster.able.namespaces:
            run("ip", "netns", "del", self.namespace, check=False)


class Cluster:
    def __init__(self, directory: Path, able: Abilities) -> None:
        self.directory = directory
        self.able = able
        self.prefix = f"ch{os.getpid() % 100_000}"
        self.subnet = f"10.211.{os.getpid() % 250}"
        self.loopback_ports = {}
        self.machines: list[Machine] = []
        if able.namespaces:
            run("ip", "link", "add", self.prefix, "type", "bridge")
            run("ip", "addr", "add", f"{self.subnet}.254/24", "dev", self.prefix)
            run("ip", "link", "set", self.prefix, "up")
        else:
            held = [socket.create_server(("127.0.0.1", 0)) for _ in range(BROKERS + 1)]
            self.loopback_ports = {number: each.getsockname()[1] for number, each in enumerate(held, start=1)}
            for each in held:
                each.close()
        self.zookeeper = self._machine("zookeeper", BROKERS + 1)
        self.brokers = [self._machine(f"broker-{number}", number) for number in range(1, BROKERS + 1)]

    def _machine(self, name: str, number: int) -> Machine:
        machine = Machine(self, name, number)
        self.machines.append(machine)
        return machine

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{each.host}:{each.port}" for each in self.brokers)

    def start(self) -> None:
        for each in self.machines:
            each.start()
        eventually(self.complete, 60, "three brokers that know each other and a controller")

    def complete(self) -> bool:
        for each in self.brokers:
            told = each.told([])
            if told is None or len(told.brokers) < BROKERS or told.controller is None:
                return False
        return True

    def isr_is_whole(self, topics: list[str]) -> bool:
        """Whether every broker tells of all replicas of every partition that they are in sync."""
        for each in self.brokers:
            told = each.told(topics)
            if told is None or len(told.brokers) < BROKERS or told.controller is None:
                return False
            for topic in topics:
                found = told.topics.get(topic)
                if found is None or found.error or not found.partitions:
                    return False
                for partition in found.partitions.values():
                    if partition.leader < 0 or set(partition.isr) != set(partition.replicas):
                        return False
        return True

    def remove(self) -> None:
        for each in self.machines:
            with contextlib.suppress(Exception):
                each.remove()
        if self.able.namespaces:
            run("ip", "link", "del", self.prefix, check=False)
