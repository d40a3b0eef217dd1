"""Which client a broker's configuration makes; what cannot be is a sentence that says what to do."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from certificates import Authority

from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.config import client_of, security_of
from barnabas.zk.client.login import DigestMd5Login


def test_a_plain_configuration_makes_a_plain_client() -> None:
    config = broker_config({"zookeeper.connect": "a:1,b:2/kafka", "zookeeper.max.in.flight.requests": "7"})
    client = client_of(real_runtime(), config, name="broker 1")
    assert (client.hosts, client.chroot, client.max_in_flight) == ([("a", 1), ("b", 2)], "/kafka", 7)
    assert (client.session_timeout_ms, client.connection_timeout_ms) == (18_000, 18_000)
    assert (client.security.tls, client.security.sasl, client.security.auth) == (None, None, ())


def test_identities_are_read_and_never_shown() -> None:
    security = security_of(
        broker_config(
            {
                "barnabas.zookeeper.sasl.username": "kafka",
                "barnabas.zookeeper.sasl.password": "hidden",
                "barnabas.zookeeper.auth": "digest:me:hidden, ip:10.0.0.1",
            }
        )
    )
    assert security.sasl == DigestMd5Login("kafka", "hidden")
    assert security.auth == (("digest", b"me:hidden"), ("ip", b"10.0.0.1"))
    assert "hidden" not in repr(security)


def test_kafkas_tls_keys_make_a_context(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    keys = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(authority.issue("broker").key_store),
        "zookeeper.ssl.truststore.location": str(authority.trust_store),
        "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }
    tls = security_of(broker_config(keys)).tls
    assert tls is not None
    assert (tls.check_hostname, tls.minimum_version) == (True, ssl.TLSVersion.TLSv1_2)
    assert tls.maximum_version is ssl.TLSVersion.TLSv1_3
    lenient = security_of(
        broker_config(
            {**keys, "zookeeper.ssl.endpoint.identification.algorithm": "", "zookeeper.ssl.crl.enable": "true"}
        )
    ).tls
    assert lenient is not None
    assert not lenient.check_hostname
    assert lenient.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    client_of(
        real_runtime(), broker_config({"zookeeper.connect": "a:1", "zookeeper.set.acl": "true", **keys}), name="broker"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"zookeeper.set.acl": "true"}, r"zookeeper\.set\.acl=true needs an identity"),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "/x/a.jks"},
            "no file that can be read",
        ),
        ({"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.ocsp.enable": "true"}, "OCSP is not spoken"),
        ({"barnabas.zookeeper.sasl.username": "kafka"}, r"sasl\.password is not set"),
        ({"barnabas.zookeeper.sasl.password": "x"}, r"sasl\.username is not set"),
        ({"barnabas.zookeeper.auth": "digest:alone"}, "takes scheme:identity"),
        ({"barnabas.zookeeper.sasl.jaas.config": "a.B required;"}, r"login module a\.B: it takes com.sun"),
        ({"barnabas.zookeeper.sasl.jaas.config": "a.B"}, r"jaas\.config cannot be read: it needs a control flag"),
        (
            {
                "barnabas.zookeeper.sasl.jaas.config": "a.B required;",
                "barnabas.zookeeper.sasl.username": "kafka",
                "barnabas.zookeeper.sasl.password": "x",
            },
            "it takes one",
        ),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        client_of(real_runtime(), broker_config({"zookeeper.connect": "a:1", **values}), name="broker")
