"""Refuses configurations that ask for a protection which this broker cannot give.

Listeners have TLS and SASL (`listener_gate`), and `AclAuthorizer` decides what a principal may do. A configuration that
asks for other protection is refused before a socket is opened: a broker with less protection than its configuration
promises would be worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from barnabas.broker.acl_store import ACL_AUTHORIZER
from barnabas.broker.listeners import Listeners
from barnabas.model.config import Config, broker_definitions
from barnabas.model.errors import ConfigError
from barnabas.security.listener_config import listener_prefix, of_listener

_CLASSES: Final = {
    "authorizer.class.name": "nobody's requests would be authorised by it",
    "create.topic.policy.class.name": "topics that it forbids would be made",
    "alter.config.policy.class.name": "configurations that it forbids would be set",
    "client.quota.callback.class": "clients would have other quotas",
    "principal.builder.class": "clients would go by other names",
    "security.providers": "what it adds would be missing",
}
"""Keys that name a class of the operator's, each with the consequence of ignoring it."""
_THERE: Final = {"authorizer.class.name": (ACL_AUTHORIZER,)}
"""Kafka's classes that have a counterpart in this broker."""
_OCSP: Final = "zookeeper.ssl.ocsp.enable"
_PREFIXES: Final = ("ssl.", "sasl.", "principal.builder.class")
_RENEWALS: Final = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.jitter",
)
"""When and how a JVM renews its own login: this broker does not read them, and they protect nobody."""


def require_no_more_than_there_is(config: Config, listeners: Listeners) -> None:
    """Raises `ConfigError`, with the key's name, for protection that is configured but not available."""
    views = [("", config)]
    for endpoint in listeners.bound:
        prefix = listener_prefix(endpoint.listener)
        views.append((prefix, of_listener(config, endpoint.listener)))
    for prefix, view in views:
        for name, consequence in _CLASSES.items():
            if view.text(name) not in ("", broker_definitions()[name].default, *_THERE.get(name, ())):
                raise ConfigError(
                    f"{prefix}{name} is {view.text(name)}: this broker does not run it, and {consequence}. Leave the "
                    "key out to start without it."
                )
    if config.flag(_OCSP):
        raise ConfigError(f"{_OCSP} is true: this broker asks nobody whether a certificate was revoked.")


def unchangeable(names: Iterable[str]) -> list[str]:
    """The keys in `names` that a running Kafka broker can change and this one cannot: it lacks their feature."""
    known = broker_definitions()
    return [
        name
        for name in names
        if name.startswith(_PREFIXES)
        and not name.startswith(_RENEWALS)
        and not (name in known and known[name].update_mode == "read-only")
    ]


def is_password(name: str) -> bool:
    """Whether the value is stored encrypted in ZooKeeper (``DynamicBrokerConfig.isPasswordConfig``).

    The end of the name decides: the name of a listener and a mechanism may precede it.
    """
    return name.endswith(_dynamic_passwords())


@cache
def _dynamic_passwords() -> tuple[str, ...]:
    known = broker_definitions().values()
    return tuple(
        definition.name
        for definition in known
        if definition.type == "password" and definition.update_mode != "read-only"
    )
