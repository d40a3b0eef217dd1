"""What a configuration promises of protection, and what this broker keeps of it.

Listeners are plaintext and every client is anonymous; what it may is `AclAuthorizer`'s to say where there is one. A
configuration that says otherwise is refused before a socket is opened: a broker that came up open and registered as
secured would be worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.broker.acl_store import ACL_AUTHORIZER
from barnabas.broker.listeners import Listeners
from barnabas.model.config import Config, broker_definitions
from barnabas.model.errors import ConfigError

_PLAINTEXT: Final = "PLAINTEXT"
_CLASSES: Final = {
    "authorizer.class.name": "nobody's requests would be authorised",
    "client.quota.callback.class": "no client's quota would be enforced",
    "principal.builder.class": "every client would be anonymous",
}
"""Keys that name a class of the operator's, each with what comes of leaving it out."""
_THERE: Final = {"authorizer.class.name": (ACL_AUTHORIZER,)}
"""Kafka's classes that this broker has a counterpart of."""
_CHECKS_OF_CERTIFICATES: Final = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")
_PREFIXES: Final = ("ssl.", "sasl.", "listener.name.")
_OF_LISTENERS: Final = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "principal.builder.class",
)


def require_no_more_than_there_is(config: Config, listeners: Listeners) -> None:
    """Raises `ConfigError`, with the key's name, for protection that is asked for and is not there."""
    for endpoint in listeners.bound:
        if endpoint.security_protocol != _PLAINTEXT:
            raise ConfigError(
                f"listeners has {endpoint}, whose protocol is {endpoint.security_protocol}: this broker does not speak "
                "it yet, and would serve everybody in plaintext there. Bind the listener as PLAINTEXT on an address "
                "that only trusted clients reach, or leave it out."
            )
    for name, consequence in _CLASSES.items():
        if config.text(name) not in ("", broker_definitions()[name].default, *_THERE.get(name, ())):
            raise ConfigError(
                f"{name} is {config.text(name)}: this broker does not run it, and {consequence}. Leave the key out "
                "to start without it."
            )
    for name in _CHECKS_OF_CERTIFICATES:
        if config.flag(name):
            raise ConfigError(f"{name} is true: this broker does not look whether a certificate was revoked.")


def unchangeable(names: Iterable[str]) -> list[str]:
    """Those of `names` that Kafka changes while a broker runs and this one does not: what they promise is not there."""
    return [name for name in names if name in _OF_LISTENERS or name.startswith(_PREFIXES)]
