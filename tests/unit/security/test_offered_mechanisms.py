"""What a broker's configuration offers on a listener."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.model.config import broker_config, parse_properties
from barnabas.model.errors import ConfigError
from barnabas.runtime.real import real_runtime
from barnabas.security.listener_config import of_listener, of_mechanism
from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.sasl.offered import enabled_mechanisms, offered_mechanisms
from barnabas.security.sasl.scram import NoUsers

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def offered(properties: str, listener: str = "SASL_SSL") -> dict[str, SaslMechanism]:
    return offered_mechanisms(broker_config(parse_properties(properties)), listener, NoUsers(), real_runtime())


def test_a_secured_server_properties() -> None:
    found = offered(
        rf"""
        sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
        listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM} required;
        listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} required \
            username="broker" password="pw" \
            user_broker="pw" \
            user_alice="a\\"b";
        """
    )
    assert list(found) == ["SCRAM-SHA-512", "PLAIN"]
    assert [each.name for each in found.values()] == ["SCRAM-SHA-512", "PLAIN"]
    exchange = found["PLAIN"].begin()
    asyncio.run(exchange.evaluate(b'\0alice\0a"b'))
    assert exchange.authenticated is not None
    assert exchange.authenticated.principal == Principal("User", "alice")


def test_a_listener_has_its_own_mechanisms() -> None:
    config = broker_config(
        {"sasl.enabled.mechanisms": "PLAIN", "listener.name.inside.sasl.enabled.mechanisms": "GSSAPI"}
    )
    assert enabled_mechanisms(config, "INSIDE") == ("GSSAPI",)
    assert enabled_mechanisms(config, "OUTSIDE") == ("PLAIN",)


def test_the_nearest_value_counts() -> None:
    name = "sasl.oauthbearer.clock.skew.seconds"
    values = {name: "1", f"listener.name.a.{name}": "2", f"listener.name.a.oauthbearer.{name}": "3"}
    config = broker_config(values)
    assert of_mechanism(config, "A", "OAUTHBEARER").number(name) == 3
    assert of_mechanism(config, "A", "PLAIN").number(name) == 2
    assert of_listener(config, "A").number(name) == 2
    assert of_mechanism(config, "B", "OAUTHBEARER").number(name) == 1


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ("sasl.enabled.mechanisms=PLAIN", r"listener\.name\.sasl_ssl\.plain\.sasl\.jaas\.config is not set"),
        (
            f"sasl.enabled.mechanisms=PLAIN\nsasl.jaas.config={PLAIN} required user_a='b';",
            "without this prefix does not count",
        ),
        (
            f"sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config={PLAIN} required user_a='b';",
            "is not set",
        ),
        (
            f"sasl.enabled.mechanisms=PLAIN\nlistener.name.other.plain.sasl.jaas.config={PLAIN} required user_a='b';",
            "is not set",
        ),
        (
            f"sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} required user_a=b",
            "cannot be read: .* semicolon",
        ),
        (
            f"sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_ssl.plain.sasl.jaas.config={SCRAM} required;",
            "PLAIN takes org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        (
            f"sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} required;\n"
            "listener.name.sasl_ssl.plain.sasl.server.callback.handler.class=com.example.Ldap",
            "callback.handler.class is com.example.Ldap: this broker does not run it",
        ),
        ("sasl.enabled.mechanisms=CRAM-MD5", "has CRAM-MD5"),
        ("sasl.enabled.mechanisms=", "nobody could log in"),
    ],
)
def test_what_is_asked_for_and_not_there_is_refused_by_its_keys_name(properties: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        offered(properties)
