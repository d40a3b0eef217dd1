"""What a listener's gate is made of: its own keys before the common ones, and errors that name it."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import Authority

from barnabas.broker.listener_gate import ListenerGate, tls_of_listener
from barnabas.broker.listeners import listeners_of
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config, broker_config
from barnabas.model.errors import ConfigError
from barnabas.security.sasl.scram import NoUsers
from barnabas.security.tls.settings import TlsSettings, tls_settings

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="c" user_b="c";'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    made.issue("broker")
    return made


def configured(authority: Authority, protocol: str, **more: str) -> Config:
    return broker_config(
        {
            "listeners": "X://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
            "listener.security.protocol.map": f"X:{protocol},PLAINTEXT:PLAINTEXT",
            "ssl.keystore.location": str(authority.directory / "broker.store.pem"),
            "ssl.truststore.location": str(authority.trust_store),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.x.plain.sasl.jaas.config": PLAIN,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def gate(config: Config) -> ListenerGate:
    listeners = listeners_of(config, "castle")
    broker: Any = SimpleNamespace(listeners=listeners, runtime=SimpleNamespace(clock=None), broker_id=1)
    return ListenerGate(broker, NoUsers(), listeners.bound[0], config)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_makes_connections_of_its_protocol(authority: Authority, protocol: str) -> None:
    made = gate(configured(authority, protocol))
    assert (made.tls is not None) == protocol.endswith("SSL")
    assert list(made.mechanisms) == (["PLAIN"] if protocol.startswith("SASL") else [])
    assert made.authenticates == protocol.startswith("SASL")


@pytest.mark.parametrize(
    ("protocol", "common", "own", "counts"),
    [
        ("SSL", "required", None, "required"),
        ("SSL", "required", "none", "none"),
        ("SASL_SSL", "required", None, "none"),
        ("SASL_SSL", "none", "required", "required"),
    ],
)
def test_client_auth_counts_on_sasl_ssl_only_as_the_listeners_own(
    authority: Authority, protocol: str, common: str, own: str | None, counts: str
) -> None:
    more = {"ssl_client_auth": common} | ({} if own is None else {"listener_name_x_ssl_client_auth": own})
    config = configured(authority, protocol, **more)
    assert tls_of_listener(config, Endpoint("X", "h", 1, protocol)).client_auth == counts


@pytest.mark.parametrize(
    ("protocol", "more", "reason"),
    [
        ("SSL", {"ssl_keystore_location": ""}, r"Listener X: ssl\.keystore\.location is not set"),
        ("SSL", {"listener_name_x_ssl_keystore_location": "/no"}, r"Listener X: .*no file that can be read"),
        ("SSL", {"ssl_engine_factory_class": "x.Y"}, r"Listener X: ssl\.engine\.factory\.class is x\.Y"),
        ("SSL", {"ssl_principal_mapping_rules": "default"}, r"ssl\.principal\.mapping\.rules has"),
        ("SASL_SSL", {"sasl_enabled_mechanisms": "MAGIC"}, r"sasl\.enabled\.mechanisms has MAGIC"),
    ],
)
def test_what_cannot_be_kept_is_refused(authority: Authority, protocol: str, more: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        gate(configured(authority, protocol, **more))


def test_brokers_that_would_not_trust_each_other_do_not_start(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    more = {"ssl_truststore_location": str(other.trust_store)}
    assert gate(configured(authority, "SSL", **more)).tls  # a listener of clients may
    with pytest.raises(ConfigError, match="Listener X: a broker with these stores cannot connect to one with them"):
        gate(configured(authority, "SSL", inter_broker_listener_name="X", **more))


@pytest.mark.parametrize("purpose", ["clientAuth", "serverAuth"])
def test_brokers_whose_certificate_is_for_one_side_alone_do_not_start(tmp_path: Path, purpose: str) -> None:
    """All names are right: each broker is a server to others, and a client of theirs."""
    authority = Authority(tmp_path)
    authority.issue("broker", purpose=purpose)
    more = {"ssl_client_auth": "required", "inter_broker_listener_name": "X"}
    with pytest.raises(ConfigError, match="Listener X: a broker with these stores cannot connect to one with them"):
        gate(configured(authority, "SSL", **more))
    authority.issue("broker", purpose="clientAuth,serverAuth")
    assert gate(configured(authority, "SSL", **more)).tls


def test_stores_are_read_again_and_taken_only_when_they_are_new(authority: Authority) -> None:
    config = configured(authority, "SSL")
    made = gate(config)
    before = made.tls
    assert not made.reconfigure(config)
    assert made.tls is before
    authority.issue("broker")
    assert made.reconfigure(config)
    assert made.tls is not before


@pytest.mark.parametrize(
    ("certificate", "reason", "allows"),
    [
        ({"name": "other"}, "DistinguishedName does not match", "ssl_allow_dn_changes"),
        ({"name": "broker", "hosts": "DNS:localhost"}, "SubjectAltNames do not match", "ssl_allow_san_changes"),
    ],
    ids=["another subject", "fewer names"],
)
def test_a_changed_store_speaks_for_the_same_broker_by_the_same_names(
    tmp_path: Path, certificate: dict[str, str], reason: str, allows: str
) -> None:
    authority = Authority(tmp_path)
    store = authority.issue("broker").key_store
    made = gate(configured(authority, "SSL"))
    before = made.tls
    store.write_bytes(authority.issue(**certificate).key_store.read_bytes())
    with pytest.raises(ConfigError, match=reason):
        made.reconfigure(configured(authority, "SSL"))
    assert made.tls is before
    assert made.reconfigure(configured(authority, "SSL", **{allows: "true"}))
    assert made.tls is not before


def lets_in(server: ssl.SSLContext, client: TlsSettings) -> str:
    """Why the server does not let the client in; nothing where it does."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.client_context().wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    try:
        for _ in range(4):
            for side in (theirs, ours):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return ""


def test_a_revoked_certificate_is_refused_from_the_moment_that_the_list_is_read_again(
    authority: Authority, tmp_path: Path
) -> None:
    good, bad = authority.issue("good"), authority.issue("bad")
    trust_store = tmp_path / "trusted.pem"
    trust_store.write_text(authority.trust_store.read_text() + authority.revocation_list())
    config = configured(
        authority,
        "SSL",
        ssl_client_auth="required",
        ssl_truststore_location=str(trust_store),
        listener_name_x_barnabas_ssl_crl_enable="true",
    )
    made = gate(config)
    assert made.tls is not None
    clients = [
        tls_settings(
            {"ssl.keystore.location": str(each.key_store), "ssl.truststore.location": str(authority.trust_store)}
        )
        for each in (good, bad)
    ]
    assert [lets_in(made.tls, client) for client in clients] == ["", ""]
    trust_store.write_text(authority.trust_store.read_text() + authority.revocation_list(bad))
    assert made.reconfigure(config)
    assert [lets_in(made.tls, client) for client in clients] == ["", "certificate revoked"]
    trust_store.write_text(authority.trust_store.read_text())  # without a list nobody is let in
    assert made.reconfigure(config)
    assert [lets_in(made.tls, client) for client in clients] == ["unable to get certificate CRL"] * 2
    without = configured(authority, "SSL", ssl_client_auth="required")
    assert lets_in(gate(without).tls or made.tls, clients[1]) == ""


def test_lists_that_would_be_nowhere_are_refused(authority: Authority) -> None:
    with pytest.raises(ConfigError, match="Revocation lists are asked for"):
        gate(configured(authority, "SSL", ssl_truststore_location="", barnabas_ssl_crl_enable="true"))
