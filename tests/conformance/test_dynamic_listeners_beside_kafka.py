"""Listeners that come and go while a broker runs (KIP-226), the same words at a broker of ours and at Kafka's own."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apache
import pytest
from cluster import BARNABAS, barnabas, until
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

pytestmark = [pytest.mark.long(2), pytest.mark.apache]

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_carol="wonder";'
OWN: dict[str, str | None] = {
    "listener.name.extra.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.extra.plain.sasl.jaas.config": PLAIN,
}
PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:SASL_PLAINTEXT"
CONFIG = {
    "password.encoder.secret": "of this broker",
    # Once this lies in ZooKeeper, Kafka's broker changes no listener any more: it takes it for changed each time.
    **OWN,
    "offsets.topic.num.partitions": "1",
    "zookeeper.session.timeout.ms": "18000",
}


class Pair:
    """Two brokers of a kind; it is broker 0 whose listeners change. `ports` are those of PLAINTEXT."""

    def __init__(self, ports: list[int], zookeeper: str) -> None:
        self.ports = ports
        self.zookeeper = zookeeper
        self.extra = apache.free_port()
        self.home = f"PLAINTEXT://127.0.0.1:{ports[0]}"
        self.with_extra = f"{self.home},EXTRA://127.0.0.1:{self.extra}"

    def alter(self, changes: Mapping[str, str | None]) -> tuple[str, str]:
        """What broker 0 says to values of its own, None for one that is taken away: the error's name, and its text
        without what is of this run."""
        entries = [
            ConfigEntry(
                name,
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[0]}", "log_level": 0})
        (answer,) = admin.incremental_alter_configs([resource], request_timeout=20).values()
        try:
            answer.result(30)
        except KafkaException as error:
            text = error.args[0].str()
            for port in (*self.ports, self.extra):
                text = text.replace(str(port), "<port>")
            return error.args[0].name(), text
        return "NO_ERROR", ""

    def registered(self) -> list[str]:
        """The endpoints of broker 0 in ZooKeeper."""
        done = barnabas("zk", "get", "/brokers/ids/0", "--zookeeper", self.zookeeper)
        assert done.returncode == 0, done.stderr
        found: list[str] = json.loads(done.stdout)["endpoints"]
        return found

    def logs_in(self, password: str = "wonder") -> bool:
        client = AdminClient(
            {
                "bootstrap.servers": f"127.0.0.1:{self.extra}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "carol",
                "sasl.password": password,
                "log_level": 0,
            }
        )
        try:
            return 0 in client.list_topics(timeout=2).brokers
        except KafkaException:
            return False

    def told_by_the_other(self) -> str:
        """Where broker 1 says that broker 0 is."""
        brokers = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[1]}", "log_level": 0}).list_topics(
            timeout=5
        )
        return str(brokers.brokers[0].host)


class Ours(Pair):
    def __init__(self, directory: Path, config: Mapping[str, str | None]) -> None:
        super().__init__([apache.free_port(), apache.free_port()], f"127.0.0.1:{apache.free_port()}")
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._run("coordinator", "--port", self.zookeeper.partition(":")[2], "--dir", str(directory / "znodes"))
        for broker, port in enumerate(self.ports):
            values = {
                **config,
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": self.zookeeper,
                "log.dirs": str(directory / f"data-{broker}"),
            }
            file = directory / f"{broker}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            self._run("broker", str(file))
        until(lambda: all(_sees_two(port) for port in self.ports), "both brokers are known")

    def _run(self, *words: str) -> None:
        with self.log(words[-1]).open("ab") as log:
            self._processes[words[-1]] = subprocess.Popen([*BARNABAS, *words], stdout=log, stderr=log)

    def log(self, name: str = "0.properties") -> Path:
        return self._directory / f"{Path(name).name}.log"

    def restart(self) -> None:
        """Broker 0 is stopped, and started again."""
        file = str(self._directory / "0.properties")
        self._processes[file].terminate()
        self._processes[file].wait(60)
        self._run("broker", file)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextlib.contextmanager
def ours(directory: Path, config: Mapping[str, str | None] = CONFIG) -> Iterator[Ours]:
    with contextlib.closing(Ours(directory, config)) as pair:
        yield pair


def _sees_two(port: int) -> bool:
    try:
        return len(apache.cluster_view("127.0.0.1", port)[0]) == 2
    except OSError:
        return False


@contextlib.contextmanager
def apaches(directory: Path) -> Iterator[Pair]:
    with apache.ApacheCluster(directory, 2, config=CONFIG, heap="256m") as cluster:
        yield Pair(list(cluster.ports.values()), cluster.zookeeper)


def ended(connection: socket.socket) -> bool:
    connection.settimeout(15)  # before it is ended for not saying who it is
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def story(pair: Pair) -> list[tuple[str, str]]:
    """What is said to each change; what came of it is looked at here."""
    said: list[tuple[str, str]] = []

    def alter(changes: Mapping[str, str | None]) -> None:
        said.append(pair.alter(changes))
        assert said[-1][0] == "NO_ERROR", said[-1]

    def refused(changes: Mapping[str, str | None]) -> None:
        said.append(pair.alter(changes))
        assert said[-1][0] != "NO_ERROR", changes

    # A listener that nobody says a protocol of.
    refused({"listeners": pair.with_extra})
    added = {"listeners": pair.with_extra, "listener.security.protocol.map": PROTOCOLS}
    alter(added)
    until(pair.logs_in, "carol logs in at the new listener")
    assert not pair.logs_in("another password")
    until(lambda: len(pair.registered()) == 2, "it is registered")

    # What it has stays as it is. (Kafka looks where one of its own listener keys changes as well, ours always.)
    told_elsewhere = f"{pair.home},EXTRA://localhost:{pair.extra}"
    another = {"listener.name.extra.plain.sasl.jaas.config": PLAIN.replace("wonder", "land")}
    refused({**another, "advertised.listeners": told_elsewhere})
    refused({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"})
    refused({"listeners": f"EXTRA://127.0.0.1:{pair.extra}"})
    refused({"advertised.listeners": f"EXTRA://127.0.0.1:{pair.extra}"})
    refused({"advertised.listeners": f"{pair.home},NOWHERE://127.0.0.1:{pair.extra}"})
    refused({"listeners": f"{pair.home},EXTRA://127.0.0.1:{pair.ports[0]}"})
    assert pair.logs_in()

    # Where it is, others are told.
    alter({"advertised.listeners": f"PLAINTEXT://localhost:{pair.ports[0]}"})
    until(lambda: pair.registered() == [f"PLAINTEXT://localhost:{pair.ports[0]}"], "the new address is registered")
    until(lambda: pair.told_by_the_other() == "localhost", "the other broker is told of it")
    alter({"advertised.listeners": None})
    until(lambda: pair.told_by_the_other() == "127.0.0.1", "the other broker is told of the old one again")

    # Limits change, of one that is open.
    with socket.create_connection(("127.0.0.1", pair.extra)):
        alter({"listener.name.extra.max.connections": "1"})
        until(lambda: not pair.logs_in(), "one connection is one too many")
    alter({"listener.name.extra.max.connections": None})
    until(pair.logs_in, "carol logs in again")
    alter({"listener.name.extra.max.connection.creation.rate": "100"})
    alter({"listener.name.extra.max.connection.creation.rate": None})

    # It goes, and its connections with it.
    with socket.create_connection(("127.0.0.1", pair.extra)) as open_one:
        alter(dict.fromkeys(added))
        assert ended(open_one)
    until(lambda: len(pair.registered()) == 1, "it is not registered any more")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", pair.extra))
    return said


def test_listeners_come_and_go_as_at_apache_kafka(tmp_path: Path) -> None:
    apache.require()
    told: dict[str, Any] = {}
    for name, kind in (("ours", ours), ("apaches", apaches)):
        (tmp_path / name).mkdir()
        with kind(tmp_path / name) as pair:
            told[name] = story(pair)
    # The words differ; what is refused, and as what, does not.
    assert [each[0] for each in told["ours"]] == [each[0] for each in told["apaches"]]


def test_what_a_new_listener_needs_comes_with_it_and_a_restart_keeps_it(tmp_path: Path) -> None:
    without = {name: value for name, value in CONFIG.items() if name not in OWN}
    with ours(tmp_path, without) as pair:
        protocols = {"listener.security.protocol.map": PROTOCOLS}
        missing, text = pair.alter({"listeners": pair.with_extra, **protocols})
        assert missing == "INVALID_REQUEST"
        assert "sasl.jaas.config" in text or "GSSAPI" in text, text
        assert pair.alter({"listeners": pair.with_extra, **protocols, **OWN}) == ("NO_ERROR", "")
        until(pair.logs_in, "carol logs in at the new listener")
        stored = barnabas("zk", "get", "/config/brokers/0", "--zookeeper", pair.zookeeper).stdout
        assert "wonder" not in stored

        # An open listener keeps its users and its address: what said otherwise would promise what is not there.
        other = {"listener.name.extra.plain.sasl.jaas.config": PLAIN.replace("wonder", "land")}
        assert pair.alter(other)[0] == "INVALID_REQUEST"
        moved = pair.with_extra.replace(str(pair.extra), str(apache.free_port()))
        assert pair.alter({"listeners": moved})[0] == "INVALID_REQUEST"
        assert pair.alter({"sasl.enabled.mechanisms": "PLAIN"})[0] == "INVALID_REQUEST"

        pair.restart()
        until(pair.logs_in, "carol logs in after a restart")
        assert len(pair.registered()) == 2

        with socket.create_connection(("127.0.0.1", pair.extra)) as open_one:
            gone = ["listeners", *protocols, *OWN]
            assert pair.alter(dict.fromkeys(gone)) == ("NO_ERROR", "")
            assert ended(open_one)


def test_a_port_that_is_taken_is_tried_again_with_the_next_change(tmp_path: Path) -> None:
    with ours(tmp_path) as pair, socket.create_server(("127.0.0.1", pair.extra)) as other:
        added = {"listeners": pair.with_extra, "listener.security.protocol.map": PROTOCOLS}
        assert pair.alter(added) == ("NO_ERROR", "")
        until(lambda: "cannot listen on EXTRA" in pair.log().read_text(), "the broker says what is wrong")
        assert len(pair.registered()) == 1
        other.close()
        assert pair.alter({"log.cleaner.threads": "2"}) == ("NO_ERROR", "")
        until(pair.logs_in, "carol logs in")
