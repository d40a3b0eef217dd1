"""What stands in the way of a migration to KRaft, and what does not."""

from __future__ import annotations

import json
from functools import partial

import pytest
from test_zk_check import NOW_MS, Tree, healthy

from barnabas.security.sasl.scram_credential import MECHANISMS, ScramCredential
from barnabas.zk.inspection.check.cluster import read_cluster
from barnabas.zk.inspection.migration import migration_state, obstacles
from barnabas.zk.kafka.znode_json import ZNodeError

MIGRATION = {
    "version": 0,
    "kraft_controller_id": 3000,
    "kraft_controller_epoch": 4,
    "kraft_metadata_offset": -1,
    "kraft_metadata_epoch": -1,
}


def found(tree: Tree, **properties: str) -> list[str]:
    told = {key.replace("_", "."): value for key, value in properties.items()}
    return [finding.rule for finding in obstacles(read_cluster(tree.image(), NOW_MS), told)]


def configured(key: str, value: str) -> dict[str, object]:
    return {"version": 1, "config": {key: value}}


def test_nothing_stands_in_a_healthy_clusters_way() -> None:
    assert found(healthy()) == []
    assert found(healthy(), inter_broker_protocol_version="3.9", log_dirs="/a,/b") == []


@pytest.mark.parametrize(
    "data", [None, b"", b"null", b"[]", b'{"version":0}', json.dumps({**MIGRATION, "version": 1}).encode()]
)
def test_a_mark_that_cannot_be_read_stops_the_controllers_for_ever(data: bytes | None) -> None:
    tree = healthy()
    tree.put("/migration", data)
    assert found(tree) == ["migration-malformed"]
    with pytest.raises(ZNodeError):
        migration_state(data)


def test_a_mark_that_an_earlier_migration_left_has_new_controllers_wipe_the_metadata() -> None:
    tree = healthy()
    tree.put("/migration", MIGRATION)
    assert "migration-left-over" not in found(tree)
    tree.put("/migration", {**MIGRATION, "kraft_metadata_offset": 712})
    assert "migration-left-over" in found(tree)


def test_epochs_beyond_zookeepers_are_told_before_a_rollback() -> None:
    tree = healthy()
    epoch = int(tree.data["/controller_epoch"] or b"")
    tree.put("/migration", {**MIGRATION, "kraft_controller_epoch": epoch})
    assert found(tree) == []
    tree.put("/migration", {**MIGRATION, "kraft_controller_epoch": epoch + 1})
    assert found(tree) == ["kraft-epoch-ahead"]
    tree = healthy()
    state = next(path for path in tree.data if path.endswith("/state"))
    tree.change(state, controller_epoch=epoch + 1)
    assert found(tree) == ["partition-epochs-ahead"]
    tree = healthy()
    tree.drop("/controller_epoch")
    assert found(tree) == ["controller-epoch-missing"]


def test_a_kraft_controller_that_has_the_cluster_is_told() -> None:
    tree = healthy()
    tree.change("/controller", kraftControllerEpoch=1)
    assert found(tree) == ["migration-under-way"]


def test_a_broker_that_holds_replicas_and_is_away_is_waited_for_for_ever() -> None:
    tree = healthy()
    gone = next(path for path in tree.data if path.startswith("/brokers/ids/"))
    tree.drop(gone)
    assert found(tree) == ["broker-missing"]


def test_what_kraft_cannot_hold_or_would_not_take_along() -> None:
    topic = "/brokers/topics/t"
    for change, rule in (
        (lambda tree: tree.change(topic, topic_id=None), "topic-without-id"),
        (lambda tree: tree.put("/admin/delete_topics/t"), "deletion-pending"),
        (lambda tree: tree.change(topic, adding_replicas={"0": [2]}), "reassignment-pending"),
        (lambda tree: tree.drop(f"{topic}/partitions/0"), "partition-without-state"),
        (lambda tree: tree.put("/cluster/id", {"version": "1", "id": "mine"}), "cluster-id"),
        (lambda tree: tree.put("/cluster/id", b"?"), "cluster-id"),
        *(
            (partial(Tree.put, path=f"/config/{entity}", value=configured(key, value)), rule)
            for entity in ("users/eve", "clients/c", "ips/10.0.0.1", "users/eve/clients/c", "users/<default>")
            for key, value, rule in (
                ("producer_byte_rate", "much", "quota-no-number"),
                ("SCRAM-SHA-256", "salt=..", "credential-unreadable"),
            )
        ),
        (
            lambda tree: tree.put(
                "/config/brokers/0", {"version": 1, "config": {"a.password": "encryptedPassword:x,iv:y"}}
            ),
            "enciphered-password",
        ),
        (lambda tree: tree.put("/feature", {"version": 1, "status": 1, "features": {}}), "protocol-version"),
    ):
        tree = healthy()
        change(tree)
        assert found(tree) == [rule]
    tree = healthy()
    credential = ScramCredential.of_password(MECHANISMS["SCRAM-SHA-256"], "secret", b"salt", 4096).encode()
    tree.put("/config/users/ann", configured("SCRAM-SHA-256", credential))
    tree.put("/config/users/ann/clients/c", configured("producer_byte_rate", "1.5"))
    assert found(tree) == []


def test_ids_that_kafka_gave_to_brokers_are_told() -> None:
    """``/brokers/seqid`` is set once for each, and what it counts begins above `reserved.broker.max.id`."""
    tree = healthy()
    tree.versions["/brokers/seqid"] = 1
    assert found(tree) == []
    tree.put("/brokers/ids/1001", tree.data["/brokers/ids/0"], owner=tree.owners["/brokers/ids/0"])
    assert found(tree) == ["generated-broker-id"]
    tree.versions["/brokers/seqid"] = 0
    assert found(tree) == [], "an operator may call a broker so"


def test_a_file_that_brokers_would_not_start_with_is_told() -> None:
    tree = healthy()
    assert found(tree, inter_broker_protocol_version="3.3") == ["protocol-version"]
    assert found(tree, inter_broker_protocol_version="nine") == ["protocol-version"]
    assert found(tree, inter_broker_protocol_version="3.6", log_dirs="/a,/b") == ["protocol-version"]
    assert found(tree, controller_quorum_voters="3000@h:1,0@h:2") == ["controller-is-broker"]
    enabled = {"zookeeper_metadata_migration_enable": "true"}
    assert found(tree, **enabled) == ["setting-missing"] * 3
    whole = {"controller_quorum_voters": "3000@h:1", "controller_listener_names": "CONTROLLER", "broker_id": "0"}
    assert found(tree, **enabled, **whole) == []
