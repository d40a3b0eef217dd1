"""The admin endpoint behind a listener's guards: who may look, by a password or a certificate over TLS, and by ACLs."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from cluster import barnabas
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from processes import Cluster, eventually, free_port

BY_PASSWORD, BY_CERTIFICATE = 0, 1
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Guarded(Cluster):
    """Two brokers, whose admin endpoints ask for a password and for a certificate; all else is open to ANONYMOUS."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "authority")
        super().__init__(
            directory,
            2,
            {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:ANONYMOUS;User:root;User:O=barnabas,CN=ops",
                "listener.name.admin.ssl.keystore.location": str(self.authority.issue("broker").key_store),
                "listener.name.admin.ssl.keystore.type": "PEM",
                "listener.name.admin.ssl.truststore.location": str(self.authority.trust_store),
                "listener.name.admin.ssl.truststore.type": "PEM",
            },
        )
        self.admins = [free_port(), free_port()]
        for broker_id, guards in (
            (
                BY_PASSWORD,
                f"{MAP}SASL_SSL\n"
                "listener.name.admin.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
                f'listener.name.admin.plain.sasl.jaas.config={PLAIN} user_root="pass:word" user_eve="evil";\n'
                f"listener.name.admin.scram-sha-256.sasl.jaas.config={SCRAM}\n",
            ),
            (BY_CERTIFICATE, f"{MAP}SSL\nlistener.name.admin.ssl.client.auth=required\n"),
        ):
            with (directory / f"broker-{broker_id}.properties").open("a") as file:
                file.write(f"barnabas.admin.listener=127.0.0.1:{self.admins[broker_id]}\n{guards}")

    def tls(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.trust_store))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def connection(self, broker_id: int, certificate: Path | None = None) -> http.client.HTTPSConnection:
        tls = self.tls(certificate)
        return http.client.HTTPSConnection("localhost", self.admins[broker_id], timeout=60, context=tls)

    def ask(self, path: str, user: str = "", password: str = "", method: str = "GET") -> tuple[int, Any]:
        connection = self.connection(BY_PASSWORD)
        try:
            return asked(connection, path, user, password, method)
        finally:
            connection.close()


def asked(
    connection: http.client.HTTPConnection, path: str, user: str = "", password: str = "", method: str = "GET"
) -> tuple[int, Any]:
    shown = base64.b64encode(f"{user}:{password}".encode()).decode()
    connection.request(method, path, headers={"authorization": f"Basic {shown}"} if user else {})
    answer = connection.getresponse()
    body = answer.read()
    return answer.status, json.loads(body) if answer.headers["content-type"] == "application/json" and body else body


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("guarded")) as running:
        made = barnabas("topic", "create", "seen", "-b", running.bootstrap, "-p", "1", "-r", "2")
        assert made.returncode == 0, made.stderr
        eventually(lambda: running.ask("/status", "root", "pass:word")[0] == 200, what="root is let in")
        yield running


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/live", "/history", "/export", "/view/", "/topics"])
def test_nothing_is_told_to_who_does_not_say_a_right_password(cluster: Guarded, path: str) -> None:
    for user, password in (("", ""), ("root", "wrong"), ("root", ""), ("nobody", "pass:word"), ("root\0", "pass:word")):
        status, told = cluster.ask(path, user, password)
        assert status == 401
        assert told == {"error": "Log in: this endpoint answers only known users."}
    connection = cluster.connection(BY_PASSWORD)
    connection.request("GET", path, headers={"authorization": "Basic !"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="barnabas", charset="UTF-8"')
    answer.read()
    assert asked(connection, "/status", "root", "pass:word")[0] == 200, "the connection goes on"
    assert asked(connection, "/status")[0] == 401, "what was shown once counts for no other request"
    connection.close()


def test_a_password_that_is_tried_again_and_again_is_told_of_once(cluster: Guarded) -> None:
    for guess in range(5):
        assert cluster.ask("/status", "eve", f"guess {guess}")[0] == 401
    told = [line for line in cluster.brokers[BY_PASSWORD].output().splitlines() if "cannot log in" in line]
    assert len(told) == len({line.partition(": ")[2] for line in told})


def test_acls_say_what_who_is_known_may_see(cluster: Guarded) -> None:
    def allow(resource: str, operation: str) -> None:
        done = barnabas(
            *("acl", "allow", resource, "--principal", "User:ann", "--operation", operation, "-b", cluster.bootstrap)
        )
        assert done.returncode == 0, done.stderr

    def ann(path: str) -> int:
        return cluster.ask(path, "ann", "an other")[0]

    made = barnabas(
        "user", "set", "ann", "--password", "an other", "--mechanism", "SCRAM-SHA-256", "-b", cluster.bootstrap
    )
    assert made.returncode == 0, made.stderr
    eventually(lambda: ann("/view/") == 200, what="ann is known")
    looked_at = ("/metrics", "/status", "/history", "/groups", "/znodes?path=/brokers")
    messages, configurations = "/messages?topic=seen&partition=0", "/configurations?type=broker&name=0"
    for path in (*looked_at, messages, configurations):
        assert ann(path) == 403, path
    assert cluster.ask("/metrics", "eve", "evil") == (
        403,
        {"error": "User:eve may not see this: it needs DESCRIBE on CLUSTER kafka-cluster."},
    )
    assert cluster.ask("/metrics", "eve", "evil", "HEAD")[0] == 403
    allow("cluster", "describe")
    for path in looked_at:
        eventually(lambda path=path: ann(path) == 200, what=path)
    for path in (messages, configurations):
        assert ann(path) == 403, path
    allow("cluster", "describe-configs")
    eventually(lambda: ann(configurations) == 200, what="configurations")
    assert ann(messages) == 403
    allow("topic:seen", "read")
    eventually(lambda: ann(messages) == 200, what="records")
    gone = barnabas("user", "delete", "ann", "-b", cluster.bootstrap)
    assert gone.returncode == 0, gone.stderr
    eventually(lambda: ann("/view/") == 401, what="a user who was deleted is nobody")


def test_a_certificate_says_who_reads(cluster: Guarded) -> None:
    ops, other = (cluster.authority.issue(name).key_store for name in ("ops", "other"))
    connection = cluster.connection(BY_CERTIFICATE, ops)
    assert asked(connection, "/messages?topic=seen&partition=0")[0] == 200
    assert asked(cluster.connection(BY_CERTIFICATE, other), "/metrics") == (
        403,
        {"error": "User:O=barnabas,CN=other may not see this: it needs DESCRIBE on CLUSTER kafka-cluster."},
    )
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asked(cluster.connection(BY_CERTIFICATE), "/view/")


@pytest.mark.parametrize("broker_id", [BY_PASSWORD, BY_CERTIFICATE])
def test_who_does_not_speak_tls_gets_no_answer(cluster: Guarded, broker_id: int) -> None:
    with socket.create_connection(("127.0.0.1", cluster.admins[broker_id]), timeout=60) as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert wire.recv(100) == b""


def test_the_command_reads_metrics_with_a_clients_properties(cluster: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "root.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={cluster.authority.trust_store}\n"
        f'sasl.jaas.config={PLAIN} username="root" password="pass:word";\n'
    )
    address = f"https://localhost:{cluster.admins[BY_PASSWORD]}"
    words = ("metrics", "activecontrollercount", "--address", address)
    told = barnabas(*words, "--command-config", str(file))
    assert "kafka_controller_kafkacontroller_activecontrollercount" in told.stdout, told.stderr
    refused = barnabas(
        *words, "-X", "security.protocol=SSL", "-X", f"ssl.truststore.location={cluster.authority.trust_store}"
    )
    assert "Log in" in refused.stderr
    unknown = barnabas(*words)
    assert "certificate verify failed" in unknown.stderr


def test_its_certificate_is_renewed_without_a_restart(cluster: Guarded) -> None:
    renewed = cluster.authority.issue("broker")
    name = "listener.name.admin.ssl.keystore.location"
    entry = ConfigEntry(name, str(renewed.key_store), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(BY_PASSWORD), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(60)
    expected = ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())

    def shown() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", cluster.admins[BY_PASSWORD]), timeout=60) as wire,
            cluster.tls().wrap_socket(wire, server_hostname="localhost") as secured,
        ):
            return secured.getpeercert(True) or b""

    eventually(lambda: shown() == expected, what="the renewed certificate is shown")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (f"{MAP}PLAINTEXT\n", "is set, but listener.security.protocol.map has no protocol for ADMIN"),
        (f"{MAP}SSL\nlistener.name.admin.ssl.keystore.location=/no/such.pem\n", "/no/such.pem"),
        (f"{MAP}SASL_SSL\nlistener.name.admin.sasl.enabled.mechanisms=\n", "sasl.enabled.mechanisms is empty"),
        (f"{MAP}SSL\nlisteners=ADMIN://127.0.0.1:0\ninter.broker.listener.name=ADMIN\n", "choose another"),
    ],
)
def test_what_cannot_be_guarded_as_it_is_to_be_does_not_start(tmp_path: Path, lines: str, words: str) -> None:
    guarded = Guarded(tmp_path)
    file = tmp_path / "broker-0.properties"
    file.write_text(file.read_text() + lines)
    guarded.coordinator.start()
    broker = guarded.brokers[0]
    broker.start()
    try:
        assert broker.wait() != 0
        assert words in broker.output()
        assert "Traceback" not in broker.output()
    finally:
        guarded.stop()
