"""``barnabas up --secure``: makes a certificate authority, a certificate for the brokers, two users, and their ACLs.

All of it is in one directory that only its owner may read (`Keyring`). Brokers authenticate to each other by their
certificate (mTLS, on a listener of their own), clients log in by SCRAM over TLS, and the coordinator accepts holders of
a certificate. `up` and `status` connect as a broker; other commands log in as the administrator.
"""

from __future__ import annotations

import os
import secrets
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
    from barnabas.security.keyring import Keyring
    from barnabas.security.sasl.login import SaslLogin

ADMIN: Final = "admin"
CLIENT: Final = "client"


def _keyring(security: str) -> Keyring:
    from barnabas.runtime.secret_directory import SecretDirectory
    from barnabas.security.keyring import Keyring  # here, so that a plain command starts sooner

    return Keyring(SecretDirectory(security))


def profile(security: str, user: str = ADMIN) -> Path:
    """The file with the client properties of `user`, for Kafka's tools and ours."""
    return Path(_keyring(security).profile(user))


def librdkafka_profile(security: str) -> Path:
    return Path(_keyring(security).librdkafka_profile(CLIENT))


def profiles(security: str) -> dict[str, str]:
    """The files that clients need, for the JSON of ``barnabas up``."""
    from barnabas.security.keyring import AUTHORITY

    return {
        CLIENT: str(profile(security, CLIENT)),
        "librdkafka": str(librdkafka_profile(security)),
        ADMIN: str(profile(security)),
        "authority": _keyring(security).file(AUTHORITY),
    }


# The keys, certificates and users


def make(directory: Path) -> None:
    """Makes everything or nothing; an existing directory stays as it is. Raises `CommandError` if ``cryptography`` is
    missing."""
    from barnabas.model.errors import ConfigError

    passwords = {user: secrets.token_urlsafe(24) for user in (ADMIN, CLIENT)}
    try:
        _keyring(str(directory)).make(directory.parent.name, passwords, time.time_ns() // 1_000_000)
    except ConfigError as error:
        raise CommandError(str(error)) from None


def name_places(security: str) -> None:
    """Rewrites the users' files if they name the authority's file in another place: a cluster's directory may be moved.
    Raises `ConfigError` for a file without a password, and ``OSError``."""
    from barnabas.model.config import parse_properties
    from barnabas.security.keyring import AUTHORITY

    keyring = _keyring(security)
    for user in (ADMIN, CLIENT):
        file = profile(security, user)
        there = parse_properties(file.read_text()).get("ssl.truststore.location") if file.exists() else None
        if there not in (None, keyring.file(AUTHORITY)):
            keyring.set_password(user, keyring.login(user).password)


# The configurations of the servers


def broker_properties(state: ClusterState, broker: BrokerState) -> dict[str, str]:
    """The properties that a secured cluster's brokers have besides or instead of an open cluster's."""
    from barnabas.security.keyring import BROKER, BROKERS, CLIENTS, MECHANISM, jaas_config

    keyring = _keyring(state.security)
    addresses = {CLIENTS: f"{HOST}:{broker.port}", BROKERS: f"{HOST}:{broker.broker_port}"}
    values = keyring.broker_properties(addresses, {MECHANISM: jaas_config(MECHANISM)}, (BROKER, ADMIN))
    values["listener.security.protocol.map"] += ",ADMIN:SASL_SSL"
    values[f"listener.name.admin.{MECHANISM.lower()}.sasl.jaas.config"] = jaas_config(MECHANISM)
    if state.coordinator is not None:
        values |= {"zookeeper.ssl.client.enable": "true", "zookeeper.set.acl": "true"}
        values |= keyring.stores("zookeeper.")
    return values


def coordinator_words(security: str, port: int) -> list[str]:
    """Options of ``barnabas coordinator`` by which it accepts only clients with a certificate of the authority."""
    from barnabas.security.keyring import AUTHORITY, KEY_STORE

    keyring = _keyring(security)
    return [
        *("--tls-only", "--config", f"secureClientPort={port}"),
        *("--config", f"ssl.keyStore.location={keyring.file(KEY_STORE)}"),
        *("--config", f"ssl.trustStore.location={keyring.file(AUTHORITY)}"),
    ]


# Clients


@cache
def brokers_tls(security: str) -> ssl.SSLContext:
    """TLS with the brokers' certificate. Raises `CommandError` for key stores that cannot be read."""
    return _tls(_keyring(security).stores())


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    from barnabas.model.errors import ConfigError
    from barnabas.security.tls.settings import tls_settings

    try:
        return tls_settings(settings).client_context()
    except ConfigError as error:
        raise CommandError(str(error)) from None


def _logins(security: str) -> dict[str, SaslLogin]:
    """Raises `CommandError` for a file that cannot be read."""
    from barnabas.model.errors import ConfigError

    keyring = _keyring(security)
    try:
        return {user: keyring.login(user) for user in (ADMIN, CLIENT)}
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be read ({os.strerror(error.errno or 0)}).") from None
    except ConfigError as error:
        raise CommandError(str(error)) from None


def make_users(state: ClusterState, deadline: float) -> None:
    """Sets the users' passwords and the client's rights, and waits until every broker knows them. It runs once in a
    cluster's life, so that later changes stay. Raises `CommandError`."""
    import asyncio

    from barnabas.client.admin import Admin
    from barnabas.client.cluster import ClusterClient
    from barnabas.model.errors import KafkaError
    from barnabas.runtime.real import real_runtime
    from barnabas.security.keyring import MECHANISM, application_rights
    from barnabas.security.sasl.scram_credential import MECHANISMS

    logins, rights = _logins(state.security), application_rights(CLIENT)

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
    tls = _tls(_keyring(state.security).tls_settings())
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
            raise CommandError(f"broker {broker.id} does not accept the client: {trouble}.")
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
