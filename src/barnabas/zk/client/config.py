"""A broker's ``zookeeper.*`` configuration as a client.

Kafka reads some settings from a JVM's properties or a JAAS file; here they have keys of their own:
``barnabas.zookeeper.sasl.username`` and ``.password`` (DIGEST-MD5) or ``.jaas.config`` (GSSAPI),
``barnabas.zookeeper.auth`` for further identities (``digest:user:password``), and ``barnabas.zookeeper.jute.maxbuffer``
for servers with another ``jute.maxbuffer`` than the default. ``zookeeper.clientCnxnSocket`` is accepted without effect,
since the client's only kind of socket supports TLS.
"""

from __future__ import annotations

import ssl

from barnabas.model.comma_list import comma_list
from barnabas.model.config import JUTE_MAX_BUFFER_KEY, ZOOKEEPER_JAAS, Config
from barnabas.model.errors import ConfigError
from barnabas.runtime import Runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.connection import ClientSecurity
from barnabas.zk.client.login import DigestMd5Login, KerberosLogin, ZooKeeperLogin


def client_of(runtime: Runtime, config: Config, *, name: str) -> ZooKeeperClient:
    """A client that is not started yet. Raises `ConfigError`."""
    session_timeout_ms = config.number("zookeeper.session.timeout.ms")
    security = security_of(config)
    if config.flag("zookeeper.set.acl") and not _proves_identity(config, security):
        raise ConfigError(
            "zookeeper.set.acl=true needs an identity that ZooKeeper can check: set barnabas.zookeeper.sasl.username "
            "and .password, or .jaas.config, or barnabas.zookeeper.auth, or zookeeper.ssl.client.enable=true with "
            "zookeeper.ssl.keystore.location."
        )
    return ZooKeeperClient(
        runtime,
        config.text("zookeeper.connect"),
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.optional_number("zookeeper.connection.timeout.ms") or session_timeout_ms,
        max_in_flight=config.number("zookeeper.max.in.flight.requests"),
        request_bytes_max=config.number(JUTE_MAX_BUFFER_KEY),
        name=name,
        security=security,
    )


def _proves_identity(config: Config, security: ClientSecurity) -> bool:
    certificate = security.tls is not None and config.text("zookeeper.ssl.keystore.location")
    return bool(security.sasl or security.auth or certificate)


def security_of(config: Config) -> ClientSecurity:
    """How this broker connects and authenticates to ZooKeeper. Raises `ConfigError`."""
    identities = []
    for identity in comma_list(config.text("barnabas.zookeeper.auth")):
        scheme, colon, auth = identity.partition(":")
        if not colon or (scheme == "digest" and ":" not in auth):
            raise ConfigError("barnabas.zookeeper.auth takes scheme:identity[,..], such as digest:user:password.")
        identities.append((scheme, auth.encode()))
    return ClientSecurity(
        tls=_tls(config) if config.flag("zookeeper.ssl.client.enable") else None,
        sasl=_login(config),
        auth=tuple(identities),
    )


def _login(config: Config) -> ZooKeeperLogin | None:
    user, password = config.text("barnabas.zookeeper.sasl.username"), config.text("barnabas.zookeeper.sasl.password")
    if bool(user) != bool(password):
        missing = "password" if user else "username"
        raise ConfigError(f"barnabas.zookeeper.sasl.{missing} is not set: SASL needs a user and its password.")
    jaas = config.text(ZOOKEEPER_JAAS)
    if user and jaas:
        raise ConfigError(f"{ZOOKEEPER_JAAS} is set, and barnabas.zookeeper.sasl.username too: it takes one.")
    if jaas:
        return _kerberos(config, jaas)
    return DigestMd5Login(user, password) if user else None


def _kerberos(config: Config, jaas: str) -> KerberosLogin:
    from barnabas.security.sasl.gssapi import LOGIN_MODULE, Tickets  # here, so that a process starts sooner
    from barnabas.security.sasl.jaas import login_module

    try:
        module = login_module(jaas)
    except ValueError as error:
        raise ConfigError(f"{ZOOKEEPER_JAAS} cannot be read: {error}.") from None
    if module.class_name != LOGIN_MODULE:
        raise ConfigError(f"{ZOOKEEPER_JAAS} names the login module {module.class_name}: it takes {LOGIN_MODULE}.")
    try:
        tickets = Tickets.of(module.options)
    except ConfigError as error:
        raise ConfigError(f"{ZOOKEEPER_JAAS}: {error}") from None
    return KerberosLogin(
        tickets,
        service=config.text("barnabas.zookeeper.sasl.client.username"),
        server_principal=config.text("barnabas.zookeeper.server.principal"),
        server_realm=config.text("barnabas.zookeeper.server.realm"),
        canonicalize=config.flag("barnabas.zookeeper.sasl.client.canonicalize.hostname"),
    )


def _tls(config: Config) -> ssl.SSLContext:
    from barnabas.security.tls.settings import tls_settings  # here, so that a process starts sooner

    if config.flag("zookeeper.ssl.ocsp.enable"):
        raise ConfigError(
            "zookeeper.ssl.ocsp.enable=true: OCSP is not spoken. Use zookeeper.ssl.crl.enable=true, with the "
            "revocation lists in the trust store."
        )
    prefix = "zookeeper."
    names = (
        "ssl.cipher.suites",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
    values = {name: config.joined(prefix + name) for name in names}
    protocols = config.joined(f"{prefix}ssl.enabled.protocols") or config.text(f"{prefix}ssl.protocol")
    if protocols != "TLS":  # Java's word for whatever there is
        values["ssl.enabled.protocols"] = protocols
    algorithm = config.text(f"{prefix}ssl.endpoint.identification.algorithm")
    values["ssl.endpoint.identification.algorithm"] = "https" if algorithm.upper() == "HTTPS" else ""
    values["ssl.crl.enable"] = config.joined(f"{prefix}ssl.crl.enable")
    return tls_settings(values, prefix=prefix).client_context()
