"""A configuration that asks for protection that this broker does not have is refused, with the key's name."""

from __future__ import annotations

import pytest

from barnabas.broker.listeners import listeners_of
from barnabas.broker.protection import is_password, require_no_more_than_there_is, unchangeable
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError


def require(values: dict[str, str]) -> None:
    config = broker_config(values)
    require_no_more_than_there_is(config, listeners_of(config, "castle"))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"security.providers": "com.example.Provider"}, r"security\.providers is com"),
        (
            {"listener.name.plaintext.principal.builder.class": "x.Y"},
            r"name\.plaintext\.principal\.builder\.class is x",
        ),
        (
            {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
            r"authorizer\.class\.name is org",
        ),
        ({"client.quota.callback.class": "com.example.Quotas"}, r"client\.quota\.callback\.class is com"),
        ({"create.topic.policy.class.name": "com.example.Topics"}, r"create\.topic\.policy\.class\.name is com"),
        ({"alter.config.policy.class.name": "com.example.Configs"}, r"alter\.config\.policy\.class\.name is com"),
        ({"principal.builder.class": "com.example.Names"}, r"principal\.builder\.class is com"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, r"zookeeper\.ssl\.ocsp\.enable"),
    ],
)
def test_protection_that_is_not_there_is_refused_by_its_key(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        require(values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "listeners": "CLIENTS://:1",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
        },
        {"authorizer.class.name": ""},
        {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        {"principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"},
        {"zookeeper.ssl.crl.enable": "true"},
    ],
)
def test_what_promises_nothing_starts(values: dict[str, str]) -> None:
    require(values)


def test_what_holds_for_all_listeners_does_not_change_while_the_broker_runs() -> None:
    asked = ["ssl.keystore.location", "sasl.enabled.mechanisms", "principal.builder.class"]
    assert unchangeable([*asked, "listeners", "listener.name.x.ssl.client.auth", "log.cleaner.threads"]) == asked


def test_when_a_jvm_renews_its_logins_changes_as_in_kafka() -> None:
    taken = [
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.jitter",
    ]
    assert unchangeable(taken) == []
    assert unchangeable(["sasl.login.refresh.window.factor", "sasl.kerberos.service.name"]) != []


def test_a_listeners_jaas_configuration_lies_encrypted() -> None:
    assert is_password("listener.name.x.plain.sasl.jaas.config")
    assert is_password("listener.name.x.ssl.keystore.password")
    assert not is_password("listener.name.x.ssl.keystore.location")
