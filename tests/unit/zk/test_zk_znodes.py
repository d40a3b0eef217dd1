"""Znodes against what a real Kafka 3.9.1 cluster wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.zk.kafka.config_znodes import ConfigEntityChangeNotificationSequenceZNode, ConfigEntityZNode
from barnabas.zk.kafka.security_znodes import AclChangeZNode, AclEntry, ResourcePattern, ResourceZNode
from barnabas.zk.kafka.znode_json import ZNodeError, desanitize, sanitize, sequence_number
from barnabas.zk.kafka.znodes import (
    PERSISTENT_ZK_PATHS,
    BrokerIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    Features,
    FeatureZNode,
    IsrChangeNotificationSequenceZNode,
    LeaderIsrAndControllerEpoch,
    LogDirEventNotificationSequenceZNode,
    PreferredReplicaElectionZNode,
    ProducerIdBlockZNode,
    ProducerIdsBlock,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)

T1_0 = TopicPartition("t1", 0)


def same_json(ours: bytes, kafkas: str) -> None:
    assert json.loads(ours) == json.loads(kafkas)
    assert b" " not in ours
    assert not ours.endswith(b"\n")


def test_the_controller_is_written_and_read_as_kafka_does() -> None:
    kafkas = '{"version":2,"brokerid":1,"timestamp":"1795228582264","kraftControllerEpoch":-1}'
    same_json(ControllerZNode.encode(1, 1795228582264), kafkas)
    read = ControllerZNode.decode(kafkas.encode(), 7)
    assert (read.broker_id, read.kraft_epoch, read.zk_version) == (1, -1, 7)
    assert ControllerZNode.decode(b'{"version":1,"brokerid":3,"timestamp":"1"}').kraft_epoch is None


def test_the_controller_epoch_is_a_bare_number() -> None:
    assert ControllerEpochZNode.encode(12) == b"12"
    assert ControllerEpochZNode.decode(b"12") == 12
    with pytest.raises(ZNodeError, match="/controller_epoch does not hold an epoch"):
        ControllerEpochZNode.decode(b"twelve")
    assert ControllerEpochZNode.decode(b"2147483646") == (1 << 31) - 2
    with pytest.raises(ZNodeError, match="/controller_epoch does not hold an epoch"):
        ControllerEpochZNode.decode(b"2147483647")


BROKER = """{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","INTERNAL":"PLAINTEXT",
 "SASLC":"SASL_PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:21093","INTERNAL://127.0.0.1:21143",
 "SASLC://127.0.0.1:21199"],"rack":"rack1","jmx_port":21181,"port":21093,"host":"127.0.0.1","version":5,
 "timestamp":"1795228842123"}"""


def test_a_broker_registration_is_written_and_read_as_kafka_does() -> None:
    broker = BrokerInfo(
        1,
        (
            Endpoint("PLAINTEXT", "127.0.0.1", 21093),
            Endpoint("INTERNAL", "127.0.0.1", 21143),
            Endpoint("SASLC", "127.0.0.1", 21199, "SASL_PLAINTEXT"),
        ),
        "rack1",
        83,
    )
    same_json(BrokerIdZNode.encode(broker, timestamp_ms=1795228842123, jmx_port=21181), BROKER)
    assert BrokerIdZNode.decode(1, BROKER.encode(), 83) == broker


def test_a_registration_without_plaintext_offers_old_clients_nothing() -> None:
    broker = BrokerInfo(2, (Endpoint("SSL", "::1", 9093, "SSL"),))
    fields: dict[str, Any] = json.loads(BrokerIdZNode.encode(broker, timestamp_ms=1))
    assert (fields["host"], fields["port"]) == (None, -1)
    assert fields["endpoints"] == ["SSL://[::1]:9093"]
    assert BrokerIdZNode.decode(2, json.dumps(fields).encode()) == broker


@pytest.mark.parametrize("version", [1, 2, 3])
def test_registrations_of_old_brokers_are_read(version: int) -> None:
    old = {"version": version, "host": "h", "port": 9092, "jmx_port": 9999, "timestamp": "2233345666"}
    if version > 1:
        old["endpoints"] = ["PLAINTEXT://h:9092"]
    if version > 2:
        old["rack"] = "dc1"
    broker = BrokerIdZNode.decode(4, json.dumps(old).encode())
    assert broker.endpoints == (Endpoint("PLAINTEXT", "h", 9092),)
    assert broker.rack == ("dc1" if version > 2 else None)


def test_a_topic_is_written_and_read_as_kafka_does() -> None:
    kafkas = (
        '{"partitions":{"0":[0,1,2],"10":[1,2,0]},"topic_id":"iJcRtPFtQISvNOmr-xOtFA",'
        '"adding_replicas":{"10":[2]},"removing_replicas":{"10":[0]},"version":3}'
    )
    assignment = {
        T1_0: ReplicaAssignment((0, 1, 2)),
        TopicPartition("t1", 10): ReplicaAssignment((1, 2, 0), (2,), (0,)),
    }
    topic_id = Uuid.parse("iJcRtPFtQISvNOmr-xOtFA")
    same_json(TopicZNode.encode(topic_id, assignment), kafkas)
    read = TopicZNode.decode("t1", kafkas.encode())
    assert (read.topic_id, read.assignment) == (topic_id, assignment)


def test_a_topic_of_an_old_kafka_has_no_id() -> None:
    read = TopicZNode.decode("t1", b'{"version":1,"partitions":{"0":[1]}}')
    assert (read.topic_id, read.assignment) == (None, {T1_0: ReplicaAssignment((1,))})


def test_a_partition_state_is_written_and_read_as_kafka_does() -> None:
    kafkas = '{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,0,1]}'
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 0, (2, 0, 1), partition_epoch=4), 1)
    same_json(TopicPartitionStateZNode.encode(state), kafkas)
    assert TopicPartitionStateZNode.decode(T1_0, kafkas.encode(), 4) == state
    assert TopicPartitionStateZNode.path(T1_0) == "/brokers/topics/t1/partitions/0/state"


def test_the_recovery_state_is_written_only_while_recovering() -> None:
    recovering = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 3, (2,), LeaderRecoveryState.RECOVERING), 1)
    data = TopicPartitionStateZNode.encode(recovering)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert TopicPartitionStateZNode.decode(T1_0, data, 0) == recovering


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"{}", b'{"leader":"x","leader_epoch":1,"isr":1}'])
def test_a_broken_state_is_named_by_its_path(data: bytes | None) -> None:
    with pytest.raises(ZNodeError, match="/brokers/topics/t1/partitions/0/state"):
        TopicPartitionStateZNode.decode(T1_0, data, 0)


def test_configs_are_written_and_read_as_kafka_does() -> None:
    same_json(ConfigEntityZNode.encode({"retention.ms": "1"}), '{"version":1,"config":{"retention.ms":"1"}}')
    assert ConfigEntityZNode.decode(b'{"version":1,"config":{"a":"b"}}') == {"a": "b"}
    assert ConfigEntityZNode.decode(None) == {}
    assert ConfigEntityZNode.decode(b"not json") == {}
    change = ConfigEntityChangeNotificationSequenceZNode
    same_json(change.encode("topics/t1"), '{"version":2,"entity_path":"topics/t1"}')
    assert change.decode(b'{"version":1,"entity_type":"topics","entity_name":"t1"}') == "topics/t1"
    assert sequence_number("config_change_0000000012", change.sequence_number_prefix) == 12
    assert sequence_number("other", change.sequence_number_prefix) is None


def test_names_are_sanitized_as_kafka_does() -> None:
    assert sanitize("c 1/ü*~") == "c%201%2F%C3%BC%2A%7E"
    assert desanitize(sanitize("c 1/ü*~")) == "c 1/ü*~"


def test_notifications_are_written_and_read_as_kafka_does() -> None:
    same_json(LogDirEventNotificationSequenceZNode.encode(2), '{"version":1,"broker":2,"event":1}')
    assert LogDirEventNotificationSequenceZNode.decode(b'{"version":1,"broker":2,"event":1}') == 2
    isr = '{"version":1,"partitions":[{"topic":"t1","partition":0}]}'
    same_json(IsrChangeNotificationSequenceZNode.encode([T1_0]), isr)
    assert IsrChangeNotificationSequenceZNode.decode(isr.encode()) == [T1_0]
    assert PreferredReplicaElectionZNode.decode(isr.encode()) == [T1_0]
    reassign = '{"version":1,"partitions":[{"topic":"t1","partition":0,"replicas":[0,1]}]}'
    same_json(ReassignPartitionsZNode.encode({T1_0: (0, 1)}), reassign)
    assert ReassignPartitionsZNode.decode(reassign.encode()) == {T1_0: (0, 1)}


def test_cluster_id_producer_ids_and_features_are_written_and_read_as_kafka_does() -> None:
    same_json(ClusterIdZNode.encode("_fofLz9DRFCDERJ6Q4_cPA"), '{"version":"1","id":"_fofLz9DRFCDERJ6Q4_cPA"}')
    assert ClusterIdZNode.decode(b'{"version":"1","id":"abc"}') == "abc"
    block = '{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    same_json(ProducerIdBlockZNode.encode(ProducerIdsBlock(0, 0, 1000)), block)
    assert ProducerIdBlockZNode.decode(block.encode()) == ProducerIdsBlock(0, 0, 1000)
    same_json(FeatureZNode.encode(Features({})), '{"features":{},"version":2,"status":1}')
    assert FeatureZNode.decode(b'{"features":{},"version":1,"status":0}') == Features({}, False, 1)


def test_acls_are_written_and_read_as_kafka_does() -> None:
    kafkas = '{"acls":[{"principal":"User:bob","permissionType":"Allow","host":"*","operation":"Write"}],"version":1}'
    acl = AclEntry("User:bob", "Allow", "*", "Write")
    same_json(ResourceZNode.encode([acl]), kafkas)
    assert ResourceZNode.decode("/kafka-acl/Topic/t1", kafkas.encode()) == [acl]
    assert ResourceZNode.path("Group", "g-", "PREFIXED") == "/kafka-acl-extended/prefixed/Group/g-"
    assert AclChangeZNode.encode(ResourcePattern("TOPIC", "t1")) == b"TOPIC:t1"
    assert AclChangeZNode.decode_literal(b"TOPIC:a:b") == ResourcePattern("TOPIC", "a:b")
    prefixed = ResourcePattern("GROUP", "g-", "PREFIXED")
    change = '{"version":1,"resourceType":"GROUP","name":"g-","patternType":"PREFIXED"}'
    same_json(AclChangeZNode.encode(prefixed), change)
    assert AclChangeZNode.decode_extended(change.encode()) == prefixed


def test_a_reassignment_keeps_old_and_new_replicas_until_it_is_done() -> None:
    moving = ReplicaAssignment((0, 1)).reassign_to((2, 1))
    assert moving == ReplicaAssignment((2, 1, 0), (2,), (0,))
    assert (moving.origin_replicas, moving.target_replicas) == ((1, 0), (2, 1))
    assert moving.reassign_to((1, 0)) == ReplicaAssignment((1, 0))


def test_the_persistent_paths_are_kafkas_in_kafkas_order() -> None:
    assert PERSISTENT_ZK_PATHS == (
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
    )
