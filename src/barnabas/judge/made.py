"""Clusters made for a run: Apache Kafka with ZooKeeper or without, and Barnabas."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.bench import BenchError
from barnabas.bench.apache import VERSION, ApacheCluster, classpath, free_port, java
from barnabas.judge.clusters import ApacheBrokers, Brokers, JudgedClusterError
from barnabas.judge.coordination import ISOLATE, ZOOKEEPER_FAULTS, ProxiedZooKeeper
from barnabas.judge.nemesis import KILL_TWO
from barnabas.judge.peers import PEER_FAULTS, ProxiedPeers
from barnabas.judge.proxy import Proxy
from barnabas.runtime.real import uuid_from
from barnabas.runtime.started_process import PYTHON

KINDS: Final = ("barnabas", "apache", "kraft")
_BROKERS: Final = 3


class BarnabasCluster(ApacheCluster):
    """Runs our processes in place of Apache's, with the same files, ports and signals."""

    def _start_zookeeper(self) -> None:
        directory = self.directory / "zookeeper"
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.zookeeper = f"127.0.0.1:{port}"
        self._zookeeper_process = self._ours(directory, "coordinator", "--port", str(port), "--dir", str(directory))

    def _serve(self, broker: int, properties: Path) -> subprocess.Popen[bytes]:
        return self._ours(properties.parent, "broker", str(properties))

    @staticmethod
    def _ours(directory: Path, *words: str) -> subprocess.Popen[bytes]:
        with open(directory / "server.log", "ab") as log:
            command = [*PYTHON, "-m", "barnabas", *words]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


class KraftCluster(ApacheCluster):
    """Apache Kafka without ZooKeeper: each process is a broker and a controller. Controllers' links have no proxy."""

    def __init__(
        self, directory: Path, brokers: int, version: str, own_config: Callable[[int, int], Mapping[str, str]] | None
    ) -> None:
        super().__init__(directory, brokers, own_config=own_config)
        self.version = version
        self._controllers = {broker: free_port() for broker in self.ports}
        self._cluster_id = str(uuid_from(os.urandom))

    def _start_zookeeper(self) -> None:
        """KRaft has no ZooKeeper; this only fetches the version's jars."""
        classpath(self.version)

    def _values(self, broker: int) -> dict[str, str]:
        values = super()._values(broker)
        protocols = values.pop("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
        for name in ("zookeeper.connect", "broker.id"):
            del values[name]
        values.setdefault("advertised.listeners", values["listeners"])
        return {
            **values,
            "process.roles": "broker,controller",
            "node.id": str(broker),
            "listeners": f"{values['listeners']},CONTROLLER://127.0.0.1:{self._controllers[broker]}",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{port}" for node, port in self._controllers.items()
            ),
        }

    def _serve(self, broker: int, properties: Path) -> subprocess.Popen[bytes]:
        words = ["format", "--ignore-formatted", "--cluster-id", self._cluster_id, "--config", str(properties)]
        jars = classpath(self.version)
        done = subprocess.run(
            [java(), "-Xmx256m", "-cp", jars, "kafka.tools.StorageTool", *words], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"the log of broker {broker} could not be formatted: {done.stdout}{done.stderr}")
        return super()._serve(broker, properties)


class MadeCluster(NamedTuple):
    brokers: Brokers
    peers: Proxy | None
    """The proxy between the brokers."""
    zookeeper: Proxy | None
    """The proxy between the brokers and ZooKeeper."""


def apache_version(kind: str) -> str:
    """The version of Apache Kafka that brokers of this kind of `made` run, if any."""
    name, _, version = kind.partition(":")
    return "" if name == "barnabas" else version or VERSION


@contextlib.contextmanager
def made(kind: str, directory: Path, faults: Collection[str] = (), seed: int = 0) -> Iterator[MadeCluster]:
    """Runs three brokers, with proxies on the links that one of `faults` affects. They end with the block; their files
    stay in `directory`.

    `kind` is one of `KINDS`; ``kraft`` may name a version, as ``kraft:4.0.0``. Raises `JudgedClusterError`.
    """
    name, _, version = kind.partition(":")
    if name not in KINDS or (version and name != "kraft"):
        raise JudgedClusterError(
            f"there is no kind of cluster {kind}; the kinds are {', '.join(KINDS)} and kraft:VERSION"
        )
    if name == "kraft" and set(faults) & set(ZOOKEEPER_FAULTS):
        raise JudgedClusterError(f"{kind} has no ZooKeeper, and no links to it")
    peers = ProxiedPeers(range(_BROKERS), seed) if set(faults) & {*PEER_FAULTS, ISOLATE, KILL_TWO} else None
    zookeeper = bool(set(faults) & set(ZOOKEEPER_FAULTS))
    keeper = ProxiedZooKeeper(range(_BROKERS), lambda: cluster.zookeeper, seed) if zookeeper else None
    proxied = [links for links in (peers, keeper) if links is not None]

    def own(broker: int, port: int) -> Mapping[str, str]:
        return {name: value for links in proxied for name, value in links.config(broker, port).items()}

    try:
        with contextlib.ExitStack() as running:
            try:
                if name == "kraft":
                    cluster: ApacheCluster = KraftCluster(directory, _BROKERS, version or VERSION, own)
                else:
                    cluster = {"apache": ApacheCluster, "barnabas": BarnabasCluster}[name](
                        directory, _BROKERS, own_config=own
                    )
                running.enter_context(cluster)
            except (BenchError, RuntimeError, TimeoutError) as error:
                raise JudgedClusterError(f"the cluster did not start: {error}") from None
            proxies = (None if links is None else links.proxy for links in (peers, keeper))
            yield MadeCluster(ApacheBrokers(cluster), *proxies)
    finally:
        for links in proxied:
            links.proxy.close()


def keep_logs(directory: Path, kept: Path) -> bool:
    """Copies the logs of the servers in `directory` to `kept`, each under its server's name. Returns whether there were
    logs."""
    found = False
    for name, ending in (("server.log", ".log"), ("stdout.log", ".stdout.log")):
        for log in directory.glob(f"*/{name}"):
            if log.stat().st_size:
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, kept / f"{log.parent.name}{ending}")
                found = True
    return found
