"""Bad requests to a controller get Kafka's error codes, and leave the znodes as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import until

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.runtime.real import real_runtime
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient

CreatePartitionsTopic = CreatePartitionsRequest.CreatePartitionsTopic
Topic = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as started:
        started.create_topic("a.topic", partitions=1)
        started.create_topic("one.replica", partitions=1, replication_factor=1)
        yield started


def ask(cluster: KafkaCluster, request: Any, version: int, broker: int | None = None) -> Any:
    asked = cluster.controller if broker is None else cluster.broker(broker)
    host, _, port = asked.address.rpartition(":")
    with BlockingConnection(host, int(port), "refused") as connection:
        return connection.send(request, version)


def tree(cluster: KafkaCluster, *roots: str) -> dict[str, tuple[bytes | None, int]]:
    """Data and version of every znode below `roots`."""

    async def read() -> dict[str, tuple[bytes | None, int]]:
        client = ZooKeeperClient(
            real_runtime(), cluster.zookeeper, session_timeout_ms=10_000, connection_timeout_ms=10_000
        )
        await client.start()
        zk = KafkaZkClient(real_runtime(), client)
        found = {}
        left = list(roots)
        while left:
            path = left.pop()
            found[path] = await zk.get_data_and_version(path)
            left += [f"{path}/{name}" for name in await zk.get_children(path)]
        await client.close()
        return found

    return asyncio.run(read())


def no_deletion(found: dict[str, tuple[bytes | None, int]]) -> dict[str, tuple[bytes | None, int]] | None:
    return None if any("/gone" in path for path in found) else found


def created(topic: Topic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def assigned(*replicas: int) -> Topic:
    return Topic("new", -1, -1, [Assignment(0, list(replicas))])


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        pytest.param(assigned(1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="a replica twice"),
        pytest.param(assigned(), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="no replica"),
        pytest.param(Topic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, id="more replicas than brokers"),
        pytest.param(Topic("new", 0, 1), ErrorCode.INVALID_PARTITIONS, id="no partition"),
        pytest.param(Topic("no/name", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, id="an illegal name"),
        pytest.param(Topic("a_topic", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, id="a name that collides"),
        pytest.param(Topic("a.topic", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, id="a name that is taken"),
    ],
)
def test_a_topic_that_cannot_be(cluster: KafkaCluster, topic: Topic, error: ErrorCode) -> None:
    before = tree(cluster, "/brokers/topics", "/config", "/admin")
    (answer,) = ask(cluster, created(topic), 5).topics
    assert ErrorCode(answer.error_code) is error
    assert tree(cluster, "/brokers/topics", "/config", "/admin") == before


@pytest.mark.parametrize(
    "replicas",
    [pytest.param([77], id="an unknown broker"), pytest.param([0, 1], id="more replicas than the topic has")],
)
def test_a_partition_that_cannot_be_added(cluster: KafkaCluster, replicas: list[int]) -> None:
    """A topic may be created on brokers that nobody knows, in Apache Kafka too; a partition may not be added there."""
    before = tree(cluster, "/brokers/topics")
    topic = CreatePartitionsTopic("one.replica", 2, [CreatePartitionsRequest.CreatePartitionsAssignment(replicas)])
    (answer,) = ask(cluster, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 1).results
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert tree(cluster, "/brokers/topics") == before


def test_a_reassignment_of_a_deleted_topic(cluster: KafkaCluster) -> None:
    cluster.create_topic("gone", partitions=1)
    (deleted,) = ask(cluster, DeleteTopicsRequest(topic_names=["gone"], timeout_ms=10_000), 4).responses
    assert ErrorCode(deleted.error_code) is ErrorCode.NONE
    before = until(lambda: no_deletion(tree(cluster, "/brokers/topics", "/admin")), "the end of the deletion")
    moved = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[0])
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="gone", partitions=[moved])
    (answer,) = ask(cluster, AlterPartitionReassignmentsRequest(topics=[topic]), 0).responses
    assert ErrorCode(answer.partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert tree(cluster, "/brokers/topics", "/admin") == before


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "error"),
    [
        pytest.param(0, -1, ErrorCode.STALE_CONTROLLER_EPOCH, id="an old controller's"),
        pytest.param(99, 0, ErrorCode.STALE_BROKER_EPOCH, id="for an earlier life of the broker"),
    ],
)
def test_a_forged_stop_replica(
    cluster: KafkaCluster, controller_epoch: int, broker_epoch: int, error: ErrorCode
) -> None:
    leader = cluster.partition("a.topic", 0).leader
    before = tree(cluster, "/brokers/topics")
    state = StopReplicaRequest.StopReplicaPartitionState(0, leader_epoch=-2, delete_partition=True)
    request = StopReplicaRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[StopReplicaRequest.StopReplicaTopicState("a.topic", [state])],
    )
    assert ErrorCode(ask(cluster, request, 4, leader.id).error_code) is error
    assert tree(cluster, "/brokers/topics") == before
    assert cluster.partition("a.topic", 0).leader.id == leader.id
    assert cluster.verify()
