"""Certificates change while brokers run: new connections see the new ones, those that are open stay (KIP-226)."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kazoo.client import KazooClient
from processes import eventually
from secured import SecuredCluster
from test_secured_listeners import ask, login, secured

from barnabas.security.password_encoder import PasswordEncoder
from barnabas.wire.messages.api_versions import ApiVersionsRequest

KEY_STORE = "listener.name.both.ssl.keystore.location"


SECRET = "of this broker's passwords"


@pytest.fixture
def encrypting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    config = {"password.encoder.secret": SECRET}
    with SecuredCluster(tmp_path_factory.mktemp("encrypting"), 1, config) as running:
        yield running


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("rotating"), 2) as running:
        yield running


def alter(cluster: SecuredCluster, name: str, value: str) -> None:
    alter_together(cluster, {name: value})


def alter_together(cluster: SecuredCluster, values: dict[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=entries)
    admin = AdminClient(cluster.settings("BOTH"))
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(60)


def shown(cluster: SecuredCluster) -> bytes:
    with secured(cluster, "BOTH") as wire:
        return wire.getpeercert(True) or b""


def test_a_certificate_is_renewed_without_a_restart(cluster: SecuredCluster) -> None:
    before = shown(cluster)
    with secured(cluster, "BOTH") as open_already:
        assert login(open_already).error_code == 0
        renewed = cluster.authority.issue("broker")  # the file that the configuration names has new bytes
        assert shown(cluster) == before
        alter(cluster, KEY_STORE, str(renewed.key_store))
        expected = ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())
        eventually(lambda: shown(cluster) == expected, what="the renewed certificate is shown")
        assert ask(open_already, ApiVersionsRequest(), 0).error_code == 0

        again = cluster.authority.issue("broker")
        alter(cluster, KEY_STORE, str(again.key_store))  # nothing new but the file's bytes
        expected = ssl.PEM_cert_to_DER_cert(again.certificate.read_text())
        eventually(lambda: shown(cluster) == expected, what="the file was read again")
        assert ask(open_already, ApiVersionsRequest(), 0).error_code == 0
    assert len(cluster.metadata().brokers) == 2

    admin = AdminClient(cluster.settings("BOTH"))
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "0")]).values()
    entries = described.result(60)
    assert entries[KEY_STORE].value == str(again.key_store)
    assert entries["listener.name.both.plain.sasl.jaas.config"].value is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("another", "DistinguishedName does not match"),
        ("fewer", "SubjectAltNames do not match"),
        ("foreign", "cannot connect to one with them"),
        ("missing", "is no file that can be read"),
        ("secret", "Password encoder secret not configured"),
        ("unprefixed", "changes neither what holds for all listeners"),
    ],
)
def test_a_certificate_that_others_would_not_know_is_refused(
    cluster: SecuredCluster, name: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from certificates import Authority

    before = shown(cluster)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    key, value = KEY_STORE, str(elsewhere / "none.pem")
    if name == "another":
        value = str(cluster.authority.issue("other").key_store)
    elif name == "fewer":
        # Beside the old one, which stays what it is.
        kept = {path: path.read_bytes() for path in cluster.authority.directory.glob("broker.*")}
        fewer = cluster.authority.issue("broker", hosts="DNS:localhost").key_store.read_bytes()
        for path, data in kept.items():
            path.write_bytes(data)
        (elsewhere / "fewer.pem").write_bytes(fewer)
        value = str(elsewhere / "fewer.pem")
    elif name == "foreign":
        value = str(Authority(elsewhere, "foreign").issue("broker").key_store)
    elif name == "secret":
        key, value = "listener.name.both.ssl.keystore.password", "open"
    elif name == "unprefixed":
        key = "ssl.keystore.location"
    with pytest.raises(KafkaException, match=reason):
        alter(cluster, key, value)
    assert shown(cluster) == before


def test_a_store_with_another_password_is_taken_up_and_the_password_lies_encrypted(encrypting: SecuredCluster) -> None:
    renewed = encrypting.authority.issue("broker")
    password = "listener.name.both.ssl.keystore.password"
    kind = {"listener.name.both.ssl.keystore.type": "PKCS12"}
    store = str(renewed.pkcs12("another password"))
    with pytest.raises(KafkaException, match="password"):
        alter_together(encrypting, {**kind, KEY_STORE: store, password: "a wrong one"})
    alter_together(encrypting, {**kind, KEY_STORE: store, password: "another password"})
    expected = ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())
    eventually(lambda: shown(encrypting) == expected, what="the store with the password is open")
    admin = AdminClient(encrypting.settings("BOTH"))
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "0")]).values()
    assert described.result(60)[password].value is None
    zookeeper = KazooClient(f"127.0.0.1:{encrypting.zookeeper_port}", timeout=10)
    zookeeper.start(60)
    stored = json.loads(zookeeper.get("/config/brokers/0")[0])["config"][password]
    zookeeper.stop()
    zookeeper.close()
    assert "another password" not in stored
    assert PasswordEncoder(SECRET).decode(stored) == "another password"
    alter(encrypting, "log.cleaner.threads", "2")  # what is changed beside it leaves it as it is
    [broker] = encrypting.brokers
    broker.stop()
    broker.start()
    eventually(lambda: shown(encrypting) == expected, what="the store is open after a restart")


def test_a_listener_has_a_limit_of_its_own_that_changes(cluster: SecuredCluster) -> None:
    alter(cluster, "listener.name.tls.max.connections", "0")

    def refused() -> bool:
        try:
            with secured(cluster, "TLS", cluster.alice):
                return False
        except (ssl.SSLError, ConnectionError):
            return True

    eventually(refused, what="the listener takes nobody")
    assert len(cluster.metadata().brokers) == 2  # the others do
    alter(cluster, "listener.name.tls.max.connections", "10")
    eventually(lambda: not refused(), what="the listener takes ten")
