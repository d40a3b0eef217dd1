"""``barnabas up --secure``: what it prints lets in who has it, and nobody else."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import apache
import pytest
from cluster import Cluster, barnabas
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.blocking import BlockingConnection
from barnabas.model.config import parse_properties
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.login import login_of
from barnabas.security.tls.settings import tls_settings


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("secure")
    up = barnabas("up", "-n", "2", "--secure", "--dir", str(directory), "--format", "json", timeout=180)
    assert up.returncode == 0, up.stderr
    try:
        yield Cluster(directory, json.loads(up.stdout))
    finally:
        assert barnabas("down", "--dir", str(directory)).returncode == 0


def run(cluster: Cluster, *words: str, text: str | None = None) -> str:
    done = barnabas(*words, "--dir", str(cluster.directory), text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = cluster.state["security"]
    return found


def librdkafka(cluster: Cluster) -> dict[str, str]:
    settings = parse_properties(Path(files(cluster)["librdkafka"]).read_text())
    return {**settings, "bootstrap.servers": cluster.bootstrap, "log_level": "0"}


def test_commands_log_in_by_themselves(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "ours", "-p", "2", "-r", "2")
    run(cluster, "produce", "-t", "ours", text="one\ntwo\n")
    read = run(cluster, "consume", "-t", "ours", "-o", "start", "-e", "-f", "%v\\n")
    assert sorted(read.split()) == ["one", "two"]
    status = json.loads(run(cluster, "status", "--format", "json"))
    assert status["healthy"]
    assert status["security"] == files(cluster)
    users = json.loads(run(cluster, "user", "list", "--format", "json"))
    assert sorted(each["user"] for each in users) == ["admin", "client"]
    assert "brokers" in run(cluster, "zk", "ls", "/")


def test_the_view_and_the_metrics_are_told_to_who_may_describe_the_cluster(cluster: Cluster) -> None:
    assert cluster.state["view"].startswith("https://127.0.0.1:")
    assert "kafka_controller_kafkacontroller_activecontrollercount" in run(cluster, "metrics", "activecontrollercount")
    client = ("--command-config", files(cluster)["client"])
    refused = barnabas("metrics", "--dir", str(cluster.directory), *client)
    assert "User:client may not see this: it needs DESCRIBE on CLUSTER kafka-cluster." in refused.stderr
    context = ssl.create_default_context(cafile=files(cluster)["authority"])
    with pytest.raises(HTTPError) as nobody:
        urlopen(cluster.state["view"], context=context, timeout=60)
    assert nobody.value.code == 401


def test_measuring_and_spark_log_in_by_themselves(cluster: Cluster, tmp_path: Path) -> None:
    run(cluster, "topic", "create", "measured")
    assert json.loads(run(cluster, "perf", "latency", "-t", "measured", "-n", "2", "--format", "json"))["records"] == 2
    assert json.loads(run(cluster, "spark", "lag", "--all", "--format", "json")) == []
    made = run(cluster, "spark", "init", str(tmp_path / "project"))
    assert "transformations/orders.py" in made
    client = files(cluster)["client"]
    assert client in (tmp_path / "project/transformations/orders.py").read_text()
    assert f"-b {cluster.bootstrap} --command-config {client}" in (tmp_path / "project/README.md").read_text()


def test_the_client_uses_topics_and_administers_nothing(cluster: Cluster) -> None:
    client = ("--command-config", files(cluster)["client"])
    run(cluster, "topic", "create", "clients", *client)
    run(cluster, "produce", "-t", "clients", *client, text="hers\n")
    refused = barnabas("topic", "delete", "clients", "--dir", str(cluster.directory), *client)
    assert refused.returncode == 1
    assert "AUTHORIZATION" in refused.stderr
    refused = barnabas("acl", "list", "--dir", str(cluster.directory), *client)
    assert refused.returncode == 1
    assert "AUTHORIZATION" in refused.stderr


def test_librdkafka_works_by_what_is_written_for_it(cluster: Cluster) -> None:
    settings = librdkafka(cluster)
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("rdkafka", 1, 2)])["rdkafka"].result(60)
    producer = Producer(settings)
    producer.produce("rdkafka", b"value")
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rdkafka"])
    try:
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
        assert record.value() == b"value"
    finally:
        consumer.close()
    with pytest.raises(KafkaException):
        AdminClient({**settings, "sasl.password": "guessed"}).list_topics(timeout=3)


@pytest.mark.apache
def test_kafkas_own_tools_work_by_what_is_written_for_them(cluster: Cluster) -> None:
    def tool(name: str, flag: str, user: str, *words: str, text: str = "") -> str:
        words = ("--bootstrap-server", cluster.bootstrap, flag, files(cluster)[user], *words)
        done = subprocess.run(
            apache.tool_command(name, *words), input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    tool("kafka-topics", "--command-config", "client", "--create", "--topic", "java")
    tool("kafka-console-producer", "--producer.config", "client", "--topic", "java", text="from java\n")
    read = ("--topic", "java", "--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    assert tool("kafka-console-consumer", "--consumer.config", "client", *read) == "from java\n"
    assert "'client'" in tool("kafka-configs", "--command-config", "admin", "--describe", "--entity-type", "users")


def test_strangers_are_let_in_nowhere(cluster: Cluster) -> None:
    state = json.loads((cluster.directory / "cluster.json").read_text())
    authority = {"ssl.truststore.location": files(cluster)["authority"], "ssl.truststore.type": "PEM"}
    tls = tls_settings(authority).client_context()
    broker = state["brokers"][0]
    for port in (broker["port"], broker["broker_port"]):
        with pytest.raises(OSError):
            BlockingConnection("127.0.0.1", port, request_timeout_ms=10_000)
    with pytest.raises(OSError):  # TLS without the brokers' certificate
        BlockingConnection("127.0.0.1", broker["broker_port"], request_timeout_ms=10_000, tls=tls)
    settings = parse_properties(Path(files(cluster)["client"]).read_text())
    wrong = login_of(
        {**settings, "sasl.jaas.config": settings["sasl.jaas.config"].replace('password="', 'password="x')}
    )
    with pytest.raises(KafkaError):
        BlockingConnection("127.0.0.1", broker["port"], tls=tls, login=wrong)
    coordinator = int(state["zookeeper"].rpartition(":")[2])
    for wrapped in (False, True):
        with socket.create_connection(("127.0.0.1", coordinator), timeout=30) as plain:
            try:
                connection = tls.wrap_socket(plain, server_hostname="127.0.0.1") if wrapped else plain
                connection.sendall(b"ruok\r\n\r\n")
                assert connection.recv(100) == b""
            except (ConnectionError, ssl.SSLError):
                pass


def test_keys_and_passwords_are_their_owners_alone(cluster: Cluster) -> None:
    directory = Path(files(cluster)["admin"]).parent
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in directory.iterdir()} == {0o600}


def test_what_is_changed_stays_changed_over_a_restart(tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path))
    up = barnabas("up", "-n", "1", "--secure", *place)
    try:
        assert up.returncode == 0, up.stderr
        client, admin = (
            parse_properties((tmp_path / f"security/{user}.properties").read_text()) for user in ("client", "admin")
        )
        assert client["sasl.jaas.config"] in up.stdout, "the client's configuration is shown"
        assert admin["sasl.jaas.config"] not in up.stdout, "the administrator's is not"
        assert barnabas("user", "delete", "client", *place).returncode == 0
        assert barnabas("down", *place).returncode == 0
        assert barnabas("up", *place).returncode == 0
        users = barnabas("user", "list", "--format", "json", *place)
        assert [each["user"] for each in json.loads(users.stdout)] == ["admin"]
    finally:
        barnabas("down", "--kill", *place)


def test_a_secured_cluster_goes_on_where_its_directory_was_moved_to(tmp_path: Path) -> None:
    before, place = tmp_path / "before", tmp_path / "moved"
    assert barnabas("up", "-n", "1", "--secure", "--dir", str(before), timeout=180).returncode == 0
    assert barnabas("down", "--dir", str(before)).returncode == 0
    before.rename(place)
    up = barnabas("up", "--dir", str(place), "--format", "json", timeout=180)
    try:
        assert up.returncode == 0, up.stderr
        moved = Cluster(place, json.loads(up.stdout))
        run(moved, "topic", "create", "t")
        with_librdkafka = AdminClient(librdkafka(moved)).list_topics(timeout=20)
        assert "t" in with_librdkafka.topics
    finally:
        assert barnabas("down", "--dir", str(place)).returncode == 0


def test_an_open_cluster_is_not_secured_afterwards(tmp_path: Path) -> None:
    open_state = {"zookeeper": "", "coordinator": None, "brokers": [{"id": 0}], "base_port": None, "config": {}}
    (tmp_path / "cluster.json").write_text(json.dumps(open_state))
    done = barnabas("up", "--secure", "--dir", str(tmp_path))
    assert done.returncode == 1
    assert "was created without --secure" in done.stderr
    assert sorted(os.listdir(tmp_path)) == [".lock", "cluster.json"]
