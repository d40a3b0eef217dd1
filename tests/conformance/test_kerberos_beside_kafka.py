"""GSSAPI with a Kerberos realm of the test's own: both clients log in to a broker of either kind.

`make kerberos`; it wants krb5-kdc, krb5-admin-server and the Python package gssapi (libkrb5-dev to build it).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from cluster import BARNABAS, until
from kerberos_realm import MARKS, MODULE, REALM, kerberos_realm

from barnabas.client import blocking
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.login import login_of
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.metadata import MetadataRequest

pytestmark = MARKS
SERVICE, USER = f"kafka/localhost@{REALM}", f"alice@{REALM}"
_MODULE = f"{MODULE} useKeyTab=true storeKey=true"


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the key tabs ``kafka`` and ``alice``; its centre runs meanwhile."""
    with kerberos_realm(tmp_path, monkeypatch) as found:
        found.add("kafka/localhost", "kafka")
        found.add("alice", "alice")
        yield tmp_path


def test_both_clients_log_in_to_both_kinds_of_broker(realm: Path) -> None:
    plaintext, sasl = ({broker: apache.free_port() for broker in (0, 1)} for _ in range(2))
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl.gssapi.sasl.jaas.config": f'{_MODULE} keyTab="{realm / "kafka"}" principal="{SERVICE}";',
        "zookeeper.session.timeout.ms": "18000",
    }
    listeners = {n: f"PLAINTEXT://localhost:{plaintext[n]},SASL://localhost:{sasl[n]}" for n in plaintext}
    cluster = apache.ApacheCluster(realm / "apache", 1, config={**config, "listeners": listeners[0]}, first_id=0)
    cluster.ports[0] = plaintext[0]
    with cluster as kafka, (realm / "ours.log").open("wb") as log:
        ours = {"broker.id": "1", "listeners": listeners[1], "zookeeper.connect": kafka.zookeeper}
        properties = realm / "ours.properties"
        values = {**config, **ours, "log.dirs": str(realm / "logs")}
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        process = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=log, stderr=log)
        try:
            until(lambda: len(apache.cluster_view("localhost", plaintext[0])[0]) == 2, "both kinds are known")
            settings = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{_MODULE} keyTab="{realm / "alice"}" principal="{USER}";',
            }
            client = realm / "client.properties"
            client.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            for broker, port in sasl.items():
                with BlockingConnection("localhost", port, "kerberos", login=login_of(settings)) as asking:
                    assert len(asking.send(MetadataRequest(topics=[]), 12).brokers) == 2
                at = ("--bootstrap-server", f"localhost:{port}", "--command-config", str(client))
                done = apache.tool("kafka-broker-api-versions", *at)
                assert f"id: {broker}" in done.stdout, done.stderr
                nobody = login_of({**settings, "sasl.kerberos.service.name": "another"})
                with pytest.raises(KafkaError, match="Kerberos"):
                    BlockingConnection("localhost", port, "kerberos", login=nobody)
        finally:
            process.terminate()
            process.wait(30)


def test_a_user_of_a_tests_cluster_comes_in_by_her_ticket(realm: Path) -> None:
    """`barnabas.testing`: the brokers are named by their address, and so is their key."""
    service = f"kafka/127.0.0.1@{REALM}"
    for words in (f"addprinc -randkey {service}", f"ktadd -k {realm / 'brokers'} {service}"):
        subprocess.run(["kadmin.local", "-q", words], check=True, capture_output=True, timeout=60)
    subprocess.run(["kinit", "-k", "-t", realm / "alice", USER], check=True, capture_output=True, timeout=60)
    jaas = f'{_MODULE} keyTab="{realm / "brokers"}" principal="{service}";'
    config = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.clients.gssapi.sasl.jaas.config": jaas,
    }
    with KafkaCluster(1, users=["alice"], config=config) as cluster:
        cluster.create_topic("t", replication_factor=1)
        alice = cluster.user("alice")
        alice.allow("topic:t", "write")
        with blocking.connect(config=alice.properties("GSSAPI")) as client:
            with client.producer() as producer:
                assert producer.send("t", b"hers").offset == 0
            alice.revoke("topic:t")
            with client.producer() as producer, pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
                producer.send("t", b"hers no more")
