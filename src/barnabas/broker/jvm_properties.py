"""Settings that Kafka's operators give to a broker's JVM rather than in its properties.

``KAFKA_OPTS="-Djava.security.auth.login.config=/etc/kafka/jaas.conf"`` names a JAAS file: its section ``KafkaServer``,
or ``<listener>.KafkaServer``, has the login modules of the listeners (``JaasContext.loadServerContext``), its section
``Client`` who the broker is at ZooKeeper. ``-Dzookeeper.client.secure`` and ``-Dzookeeper.ssl.…`` are the keys
``zookeeper.ssl.…`` by their older names (``ZkConfigs``), ``-Djute.maxbuffer`` is the longest request that ZooKeeper
accepts. A key in the properties themselves wins.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.broker.listeners import listeners_of
from barnabas.model.config import JAAS_FILE, JUTE_MAX_BUFFER_KEY, ZOOKEEPER_JAAS, broker_config
from barnabas.model.errors import ConfigError
from barnabas.security.listener_config import mechanism_key
from barnabas.security.sasl.gssapi import LOGIN_MODULE as KERBEROS_LOGIN
from barnabas.security.sasl.http import ALLOWED_URLS
from barnabas.security.sasl.jaas import DISALLOWED_LOGIN_MODULES, LoginModule, jaas_sections
from barnabas.security.sasl.offered import LOGIN_MODULES, enabled_mechanisms

_KEYS: Final = {
    "jute.maxbuffer": JUTE_MAX_BUFFER_KEY,
    "zookeeper.client.secure": "zookeeper.ssl.client.enable",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabledProtocols": "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.ciphersuites": "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.crl": "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp": "zookeeper.ssl.ocsp.enable",
    **{
        name: f"barnabas.{name}"
        for name in (
            "zookeeper.sasl.client.username",
            "zookeeper.sasl.client.canonicalize.hostname",
            "zookeeper.server.principal",
            "zookeeper.server.realm",
        )
    },
    **{
        f"zookeeper.ssl.{store}Store.{part}": f"zookeeper.ssl.{store}store.{part}"
        for store in ("key", "trust")
        for part in ("location", "password", "type")
    },
}
"""Properties whose Kafka keys have other names."""
_READ: Final = (JAAS_FILE, ALLOWED_URLS, DISALLOWED_LOGIN_MODULES, *_KEYS)
_CHECKS_NAMES: Final = "zookeeper.ssl.hostnameVerification"
_SERVER: Final = "KafkaServer"
_DIGEST_LOGIN: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_ZOOKEEPER_USER: Final = "barnabas.zookeeper.sasl.username"
_ZOOKEEPER_PASSWORD: Final = "barnabas.zookeeper.sasl.password"


def with_jvm_properties(values: Mapping[str, str], options: str, read: Callable[[str], str]) -> dict[str, str]:
    """Returns a ``server.properties`` with the values in the JVM's `options` and in the JAAS file, which `read` reads.

    Raises `ConfigError`.
    """
    given = jvm_properties(options)
    found = {_KEYS.get(name, name): given[name] for name in _READ if name in given}
    if _CHECKS_NAMES in given:
        algorithm = "HTTPS" if given[_CHECKS_NAMES].lower() == "true" else ""
        found["zookeeper.ssl.endpoint.identification.algorithm"] = algorithm
    found |= values
    path = found.get(JAAS_FILE)
    if not path:
        return found
    try:
        sections = jaas_sections(read(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{JAAS_FILE} {path} cannot be read ({error}).") from None
    except ValueError as error:
        raise ConfigError(f"{JAAS_FILE} {path} cannot be read: {error}.") from None
    found |= _of_listeners(found, sections, path)
    if (
        given.get("zookeeper.sasl.client", "true").lower() == "true"
        and not {_ZOOKEEPER_USER, ZOOKEEPER_JAAS} & found.keys()
    ):
        found |= _of_zookeeper(sections.get(given.get("zookeeper.sasl.clientconfig", "Client"), ()), path)
    return found


def jvm_properties(options: str) -> dict[str, str]:
    """The properties of ``-Dname=value`` words. Raises `ConfigError`."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise ConfigError(f"KAFKA_OPTS cannot be read: {error}.") from None
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def _of_listeners(
    values: Mapping[str, str], sections: Mapping[str, Sequence[LoginModule]], path: str
) -> dict[str, str]:
    config = broker_config(values)
    found: dict[str, str] = {}
    for endpoint in listeners_of(config, "localhost").bound:
        if not endpoint.security_protocol.startswith("SASL"):
            continue
        own = f"{endpoint.listener.lower()}.{_SERVER}"
        modules = sections.get(own, sections.get(_SERVER, ()))
        for mechanism in enabled_mechanisms(config, endpoint.listener):
            key = mechanism_key(endpoint.listener, mechanism, "sasl.jaas.config")
            if key in values or mechanism not in LOGIN_MODULES:
                continue
            module = next((module for module in modules if module.class_name == LOGIN_MODULES[mechanism]), None)
            if module is None:
                raise ConfigError(
                    f"{JAAS_FILE} {path} has no {LOGIN_MODULES[mechanism]} in a section {own} or {_SERVER}, {key} is "
                    f"not set, and sasl.enabled.mechanisms has {mechanism}."
                )
            found[key] = module.text
    return found


def _of_zookeeper(modules: Sequence[LoginModule], path: str) -> dict[str, str]:
    if not modules:
        return {}
    module = modules[0]
    if module.class_name == KERBEROS_LOGIN:
        return {ZOOKEEPER_JAAS: module.text}
    if module.class_name != _DIGEST_LOGIN or not {"username", "password"} <= module.options.keys():
        raise ConfigError(
            f"{JAAS_FILE} {path} says for ZooKeeper {module.class_name}: this broker logs in there by {_DIGEST_LOGIN} "
            f"with a username and a password, or by {KERBEROS_LOGIN}."
        )
    return {_ZOOKEEPER_USER: module.options["username"], _ZOOKEEPER_PASSWORD: module.options["password"]}
