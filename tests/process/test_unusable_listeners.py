"""A broker whose own listeners in ZooKeeper cannot be kept starts with those that brokers use, and opens no others."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache import free_port
from cluster import barnabas
from processes import Cluster, answers, eventually

PROTOCOLS = "INTERNAL:PLAINTEXT,EXTRA:PLAINTEXT"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One broker, which does not run yet, with another listener beside that of brokers."""
    made = Cluster(tmp_path, 1)
    file = tmp_path / "broker-0.properties"
    own = {
        "listeners": f"internal://127.0.0.1:{made.ports[0]},EXTRA://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": PROTOCOLS,
        "inter.broker.listener.name": "INTERNAL",
    }
    file.write_text(file.read_text() + "".join(f"{name}={value}\n" for name, value in own.items()))
    try:
        made.coordinator.start()
        eventually(lambda: answers(made.zookeeper_port))
        yield made
    finally:
        made.stop()


def opens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def say_in_zookeeper(cluster: Cluster, values: dict[str, str]) -> None:
    data = json.dumps({"version": 1, "config": values})
    for path, text in (("/config", ""), ("/config/brokers", ""), ("/config/brokers/0", data)):
        done = barnabas("zk", "create", path, text, "-z", f"127.0.0.1:{cluster.zookeeper_port}")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "values",
    [
        {"listeners": "nonsense"},
        {"listeners": "EXTRA://127.0.0.1:1"},
        {"advertised.listeners": "NOBODY://127.0.0.1:1"},
        {"listener.security.protocol.map": "INTERNAL:NONE"},
    ],
    ids=str,
)
def test_it_starts_with_the_listeners_of_brokers(cluster: Cluster, values: dict[str, str]) -> None:
    say_in_zookeeper(cluster, values)
    (broker,), (internal,), extra = cluster.brokers, cluster.ports, free_port()
    broker.start()
    eventually(lambda: not broker.running or "started in cluster" in broker.output())
    assert broker.running, broker.output()
    assert "only the listeners between brokers are opened" in broker.output()
    assert f", at INTERNAL://127.0.0.1:{internal};" in broker.output(), "the other one is closed"
    right = f"INTERNAL://127.0.0.1:{internal},EXTRA://127.0.0.1:{extra}"
    mended = f"listeners=[{right}],advertised.listeners=[{right}],listener.security.protocol.map=[{PROTOCOLS}]"
    eventually(cluster.ready)
    done = barnabas(
        *("kafka-configs", "--bootstrap-server", cluster.bootstrap, "--alter"),
        *("--entity-type", "brokers", "--entity-name", "0", "--add-config", mended),
    )
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: opens(extra)), "what is set right is opened at once"
