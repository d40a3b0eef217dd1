"""The doors that a principal comes in by: a listener of each protocol, and who may stand before it.

carol is who has a role's rights, by her password or her certificate; dave has none, wherever he comes from. Both
brokers of a pair have all listeners, and the same stores and users.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from answers.asking import Asked, Entrance
from answers.beside import CONFIG, asked
from certificates import Authority, Certificate
from cluster import BARNABAS, until

from barnabas.bench.apache import ApacheCluster, cluster_view, free_port
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.login import SaslLogin
from barnabas.security.sasl.scram_credential import MECHANISMS

LISTENERS: Final = {"PLAINTEXT": "PLAINTEXT", "OPEN": "SASL_PLAINTEXT", "LOGIN": "SASL_SSL", "CERTIFIED": "SSL"}
ANONYMOUS: Final = "ANONYMOUS"
WITH_RIGHTS: Final = "carol"
WITHOUT: Final = "dave"
PASSWORD: Final = "a password"


class Door(NamedTuple):
    name: str
    listener: str
    mechanism: str = ""
    certified: bool = False

    @property
    def principal(self) -> str:
        """Who has the role's rights here."""
        return WITH_RIGHTS if self.mechanism or self.certified else ANONYMOUS


PLAINTEXT: Final = Door("PLAINTEXT", "PLAINTEXT")
DOORS: Final = (
    PLAINTEXT,
    Door("SASL_PLAINTEXT, by SCRAM-SHA-256", "OPEN", "SCRAM-SHA-256"),
    Door("SASL_SSL, by SCRAM-SHA-512", "LOGIN", "SCRAM-SHA-512"),
    Door("SSL, by a certificate", "CERTIFIED", certified=True),
    Door("SSL, without a certificate", "CERTIFIED"),
)


class Keys(NamedTuple):
    """Of one authority: the brokers', carol's and dave's."""

    authority: Authority
    broker: Certificate
    clients: dict[str, Certificate]


def make_keys(directory: Path) -> Keys:
    authority = Authority(directory)
    return Keys(authority, authority.issue("broker"), {name: authority.issue(name) for name in (WITH_RIGHTS, WITHOUT)})


class Pair:
    """Two brokers of a kind. `ports` are the listeners', by name and broker."""

    def __init__(self, asked: Asked, ports: Mapping[str, Mapping[int, int]], keys: Keys) -> None:
        self.asked = asked
        self._ports = ports
        self._keys = keys

    def through(self, door: Door, source: str, who: str = "") -> Asked:
        """Asks as `who`, from the address `source`."""
        who = who or door.principal
        ports = {plain: self._ports[door.listener][broker] for broker, plain in self._ports["PLAINTEXT"].items()}
        tls = None
        if LISTENERS[door.listener].endswith("SSL"):
            tls = ssl.create_default_context(cafile=str(self._keys.authority.trust_store))
            if door.certified:
                tls.load_cert_chain(self._keys.clients[who].key_store)
        login = SaslLogin(door.mechanism, who, PASSWORD) if door.mechanism else None
        return Asked(self.asked.world, source, Entrance(ports, tls, login))


def _config(ports: Mapping[str, Mapping[int, int]], broker: int, keys: Keys) -> dict[str, str]:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    mechanisms = {door.listener: door.mechanism for door in DOORS if door.mechanism}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{of[broker]}" for name, of in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys.broker.key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(keys.authority.trust_store),
        "listener.name.certified.ssl.client.auth": "requested",
        "listener.name.certified.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/,DEFAULT",
        **{f"listener.name.{name.lower()}.sasl.enabled.mechanisms": each for name, each in mechanisms.items()},
        **{
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": scram
            for listener, mechanism in mechanisms.items()
        },
        "delegation.token.secret.key": "of both brokers",
    }


def _free_ports() -> dict[str, dict[int, int]]:
    return {name: {broker: free_port() for broker in (0, 1)} for name in LISTENERS}


async def _make_users(port: int) -> None:
    cluster = ClusterClient(real_runtime(), [("127.0.0.1", port)])
    try:
        for user in (WITH_RIGHTS, WITHOUT):
            for mechanism in {door.mechanism for door in DOORS if door.mechanism}:
                await Admin(cluster).set_scram_password(user, PASSWORD, MECHANISMS[mechanism])
    finally:
        await cluster.close()


@contextlib.contextmanager
def _asked(ports: Mapping[str, Mapping[int, int]], keys: Keys, *, is_apache: bool) -> Iterator[Pair]:
    plain = dict(ports["PLAINTEXT"])
    asyncio.run(_make_users(plain[0]))
    with asked(plain, is_apache=is_apache) as made:
        yield Pair(made, ports, keys)


@contextlib.contextmanager
def apaches(directory: Path, keys: Keys, config: Mapping[str, str] = CONFIG) -> Iterator[Pair]:
    ports = _free_ports()
    of_brokers = {broker: {**config, **_config(ports, broker, keys)} for broker in (0, 1)}
    with contextlib.ExitStack() as stack:
        first = ApacheCluster(directory / "0", 1, config=of_brokers[0], cluster_size=2)
        first.ports[0] = ports["PLAINTEXT"][0]
        stack.enter_context(first)
        second = ApacheCluster(
            directory / "1", 1, zookeeper=first.zookeeper, config=of_brokers[1], first_id=1, cluster_size=2
        )
        second.ports[1] = ports["PLAINTEXT"][1]
        stack.enter_context(second)
        yield stack.enter_context(_asked(ports, keys, is_apache=True))


@contextlib.contextmanager
def ours(directory: Path, keys: Keys, config: Mapping[str, str] = CONFIG) -> Iterator[Pair]:
    ports, zookeeper = _free_ports(), f"127.0.0.1:{free_port()}"
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for broker in (0, 1):
            values = {
                **config,
                **_config(ports, broker, keys),
                "broker.id": str(broker),
                "zookeeper.connect": zookeeper,
                "log.dirs": str(directory / f"logs-{broker}"),
            }
            file = directory / f"{broker}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            coordinator = () if broker else ("--coordinator", str(directory / "coordinator"))
            stack.enter_context(_broker(file, *coordinator))
        plain = ports["PLAINTEXT"]
        until(lambda: all(_ready(port) for port in plain.values()), f"both brokers of {directory} are ready")
        yield stack.enter_context(_asked(ports, keys, is_apache=False))


@contextlib.contextmanager
def _broker(file: Path, *words: str) -> Iterator[None]:
    with file.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen([*BARNABAS, "broker", str(file), *words], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _ready(port: int) -> bool:
    try:
        brokers, controller = cluster_view("127.0.0.1", port)
    except OSError:
        return False
    return len(brokers) == 2 and controller in brokers
