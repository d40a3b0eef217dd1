"""The coordinator's configuration, under ZooKeeper's own names (``zoo.cfg`` and its system properties)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.model.errors import ConfigError
from barnabas.zk.protocol.frames import JUTE_MAX_BUFFER


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    tick_ms: int = 2000
    session_timeout_min_ms: int = 1000
    """ZooKeeper's own default is two ticks."""
    session_timeout_max_ms: int = 0
    """0: twenty ticks."""
    max_client_connections: int = 0
    """The limit of connections from one address; 0 is no limit."""
    jute_max_buffer: int = JUTE_MAX_BUFFER
    allowed_words: tuple[str, ...] = ("*",)
    """The four-letter words that are answered; ``*`` means all."""
    transactions_between_snapshots: int = 10_000
    """Limits what a start has to replay."""
    log_bytes_between_snapshots: int = 32 * 1024 * 1024
    snapshots_kept: int = 3
    container_check_ms: int = 60_000
    extended_types: bool = False
    super_digest: str = ""
    """``user:base64(sha1(user:password))`` of the superuser."""
    sasl_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by name for DIGEST-MD5."""
    sasl_super_user: str = ""
    sasl_required: bool = False
    secure_port: int = 0
    """0: no TLS."""
    key_store: str = ""
    key_store_password: str = field(default="", repr=False)
    trust_store: str = ""
    trust_store_password: str = field(default="", repr=False)
    client_auth: str = "need"
    x509_super_user: str = ""

    @property
    def session_timeout_longest_ms(self) -> int:
        return self.session_timeout_max_ms or 20 * self.tick_ms


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _client_auth(text: str) -> str:
    if text.lower() not in ("none", "want", "need"):
        raise ValueError
    return text.lower()


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError
    return number


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(" ", "").split(",") if word)


_MILLISECONDS: Final = "a number of milliseconds above 0"
_KEYS: Final[dict[str, tuple[str, Callable[[str], Any], str]]] = {
    "tickTime": ("tick_ms", _positive, _MILLISECONDS),
    "minSessionTimeout": ("session_timeout_min_ms", _positive, _MILLISECONDS),
    "maxSessionTimeout": ("session_timeout_max_ms", _positive, _MILLISECONDS),
    "maxClientCnxns": ("max_client_connections", _count, "a number of connections, 0 for no limit"),
    "jute.maxbuffer": ("jute_max_buffer", _positive, "a number of bytes above 0"),
    "4lw.commands.whitelist": ("allowed_words", _words, "words behind commas, or *"),
    "snapCount": ("transactions_between_snapshots", _positive, "a number of transactions above 0"),
    "autopurge.snapRetainCount": ("snapshots_kept", _positive, "a number of snapshots above 0"),
    "znode.container.checkIntervalMs": ("container_check_ms", _positive, _MILLISECONDS),
    "extendedTypesEnabled": ("extended_types", _flag, "true or false"),
    "DigestAuthenticationProvider.superDigest": ("super_digest", str, "user:base64(sha1(user:password))"),
    "superUser": ("sasl_super_user", str, "a SASL user's name"),
    "sessionRequireClientSASLAuth": ("sasl_required", _flag, "true or false"),
    "secureClientPort": ("secure_port", _port, "a port from 0 to 65535"),
    "ssl.keyStore.location": ("key_store", str, "a key store: PEM, PKCS12 or JKS"),
    "ssl.keyStore.password": ("key_store_password", str, "a password"),
    "ssl.trustStore.location": ("trust_store", str, "a trust store: PEM, PKCS12 or JKS"),
    "ssl.trustStore.password": ("trust_store_password", str, "a password"),
    "ssl.clientAuth": ("client_auth", _client_auth, "none, want or need"),
    "X509AuthenticationProvider.superUser": ("x509_super_user", str, "a certificate's subject"),
}
SASL_USER_PREFIX: Final = "barnabas.sasl.user."
"""Barnabas' own: ``barnabas.sasl.user.NAME=PASSWORD`` stands for ``user_NAME`` in a JAAS file of ZooKeeper."""


def coordinator_config(properties: Mapping[str, str]) -> CoordinatorConfig:
    """The configuration from ZooKeeper's names, with or without ``zookeeper.`` before them. Raises `ConfigError`."""
    values: dict[str, Any] = {}
    users: dict[str, str] = {}
    for full_name, text in properties.items():
        name = full_name.removeprefix("zookeeper.")
        if name.startswith(SASL_USER_PREFIX):
            users[name.removeprefix(SASL_USER_PREFIX)] = text
            continue
        if name not in _KEYS:
            from difflib import get_close_matches

            near = get_close_matches(name, _KEYS, 1)
            hint = f" Did you mean {near[0]}?" if near else f" Known are {', '.join(sorted(_KEYS))}."
            raise ConfigError(f"The coordinator has no configuration {full_name}.{hint}")
        attribute, parse, allowed = _KEYS[name]
        try:
            values[attribute] = parse(text.strip())
        except ValueError:
            raise ConfigError(f"{full_name}={text}: it takes {allowed}.") from None
    config = CoordinatorConfig(**values, sasl_users=users)
    if config.session_timeout_min_ms > config.session_timeout_longest_ms:
        raise ConfigError(
            f"minSessionTimeout={config.session_timeout_min_ms} is more than "
            f"maxSessionTimeout={config.session_timeout_longest_ms}: a session needs some time between them."
        )
    if config.secure_port and not config.key_store:
        raise ConfigError("secureClientPort needs ssl.keyStore.location: a file with the key and certificate.")
    if config.secure_port and config.client_auth != "none" and not config.trust_store:
        raise ConfigError(
            "ssl.trustStore.location is not set: name the file of the authorities whose clients are "
            "trusted, or set ssl.clientAuth=none."
        )
    return config
