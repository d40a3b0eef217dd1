"""Access to a cluster: addresses, TLS and SASL from the ``kafka.*`` options, and the connections of a process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self, TypeAlias

from barnabas.client.asking import ConnectionLost
from barnabas.client.blocking import REQUEST_TIMEOUT_MS, BlockingCluster
from barnabas.client.config import PROTOCOLS, SECURITY, tls_context
from barnabas.client.metadata import parse_bootstrap
from barnabas.model.errors import ConfigError
from barnabas.security.sasl.login import Login, login_of
from barnabas.wire.errors import WireError

RETRY_TIMEOUT_MS: Final = 60_000
Servers: TypeAlias = str | Mapping[str, str]
"""A job's cluster: its bootstrap servers, or a client's properties by Kafka's names, which include them."""

_OF_A_TABLE: Final = (
    " Spark hands the options of CREATE TABLE to no source in Python: give them in the query, SELECT .. FROM t WITH "
    "(..), or make it a view, CREATE TEMPORARY VIEW t USING barnabas OPTIONS (..)."
)
"""The hint if no option is given at all: then Spark reads a table of its catalog."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Plain values, so that it can be sent to executors; sockets and TLS contexts are made where they are used."""

    bootstrap: str
    client_id: str
    protocol: str
    login: Login | None
    ssl: tuple[tuple[str, str], ...] = field(repr=False)
    request_timeout_ms: int
    retry_timeout_ms: int

    OPTIONS: ClassVar[tuple[str, ...]] = (
        "kafka.bootstrap.servers",
        "kafka.client.id",
        "kafka.request.timeout.ms",
        "kafka.default.api.timeout.ms",
        *(f"kafka.{name}" for name in SECURITY),
    )

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """`given` has lower-case names. Raises ``ValueError`` saying what is wrong."""
        bootstrap = given.get("kafka.bootstrap.servers", "")
        if not bootstrap:
            hint = "" if given else _OF_A_TABLE
            raise ValueError(f"Option kafka.bootstrap.servers is missing: set it to host:port[,host:port].{hint}")
        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise ValueError(f"Option kafka.bootstrap.servers: {error}.") from None
        protocol = given.get("kafka.security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise ValueError(f"Option kafka.security.protocol is {protocol!r}: it takes {', '.join(PROTOCOLS)}.")
        login = None
        if protocol.startswith("SASL"):
            try:
                login = login_of({n.removeprefix("kafka."): v for n, v in given.items() if n.startswith("kafka.")})
            except ConfigError as error:
                raise ValueError(f"Option kafka.{error}") from None
        return cls(
            bootstrap=bootstrap,
            client_id=given.get("kafka.client.id", "barnabas-spark"),
            protocol=protocol,
            login=login,
            ssl=tuple(sorted((n.removeprefix("kafka."), v) for n, v in given.items() if n.startswith("kafka.ssl."))),
            request_timeout_ms=_milliseconds(given, "kafka.request.timeout.ms", REQUEST_TIMEOUT_MS),
            retry_timeout_ms=_milliseconds(given, "kafka.default.api.timeout.ms", RETRY_TIMEOUT_MS),
        )

    def made(self) -> BlockingCluster:
        """A cluster without connections yet. Raises `ConfigError` for stores that cannot be read."""
        return BlockingCluster(
            self.bootstrap,
            self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            retry_timeout_ms=self.retry_timeout_ms,
            tls=tls_context({**dict(self.ssl), "security.protocol": self.protocol}, prefix="kafka."),
            login=self.login,
        )


_idle: dict[ClusterAccess, BlockingCluster] = {}
"""Connections that a worker process keeps from one task to the next. A process runs one task at a time."""


@contextlib.contextmanager
def connected(access: ClusterAccess, *, patient: bool = False) -> Iterator[BlockingCluster]:
    """A cluster, with the metadata of earlier uses in this process.

    The first connection tries every address once, so that a wrong address is reported at once. Tasks are `patient` and
    skip that: their planning has just reached the cluster. Later losses are retried. Raises `ConnectionLost`.
    """
    cluster = _idle.pop(access, None)
    if cluster is None:
        cluster = access.made()
    if not cluster.known and not patient:
        try:
            cluster.any()
        except (OSError, WireError) as error:  # invalid bytes: the listener speaks TLS, or is not Kafka's
            cluster.close()
            raise ConnectionLost(
                f"No broker of kafka.bootstrap.servers={access.bootstrap} can be reached with kafka.security.protocol="
                f"{access.protocol}: {error}. Check the addresses, that the brokers run, and their listener's protocol."
            ) from None
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    stale = _idle.pop(access, None)
    if stale is not None:
        stale.close()
    _idle[access] = cluster


def options_of(servers: Servers) -> dict[str, str]:
    """The options for the source and the sink: ``kafka.bootstrap.servers`` and the rest."""
    return {f"kafka.{name}": value for name, value in settings_of(servers).items()}


def settings_of(servers: Servers) -> dict[str, str]:
    """The options for a client."""
    return {"bootstrap.servers": servers} if isinstance(servers, str) else dict(servers)


def cluster_of(servers: Servers, client_id: str) -> BlockingCluster:
    """A cluster without connections yet. Raises ``ValueError``, `ConfigError`."""
    return ClusterAccess.parse({**options_of(servers), "kafka.client.id": client_id}).made()


def _milliseconds(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"Option {name} is {text!r}: it takes a whole number of milliseconds, 1 or more.")
    return int(text)
