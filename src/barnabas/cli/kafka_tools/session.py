"""A tool's connection to a cluster: by Kafka's client properties, with the timeouts of Kafka's admin client."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from barnabas.cli.client_jvm import with_kafka_opts
from barnabas.cli.connect import COMMAND_CONFIG
from barnabas.cli.kafka_tools.errors import KAFKA_EXCEPTION, TIMEOUT, JavaError, java_error, log
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import ConnectionLost
from barnabas.client.metadata import parse_bootstrap
from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ConfigError, KafkaError
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.login import Login, login_of

T = TypeVar("T")

API_TIMEOUT_MS: Final = 60_000
"""``default.api.timeout.ms``."""

_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")

CONFIG_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"


def load_properties(path: str | None) -> dict[str, str]:
    """``Utils.loadProps``; none if no file is named. Raises `JavaError` for a missing file."""
    from barnabas.model.config import parse_properties

    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except FileNotFoundError:
        raise JavaError("java.nio.file.NoSuchFileException", path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise JavaError("java.io.IOException", f"{path}: {error}") from None


def client_properties(path: str | None, servers: str | None = None, client_id: str | None = None) -> dict[str, str]:
    """The properties of the tool's file, or else of the file that the environment names for all commands; with the
    given `servers`, and with the tool's `client_id` if the file has none."""
    properties = load_properties(path or os.environ.get(COMMAND_CONFIG))
    if servers is not None:
        properties["bootstrap.servers"] = servers
    if client_id is not None:
        properties.setdefault("client.id", client_id)
    return properties


def milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        return int(text.strip())
    except ValueError:
        raise _refused(f"Invalid value {text} for configuration {name}: Not a number of type INT") from None


def _refused(message: str) -> JavaError:
    return JavaError(KAFKA_EXCEPTION, "Failed to create new KafkaAdminClient", JavaError(CONFIG_EXCEPTION, message))


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    from barnabas.security.tls.settings import tls_settings

    try:
        return tls_settings(properties).client_context()
    except ConfigError as error:
        raise _refused(str(error)) from None


def _login(properties: Mapping[str, str]) -> Login:
    try:
        return login_of(with_kafka_opts(properties))
    except ConfigError as error:
        raise _refused(str(error)) from None


def client_of(properties: Mapping[str, str]) -> ClusterClient:
    """A client without connections yet. Raises `JavaError` for invalid properties."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _refused(
            f"Invalid value {protocol} for configuration security.protocol: String must be one of (case insensitive): "
            + ", ".join(_PROTOCOLS)
        )
    bootstrap = properties.get("bootstrap.servers", "")
    for address in comma_list(bootstrap):
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise _refused(f"Invalid url in bootstrap.servers: {address}")
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError:
        raise _refused("No resolvable bootstrap urls given in bootstrap.servers") from None
    return ClusterClient(
        real_runtime(),
        addresses,
        properties.get("client.id", "adminclient-1"),
        request_timeout_ms=milliseconds(properties, "request.timeout.ms", 30_000),
        retry_timeout_ms=milliseconds(properties, "default.api.timeout.ms", API_TIMEOUT_MS),
        tls=_tls(properties) if protocol.endswith("SSL") else None,
        login=_login(properties) if protocol.startswith("SASL") else None,
    )


async def reached(cluster: ClusterClient, call: str, timeout_ms: int) -> None:
    """Returns when a broker answers. Warns of every address that does not answer, and raises Kafka's TimeoutException
    for `call` after `timeout_ms`."""
    clock = cluster.runtime.clock
    deadline = clock.monotonic_ms() + timeout_ms
    pause_ms = 100
    while True:
        try:
            await cluster.any()
            return
        except OSError:
            for number, (host, port) in enumerate(cluster.bootstrap, 1):
                log(
                    "WARN",
                    f"[AdminClient clientId={cluster.client_id}] Connection to node -{number} ({host}/{host}:{port}) "
                    "could not be established. Node may not be available.",
                    "org.apache.kafka.clients.NetworkClient",
                )
            if clock.monotonic_ms() + pause_ms >= deadline:
                raise JavaError(TIMEOUT, f"Timed out waiting for a node assignment. Call: {call}") from None
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, 1_000)


def with_admin(
    properties: Mapping[str, str],
    story: Callable[[ToolAdmin], Awaitable[T]],
    *,
    call: str,
    timeout_ms: int | None = None,
) -> T:
    """Runs `story`. `call` is the name that Kafka's admin client has for its first request. Raises `JavaError` for any
    failure."""
    cluster = client_of(properties)
    patience = timeout_ms or milliseconds(properties, "default.api.timeout.ms", API_TIMEOUT_MS)

    async def run() -> T:
        try:
            await reached(cluster, call, patience)
            return await story(ToolAdmin(cluster))
        except KafkaError as error:
            raise java_error(error) from error
        except ConnectionLost as error:
            raise JavaError(TIMEOUT, f"Timed out waiting for a node assignment. Call: {call}") from error
        finally:
            await cluster.close()

    return asyncio.run(run())
