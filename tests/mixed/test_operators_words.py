"""What an operator does through a broker of one kind takes effect on the other, whichever kind reigns.

Users, ACLs and tokens: ``tests/conformance/test_secured_mixed_cluster.py``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest
from cluster import until
from mixed_brokers import APACHES, OURS, SHAPES, BothKinds

from barnabas.client import Cluster, KafkaError, NewTopic, TopicPartition, connect
from barnabas.client.admin import ResourceType
from barnabas.client.blocking import BlockingConnection
from barnabas.client.offsets import EARLIEST
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

pytestmark = pytest.mark.apache

TOPIC = "across"
AT = TopicPartition(TOPIC, 0)
VALUES = 12
VALUE_BYTES = 512 * 1024
RATE = 1_000_000
"""Bytes a second that a throttled move may copy."""


def tell(brokers: BothKinds, kind: str, what: Callable[[Cluster], Awaitable[Any]]) -> Any:
    """Said to a broker of the kind; what a controller has to do goes to the controller."""
    ports = [port for broker, port in brokers.ports.items() if brokers.kind(broker) == kind]

    async def told() -> Any:
        async with connect(",".join(f"127.0.0.1:{port}" for port in ports)) as cluster:
            return await what(cluster)

    return asyncio.run(told())


def said_by_all(brokers: BothKinds, request: Any, version: int) -> list[Any]:
    found = []
    for port in brokers.ports.values():
        with closing(BlockingConnection("127.0.0.1", port)) as connection:
            found.append(connection.send(request, version))
    return found


def leaders(brokers: BothKinds) -> set[int]:
    """Who leads the partition, by the words of every broker."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False
    )
    topics = [answer.topics[0] for answer in said_by_all(brokers, request, 9)]
    return {each.partitions[0].leader_id if each.partitions else -1 for each in topics}


def outcome(done: dict[TopicPartition, KafkaError | None]) -> None:
    for error in done.values():
        if error is not None:
            raise error


async def nothing_moves(cluster: Cluster) -> bool:
    return not await cluster.admin.list_reassignments()


def moved(brokers: BothKinds, kind: str, replicas: list[int] | None) -> None:
    outcome(tell(brokers, kind, lambda cluster: cluster.admin.alter_reassignments({AT: replicas})))


def has_replica(brokers: BothKinds, broker: int) -> bool:
    return (brokers.log_dir(broker) / str(AT)).exists()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("brokers", SHAPES[:1], ids=str, indirect=True, scope="session")
@pytest.mark.parametrize(("reigns", "told"), [(APACHES, OURS), (OURS, APACHES)])
def test_what_is_said_to_one_kind_is_done_by_the_other(brokers: BothKinds, reigns: str, told: str) -> None:
    while brokers.kind(brokers.controller()) != reigns:
        brokers.depose()
        until(lambda: brokers.controller() >= 0, "somebody reigns")

    # A topic, with a replica on each kind.
    topic = NewTopic(TOPIC, assignment={0: [0, 2]})
    made = tell(brokers, told, lambda cluster: cluster.admin.create_topics([topic]))[TOPIC]
    # Who has just begun to reign may take longer than a client waits, and is asked again.
    assert made is None or made.code is ErrorCode.TOPIC_ALREADY_EXISTS
    until(lambda: leaders(brokers) == {0}, "every broker knows who leads")

    # Its configuration.
    change = [(AlterOperation.SET, "retention.ms", "123456789")]
    tell(brokers, told, lambda cluster: cluster.admin.alter_configs(ResourceType.TOPIC, TOPIC, change))
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=int(ResourceType.TOPIC), resource_name=TOPIC, configuration_keys=["retention.ms"]
    )
    asked = DescribeConfigsRequest(resources=[resource])
    until(
        lambda: {each.results[0].configs[0].value for each in said_by_all(brokers, asked, 2)} == {"123456789"},
        "every broker knows the configuration",
    )

    async def write(cluster: Cluster) -> None:
        producer = cluster.producer(acks="all")
        for number in range(VALUES):
            await producer.send(TOPIC, random.Random(number).randbytes(VALUE_BYTES), partition=0)

    tell(brokers, told, write)

    # A throttled move takes its time, and leaves nothing when it is cancelled.
    def throttle(operation: AlterOperation, rate: str | None, replicas: str | None) -> None:
        async def said(cluster: Cluster) -> None:
            for side in ("leader", "follower"):
                key = f"{side}.replication.throttled"
                await cluster.admin.alter_configs(ResourceType.TOPIC, TOPIC, [(operation, f"{key}.replicas", replicas)])
                for broker in brokers.ids:
                    await cluster.admin.alter_configs(
                        ResourceType.BROKER, str(broker), [(operation, f"{key}.rate", rate)]
                    )

        tell(brokers, told, said)

    throttle(AlterOperation.SET, str(RATE), "*")
    moved(brokers, told, [1, 3])
    until(lambda: has_replica(brokers, 1) and has_replica(brokers, 3), "replicas are made on both kinds")
    moved(brokers, told, None)
    until(lambda: tell(brokers, told, nothing_moves), "the move is cancelled")
    until(lambda: not has_replica(brokers, 1) and not has_replica(brokers, 3), "what was copied is gone", 90)
    began = time.monotonic()
    moved(brokers, told, [1, 3])
    until(lambda: tell(brokers, told, nothing_moves), "the throttled move is done", 120)
    assert time.monotonic() - began > 0.5 * VALUES * VALUE_BYTES / RATE
    throttle(AlterOperation.DELETE, None, None)
    until(lambda: not has_replica(brokers, 0) and not has_replica(brokers, 2), "where it was it is not any more", 90)

    leads_alone_in_its_words(brokers, told, 3, 1, before=2)
    leads_alone_in_its_words(brokers, told, 1, 3, before=5)

    assert tell(brokers, told, lambda cluster: cluster.admin.delete_topics([TOPIC])) == {TOPIC: None}
    until(lambda: not any(has_replica(brokers, broker) for broker in brokers.ids), "its logs are gone everywhere", 90)
    until(lambda: leaders(brokers) == {-1}, "nobody knows it any more")
    # The next to reign would go on with the deletion, and meanwhile refuse a new topic of that name.
    until(lambda: brokers.zookeeper.exists(f"/brokers/topics/{TOPIC}") is None, "its znode is gone")


def leads_alone_in_its_words(brokers: BothKinds, told: str, leader: int, follower: int, before: int) -> None:
    """The partition comes to `leader`, which deletes records before that offset, and keeps a client's quota."""
    moved(brokers, told, [leader, follower])
    until(lambda: tell(brokers, told, nothing_moves), "the order is another")
    until(lambda: _elected(brokers, told, leader), f"{leader} is elected")
    assert tell(brokers, told, lambda cluster: cluster.admin.delete_records({AT: before})) == {AT: before}
    beginning = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    where = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[beginning])])
    with closing(BlockingConnection("127.0.0.1", brokers.ports[leader])) as connection:
        assert connection.send(where, 5).topics[0].partitions[0].offset == before
    client, quota = f"client-of-{leader}-{time.monotonic_ns()}", {"producer_byte_rate": 10_000.0}
    tell(brokers, told, lambda cluster: cluster.admin.alter_quotas({"client-id": client}, quota))
    until(lambda: _is_throttled(brokers.ports[leader], client), f"broker {leader} throttles the client")


def _elected(brokers: BothKinds, kind: str, broker: int) -> bool:
    tell(brokers, kind, lambda cluster: cluster.admin.elect_leaders([AT]))
    return leaders(brokers) == {broker}


def _is_throttled(port: int, client_id: str) -> bool:
    records = build_batch([Record(0, 1_700_000_000_000, None, bytes(20_000), [])])
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    with closing(BlockingConnection("127.0.0.1", port, client_id)) as connection:
        answer = connection.send(request, 8)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return bool(answer.throttle_time_ms > 0)
