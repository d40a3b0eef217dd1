"""``kafka-configs --zookeeper``, before any broker runs: SCRAM users and stores' passwords, by Kafka's tool and ours.

They say the same of the same; and what the one wrote, a broker of the other kind starts with.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from certificates import Authority
from cluster import BARNABAS, until
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka_tool_output import CASES, Place, Said, normal
from kafka_tools import KafkaTools
from our_tools import OurTools

pytestmark = [pytest.mark.long(0), pytest.mark.apache]

MAIN = "kafka.admin.ConfigCommand"
COMPARED = 37
_BY_CHANCE = re.compile(r"(?<=[:=])[A-Za-z0-9+/]{16,}={0,2}(?=,|$)", re.MULTILINE)
"""Salts, keys and what is encrypted."""


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    apache.require()
    logging = tmp_path_factory.mktemp("log4j") / "log4j.properties"
    logging.write_text("log4j.rootLogger=OFF\n")
    tools = KafkaTools([f"-Dlog4j.configuration=file:{logging}"])
    yield tools
    tools.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[OurTools]:
    tools = OurTools()
    yield tools
    tools.close()


@contextlib.contextmanager
def coordinator(directory: Path) -> Iterator[str]:
    port = apache.free_port()
    command = [*BARNABAS, "coordinator", "--port", str(port), "--dir", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def told(said: Said, where: str) -> str:
    """Without what is by chance: entities have no order in ZooKeeper, and what is encrypted has none in Kafka."""
    text = _BY_CHANCE.sub("<by chance>", normal(said, Place([], "/no/such"))).replace(where, "<zookeeper>")
    lines = text.split("\n")
    entities = sorted(" ".join(sorted(re.split("[ ,=]", each))) for each in lines if each.startswith("Configs for "))
    return "\n".join([*entities, *(each for each in lines if not each.startswith("Configs for "))])


def test_both_tools_say_the_same_before_any_broker_runs(ours: OurTools, kafkas: KafkaTools, tmp_path: Path) -> None:
    lines = [each for each in (CASES / "by-zookeeper.txt").read_text().splitlines() if not each.startswith("#")]
    with coordinator(tmp_path / "here") as here, coordinator(tmp_path / "there") as there:
        different = []
        for line in lines:
            name, *_ = shlex.split(line)
            our = told(ours.call(name, *shlex.split(line.replace("{Z}", here))[1:]), here)
            their = told(kafkas.call(MAIN, *shlex.split(line.replace("{Z}", there))[1:]), there)
            if our != their:
                different.append(f"{line}\n--- ours\n{our}\n--- Kafka's\n{their}")
    assert not different, "\n\n".join(different)
    assert len(lines) == COMPARED


SECRET = 'p=,q"s'
STORE = "of the store"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def words(zookeeper: str) -> list[list[str]]:
    """What an operator says before the first broker starts: who logs in, and the key store's password."""
    password = f"listener.name.tls.ssl.keystore.password={STORE}"
    return [
        ["--zookeeper", zookeeper, "--alter", "--add-config", config, "--entity-type", kind, "--entity-name", name]
        for kind, name, config in (
            ("users", "carol", f"SCRAM-SHA-512=[password={SECRET}]"),
            ("brokers", "0", f"{password},password.encoder.secret=encoder,password.encoder.iterations=2048"),
        )
    ]


def broker_config(authority: Authority, plain: int, tls: int) -> dict[str, str]:
    """Nowhere in it stands the key store's password."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{tls}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.tls.ssl.keystore.location": str(authority.issue("broker").pkcs12(STORE)),
        "listener.name.tls.ssl.keystore.type": "PKCS12",
        "listener.name.tls.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.tls.scram-sha-512.sasl.jaas.config": SCRAM,
        "password.encoder.secret": "encoder",
        "zookeeper.session.timeout.ms": "18000",
    }


def logs_in(authority: Authority, port: int) -> bool:
    client = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.trust_store),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "carol",
            "sasl.password": SECRET,
            "log_level": 0,
        }
    )
    try:
        return 0 in client.list_topics(timeout=2).brokers
    except KafkaException:
        return False


def test_our_broker_starts_with_what_kafkas_tool_wrote(kafkas: KafkaTools, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    plain, tls = apache.free_port(), apache.free_port()
    with coordinator(tmp_path / "coordinator") as zookeeper:
        for each in words(zookeeper):
            said = kafkas.call(MAIN, *each)
            assert said.status == 0, said
        config = broker_config(authority, plain, tls) | {
            "broker.id": "0",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(tmp_path / "data"),
        }
        file = tmp_path / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        with (tmp_path / "broker.log").open("wb") as log:
            process = subprocess.Popen([*BARNABAS, "broker", str(file)], stdout=log, stderr=log)
        try:
            until(lambda: process.poll() is not None or logs_in(authority, tls), "carol logs in")
            assert process.poll() is None, (tmp_path / "broker.log").read_text()
        finally:
            process.kill()
            process.wait()


def test_kafkas_broker_starts_with_what_our_tool_wrote(ours: OurTools, tmp_path: Path) -> None:
    apache.require()
    authority = Authority(tmp_path / "authority")
    plain, tls = apache.free_port(), apache.free_port()
    with apache.zookeeper(tmp_path / "zookeeper") as zookeeper:
        for each in words(zookeeper):
            said = ours.call("kafka-configs", *each)
            assert said.status == 0, said
        config = broker_config(authority, plain, tls)
        broker = apache.ApacheCluster(tmp_path / "apache", 1, zookeeper=zookeeper, config=config, heap="256m")
        broker.ports[0] = plain
        with broker:
            until(lambda: logs_in(authority, tls), "carol logs in")
