"""TLS contexts from configuration: stores of three kinds are read, and what cannot be is refused with what to do."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import Authority, Certificate, run

from barnabas.model.errors import ConfigError
from barnabas.security.tls.names import subject_of
from barnabas.security.tls.settings import TlsSettings, openssl_name, tls_settings
from barnabas.security.tls.stores import Store


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


KEYTOOL = shutil.which("keytool")


def test_pem_stores_are_read(authority: Authority) -> None:
    context = TlsSettings(
        key_store=Store(str(authority.issue("me").key_store), "k"),
        trust_store=Store(str(authority.trust_store), "t"),
        protocols=("TLSv1.2",),
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",),
        verify_host_name=False,
    ).client_context()
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
    TlsSettings(Store(str(store), "zookeeper.ssl.keystore.location", password="secret")).client_context()
    for password in ("", "wrong"):
        with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location=.*password"):
            TlsSettings(Store(str(store), "zookeeper.ssl.keystore.location", password=password)).client_context()


def shake_hands(server: TlsSettings, client: TlsSettings, name: str = "localhost") -> tuple[str, bytes | None]:
    """The protocol, and the certificate that the server was shown. Raises ``ssl.SSLError``."""
    return hands(server.server_context(), client.client_context(), name)


def hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[str, bytes | None]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return ours.version() or "", ours.getpeercert(True)


def test_all_kinds_of_stores_shake_hands(authority: Authority, tmp_path: Path) -> None:
    """PKCS12 and JKS as Java's keytool writes them, PEM in a file and in the setting itself."""
    broker = authority.issue("broker")
    p12 = broker.pkcs12("secret")
    key_stores = [
        {"ssl.keystore.location": str(broker.key_store), "ssl.keystore.type": "PEM"},
        {"ssl.keystore.location": str(p12), "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "secret"},
        {"ssl.keystore.location": str(p12), "ssl.keystore.type": "JKS", "ssl.keystore.password": "secret"},
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": broker.key.read_text(),
            "ssl.keystore.certificate.chain": broker.certificate.read_text(),
        },
    ]
    trust_stores = [
        {"ssl.truststore.location": str(authority.trust_store)},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.trust_store.read_text()},
    ]
    if KEYTOOL:
        for kind in ("JKS", "PKCS12"):
            trust = tmp_path / f"trust.{kind}"
            run(
                *(KEYTOOL, "-importcert", "-noprompt", "-alias", "ca", "-file", authority.trust_store),
                *("-keystore", trust, "-storetype", kind, "-storepass", "secret"),
            )
            trust_stores.append({"ssl.truststore.location": str(trust), "ssl.truststore.password": "secret"})
        jks = tmp_path / "broker.jks"
        run(
            *(KEYTOOL, "-importkeystore", "-srckeystore", p12, "-srcstorepass", "secret", "-srcalias", "entry"),
            *("-destkeystore", jks, "-deststoretype", "JKS", "-deststorepass", "secret", "-destkeypass", "another"),
        )
        key_stores.append(
            {"ssl.keystore.location": str(jks), "ssl.keystore.password": "secret", "ssl.key.password": "another"}
        )
        trust_stores.append({"ssl.truststore.location": str(jks)})  # Java opens it without a password, too
    subjects = set()
    for key_store in key_stores:
        for trust_store in trust_stores:
            values = {**key_store, **trust_store, "ssl.client.auth": "required"}
            version, shown = shake_hands(tls_settings(values), tls_settings(values))
            assert version == "TLSv1.3"
            subjects.add(subject_of(shown or b""))
    assert subjects == {"O=barnabas,CN=broker"}


def test_stores_that_the_password_does_not_open(authority: Authority, tmp_path: Path) -> None:
    broker = authority.issue("locked")
    p12 = broker.pkcs12("secret")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location=.*no PKCS12 store that the password opens"):
        tls_settings({"ssl.keystore.location": str(p12), "ssl.keystore.password": "wrong"}).server_context()
    damaged = tmp_path / "damaged.jks"
    damaged.write_bytes(b"\xfe\xed\xfe\xed" + bytes(40))
    with pytest.raises(ConfigError, match="no JKS store that the password opens"):
        tls_settings({"ssl.truststore.location": str(damaged), "ssl.truststore.password": "x"}).client_context()


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.p12"
    store.write_bytes(b"\x30\x82")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    with pytest.raises(ConfigError, match=r"needs cryptography, which `pip install 'barnabas\[tls\]'`.*openssl"):
        tls_settings({"ssl.truststore.location": str(store)}).client_context()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ssl.keystore.location": "x", "ssl.keystore.key": "y"}, "location and ssl.keystore.key are both set"),
        ({"ssl.keystore.key": "y"}, "ssl.keystore.certificate.chain is not set"),
        ({"ssl.keystore.certificate.chain": "y"}, "ssl.keystore.key is not set"),
        ({"ssl.truststore.location": "x", "ssl.truststore.certificates": "y"}, "are both set"),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth is perhaps: it takes none, requested, required"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "is ldaps: it takes https"),
        ({"ssl.engine.factory.class": "com.example.Engine"}, "ssl.engine.factory.class is com.example.Engine"),
        ({"ssl.trustmanager.algorithm": "TrustAll"}, "ssl.trustmanager.algorithm is TrustAll"),
        ({"ssl.truststore.type": "BCFKS", "ssl.truststore.location": __file__}, "is a BCFKS store.*keytool"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": sys.executable}, "holds no PEM certificates"),
        (
            {"ssl.truststore.location": "/no/such.pem"},
            r"ssl\.truststore\.location=/no/such\.pem is no file that can be",
        ),
        ({"ssl.truststore.location": os.devnull}, "holds no PEM certificates"),
        ({"ssl.enabled.protocols": "SSLv3"}, "TLS protocol SSLv3"),
        ({"ssl.cipher.suites": "TLS_NOTHING_WITH_NOTHING"}, "None of the cipher suites"),
        (
            {"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384", "ssl.enabled.protocols": "TLSv1.3"},
            "belongs to TLSv1.3",
        ),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "and not TLS_AES_256_GCM_SHA384, TLS_CHACHA20"),
    ],
)
def test_bad_values_are_sentences(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        tls_settings(values).client_context()


def test_a_listener_without_a_key_store_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"keystore\.location is not set"):
        tls_settings({}).server_context()


def test_a_protocol_without_a_suite_is_not_spoken(authority: Authority) -> None:
    """As in Java: TLS 1.3 has its own suites, and where none is named nobody can speak it."""
    values = {
        "ssl.keystore.location": str(authority.issue("old").key_store),
        "ssl.truststore.location": str(authority.trust_store),
    }
    older = tls_settings({**values, "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"})
    assert shake_hands(older, tls_settings(values))[0] == "TLSv1.2"
    gap = tls_settings({**values, "ssl.enabled.protocols": "TLSv1.3, TLSv1.1"}).client_context()
    assert gap.options & ssl.OP_NO_TLSv1_2


def test_a_name_is_checked_unless_nothing_is_to_be_checked(authority: Authority) -> None:
    values = {
        "ssl.keystore.location": str(authority.issue("named").key_store),
        "ssl.truststore.location": str(authority.trust_store),
    }
    server = tls_settings(values)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, tls_settings(values), "elsewhere.example.com")
    unchecked = tls_settings({**values, "ssl.endpoint.identification.algorithm": ""})
    assert shake_hands(server, unchecked, "elsewhere.example.com")[0]


@pytest.mark.parametrize(
    ("hosts", "asked", "refused"),
    [
        ("IP:127.0.0.1", "127.0.0.1", ""),
        ("IP:10.0.0.1", "127.0.0.1", "IP address mismatch"),
        ("DNS:127.0.0.1", "127.0.0.1", "IP address mismatch"),
        ("IP:0:0:0:0:0:0:0:1", "::1", ""),
        ("DNS:*.example.com", "kafka.example.com", ""),
        ("DNS:*.example.com", "a.kafka.example.com", "Hostname mismatch"),
        ("DNS:*", "localhost", "Hostname mismatch"),
    ],
)
def test_a_name_or_address_is_checked_as_what_it_is(authority: Authority, hosts: str, asked: str, refused: str) -> None:
    store = str(authority.issue("localhost", hosts=hosts).key_store)
    values = {"ssl.keystore.location": store, "ssl.truststore.location": str(authority.trust_store)}
    with pytest.raises(ssl.SSLCertVerificationError, match=refused) if refused else contextlib.nullcontext():
        shake_hands(tls_settings(values), tls_settings(values), asked)


@pytest.mark.parametrize("attack", ["purpose", "signed by a user"])
def test_a_users_certificate_is_no_brokers_and_makes_none(authority: Authority, attack: str) -> None:
    """Who has a certificate for a client neither poses as a server with it, nor signs others with its key."""
    user = authority.issue("user", purpose="clientAuth")
    broker = authority.issue("broker", purpose="serverAuth,clientAuth")
    forged = authority.issue("forged", by=user) if attack == "signed by a user" else user
    refused = "unsuitable certificate purpose" if attack == "purpose" else "(invalid CA certificate|unable to get)"

    def settings_of(certificate: Certificate) -> TlsSettings:
        return tls_settings(
            {
                "ssl.keystore.location": str(certificate.key_store),
                "ssl.truststore.location": str(authority.trust_store),
                "ssl.client.auth": "required",
            }
        )

    assert shake_hands(settings_of(broker), settings_of(user))[0]
    with pytest.raises(ssl.SSLCertVerificationError, match=refused):
        shake_hands(settings_of(forged), settings_of(broker))
    shown = forged if attack == "signed by a user" else authority.issue("server", purpose="serverAuth")
    with pytest.raises(ssl.SSLCertVerificationError, match=refused):
        shake_hands(settings_of(broker), settings_of(shown))


def test_every_certificate_in_a_trust_store_ends_a_chain_as_in_java(authority: Authority) -> None:
    """A user's own certificate lets in that user alone, although an authority signed it."""
    broker, user = authority.issue("broker"), authority.issue("user")
    values = {"ssl.keystore.location": str(broker.key_store), "ssl.client.auth": "required"}
    server = tls_settings({**values, "ssl.truststore.location": str(user.certificate)})
    trusting = {"ssl.truststore.location": str(broker.certificate)}
    assert shake_hands(server, tls_settings({**trusting, "ssl.keystore.location": str(user.key_store)}))[0]
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, tls_settings({**trusting, **values}))


def test_who_has_no_trust_store_trusts_the_systems_authorities(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tls_settings(
        {"ssl.keystore.location": str(authority.issue("known").key_store), "ssl.client.auth": "required"}
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(settings, settings)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.trust_store))
    assert shake_hands(settings, settings)[0]


def test_old_protocols_are_not_spoken_by_default(authority: Authority) -> None:
    values = {
        "ssl.keystore.location": str(authority.issue("old").key_store),
        "ssl.truststore.location": str(authority.trust_store),
    }
    old = tls_settings(values).client_context()
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    server = tls_settings(values).server_context()
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"(?i)version|protocol"):
        hands(server, old, "localhost")


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
