"""TLS contexts from configuration: PEM is read, everything else is refused with what to do."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from certificates import Authority

from barnabas.model.errors import ConfigError
from barnabas.runtime.tls import Store, client_context, openssl_name


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def test_pem_stores_are_read(authority: Authority) -> None:
    context = client_context(
        key_store=Store(str(authority.issue("me").key_store), "k"),
        trust_store=Store(str(authority.trust_store), "t"),
        protocols=("TLSv1.2",),
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",),
        verify_host_name=False,
    )
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert [cipher["name"] for cipher in context.get_ciphers() if "TLSv1.2" in cipher["protocol"]] == [
        "ECDHE-RSA-AES256-GCM-SHA384"
    ]
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_password_opens_an_encrypted_key(authority: Authority, tmp_path: Path) -> None:
    plain = authority.issue("encrypted")
    store = tmp_path / "store.pem"
    encrypted = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", str(plain.key), "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    ).stdout
    store.write_bytes(encrypted + plain.certificate.read_bytes())
    client_context(key_store=Store(str(store), "zookeeper.ssl.keystore.location", password="secret"))
    for password in ("", "wrong"):
        with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location=.*password"):
            client_context(key_store=Store(str(store), "zookeeper.ssl.keystore.location", password=password))


@pytest.mark.parametrize(("name", "kind"), [("a.jks", ""), ("a.p12", ""), ("a.pem", "JKS")])
def test_another_kind_of_store_is_refused_with_the_way_to_convert_it(name: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=r"only PEM is read\. Convert it: `keytool"):
        client_context(trust_store=Store(name, "zookeeper.ssl.truststore.location", kind))


def test_bad_values_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file that can be read"):
        client_context(trust_store=Store(str(tmp_path / "none.pem"), "t"))
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(ConfigError, match="holds no PEM certificates"):
        client_context(trust_store=Store(str(tmp_path / "empty.pem"), "t"))
    with pytest.raises(ConfigError, match="TLS protocol SSLv3"):
        client_context(protocols=("SSLv3",))
    with pytest.raises(ConfigError, match="None of the cipher suites"):
        client_context(cipher_suites=("TLS_NOTHING_WITH_NOTHING",))


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA", "DHE-RSA-AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("AES256-GCM-SHA384", "AES256-GCM-SHA384"),
    ],
)
def test_cipher_suites_have_two_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
