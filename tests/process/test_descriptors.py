"""Strangers' connections: a broker keeps enough file descriptors for its files, and holds Kafka's limits."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Cluster, eventually

from barnabas.client.admin import Admin, ResourceType
from barnabas.model.config import AlterOperation
from barnabas.model.errors import KafkaError
from barnabas.testing import KafkaCluster

OPEN_FILES = 256
IDLE = 400


@pytest.fixture
def idle() -> Iterator[list[socket.socket]]:
    """Connections that the test has made; they are closed afterwards."""
    made: list[socket.socket] = []
    yield made
    for each in made:
        each.close()


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0))


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_idle_connections_take_no_file_from_the_log(tmp_path: Path, idle: list[socket.socket]) -> None:
    with Cluster(tmp_path, 1) as cluster:
        (broker,) = cluster.brokers
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        for _ in range(IDLE):
            with contextlib.suppress(ConnectionError):  # it may be closed before it is seen to be made
                idle.append(connect(cluster.ports[0]))
        eventually(lambda: sum(map(is_closed, idle)) > IDLE - OPEN_FILES, what="what is too many is closed")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        config = {"segment.bytes": "5000"}
        eventually(
            lambda: admin.create_topics([NewTopic("t", 4, 1, config=config)])["t"].exception(10) is None,
            what="a topic is made",
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1, "log_level": 0})
        refused: list[object] = []
        for number in range(100):
            producer.produce("t", b"x" * 1000, partition=number % 4, on_delivery=lambda e, _: e and refused.append(e))
            producer.poll(0)
        assert producer.flush(30) == 0
        assert refused == []
        assert len(list(tmp_path.glob("logs-0/t-*/*.log"))) > 16
        assert broker.running
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) <= OPEN_FILES
        said = broker.output()
        assert "is offline" not in said
        assert len(re.findall("closing the connection", said)) < 10
        assert re.search(r"this process may have \d+ files open", said)


def test_connections_beyond_the_limits_of_an_address_and_of_all_are_closed(
    tmp_path: Path, idle: list[socket.socket]
) -> None:
    config = {
        "max.connections": "14",
        "max.connections.per.ip": "5",
        "max.connections.per.ip.overrides": "127.0.0.1:10,127.0.0.3:0",
    }
    with Cluster(tmp_path, 1, config) as cluster:
        (port,) = cluster.ports
        nobody = connect(port, "127.0.0.3")
        eventually(lambda: is_closed(nobody), what="whose limit is 0 is closed")
        some = [connect(port, "127.0.0.2") for _ in range(6)]
        eventually(lambda: sum(map(is_closed, some)) == 1, what="the sixth of an address is closed")
        others = [connect(port, f"127.0.0.{each}") for each in (4, 5, 6) for _ in range(5)]
        idle += [nobody, *some, *others]
        eventually(lambda: 0 < sum(map(is_closed, others)) < 15, what="what is too many of all is closed")
        said = cluster.brokers[0].output()
        assert "its address has as many connections as max.connections.per.ip allows (0)" in said
        assert "there are as many connections as max.connections allows (14)" in said


def test_a_limit_that_nobody_understands_is_refused_at_the_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, {"max.connections.per.ip.overrides": "somewhere:many"})
    try:
        cluster.coordinator.start()
        cluster.brokers[0].start()
        assert cluster.brokers[0].wait(30) == 1
        assert "max.connections.per.ip.overrides has 'somewhere:many'" in cluster.brokers[0].output()
    finally:
        cluster.stop()


def test_limits_change_while_a_broker_runs_and_one_that_nobody_understands_keeps_nobody_out(
    idle: list[socket.socket],
) -> None:
    with KafkaCluster(1) as cluster:
        key = "max.connections.per.ip.overrides"
        port = cluster.host.ports[0]

        def change(value: str) -> None:
            cluster.run(
                Admin(cluster.client).alter_configs(ResourceType.BROKER, "", [(AlterOperation.SET, key, value)])
            )

        with pytest.raises(KafkaError, match="it takes ADDRESS:COUNT"):
            change("localhost:1")
        change("127.0.0.2:1")
        eventually(lambda: cluster.host._brokers[0].config.text(key) == "127.0.0.2:1", what="it is taken up")
        idle += [connect(port, "127.0.0.2") for _ in range(2)]
        eventually(lambda: sum(map(is_closed, idle)) == 1, what="the second of the address is closed")
        # As a broker of Apache Kafka takes it.
        broker = cluster.host._brokers[0]
        broker.config = broker.config.with_overrides({key: "localhost:0"})
        idle.append(connect(port))
        assert answers_api_versions(idle[-1])


def test_a_smaller_limit_is_held_to_at_once(idle: list[socket.socket]) -> None:
    """As Apache Kafka's ``closeExcessConnections`` does."""
    with KafkaCluster(1) as cluster:
        idle += [connect(cluster.host.ports[0]) for _ in range(10)]
        cluster.run(
            Admin(cluster.client).alter_configs(ResourceType.BROKER, "", [(AlterOperation.SET, "max.connections", "6")])
        )
        eventually(lambda: sum(map(is_closed, idle)) >= 5, what="those beyond the limit are closed")


def test_who_says_nothing_for_long_is_closed_with_what_it_did_not_read(
    tmp_path: Path, idle: list[socket.socket]
) -> None:
    """``connections.max.idle.ms``: whoever never spoke, or no more, or takes no answers; not who goes on asking."""
    with Cluster(tmp_path, 1, {"connections.max.idle.ms": "4000"}) as cluster:
        (port,) = cluster.ports
        silent, once, deaf, asking = (connect(port) for _ in range(4))
        idle += [silent, once, deaf, asking]
        assert answered(once)
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                deaf.send(API_VERSIONS * 1000)
        ended = select.poll()
        ended.register(deaf, select.POLLHUP | select.POLLERR)
        eventually(lambda: answered(asking) and is_closed(silent) and is_closed(once), what="the silent are closed")
        eventually(lambda: answered(asking) and ended.poll(0), what="who does not read is closed")
        assert answered(asking)


API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


def answered(connection: socket.socket) -> bool:
    connection.settimeout(10)
    connection.sendall(API_VERSIONS)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return len(connection.recv(size, socket.MSG_WAITALL)) == size > 0


def answers_api_versions(connection: socket.socket) -> bool:
    connection.settimeout(10)
    connection.sendall(API_VERSIONS)
    return connection.recv(4) != b""
