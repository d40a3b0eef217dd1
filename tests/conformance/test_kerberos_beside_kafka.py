"""GSSAPI with a Kerberos realm of the test's own: both clients log in to a broker of either kind.

`make kerberos`; it wants krb5-kdc, krb5-admin-server and the Python package gssapi (libkrb5-dev to build it).
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apache
import pytest
from aiokafka import AIOKafkaProducer
from cluster import BARNABAS, until
from kerberos_realm import MARKS, MODULE, REALM, Realm, kerberos_realm

import barnabas.client
from barnabas.client import blocking
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.login import login_of
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.metadata import MetadataRequest

pytestmark = MARKS
SESSION_MS = 3_000
SERVICE, USER = f"kafka/localhost@{REALM}", f"alice@{REALM}"
_MODULE = f"{MODULE} useKeyTab=true storeKey=true"


@pytest.fixture
def centre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    """A realm whose directory has the key tabs ``kafka`` and ``alice``."""
    with kerberos_realm(tmp_path, monkeypatch) as found:
        found.add("kafka/localhost", "kafka")
        found.add("alice", "alice")
        yield found


@pytest.fixture
def realm(centre: Realm) -> Path:
    return centre.directory


def test_clients_and_brokers_of_both_kinds_log_in_to_both(realm: Path) -> None:
    plaintext, sasl = ({broker: apache.free_port() for broker in (0, 1)} for _ in range(2))
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "min.insync.replicas": "2",
        "connections.max.reauth.ms": str(SESSION_MS),
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
            _goes_round(realm, client, settings, sasl)
            for broker, port in sasl.items():
                with BlockingConnection("localhost", port, "kerberos", login=login_of(settings)) as asking:
                    assert len(asking.send(MetadataRequest(topics=[]), 12).brokers) == 2
                at = ("--bootstrap-server", f"localhost:{port}", "--command-config", str(client))
                done = apache.tool("kafka-broker-api-versions", *at)
                assert f"id: {broker}" in done.stdout, done.stderr
                nobody = login_of({**settings, "sasl.kerberos.service.name": "another"})
                with pytest.raises(
                    KafkaError, match="GSSAPI could not begin: Kerberos, towards another@localhost by alice"
                ):
                    BlockingConnection("localhost", port, "kerberos", login=nobody)
            with ExitStack() as open_connections:
                asking_both = [
                    open_connections.enter_context(
                        BlockingConnection("localhost", port, "kerberos", login=login_of(settings))
                    )
                    for port in sasl.values()
                ]
                begun = time.monotonic()
                while time.monotonic() < begun + 3 * SESSION_MS / 1000:
                    for asking in asking_both:
                        assert len(asking.send(MetadataRequest(topics=[]), 12).brokers) == 2
            assert "its session has ended" not in (realm / "ours.log").read_text()
        finally:
            process.terminate()
            process.wait(30)


def _goes_round(realm: Path, client: Path, settings: dict[str, str], sasl: dict[int, int]) -> None:
    """Records that both brokers have, each by each client that is there, through the broker that it was told of."""
    at = {broker: f"localhost:{port}" for broker, port in sasl.items()}
    ours = ("--command-config", str(client))
    made = command("topic", "create", "t", "--partitions", "2", "--replication-factor", "2", "-b", at[1], *ours)
    assert made.returncode == 0, made.stderr
    subprocess.run(["kinit", "-k", "-t", realm / "alice", USER], check=True, capture_output=True, timeout=60)
    sent = []
    for broker, address in at.items():
        with blocking.connect(address, config=settings) as connected, connected.producer() as producer:
            producer.send("t", b"blocking %d" % broker)
        assert command("produce", "-t", "t", "-b", address, *ours, text=f"command {broker}\n").returncode == 0
        asyncio.run(_by_aiokafka(address, f"aiokafka {broker}"))
        sent += [f"{who} {broker}" for who in ("blocking", "command", "aiokafka")]
    for address in at.values():
        read = command("consume", "-t", "t", "-o", "start", "-e", "-b", address, *ours)
        assert sorted(read.stdout.split("\n")[:-1]) == sorted(sent), read.stderr
        tool = apache.tool(
            "kafka-console-consumer",
            *("--bootstrap-server", address, "--topic", "t", "--from-beginning", "--consumer.config", str(client)),
            *("--max-messages", str(len(sent)), "--timeout-ms", "30000"),
        )
        assert sorted(tool.stdout.split("\n")[:-1]) == sorted(sent), tool.stderr


def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BARNABAS, *words], input=text, capture_output=True, text=True, timeout=60, check=False)


async def _by_aiokafka(address: str, value: str) -> None:
    """It goes by the ticket cache."""
    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        acks="all",
    )
    await producer.start()
    try:
        await producer.send_and_wait("t", value.encode())
    finally:
        await producer.stop()


@pytest.fixture
def testing_config(realm: Path) -> dict[str, str]:
    """Of `barnabas.testing`: the brokers are named by their address, and so is their key. alice has her ticket."""
    service = f"kafka/127.0.0.1@{REALM}"
    for words in (f"addprinc -randkey {service}", f"ktadd -k {realm / 'brokers'} {service}"):
        subprocess.run(["kadmin.local", "-q", words], check=True, capture_output=True, timeout=60)
    subprocess.run(["kinit", "-k", "-t", realm / "alice", USER], check=True, capture_output=True, timeout=60)
    jaas = f'{_MODULE} keyTab="{realm / "brokers"}" principal="{service}";'
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.clients.gssapi.sasl.jaas.config": jaas,
    }


def test_a_centre_that_does_not_answer_holds_nobody_else_up(centre: Realm, testing_config: dict[str, str]) -> None:
    """Who logs in to a broker by asyncio, as brokers do: the loop is free while the centre is asked for a ticket."""

    async def story(properties: dict[str, str]) -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", centre.port)) as silent:
            async with barnabas.client.connect(config=properties) as client, client.producer() as producer:
                asking = loop.create_task(producer.send("t", b""))
                asked, _ = await loop.run_in_executor(None, silent.accept)
                for _ in range(100):
                    await asyncio.sleep(0)
                    assert not asking.done()
                asking.cancel()
                asked.close()

    with KafkaCluster(1, users=["alice"], config=testing_config) as cluster:
        centre.stop()
        asyncio.run(asyncio.wait_for(story(cluster.user("alice").properties("GSSAPI")), 60))


def test_a_user_of_a_tests_cluster_comes_in_by_her_ticket(testing_config: dict[str, str]) -> None:
    with KafkaCluster(1, users=["alice"], config=testing_config) as cluster:
        cluster.create_topic("t", replication_factor=1)
        alice = cluster.user("alice")
        alice.allow("topic:t", "write")
        with blocking.connect(config=alice.properties("GSSAPI")) as client:
            with client.producer() as producer:
                assert producer.send("t", b"hers").offset == 0
            alice.revoke("topic:t")
            with client.producer() as producer, pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
                producer.send("t", b"hers no more")
