"""Brokers of both kinds log in to a ZooKeeper that wants Kerberos, set up as for Kafka (``make kerberos``)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apache
import pytest
from cluster import BARNABAS, until
from kerberos_realm import MARKS, REALM, Realm, kerberized_zookeeper, kerberos_realm

from barnabas.model.config import broker_config
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.protocol.data import ACL, READ_ACL_UNSAFE, ZkPermission

pytestmark = MARKS
KAFKA = "kafka/localhost"
SESSION = {"zookeeper.session.timeout.ms": "6000", "zookeeper.set.acl": "true"}


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    with kerberos_realm(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def options(realm: Realm) -> str:
    """What both kinds of broker are told by ``KAFKA_OPTS``."""
    return told(realm, "kafka", realm.by_key(KAFKA, realm.add(KAFKA, "kafka")))


def told(realm: Realm, name: str, module: str) -> str:
    file = realm.directory / f"{name}.jaas"
    file.write_text(f"Client {{ {module} }};\n")
    return f"-Djava.security.auth.login.config={file}"


@contextmanager
def broker(directory: Path, options: str, **values: str) -> Iterator[subprocess.Popen[bytes]]:
    properties = directory / "ours.properties"
    said = {"broker.id": "1", "log.dirs": str(directory / "logs"), **values}
    properties.write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    with (directory / "ours.log").open("wb") as log:
        process = subprocess.Popen(
            [*BARNABAS, "broker", str(properties)], stdout=log, stderr=log, env={**os.environ, "KAFKA_OPTS": options}
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(60)


def acls_of(address: str, module: str, *paths: str) -> list[set[ACL]]:
    async def read() -> list[set[ACL]]:
        config = broker_config({"zookeeper.connect": address, "barnabas.zookeeper.sasl.jaas.config": module})
        client = client_of(real_runtime(), config, name="test")
        await client.start()
        try:
            return [set(await KafkaZkClient(client.runtime, client).get_acl(path)) for path in paths]
        finally:
            await client.close()

    return asyncio.run(read())


def test_brokers_of_both_kinds_keep_one_cluster_that_is_theirs_alone(realm: Realm, options: str) -> None:
    """Each reads and writes what the other made; and ours comes back after its session was over."""
    port = apache.free_port()
    with kerberized_zookeeper(realm) as address:
        kafka = apache.ApacheCluster(
            realm.directory / "apache", 1, zookeeper=address, config=SESSION, first_id=0, jvm=(options,)
        )
        ours = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "zookeeper.connect": address, **SESSION}
        with kafka, broker(realm.directory, options, **ours) as process:

            def seen(by: int) -> set[int]:
                try:
                    return set(apache.cluster_view("127.0.0.1", by)[0])
                except OSError:
                    return set()

            until(lambda: seen(port) == {0, 1} == seen(kafka.ports[0]), "both kinds are known to both")
            for bootstrap, topic in ((kafka.ports[0], "theirs"), (port, "ours")):
                at = ("--bootstrap-server", f"127.0.0.1:{bootstrap}", "--topic", topic)
                made = apache.tool("kafka-topics", "--create", *at, "--replication-factor", "2")
                assert made.returncode == 0, made.stderr
            broker_alone = ACL(ZkPermission.ALL, "sasl", f"{KAFKA}@{REALM}")
            module = realm.by_key(KAFKA, realm.directory / "kafka")
            paths = ("/brokers/topics/theirs", "/brokers/topics/ours", "/brokers/ids/0", "/brokers/ids/1")
            for acl in acls_of(address, module, *paths):
                assert acl == {broker_alone, *READ_ACL_UNSAFE}
            assert acls_of(address, module, "/config/users") == [{broker_alone}]

            process.send_signal(signal.SIGSTOP)
            until(lambda: seen(kafka.ports[0]) == {0}, "our broker's session is over")
            process.send_signal(signal.SIGCONT)
            until(lambda: seen(port) == {0, 1} == seen(kafka.ports[0]), "it is registered again, by a new session")
            kafka.stop(0)
            until(lambda: seen(port) == {1}, "our broker leads the cluster alone")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unknown principal", "mallory@EXAMPLE.COM, key tab .*kafka: the file is not there, or has no key of"),
        ("no ticket", "ticket cache of the system: No Kerberos credentials available"),
        ("no module of ours", r"says for ZooKeeper a\.B: this broker logs in there by"),
    ],
)
def test_a_broker_that_cannot_log_in_ends_and_says_why(realm: Realm, options: str, kind: str, said: str) -> None:
    module = {
        "unknown principal": realm.by_key("mallory", realm.directory / "kafka"),
        "no ticket": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
        "no module of ours": "a.B required;",
    }[kind]
    wrong = told(realm, "wrong", module)
    with (
        kerberized_zookeeper(realm) as address,
        broker(
            realm.directory,
            wrong,
            listeners=f"PLAINTEXT://127.0.0.1:{apache.free_port()}",
            **{"zookeeper.connect": address, **SESSION},
        ) as process,
    ):
        assert process.wait(60) != 0
    log = (realm.directory / "ours.log").read_text()
    assert re.search(said, log), log


def test_commands_log_in_by_what_kafka_opts_says(realm: Realm, options: str) -> None:
    """As `zookeeper-shell` and `kafka-configs` of Apache Kafka."""

    def command(*words: str, opts: str = options) -> subprocess.CompletedProcess[str]:
        named = os.environ["KRB5_CONFIG"]  # as Java's programs are told, too
        environment = {**os.environ, "KAFKA_OPTS": f"{opts} -Djava.security.krb5.conf={named}"}
        if words[0] != "up":  # its brokers take nothing from KAFKA_OPTS
            del environment["KRB5_CONFIG"]
        return subprocess.run(
            [*BARNABAS, *words], capture_output=True, text=True, timeout=60, check=False, env=environment
        )

    with kerberized_zookeeper(realm) as address:
        made = command("zk", "create", "/hers", "x", "--acl", "auth::cdrwa", "-z", address)
        assert made.returncode == 0, made.stderr
        acl = command("zk", "stat", "/hers", "-z", address)
        assert f"sasl:{KAFKA}@{REALM}" in acl.stdout, acl.stderr
        refused = command("zk", "get", "/hers", "-z", address, opts="")
        assert refused.returncode == 1, refused.stdout
        assert "The server requires a login by SASL: give" in refused.stderr
        credential = ("--add-config", "SCRAM-SHA-256=[password=secret]")
        user = ("--entity-type", "users", "--entity-name", "bob")
        assert command("zk", "create", "-p", "/config/users", "-z", address).returncode == 0
        altered = command("kafka-configs", "--zookeeper", address, "--alter", *user, *credential)
        assert altered.returncode == 0, altered.stderr
        described = command("kafka-configs", "--zookeeper", address, "--describe", *user)
        assert "SCRAM-SHA-256=" in described.stdout, described.stderr
        wrong = told(realm, "wrong", realm.by_key("mallory", realm.directory / "kafka"))
        here = ("--dir", str(realm.directory / "cluster"))
        named = ("--config", f"java.security.auth.login.config={realm.directory / 'kafka.jaas'}")
        started = command("up", "-n", "1", *here, "--zookeeper", address, *named, "--config", "zookeeper.set.acl=true")
        assert started.returncode == 0, started.stderr
        try:
            listed = command("zk", "ls", "/brokers/ids", *here)
            assert listed.stdout == "0\n", listed.stderr
        finally:
            assert command("down", *here).returncode == 0
        for words in (("zk", "ls", "-z", address), ("kafka-configs", "--zookeeper", address, "--describe", *user)):
            done = command(*words, opts=wrong)
            assert done.returncode != 0
            assert "mallory@EXAMPLE.COM, key tab" in done.stderr + done.stdout
