"""Apache ZooKeeper without Kafka: one server or an ensemble, with TLS and SASL on request.

Kafka's own jars contain version 3.8; version 3.9 is fetched from Maven Central and put before them on the class path.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from barnabas.bench.apache import (
    SMALL_JVM,
    ApacheUnavailable,
    cache_directory,
    classpath,
    fetch_jars,
    four_letter_word,
    free_port,
    spawned,
    until_ready,
)

KAFKAS_VERSION: Final = "3.8.4"
NEWER_VERSION: Final = "3.9.3"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files of a server: its key with its certificate, and the trusted certificates. `client_auth`: none, want or
    need."""

    key_store: Path
    trust_store: Path
    client_auth: str = "need"


def zookeeper_classpath(version: str) -> str:
    """The class path of ZooKeeper's server in this version. Raises `ApacheUnavailable`."""
    if version == KAFKAS_VERSION:
        return classpath()
    zookeeper = ("org.apache.zookeeper", "zookeeper", version)
    jars = fetch_jars(cache_directory() / "apache-zookeeper" / version, [zookeeper], without="io.netty")
    own = [jars / f"zookeeper-{version}.jar", jars / f"zookeeper-jute-{version}.jar"]
    if not all(jar.exists() for jar in own):
        raise ApacheUnavailable(
            f"{jars} does not contain ZooKeeper {version}: delete the directory, and it is fetched again."
        )
    return ":".join([*map(str, own), classpath()])


class ZooKeeperEnsemble:
    """Real ZooKeeper servers, numbered from 1; ended with the ``with`` block.

    `sasl_users` (passwords by name) turns the scheme ``sasl`` on (DIGEST-MD5); `tls` adds a secure port to each server.
    `config` is added to every ``zoo.cfg``, `properties` to every JVM's system properties. All four-letter words answer.
    """

    def __init__(
        self,
        directory: Path | str,
        servers: int = 1,
        *,
        tick_ms: int = 500,
        tls: ServerTls | None = None,
        sasl_users: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        version: str = KAFKAS_VERSION,
        jvm: Sequence[str] = ("-Xmx256m", *SMALL_JVM),
        timeout: float = 60,
    ) -> None:
        self.directory = Path(directory)
        self.numbers = tuple(range(1, servers + 1))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ports = {number: free_port() for number in self.numbers}
        self._secure_ports = {number: free_port() for number in self.numbers} if tls is not None else {}
        self._timeout = timeout
        self._classpath = zookeeper_classpath(version)
        self._jvm = tuple(jvm)
        self._properties = dict(properties or {})
        self._config = {
            "tickTime": str(tick_ms),
            "initLimit": "20",
            "syncLimit": "10",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "extendedTypesEnabled": "true",
            "clientPortAddress": "127.0.0.1",
        }
        if servers > 1:
            peers = {number: (free_port(), free_port()) for number in self.numbers}
            self._config |= {f"server.{number}": f"127.0.0.1:{a}:{b}" for number, (a, b) in peers.items()}
        if tls is not None:
            self._config |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPortAddress": "127.0.0.1",
                "ssl.keyStore.location": str(tls.key_store),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": str(tls.trust_store),
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": tls.client_auth,
            }
        self.sasl_users = dict(sasl_users or {})
        if self.sasl_users:
            self._config["authProvider.sasl"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        self._config |= dict(config or {})

    def address(self, number: int) -> str:
        return f"127.0.0.1:{self._ports[number]}"

    @property
    def connect(self) -> str:
        """Every server's ``host:port``."""
        return ",".join(self.address(number) for number in self.numbers)

    @property
    def secure_connect(self) -> str:
        """Every server's ``host:port`` under TLS."""
        return ",".join(f"127.0.0.1:{port}" for port in self._secure_ports.values())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, numbers: Iterable[int] | None = None) -> None:
        """Starts these servers (by default all) and returns when they serve."""
        chosen = tuple(self.numbers if numbers is None else numbers)
        for number in chosen:
            self._launch(number)
        for number in chosen:
            until_ready(partial(self.serves, number), self.processes[number], self._home(number), self._timeout)

    def _home(self, number: int) -> Path:
        return self.directory / f"zookeeper-{number}"

    def _launch(self, number: int) -> None:
        home = self._home(number)
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data" / "myid").write_text(f"{number}\n")
        values = {"dataDir": str(home / "data"), "clientPort": str(self._ports[number]), **self._config}
        if self._secure_ports:
            values["secureClientPort"] = str(self._secure_ports[number])
        (home / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        properties = dict(self._properties)
        if self.sasl_users:
            users = " ".join(f'user_{name}="{password}"' for name, password in self.sasl_users.items())
            jaas = home / "jaas.conf"
            jaas.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};\n")
            properties["java.security.auth.login.config"] = str(jaas)
        options = (*self._jvm, *(f"-D{key}={value}" for key, value in properties.items()))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.processes[number] = spawned(home, self._classpath, (*options, main, str(home / "zoo.cfg")), {})

    def serves(self, number: int) -> bool:
        """Whether the server answers and, in an ensemble, has a leader."""
        return self.mode(number) is not None

    def mode(self, number: int) -> str | None:
        """``leader``, ``follower`` or ``standalone``; None while the server does not serve."""
        try:
            lines = four_letter_word(self.address(number), "srvr").splitlines()
        except OSError:
            return None
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("Mode:")), None)

    def kill(self, number: int) -> None:
        """``kill -9``."""
        self.processes[number].kill()
        self.processes[number].wait()

    def pause(self, number: int) -> None:
        """Stops a server (SIGSTOP) and returns when all its threads stand still: at first only some have got the
        signal."""
        os.kill(self.processes[number].pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.processes[number].pid, os.WSTOPPED)

    def resume(self, number: int) -> None:
        os.kill(self.processes[number].pid, signal.SIGCONT)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
