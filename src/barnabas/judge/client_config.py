"""Settings that secure the connections of a run's clients: Kafka's properties, converted for each driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.client.config import SECURITY
from barnabas.model.errors import ConfigError
from barnabas.security.sasl.login import SaslLogin, login_of

PROTOCOL: Final = "security.protocol"
_PEM: Final = {
    "ssl.ca.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
    "ssl.cipher.suites": "ssl.cipher.suites",
}
"""librdkafka's names by Kafka's."""
_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
"""A PEM store has its certificates and its key in one file."""
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"


def securing(settings: Mapping[str, str]) -> dict[str, str]:
    """The properties that secure a client's connections."""
    return {name: value for name, value in settings.items() if name in SECURITY}


def encrypted(settings: Mapping[str, str]) -> bool:
    return settings.get(PROTOCOL, "PLAINTEXT").upper().endswith("SSL")


def of_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """The properties by librdkafka's names. Raises `ConfigError` for stores that are not PEM and for logins other than
    PLAIN and SCRAM."""
    protocol = settings.get(PROTOCOL, "PLAINTEXT").upper()
    found = {PROTOCOL: protocol} if protocol != "PLAINTEXT" else {}
    if protocol.startswith("SASL"):
        login = login_of(settings)
        if not isinstance(login, SaslLogin) or login.token_authenticated:
            raise ConfigError("this driver logs in only by PLAIN and SCRAM, and without delegation tokens")
        found |= {"sasl.mechanism": login.mechanism, "sasl.username": login.username, "sasl.password": login.password}
    if not protocol.endswith("SSL"):
        return found
    found |= {theirs: settings[ours] for ours, theirs in _PEM.items() if ours in settings}
    for store, names in _STORES.items():
        if f"{store}.location" in settings:
            if settings.get(f"{store}.type", "JKS").upper() != "PEM":
                raise ConfigError(f"this driver reads only {store}.type=PEM")
            found |= dict.fromkeys(names, settings[f"{store}.location"])
    if not settings.get(_IDENTIFICATION, "https"):
        found[_IDENTIFICATION] = "none"
    return found


def java_properties(settings: Mapping[str, str]) -> str:
    """The text of a file for ``java.util.Properties``."""

    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n")

    return "".join(f"{name}={escaped(value)}\n" for name, value in settings.items())


def franz_go_json(settings: Mapping[str, str]) -> str:
    """The text of a JSON file, by librdkafka's names. Raises `ConfigError` as `of_librdkafka` does."""
    found = of_librdkafka(settings)
    if found.get(_IDENTIFICATION) == "none":
        raise ConfigError(f"this driver verifies host names: {_IDENTIFICATION} must not be empty")
    for name in ("ssl.key.password", "ssl.cipher.suites"):
        if name in found:
            raise ConfigError(f"this driver does not support {name}")
    return json.dumps(found)


FILES: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {"java": java_properties, "franz-go": franz_go_json}
"""The content of the file with which each driver's program is started."""
