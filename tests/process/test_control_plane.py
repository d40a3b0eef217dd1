"""The controller speaks to brokers on a listener of its own (``control.plane.listener.name``, KIP-291)."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import Authority
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Cluster, eventually, free_port

from barnabas.client.asking import RequestTimedOut
from barnabas.client.blocking import BlockingConnection
from barnabas.wire.messages.metadata import MetadataRequest


class ControlledCluster(Cluster):
    """Two brokers that everybody reaches by PLAINTEXT, and the controller on CONTROL, behind certificates. The store
    there of broker 1 is `theirs` where there is one."""

    def __init__(self, directory: Path, theirs: Authority | None = None) -> None:
        authority = Authority(directory / "authority")
        values = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:SSL",
            "control.plane.listener.name": "CONTROL",
            "ssl.truststore.location": str(authority.trust_store),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.type": "PEM",
            "listener.name.control.ssl.client.auth": "required",
        }
        super().__init__(directory, 2, values)
        self.control = [free_port() for _ in self.ports]
        for broker, (port, control) in enumerate(zip(self.ports, self.control, strict=True)):
            store = (theirs if theirs and broker else authority).issue("broker").key_store
            file = directory / f"broker-{broker}.properties"
            plain = f"listeners=PLAINTEXT://127.0.0.1:{port}"
            text = file.read_text().replace(plain, f"{plain},CONTROL://127.0.0.1:{control}")
            file.write_text(f"{text}listener.name.control.ssl.keystore.location={store}\n")

    def admin(self, broker: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[broker]}", "log_level": 0})


def connections_to(port: int) -> int:
    """How many are open on this machine."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


def test_brokers_hear_the_controller_on_its_own_listener(tmp_path: Path) -> None:
    with ControlledCluster(tmp_path) as cluster:
        admin = cluster.admin(0)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(60)
        eventually(
            lambda: (
                [len(each.isrs) for each in admin.list_topics("t", timeout=5).topics["t"].partitions.values()] == [2, 2]
            ),
            what="both are in sync",
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(20):
            producer.produce("t", b"record", partition=number % 2)
        assert producer.flush(60) == 0
        controller = admin.list_topics(timeout=5).controller_id
        assert connections_to(cluster.control[1 - controller]) == 1  # the controller's alone


def test_who_is_not_believed_on_the_controllers_listener_hears_nothing(tmp_path: Path) -> None:
    """Whatever the other listener would let through."""
    cluster = ControlledCluster(tmp_path, Authority(tmp_path / "other", "other"))
    try:
        cluster.coordinator.start()
        cluster.brokers[0].start()
        eventually(lambda: cluster.admin(0).list_topics(timeout=5).controller_id == 0, what="broker 0 is controller")
        cluster.brokers[1].start()
        eventually(lambda: "certificate verify failed" in cluster.brokers[0].output(), what="broker 1 is not believed")
        eventually(lambda: len(cluster.admin(0).list_topics(timeout=5).brokers) == 2, what="clients are told of both")
        with BlockingConnection("127.0.0.1", cluster.ports[1]) as asking, pytest.raises(RequestTimedOut):
            asking.send(MetadataRequest(topics=None), 4, timeout_ms=2_000)  # it waits to be told
    finally:
        cluster.stop()
