"""What a client may try that has some rights and not those of a broker; and rights that go away under its hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leading_broker import PARTITION, TOPIC, TOPIC_ID, Broker
from test_repeated_fetch import FOLLOWER, append, batch, fetch

from barnabas.broker.verification import TransactionVerification
from barnabas.model.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.runtime.real import real_runtime
from barnabas.security.acls import WILDCARD, Acl, AclAuthorizer, Resource
from barnabas.security.principal import ANONYMOUS
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records import Record, build_batch

TOPIC_RESOURCE = Resource(ResourceType.TOPIC, TOPIC)
CLUSTER_RESOURCE = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def may(*operations: Operation) -> list[Acl]:
    return [Acl(str(ANONYMOUS), WILDCARD, each, Permission.ALLOW) for each in operations]


def guarded(directory: Path) -> tuple[Broker, AclAuthorizer]:
    """A leader that a follower follows; whoever is connected may read and write its topic, and no more."""
    broker, acls = Broker(directory, replicas=(1, FOLLOWER)), AclAuthorizer()
    acls.update(TOPIC_RESOURCE, may(Operation.READ, Operation.WRITE))
    broker.connection.authorizer = acls
    return broker, acls


def said(broker: Broker, message: Any, version: int) -> Any:
    """The one answer that has been written."""
    written = bytes(broker.transport.written)
    broker.transport.written.clear()
    assert written, "nothing was answered"
    return decode_response(response_class(message.api_key), version, written[4:])[1]


def in_a_loop(test: Callable[..., None]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def play() -> None:
            test(*arguments, **named)

        asyncio.run(play())

    return run


def high_watermark(broker: Broker) -> int:
    partition = broker.replicas.partition(PARTITION)
    assert partition is not None
    return partition.local_log().high_watermark


@pytest.mark.parametrize("version", [12, 13, 17])
@in_a_loop
def test_cve_2018_1288_who_only_says_that_it_is_a_follower_moves_no_high_watermark(
    tmp_path: Path, version: int
) -> None:
    broker, acls = guarded(tmp_path)
    append(broker, 0, batch(b"a"))
    forged = fetch(version, 0, 0, [FetchRequest.FetchPartition(0, 0, 1, 0, 0, 1 << 20)], max_wait_ms=0)
    broker.feed(forged)
    answer = said(broker, FetchRequest(), version)
    assert [each.error_code for each in answer.responses[0].partitions] == [DENIED]
    assert high_watermark(broker) == 0
    acls.update(CLUSTER_RESOURCE, may(Operation.CLUSTER_ACTION))
    broker.feed(forged)
    assert high_watermark(broker) == 1, "a broker's own does"


@in_a_loop
def test_a_follower_that_may_no_more_is_refused_in_the_middle_of_its_session(tmp_path: Path) -> None:
    broker, acls = guarded(tmp_path)
    acls.update(CLUSTER_RESOURCE, may(Operation.CLUSTER_ACTION))
    append(broker, 0, batch(b"a"))
    broker.feed(fetch(17, 0, 0, [FetchRequest.FetchPartition(0, 0, 0, 0, 0, 1 << 20)]))
    session_id = said(broker, FetchRequest(), 17).session_id
    for epoch in (1, 2):
        append(broker, 0, batch(b"b"))
        broker.feed(fetch(17, session_id, epoch, [FetchRequest.FetchPartition(0, 0, epoch, 0, 0, 1 << 20)]))
        assert said(broker, FetchRequest(), 17).responses[0].partitions[0].records
    acls.update(CLUSTER_RESOURCE, ())
    append(broker, 0, batch(b"c"))
    broker.feed(fetch(17, session_id, 3, [FetchRequest.FetchPartition(0, 0, 3, 0, 0, 1 << 20)]))
    (partition,) = said(broker, FetchRequest(), 17).responses[0].partitions
    assert (partition.error_code, partition.records or b"") == (DENIED, b"")
    broker.connection.abort()


def consumed(session_id: int, epoch: int, offset: int) -> bytes:
    topic = FetchRequest.FetchTopic(TOPIC, TOPIC_ID, [FetchRequest.FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=[topic]
    )
    return b"".join(encode_request(request, 13, 1, "consumer"))


@in_a_loop
def test_a_consumer_that_may_no_more_is_refused_in_the_middle_of_its_session(tmp_path: Path) -> None:
    broker, acls = guarded(tmp_path)
    broker.feed(consumed(0, 0, 0))
    session_id = said(broker, FetchRequest(), 13).session_id
    assert session_id
    append(broker, 0, batch(b"secret"))
    acls.update(CLUSTER_RESOURCE, may(Operation.CLUSTER_ACTION))
    broker.feed(fetch(17, 0, 0, [FetchRequest.FetchPartition(0, 0, 1, 0, 0, 1 << 20)], max_wait_ms=0))
    assert high_watermark(broker) == 1, "consumers could read it by now"
    broker.transport.written.clear()
    acls.update(CLUSTER_RESOURCE, ())
    acls.update(TOPIC_RESOURCE, ())
    broker.feed(consumed(session_id, 1, 0))
    assert b"secret" not in broker.transport.written
    (partition,) = said(broker, FetchRequest(), 13).responses[0].partitions
    assert partition.error_code == DENIED


@pytest.mark.parametrize(
    ("of_topic", "of_transaction", "error"),
    [
        ((Operation.WRITE,), (), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.WRITE,), (Operation.DESCRIBE,), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.READ,), (Operation.WRITE,), DENIED),
    ],
)
def test_no_coordinator_is_asked_on_behalf_of_who_may_not_write(
    tmp_path: Path, of_topic: tuple[Operation, ...], of_transaction: tuple[Operation, ...], error: ErrorCode
) -> None:
    """A question with a higher epoch would fence the producer whose transaction it is."""
    asked: list[object] = []

    async def send(coordinator: int, request: object) -> Any:
        asked.append(request)
        raise ConnectionError("no coordinator here")

    async def play() -> None:
        broker, acls = guarded(tmp_path)
        acls.update(TOPIC_RESOURCE, may(*of_topic))
        acls.update(Resource(ResourceType.TRANSACTIONAL_ID, "another's"), may(*of_transaction))
        clock = real_runtime().clock
        verification = TransactionVerification(broker.replicas, clock, lambda _: 1, send, lambda: True, broker.tasks)
        broker.transactions = SimpleNamespace(verification=verification)  # type: ignore[attr-defined]
        record = Record(0, 1, None, b"value", [])
        records = build_batch([record], producer_id=7, producer_epoch=9, base_sequence=0, is_transactional=True)
        data = ProduceRequest.PartitionProduceData(0, records)
        request = ProduceRequest("another's", 1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, [data])])
        broker.feed(b"".join(bytes(part) for part in encode_request(request, 9, 1, "producer")))
        for _ in range(20):  # turns of the loop
            await asyncio.sleep(0)
        (answer,) = said(broker, request, 9).responses[0].partition_responses
        assert ErrorCode(answer.error_code) is error
        assert broker.log == b""

    asyncio.run(play())
    assert asked == []


@in_a_loop
def test_a_producer_that_may_no_more_is_refused_at_its_next_request(tmp_path: Path) -> None:
    broker, acls = guarded(tmp_path)
    data = ProduceRequest.PartitionProduceData(0, build_batch([Record(0, 1, None, b"value", [])]))
    request = ProduceRequest(None, 1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, [data])])
    produce = b"".join(bytes(part) for part in encode_request(request, 9, 1, "producer"))
    for _ in range(3):
        broker.feed(produce)
        assert said(broker, request, 9).responses[0].partition_responses[0].error_code == 0
    acls.update(TOPIC_RESOURCE, may(Operation.READ))
    before = len(broker.log)
    broker.feed(produce)
    assert said(broker, request, 9).responses[0].partition_responses[0].error_code == DENIED
    assert len(broker.log) == before


@pytest.mark.parametrize(
    "make",
    [
        LeaderAndIsrRequest,
        StopReplicaRequest,
        UpdateMetadataRequest,
        ControlledShutdownRequest,
        AlterPartitionRequest,
        AllocateProducerIdsRequest,
    ],
)
@in_a_loop
def test_what_brokers_and_controllers_say_is_not_taken_from_a_client(tmp_path: Path, make: Callable[[], Any]) -> None:
    broker, _ = guarded(tmp_path)
    message = make()
    version = broker.router.routes[message.api_key].max_version
    broker.feed(b"".join(bytes(part) for part in encode_request(message, version, 1, "a client")))
    assert said(broker, message, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
