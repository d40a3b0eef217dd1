"""``barnabas bench security``: the broker's cost of TLS, certificates and logins, beside Apache Kafka in the same run.

One broker of each kind, with a listener for each protocol, the same stores (PEM, an elliptic-curve key) and the same
user. CPU is the broker's own. librdkafka sends the records. Our own client makes the connections, in several processes:
it does the handshake, logs in and closes, so that the cost of one arrival is measured. Each process logs in as one
application: it computes SCRAM's iterations once, in the warm-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.bench.apache import SERVER_LOG, ApacheCluster, free_port, is_in_cluster, until_ready
from barnabas.bench.clusters import Running
from barnabas.bench.side_by_side import Figure, consume, in_turns, produce, warm_up
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.runtime import Runtime
from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.real import real_runtime
from barnabas.runtime.started_process import PYTHON
from barnabas.security.sasl.login import Login, SaslLogin
from barnabas.security.sasl.scram_credential import MECHANISMS
from barnabas.security.tls.authority import issue, make_authority

LISTENERS: Final = {"TLS": "SSL", "MTLS": "SSL", "SCRAM": "SASL_SSL", "PLAIN": "SASL_SSL"}
USER: Final = "bench"
PASSWORD: Final = "a password of the bench"
SCRAM: Final = "SCRAM-SHA-512"
MECHANISM_OF: Final = {"SCRAM": SCRAM, "PLAIN": "PLAIN"}
"""By listener."""
SIZE: Final = 1000
AT_ONCE: Final = 16
CLIENTS: Final = 2
"""Client processes: a login takes twice as much CPU in the client as in the broker, so one process would be the
limit."""
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN_LOGIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@dataclass
class Secured(Running):
    """A broker with its `ports` by listener; `port` is that of PLAINTEXT."""

    ports: Mapping[str, int]
    stores: Path

    def settings(self, listener: str) -> dict[str, str]:
        """librdkafka's settings for a listener."""
        values = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": LISTENERS[listener],
            "ssl.ca.location": str(self.stores / "authority.pem"),
        }
        if listener == "MTLS":
            store = str(self.stores / "client.pem")
            values |= {"ssl.certificate.location": store, "ssl.key.location": store}
        if listener in MECHANISM_OF:
            values |= {"sasl.mechanism": MECHANISM_OF[listener], "sasl.username": USER, "sasl.password": PASSWORD}
        return values


def make_stores(directory: Path) -> None:
    """Raises `ConfigError` without ``cryptography``."""
    now_ms = time.time_ns() // 1_000_000
    authority = make_authority("bench", now_ms)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "authority.pem").write_bytes(authority.certificate)
    for name in ("broker", "client"):
        (directory / f"{name}.pem").write_bytes(issue(authority, name, ("localhost", "127.0.0.1"), now_ms))


def properties(ports: Mapping[str, int], stores: Path) -> dict[str, str]:
    """The properties of the listeners in both brokers' ``server.properties``."""
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(stores / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(stores / "authority.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.scram.sasl.enabled.mechanisms": SCRAM,
        f"listener.name.scram.{SCRAM.lower()}.sasl.jaas.config": _SCRAM_LOGIN,
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": _PLAIN_LOGIN,
    }


@contextlib.contextmanager
def running(directory: Path) -> Iterator[tuple[Secured, Secured]]:
    """Runs our broker and Apache's, with the user made on each. Raises `ConfigError` without ``cryptography``."""
    stores = directory / "stores"
    make_stores(stores)
    with contextlib.ExitStack() as stack:
        subjects = (
            stack.enter_context(_ours(directory / "barnabas", stores)),
            stack.enter_context(_apaches(directory / "apache", stores)),
        )
        for subject in subjects:
            asyncio.run(_make_user(subject))
        yield subjects


def _ports() -> dict[str, int]:
    return {name: free_port() for name in ("PLAINTEXT", *LISTENERS)}


@contextlib.contextmanager
def _apaches(directory: Path, stores: Path) -> Iterator[Secured]:
    ports = _ports()
    cluster = ApacheCluster(directory, 1, config=properties(ports, stores))
    cluster.ports[0] = ports["PLAINTEXT"]
    with cluster:
        pid = cluster.processes[0].pid
        yield Secured("Apache Kafka 3.9.2", ports["PLAINTEXT"], pid, cluster.ready_s[0], ports, stores)


@contextlib.contextmanager
def _ours(directory: Path, stores: Path) -> Iterator[Secured]:
    ports = _ports()
    directory.mkdir(parents=True)
    values = {
        "broker.id": "0",
        "zookeeper.connect": f"127.0.0.1:{free_port()}",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        **properties(ports, stores),
    }
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    command = [*PYTHON, "-m", "barnabas", "broker", str(file), "--coordinator", str(directory / "coordinator")]
    begun = time.monotonic()
    with (directory / SERVER_LOG).open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until_ready(partial(is_in_cluster, 0, ports["PLAINTEXT"]), process, directory, 90)
        yield Secured("Barnabas", ports["PLAINTEXT"], process.pid, time.monotonic() - begun, ports, stores)
    finally:
        process.terminate()
        process.wait(60)


async def _make_user(subject: Secured) -> None:
    cluster = ClusterClient(real_runtime(), [("127.0.0.1", subject.port)])
    try:
        await Admin(cluster).set_scram_password(USER, PASSWORD, MECHANISMS[SCRAM])
    finally:
        await cluster.close()


# Arrivals


def arrive(clients: Executor, subject: Secured, listener: str, arrivals: int) -> float:
    """Seconds for this number of connections, some at a time, each of which logs in and closes."""
    begun = time.monotonic()
    shares = [
        clients.submit(_client, subject.ports[listener], listener, subject.stores, share)
        for share in _shares(arrivals, CLIENTS)
    ]
    for share in shares:
        share.result()
    return time.monotonic() - begun


def _shares(arrivals: int, among: int) -> list[int]:
    return [arrivals // among + (number < arrivals % among) for number in range(among)]


def _client(port: int, listener: str, stores: Path, arrivals: int) -> None:
    """One process of clients."""
    context = ssl.create_default_context(cafile=str(stores / "authority.pem"))
    if listener == "MTLS":
        context.load_cert_chain(stores / "client.pem")
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(_arrive(port, context, _login(listener), arrivals))


@functools.cache
def _login(listener: str) -> Login | None:
    """One login object for all rounds, as in an application: it keeps the salted password of SCRAM."""
    return SaslLogin(MECHANISM_OF[listener], USER, PASSWORD) if listener in MECHANISM_OF else None


async def _arrive(port: int, context: ssl.SSLContext, login: Login | None, arrivals: int) -> None:
    runtime = real_runtime()
    shares = _shares(arrivals, AT_ONCE // CLIENTS)
    await asyncio.gather(*(_one_after_the_other(runtime, port, context, login, share) for share in shares))


async def _one_after_the_other(
    runtime: Runtime, port: int, context: ssl.SSLContext, login: Login | None, arrivals: int
) -> None:
    for _ in range(arrivals):
        connection = Connection(runtime, "127.0.0.1", port, "bench", tls=context)
        await connection.connect()
        await connection.negotiate(login)
        await connection.close()


# The figures


def measure(directory: Path, rounds: int, arrivals: int, records: int) -> list[Figure]:
    """Measures only arrivals if `records` is 0. Raises `ConfigError` without ``cryptography``."""
    processes = multiprocessing.get_context("forkserver")
    with running(directory) as subjects, ProcessPoolExecutor(CLIENTS, processes) as clients:
        figures = _figures(with_records=records > 0)

        def run(subject: Secured, topic: str) -> dict[str, float]:
            values: dict[str, float] = {}
            for listener in LISTENERS:
                if records:
                    settings = subject.settings(listener)
                    before = subject.cpu_s()
                    produce(subject, topic, records, SIZE, settings)
                    produced = subject.cpu_s()
                    consume(subject, topic, records, settings)
                    consumed = subject.cpu_s()
                    values[f"{listener}/produce"] = (produced - before) / (records * SIZE) * 1e9
                    values[f"{listener}/consume"] = (consumed - produced) / (records * SIZE) * 1e9
                before = subject.cpu_s()
                took = arrive(clients, subject, listener, arrivals)
                values[f"{listener}/cpu"] = (subject.cpu_s() - before) / arrivals * 1000
                values[f"{listener}/rate"] = arrivals / took
            return values

        warm_up(subjects, run)
        in_turns(subjects, rounds, run, figures)
        return list(figures.values())


def _figures(*, with_records: bool) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for listener in LISTENERS:
        for what in ("produce", "consume") if with_records else ():
            name = f"{what} over {_told(listener)}, {SIZE} B, broker CPU per GB"
            figures[f"{listener}/{what}"] = Figure(name, "s", "<= 1")
        arrival = "login" if listener in MECHANISM_OF else "handshake"
        name = f"one {arrival} by {_told(listener)}, broker CPU"
        figures[f"{listener}/cpu"] = Figure(name, "ms", "<= 1")
        figures[f"{listener}/rate"] = Figure(f"{arrival}s by {_told(listener)} a second", "1/s", ">= 1")
    return figures


def _told(listener: str) -> str:
    return {"TLS": "TLS", "MTLS": "mTLS", "SCRAM": "TLS and SCRAM", "PLAIN": "TLS and PLAIN"}[listener]
