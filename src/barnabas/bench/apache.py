"""Apache Kafka 3.9.2 itself, from Maven's jars: brokers, ZooKeeper and every Kafka tool, for tests and benchmarks.

The jars are taken once from Maven Central by ``mvn`` into a cache (``$BARNABAS_CACHE``, by default
``~/.cache/barnabas``). Nothing of this is needed to run Barnabas.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from barnabas.bench import BenchError

VERSION: Final = "3.9.2"
SERVER_LOG: Final = "server.log"

Artifact = tuple[str, str, str]
"""An artifact of Maven: group, name and version."""

_TOOLS: Final[dict[str, str]] = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-jmx": "org.apache.kafka.tools.JmxTool",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "zookeeper-shell": "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
}

_BROKER_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SMALL_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


class ApacheUnavailable(BenchError):
    """Apache Kafka cannot be run here; the text says what is missing."""


def java() -> str:
    """A Java 11 or newer. Raises `ApacheUnavailable`."""
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which(f"{home}/bin/java") if home else None) or shutil.which("java")
    if found is None:
        raise ApacheUnavailable("Apache Kafka needs Java: neither JAVA_HOME nor PATH has one.")
    return found


def cache_directory() -> Path:
    base = os.environ.get("BARNABAS_CACHE")
    return Path(base) if base else Path.home() / ".cache" / "barnabas"


def _cache(version: str = VERSION) -> Path:
    return cache_directory() / "apache-kafka" / version


def classpath(version: str = VERSION) -> str:
    """The class path of Kafka's jars, fetched on first use (about 130 MB). Raises `ApacheUnavailable`."""
    # From 4.0 on Kafka logs by log4j 2, which cannot be combined with reload4j: its log then goes to standard error.
    logs = "slf4j-reload4j" if int(version.partition(".")[0]) < 4 else "slf4j-simple"
    kafka = [("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools")]
    return f"{fetch_jars(_cache(version), [*kafka, ('org.slf4j', logs, '1.7.36')])}/*"


def fetch_jars(cache: Path, artifacts: Iterable[Artifact], *, without: str | None = None) -> Path:
    """The directory below `cache` with the jars of `artifacts` and their dependencies, except those of the group
    `without`; fetched on first use. Raises `ApacheUnavailable`."""
    jars = cache / "lib"
    if jars.is_dir():
        return jars
    mvn = shutil.which("mvn")
    if mvn is None:
        raise ApacheUnavailable(f"Jars of Apache's are fetched by Maven: mvn is not on PATH, and {jars} is empty.")
    cache.mkdir(parents=True, exist_ok=True)
    # Only one process at a time may use Maven's local repository.
    with open(cache_directory() / "maven.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if jars.is_dir():
            return jars
        pom_file = cache / "pom.xml"
        pom_file.write_text(_pom(artifacts, without))
        part = cache / "lib.part"
        shutil.rmtree(part, ignore_errors=True)
        fetched = subprocess.run(
            [mvn, "-q", "-B", "-f", str(pom_file), "dependency:copy-dependencies", f"-DoutputDirectory={part}"],
            capture_output=True,
            text=True,
        )
        if fetched.returncode != 0:
            raise ApacheUnavailable(f"mvn could not fetch the jars for {cache}: " + fetched.stdout.strip()[-500:])
        part.rename(jars)
    return jars


def _pom(artifacts: Iterable[Artifact], without: str | None) -> str:
    left_out = f"<exclusions><exclusion><groupId>{without}</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{left_out if without else ''}</dependency>"
        for group, name, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>barnabas</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _log4j(directory: Path, levels: Mapping[str, str]) -> str:
    target = directory / "log4j.properties"
    target.write_text(
        "log4j.rootLogger=INFO, out\n"
        "log4j.appender.out=org.apache.log4j.FileAppender\n"
        f"log4j.appender.out.File={directory}/{SERVER_LOG}\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        "log4j.logger.org.apache.zookeeper=WARN\nlog4j.logger.org.reflections=ERROR\n"
        + "".join(f"log4j.logger.{name}={level}\n" for name, level in levels.items())
    )
    return f"-Dlog4j.configuration=file:{target}"


def spawned(
    directory: Path, jars: str, arguments: Sequence[str], log_levels: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts a server of Apache in the background, with its log in `directory`; `arguments` end with its class and its
    file."""
    *options, main, properties = arguments
    with open(directory / "stdout.log", "ab") as out:
        return subprocess.Popen(
            [java(), *options, _log4j(directory, log_levels), "-cp", jars, main, properties],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=directory,
        )  # fmt: skip


def until_ready(fact: Callable[[], bool], process: subprocess.Popen[bytes], directory: Path, timeout: float) -> None:
    """Waits until `fact` is true of a server whose log is in `directory`. Raises ``RuntimeError`` if the server has
    ended, and ``TimeoutError``; both have the end of the log."""
    deadline = time.monotonic() + timeout
    while not fact():
        if process.poll() is not None:
            raise RuntimeError(f"{directory.name} ended with {process.returncode}:\n{_tail(directory)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{directory.name} was not ready within {timeout} s:\n{_tail(directory)}")
        time.sleep(0.05)


def _tail(directory: Path) -> str:
    log = directory / SERVER_LOG
    return "\n".join(log.read_text().splitlines()[-15:]) if log.exists() else "(no log)"


def tool_command(name: str, *arguments: str) -> list[str]:
    """The command line of Kafka's tool `name`. Raises ``KeyError`` for an unknown tool."""
    main = _TOOLS[name]
    config = _cache() / "tools-log4j.properties"
    jars = classpath()
    if not config.exists():
        config.write_text(
            "log4j.rootLogger=WARN, stderr\nlog4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
            "log4j.appender.stderr.Target=System.err\n"
        )
    return [
        java(), "-Xmx256m", *SMALL_JVM, f"-Dlog4j.configuration=file:{config}", "-cp", jars, main, *arguments,
    ]  # fmt: skip


def tool(name: str, *arguments: str, text: str | None = None, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    """Runs Kafka's tool `name`; `text` is its standard input."""
    return subprocess.run(
        tool_command(name, *arguments), input=text if text is not None else "", capture_output=True, text=True,
        timeout=timeout,
    )  # fmt: skip


_ANSWER_S: Final = 2.0
_GIVEN: Final[list[socket.socket]] = []
_MARKED_ABOVE: Final = 33_000
"""Above the ports given to servers, some of which listen for datagrams themselves (Kerberos)."""


def free_port() -> int:
    """A port on which no process listens, below the system's local ports for connections (on Linux from 32768 on).

    The system might give a port of its own choice to any connection before the server binds it. A JVM takes seconds to
    bind its port. Meanwhile a datagram socket at `_MARKED_ABOVE` plus the port reserves it, until this process ends:
    other calls, here or in another process, return other ports.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        given = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe, contextlib.suppress(OSError):
            given.bind(("127.0.0.1", port + _MARKED_ABOVE))
            probe.bind(("127.0.0.1", port))
            _GIVEN.append(given)
            return port
        given.close()


def cluster_view(host: str, port: int) -> tuple[dict[int, str], int]:
    """The cluster by the broker at `port` (Metadata v1): addresses by broker id, and the controller."""
    request = struct.pack(">hhih", 3, 1, 7, 5) + b"probe" + struct.pack(">i", 0)
    with socket.create_connection((host, port), _ANSWER_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
            received = connection.recv(65536)
            if not received:
                raise ConnectionError(f"{host}:{port} closed the connection")
            answer += received
    position = 12
    brokers: dict[int, str] = {}
    for _ in range(struct.unpack_from(">i", answer, 8)[0]):
        broker, length = struct.unpack_from(">ih", answer, position)
        position += 6
        name = answer[position : position + length].decode()
        position += length
        broker_port, rack = struct.unpack_from(">ih", answer, position)
        position += 6 + max(rack, 0)
        brokers[broker] = f"{name}:{broker_port}"
    return brokers, struct.unpack_from(">i", answer, position)[0]


def is_in_cluster(broker: int, port: int) -> bool:
    """Whether the broker names itself and a controller in its Metadata."""
    try:
        brokers, controller = cluster_view("127.0.0.1", port)
    except OSError:
        return False
    return broker in brokers and controller in brokers


class ApacheCluster:
    """Real Kafka brokers, and a real ZooKeeper unless `zookeeper` names another. They end with the ``with`` block.

    `config` is added to every broker's ``server.properties``, then `own_config` of its id and port; `jvm` is added to
    its JVM's options. Brokers get the ids from `first_id` on. `ready_s` holds the seconds each broker took from its
    start until it answered Metadata.
    """

    version = VERSION

    def __init__(
        self,
        directory: Path | str,
        brokers: int = 1,
        *,
        zookeeper: str | None = None,
        config: Mapping[str, str] | None = None,
        own_config: Callable[[int, int], Mapping[str, str]] | None = None,
        first_id: int = 0,
        heap: str = "512m",
        jvm: Sequence[str] = (),
        log_levels: Mapping[str, str] | None = None,
        cluster_size: int | None = None,
        timeout: float = 300,
    ) -> None:
        self.directory = Path(directory)
        self.zookeeper = zookeeper or ""
        self._own_zookeeper = zookeeper is None and brokers >= 0
        self._heap = heap
        self._jvm = tuple(jvm)
        self._log_levels = dict(log_levels or {})
        self._timeout = timeout
        self._config = dict(config or {})
        self._own_config = own_config or (lambda broker, port: {})
        self._size = cluster_size or brokers
        self.ports = {first_id + i: free_port() for i in range(brokers)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ready_s: dict[int, float] = {}
        self._zookeeper_process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> Self:
        try:
            if self._own_zookeeper:
                self._start_zookeeper()
            begun = time.monotonic()
            for broker in self.ports:
                self.launch(broker)
            for broker in self.ports:
                self.wait_ready(broker, begun)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_zookeeper(self) -> None:
        directory = self.directory / "zookeeper"
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        properties = directory / "zookeeper.properties"
        properties.write_text(
            f"dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
            "admin.enableServer=false\ntickTime=2000\nminSessionTimeout=1000\n4lw.commands.whitelist=*\n"
        )
        self._zookeeper_process = self._spawn(
            directory, "-Xmx256m", *SMALL_JVM, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(properties)
        )
        self.zookeeper = f"127.0.0.1:{port}"
        until_ready(lambda: _serves(port), self._zookeeper_process, directory, self._timeout)

    def log_dir(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}" / "data"

    def _spawn(self, directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
        return spawned(directory, classpath(self.version), arguments, self._log_levels)

    def launch(self, broker: int) -> None:
        """Starts a broker without waiting for it."""
        directory = self.directory / f"broker-{broker}"
        directory.mkdir(parents=True, exist_ok=True)
        properties = directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._values(broker).items()))
        self.processes[broker] = self._serve(broker, properties)

    def _values(self, broker: int) -> dict[str, str]:
        """A broker's ``server.properties``."""
        replication = str(min(3, self._size))
        return {
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "log.dirs": str(self.log_dir(broker)),
            "zookeeper.connect": self.zookeeper,
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": str(min(2, int(replication))),
            **self._config,
            **self._own_config(broker, self.ports[broker]),
        }

    def _serve(self, broker: int, properties: Path) -> subprocess.Popen[bytes]:
        options = (f"-Xmx{self._heap}", f"-Xms{self._heap}", *_BROKER_JVM, *self._jvm)
        return self._spawn(properties.parent, *options, "kafka.Kafka", str(properties))

    def wait_ready(self, broker: int, begun: float | None = None) -> None:
        start = time.monotonic() if begun is None else begun
        ready = partial(is_in_cluster, broker, self.ports[broker])
        until_ready(ready, self.processes[broker], self.directory / f"broker-{broker}", self._timeout)
        self.ready_s[broker] = time.monotonic() - start

    def kill(self, broker: int) -> None:
        """``kill -9``."""
        self.processes[broker].kill()
        self.processes[broker].wait()

    def stop(self, broker: int, timeout: float = 60) -> None:
        """SIGTERM: a controlled shutdown."""
        self.processes[broker].send_signal(signal.SIGTERM)
        self.processes[broker].wait(timeout)

    def start(self, broker: int) -> None:
        self.launch(broker)
        self.wait_ready(broker)

    def close(self) -> None:
        for process in [*self.processes.values(), self._zookeeper_process]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def four_letter_word(address: str, word: str) -> str:
    """The answer of the server at ``host:port`` to ``srvr``, ``mntr`` and the like. Raises `OSError`."""
    host, _, port = address.rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), _ANSWER_S) as connection:
        connection.sendall(word.encode())
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


def _serves(port: int) -> bool:
    try:
        return "Zookeeper version" in four_letter_word(f"127.0.0.1:{port}", "srvr")
    except OSError:
        return False


@contextlib.contextmanager
def zookeeper_server(directory: Path | str) -> Iterator[str]:
    """Runs a single real ZooKeeper; yields ``host:port``."""
    with ApacheCluster(directory, brokers=0) as cluster:
        yield cluster.zookeeper
