"""What ``barnabas up --secure`` makes: an authority, a certificate for brokers, two users, and what they may do.

All of it lies in one directory that only its owner may read. Brokers know each other by their certificate (mTLS, on a
listener of their own), clients log in by SCRAM over TLS, and the coordinator lets in who has a certificate. `up` and
`status` connect as a broker; commands that speak to the cluster log in as its administrator.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.cli.output import CommandError
from barnabas.cli.plain import HOST

if TYPE_CHECKING:
    import ssl

    from barnabas.cli.local_state import BrokerState, ClusterState
    from barnabas.client.admin_acls import Binding
    from barnabas.security.sasl.login import SaslLogin

DIRECTORY: Final = "security"
ADMIN: Final = "admin"
CLIENT: Final = "client"
BROKER: Final = "broker"
"""The name in the brokers' certificate."""
AUTHORITY: Final = "authority.pem"
KEY_STORE: Final = "broker.pem"
MECHANISM: Final = "SCRAM-SHA-512"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def profile(security: str, user: str = ADMIN) -> Path:
    """The file with the properties of `user`, as Kafka's tools and ours take them."""
    return Path(security) / f"{user}.properties"


def librdkafka_profile(security: str) -> Path:
    return Path(security) / f"{CLIENT}.librdkafka.properties"


def profiles(security: str) -> dict[str, str]:
    """The files that clients need, for the JSON of ``barnabas up``."""
    return {
        CLIENT: str(profile(security, CLIENT)),
        "librdkafka": str(librdkafka_profile(security)),
        ADMIN: str(profile(security)),
        "authority": str(Path(security) / AUTHORITY),
    }


# What is made


def make(directory: Path) -> None:
    """Makes everything, or nothing; an existing directory stays as it is. Raises `CommandError` without
    ``cryptography``."""
    if directory.exists():
        return
    from barnabas.model.errors import ConfigError
    from barnabas.security.tls.authority import issue, make_authority

    now_ms = time.time_ns() // 1_000_000
    try:
        authority = make_authority(f"authority of {directory.parent.name}"[:64], now_ms)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    files = {
        AUTHORITY: authority.certificate,
        "authority.key": authority.key,
        KEY_STORE: issue(authority, BROKER, ("localhost", HOST), now_ms),
    }
    trust = {"security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM"}
    trust["ssl.truststore.location"] = str(directory / AUTHORITY)
    for user in (ADMIN, CLIENT):
        password = secrets.token_urlsafe(24)
        jaas = f'{_SCRAM} required username="{user}" password="{password}";'
        files[f"{user}.properties"] = _lines({**trust, "sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas})
    files[librdkafka_profile("").name] = _lines(
        {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(directory / AUTHORITY),
            "sasl.mechanism": MECHANISM,
            "sasl.username": CLIENT,
            "sasl.password": password,
        }
    )
    unfinished = directory.with_name(f"{directory.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    for name, data in files.items():
        with open(os.open(unfinished / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    unfinished.rename(directory)


def _lines(values: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


# What servers are told


def _stores(security: str, prefix: str = "") -> dict[str, str]:
    kinds = {"keystore": KEY_STORE, "truststore": AUTHORITY}
    return {f"{prefix}ssl.{kind}.location": str(Path(security) / name) for kind, name in kinds.items()} | {
        f"{prefix}ssl.{kind}.type": "PEM" for kind in kinds
    }


def broker_properties(state: ClusterState, broker: BrokerState) -> dict[str, str]:
    """What a broker's ``server.properties`` adds to those of an open cluster, or overrides in them."""
    values = {
        "listeners": f"CLIENTS://{HOST}:{broker.port},BROKERS://{HOST}:{broker.broker_port}",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL",
        "inter.broker.listener.name": "BROKERS",
        **_stores(state.security),
        "listener.name.brokers.ssl.client.auth": "required",
        "listener.name.brokers.ssl.principal.mapping.rules": "RULE:^CN=([a-zA-Z0-9._-]+)$/$1/",
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{BROKER};User:{ADMIN}",
        "barnabas.admin.listener": "",  # it would show the cluster to every user of this machine
    }
    if state.coordinator is not None:
        values |= {"zookeeper.ssl.client.enable": "true", "zookeeper.set.acl": "true"}
        values |= _stores(state.security, "zookeeper.")
    return values


def coordinator_words(security: str, port: int) -> list[str]:
    """Options of ``barnabas coordinator`` that let in only clients with a certificate of the authority."""
    return [
        *("--tls-only", "--config", f"secureClientPort={port}"),
        *("--config", f"ssl.keyStore.location={Path(security) / KEY_STORE}"),
        *("--config", f"ssl.trustStore.location={Path(security) / AUTHORITY}"),
    ]


# Asking


@cache
def brokers_tls(security: str) -> ssl.SSLContext:
    """TLS with the brokers' certificate. Raises `CommandError` for stores that cannot be read."""
    return _tls(_stores(security))


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    from barnabas.model.errors import ConfigError
    from barnabas.security.tls.settings import tls_settings

    try:
        return tls_settings(settings).client_context()
    except ConfigError as error:
        raise CommandError(str(error)) from None


def client_settings(path: Path) -> dict[str, str]:
    """Raises `CommandError` for a file that cannot be read."""
    from barnabas.model.config import parse_properties

    try:
        return parse_properties(path.read_text())
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({os.strerror(error.errno or 0)}).") from None


def _logins(security: str) -> dict[str, SaslLogin]:
    from barnabas.security.sasl.login import SaslLogin, login_of

    logins = {user: login_of(client_settings(profile(security, user))) for user in (ADMIN, CLIENT)}
    return {user: login for user, login in logins.items() if isinstance(login, SaslLogin)}


def _rights() -> list[Binding]:
    """The client's: it makes, writes and reads topics, in groups and transactions, and administers nothing."""
    from barnabas.model.acl import Operation, Permission, ResourceType
    from barnabas.security.acls import WILDCARD, Acl, Resource

    granted = {
        ResourceType.TOPIC: (Operation.CREATE, Operation.WRITE, Operation.READ, Operation.DESCRIBE_CONFIGS),
        ResourceType.GROUP: (Operation.READ,),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE,),
    }
    return [
        (Resource(kind, WILDCARD), Acl(f"User:{CLIENT}", WILDCARD, operation, Permission.ALLOW))
        for kind, operations in granted.items()
        for operation in operations
    ]


def make_users(state: ClusterState, deadline: float) -> None:
    """Sets the users' passwords and the client's rights, and waits until every broker knows them. This is done once in
    a cluster's life, so that later changes stay. Raises `CommandError`."""
    import asyncio

    from barnabas.client.admin import Admin
    from barnabas.client.cluster import ClusterClient
    from barnabas.model.errors import KafkaError
    from barnabas.runtime.real import real_runtime
    from barnabas.security.sasl.scram_credential import MECHANISMS

    logins, rights = _logins(state.security), _rights()

    async def story() -> None:
        addresses = [(HOST, broker.broker_port) for broker in state.brokers]
        cluster = ClusterClient(real_runtime(), addresses, "barnabas-up", tls=brokers_tls(state.security))
        try:
            admin = Admin(cluster)
            for user, login in logins.items():
                await admin.set_scram_password(user, login.password, MECHANISMS[MECHANISM])
            for error in await admin.create_acls(rights):
                if error is not None:
                    raise error
        finally:
            await cluster.close()

    try:
        asyncio.run(story())
    except (KafkaError, OSError) as error:
        raise CommandError(f"The cluster's users cannot be made: {error}.") from None
    tls = _tls(client_settings(profile(state.security)))
    for broker in state.brokers:
        _wait_for_users(state, broker, tls, len(rights), deadline)


def _wait_for_users(
    state: ClusterState, broker: BrokerState, tls: ssl.SSLContext, rights: int, deadline: float
) -> None:
    from barnabas.client.blocking import BlockingConnection
    from barnabas.model.errors import KafkaError
    from barnabas.security.acls import AclFilter
    from barnabas.wire.messages.describe_acls import DescribeAclsRequest

    pause, trouble = 0.01, "it does not know the client's rights"
    while True:
        try:
            for login in _logins(state.security).values():
                BlockingConnection(HOST, broker.port, "barnabas-up", tls=tls, login=login).close()
            as_broker = brokers_tls(state.security)
            with BlockingConnection(HOST, broker.broker_port, "barnabas-up", tls=as_broker) as connection:
                known = connection.send(DescribeAclsRequest(*AclFilter(principal=f"User:{CLIENT}"))).resources
            if sum(len(resource.acls) for resource in known) >= rights:
                return
        except (KafkaError, OSError) as error:
            trouble = str(error)
        if time.monotonic() > deadline:
            raise CommandError(f"broker {broker.id} does not let the client in: {trouble}.")
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
