"""Settings that Kafka's operators give to a client's JVM rather than in its properties, by ``KAFKA_OPTS``.

``-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls`` lists the URLs that OAUTHBEARER may use. If it is set, a list in
the properties is ignored, as in Kafka: a person who may set all of a client's properties can still not make it read
files or call internal addresses (CVE-2025-27817). ``-Djava.security.auth.login.config`` names a JAAS file, whose
section ``KafkaClient`` is the client's login if the properties have none (``JaasContext.loadClientContext``).
``-Dorg.apache.kafka.disallowed.login.modules`` lists login modules that are refused, whatever the properties say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.cli.plain import kafka_opts
from barnabas.model.errors import ConfigError

_SECTION: Final = "KafkaClient"


def with_kafka_opts(settings: Mapping[str, str]) -> dict[str, str]:
    """Client properties with the settings of ``KAFKA_OPTS`` applied to them. Raises `ConfigError`."""
    options = kafka_opts()
    if not options or not settings.get("security.protocol", "").upper().startswith("SASL"):
        return dict(settings)
    from barnabas.broker.jvm_properties import jvm_properties  # here, so that a plain command starts sooner
    from barnabas.model.config import JAAS_FILE
    from barnabas.security.sasl.http import ALLOWED_URLS
    from barnabas.security.sasl.jaas import DISALLOWED_LOGIN_MODULES, login_module

    given = jvm_properties(options)
    found = dict(settings)
    if ALLOWED_URLS in given:
        found[ALLOWED_URLS] = given[ALLOWED_URLS]
    if JAAS_FILE in given and not {"sasl.jaas.config", "sasl.username"} & found.keys():
        found["sasl.jaas.config"] = _of_section(given[JAAS_FILE])
    if DISALLOWED_LOGIN_MODULES in given and "sasl.jaas.config" in found:
        try:
            login_module(found["sasl.jaas.config"], given[DISALLOWED_LOGIN_MODULES])
        except ValueError as error:
            raise ConfigError(f"sasl.jaas.config cannot be read: {error}.") from None
    return found


def _of_section(path: str) -> str:
    from barnabas.model.config import JAAS_FILE
    from barnabas.security.sasl.jaas import jaas_sections

    try:
        modules = jaas_sections(Path(path).read_text()).get(_SECTION, ())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{JAAS_FILE} {path} cannot be read ({error}).") from None
    if len(modules) != 1:
        raise ConfigError(
            f"{JAAS_FILE} {path} has {len(modules)} login modules in its section {_SECTION}; it must have one, as "
            "sasl.jaas.config is not set."
        )
    return modules[0].text
