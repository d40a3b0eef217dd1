"""A test's cluster as the view shows it: what its file holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cluster import until
from confluent_kafka.admin import AdminClient

from barnabas.testing import KafkaCluster


def saved(cluster: KafkaCluster, file: Path) -> list[list[Any]]:
    """The changes in the file: when, the fact, and its value from then on."""
    cluster.save_view(file)
    (found,) = re.findall(r'<script type="application/json" id="history">(.*?)</script>', file.read_text(), re.S)
    history = json.loads(found.replace("<\\/", "</"))
    assert str(cluster.seed) in history["made_by"]
    changes: list[list[Any]] = history["changes"]
    assert [ms for ms, _, _ in changes] == sorted(ms for ms, _, _ in changes)
    return changes


def of(changes: list[list[Any]], fact: str) -> list[Any]:
    return [value for _, name, value in changes if name == fact]


def test_a_saved_view_tells_an_election_and_what_was_deleted(tmp_path: Path) -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("t", partitions=1)
        cluster.create_topic("gone", partitions=1)
        partition = cluster.partition("t", 0)
        killed = partition.leader
        killed.kill()
        until(lambda: partition.leader.id != killed.id, "another one leads")
        successor = partition.leader.id
        killed.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.delete_topics(["gone"])["gone"].result(20)
        cluster.recover()
        until(lambda: of(saved(cluster, tmp_path / "view.html"), "partition/gone-0")[-1] is None, "it is deleted")
        changes = saved(cluster, tmp_path / "view.html")
        states = of(changes, "partition/t-0")
        assert [states[0]["leader"], states[0]["leader_epoch"], sorted(states[0]["isr"])] == [killed.id, 0, [0, 1, 2]]
        assert [state["leader"] for state in states if killed.id not in state["isr"]][-1] == successor
        assert sorted(states[-1]["isr"]) == sorted(states[-1]["replicas"]) == [0, 1, 2]
        assert [each["up"] for each in of(changes, f"broker/{killed.id}")] == [True, False, True]
        controller = cluster.controller
        assert of(changes, "controller")[-1]["id"] == controller.id
        lines = of(changes, "")
        assert f"broker-{killed.id}: is killed" in lines
        assert any("successfully elected as the controller" in line for line in lines)


def test_a_saved_view_begins_with_what_a_snapshot_had(tmp_path: Path) -> None:
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t", partitions=2)
        partition = cluster.partition("t", 1)
        partition.wait(leader=0)
        coordinator = cluster.host._coordinator
        assert coordinator is not None
        cluster.on_loop(coordinator._save_snapshot)
        changes = saved(cluster, tmp_path / "view.html")
        assert [state["leader"] for state in of(changes, "partition/t-1")] == [0]
        assert of(changes, "broker/0")[0]["up"]
