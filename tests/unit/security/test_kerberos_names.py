"""``sasl.kerberos.principal.to.local.rules``: which user a Kerberos principal is."""

from __future__ import annotations

import pytest

from barnabas.model.errors import ConfigError
from barnabas.security.sasl.exchange import InvalidCredentials
from barnabas.security.sasl.gssapi import ShortNames


def test_the_default_speaks_for_the_brokers_realm_alone() -> None:
    names = ShortNames((), "EXAMPLE.COM")
    assert names.short_name("alice@EXAMPLE.COM") == "alice"
    assert names.short_name("kafka/broker1@EXAMPLE.COM") == "kafka"
    assert names.short_name("alice") == "alice"
    for stranger in ("kafka@EVIL.COM", "kafka/broker1@EVIL.COM", "kafka@", "kafka/b/c@EXAMPLE.COM", "a@b@EXAMPLE.COM"):
        with pytest.raises(InvalidCredentials):
            names.short_name(stranger)


def test_rules_are_tried_in_their_order() -> None:
    names = ShortNames(
        (
            "RULE:[1:$1@$0](.*@EAST.COM)s/@.*//",
            "RULE:[2:$1-$2@$0](kafka-.*@WEST.COM)s/kafka-([a-z]+).*/$1-broker/",
            "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g/L",
            "RULE:[2:$1/$2](odd/.*)",
            "RULE:[1:$1@$0](.*@NORTH.COM)",
            "DEFAULT",
        ),
        "EXAMPLE.COM",
    )
    assert names.short_name("alice@EAST.COM") == "alice"
    assert names.short_name("kafka/one.west@WEST.COM") == "one-broker"
    assert names.short_name("App.Web@ANY.COM") == "web"
    assert names.short_name("carol@EXAMPLE.COM") == "carol"
    for stranger in ("carol@WEST.COM", "odd/one@EAST.COM", "alice@NORTH.COM"):  # no rule; no simple name
        with pytest.raises(InvalidCredentials):
            names.short_name(stranger)


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="which is no rule"):
        ShortNames(("RULE:[1:$1",), "EXAMPLE.COM")
