"""Translates settings by Kafka's names (and librdkafka's, where they differ) into arguments of the client.

An unknown name is refused, so that no setting is silently without effect.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.client.offsets import EARLIEST, LATEST, isolation_level
from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ConfigError
from barnabas.security.sasl.login import SETTINGS as SASL
from barnabas.security.sasl.login import Login, login_of

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
RESETS: Final[Mapping[str, int | None]] = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "beginning": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "end": LATEST,
    "none": None,
    "error": None,
}
ASSIGNORS: Final = ("range", "cooperative-sticky")
"""Kafka's default: range now, and ready for a later change to cooperative rebalances."""


class _Key(NamedTuple):
    option: str
    read: Callable[[str], Any]


def _whole(text: str) -> int:
    return int(text)


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _reset(text: str) -> int | None:
    return RESETS[text]


CLUSTER: Final[Mapping[str, _Key]] = {
    "client.id": _Key("client_id", str),
    "request.timeout.ms": _Key("request_timeout_ms", _whole),
    "default.api.timeout.ms": _Key("retry_timeout_ms", _whole),
    "socket.connection.setup.timeout.ms": _Key("connect_timeout_ms", _whole),
}
PRODUCER: Final[Mapping[str, _Key]] = {
    "acks": _Key("acks", str),
    "request.required.acks": _Key("acks", str),
    "linger.ms": _Key("linger_ms", _whole),
    "queue.buffering.max.ms": _Key("linger_ms", _whole),
    "batch.size": _Key("batch_bytes", _whole),
    "buffer.memory": _Key("buffer_bytes", _whole),
    "compression.type": _Key("compression", str),
    "compression.codec": _Key("compression", str),
    "enable.idempotence": _Key("idempotent", _truth),
    "delivery.timeout.ms": _Key("delivery_timeout_ms", _whole),
    "message.timeout.ms": _Key("delivery_timeout_ms", _whole),
    "max.request.size": _Key("max_request_bytes", _whole),
    "message.max.bytes": _Key("max_request_bytes", _whole),
    "metadata.max.age.ms": _Key("metadata_max_age_ms", _whole),
    "transaction.timeout.ms": _Key("transaction_timeout_ms", _whole),
    "transactional.id": _Key("transactional_id", str),
}
CONSUMER: Final[Mapping[str, _Key]] = {
    "group.id": _Key("group", str),
    "group.instance.id": _Key("group_instance_id", str),
    "isolation.level": _Key("isolation_level", isolation_level),
    "auto.offset.reset": _Key("auto_offset_reset", _reset),
    "enable.auto.commit": _Key("enable_auto_commit", _truth),
    "auto.commit.interval.ms": _Key("auto_commit_interval_ms", _whole),
    "partition.assignment.strategy": _Key("assignors", comma_list),
    "session.timeout.ms": _Key("session_timeout_ms", _whole),
    "heartbeat.interval.ms": _Key("heartbeat_interval_ms", _whole),
    "max.poll.interval.ms": _Key("max_poll_interval_ms", _whole),
    "fetch.max.wait.ms": _Key("max_wait_ms", _whole),
    "fetch.wait.max.ms": _Key("max_wait_ms", _whole),
    "fetch.min.bytes": _Key("min_bytes", _whole),
    "fetch.max.bytes": _Key("max_bytes", _whole),
    "max.partition.fetch.bytes": _Key("partition_max_bytes", _whole),
    "check.crcs": _Key("check_crcs", _truth),
    "metadata.max.age.ms": _Key("metadata_max_age_ms", _whole),
}
SECURITY: Final = (
    "security.protocol",
    *SASL,
    "ssl.ca.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
)
ADDRESSES: Final = ("bootstrap.servers", "metadata.broker.list")


def check_names(config: Mapping[str, str]) -> None:
    """Raises `ConfigError` for a name that none of these clients knows."""
    known = {*CLUSTER, *PRODUCER, *CONSUMER, *SECURITY, *ADDRESSES}
    for name in config:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            raise ConfigError(f"{name} is not a setting of this client" + (f": is it {near[0]}?" if near else ""))


def options(config: Mapping[str, str], keys: Mapping[str, _Key]) -> dict[str, Any]:
    """The arguments that the settings among `keys` stand for. Raises `ConfigError` for an invalid value."""
    found: dict[str, Any] = {}
    for name, key in keys.items():
        if name in config:
            try:
                found[key.option] = key.read(str(config[name]))
            except (ValueError, KeyError):
                raise ConfigError(f"{name} is {config[name]!r}, which is not a valid value") from None
    return found


def login(config: Mapping[str, str]) -> Login | None:
    """The client's login, if ``security.protocol`` is one of SASL's. Raises `ConfigError`."""
    return login_of(config) if protocol(config).startswith("SASL") else None


def protocol(config: Mapping[str, str]) -> str:
    name = config.get("security.protocol", "PLAINTEXT").upper()
    if name not in PROTOCOLS:
        raise ConfigError(f"security.protocol is {name!r}: it takes {', '.join(PROTOCOLS)}")
    return name


def tls_context(config: Mapping[str, str], prefix: str = "") -> ssl.SSLContext | None:
    """A context of the ``ssl.*`` settings, if ``security.protocol`` is one of TLS.

    `prefix` stands before the names in error messages. Raises `ConfigError` for stores that cannot be read.
    """
    if not protocol(config).endswith("SSL"):
        return None
    from barnabas.security.tls.settings import tls_settings

    return tls_settings(config, prefix=prefix).client_context()
