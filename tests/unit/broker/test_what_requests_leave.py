"""A request that was answered is gone, without Python's collector: in a quiet broker that does not come for years."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leading_broker import TOPIC, TOPIC_ID, Broker

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.context import RequestContext
from barnabas.broker.shares import NEW_LOG, PARTITIONS_AT_ONCE
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime import Condition
from barnabas.runtime.turns import SLICE
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.message import Message
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

PARTITIONS = 2_000


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def produce(partitions: int, acks: int) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index, records=b"") for index in range(partitions)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(TOPIC, data)])


def refused_quotas() -> AlterClientQuotasRequest:
    entity = AlterClientQuotasRequest.EntityData("planet", "mars")
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData([entity], [])])


async def feed(broker: Broker, message: Message, version: int) -> None:
    broker.feed(b"".join(encode_request(message, version, 1, "a client")))
    for _ in range(10_000):
        if broker.transport.written or broker.transport.closed:
            return
        await asyncio.sleep(0)
    raise AssertionError("there is no answer")


@pytest.mark.parametrize(
    ("make", "version"),
    [(refused_quotas, 1), (lambda: produce(3, acks=0), 9), (lambda: produce(3, acks=1), 9)],
    ids=["refused quotas", "a failed produce that nobody waits for", "a failed produce"],
)
def test_a_request_that_failed_is_gone_when_it_is_answered(
    tmp_path: Path, uncollected: None, make: Callable[[], Message], version: int
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        broker.zk = None  # type: ignore[attr-defined]  # nothing is asked of it
        kind = type(make())
        others = [each for each in gc.get_objects() if type(each) is kind]  # what other tests hold
        await feed(broker, make(), version)
        left = [each for each in gc.get_objects() if type(each) is kind and not any(each is one for one in others)]
        assert not left, [gc.get_referrers(each) for each in left]
        await broker.tasks.end()

    asyncio.run(story())


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One element for each time that a handler gave way."""
    taken: list[None] = []
    turn = BrokerConnection.turn

    def counted(connection: BrokerConnection, context: RequestContext) -> asyncio.Future[None]:
        taken.append(None)
        return turn(connection, context)

    monkeypatch.setattr(BrokerConnection, "turn", counted)
    return taken


def answer_of(broker: Broker, message: Message, version: int) -> Any:
    return decode_response(response_class(message.api_key), version, bytes(broker.transport.written[4:]))[1]


def test_a_long_produce_is_answered_in_slices(tmp_path: Path, turns: list[None]) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        message = produce(PARTITIONS, acks=1)
        await feed(broker, message, 9)
        codes = [each.error_code for each in answer_of(broker, message, 9).responses[0].partition_responses]
        # There is only the first one: of the others it is not told what else is wrong.
        assert codes == [ErrorCode.INVALID_RECORD] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (PARTITIONS - 1)
        # Taken in slices, and answered in slices.
        assert len(turns) >= 2 * (PARTITIONS // SLICE)
        await broker.tasks.end()

    asyncio.run(story())


def test_records_of_thousands_of_partitions_are_deleted_in_slices(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        deleting = broker.replicas.delete_records([(TopicPartition("gone", each), 0) for each in range(PARTITIONS)], 0)
        for _ in range(PARTITIONS // SLICE):
            deleting.send(None)  # another slice is done
        with pytest.raises(StopIteration) as end:
            deleting.send(None)
        results = end.value.value
        assert {result.error for result in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert [result.topic_partition.partition for result in results] == list(range(PARTITIONS))
        await broker.tasks.end()

    asyncio.run(story())


def test_replicas_that_do_not_move_are_refused_in_slices_and_few_of_them_are_logged(
    tmp_path: Path, turns: list[None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        path = broker.log_dirs.paths[0]
        topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic("nowhere", list(range(PARTITIONS)))
        directories = [AlterReplicaLogDirsRequest.AlterReplicaLogDir(each, [topic]) for each in ("/no/such", path)]
        message = AlterReplicaLogDirsRequest(directories)
        await feed(broker, message, 1)
        (told,) = answer_of(broker, message, 1).results
        assert [each.partition_index for each in told.partitions] == list(range(PARTITIONS))
        assert {each.error_code for each in told.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(turns) >= PARTITIONS // SLICE
        assert sum("does not move" in line for line in caplog.messages) == 1
        await broker.tasks.end()

    asyncio.run(story())


def of_controller(epoch: int, version: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState
    if version < 2:
        ungrouped = [state("strange", number, 1, 1, 0, [1], 0, [1]) for number in range(PARTITIONS)]
        return LeaderAndIsrRequest(controller_epoch=epoch, ungrouped_partition_states=ungrouped)
    states = [state("", number, 1, 1, 0, [1], 0, [1]) for number in range(PARTITIONS)]
    topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState("strange", TOPIC_ID, states)]
    return LeaderAndIsrRequest(controller_epoch=epoch, topic_states=topics)


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_leader_and_isr_of_a_controller_that_is_not_it_any_more_is_refused_in_slices_and_nothing_done_for_it(
    tmp_path: Path, turns: list[None], version: int
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        asked: list[str] = []
        broker.is_stale = lambda epoch, of_kraft: False  # type: ignore[attr-defined]

        async def learn(topics: Mapping[str, Uuid]) -> None:
            asked.extend(topics)

        broker.topic_configs = SimpleNamespace(learn=learn)  # type: ignore[attr-defined]
        message = of_controller(0, version)
        await feed(broker, message, version)
        answer = answer_of(broker, message, version)
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        errors = answer.partition_errors if version < 5 else answer.topics[0].partition_errors
        assert [each.partition_index for each in errors] == list(range(PARTITIONS))
        assert {each.error_code for each in errors} == {ErrorCode.STALE_CONTROLLER_EPOCH}
        if version < 5:
            assert {each.topic_name for each in errors} == {"strange"}
        assert len(turns) >= PARTITIONS // SLICE
        assert asked == []
        await broker.tasks.end()

    asyncio.run(story())


@pytest.mark.parametrize("version", [1, 5])
def test_others_are_answered_between_the_logs_that_a_leader_and_isr_makes(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        broker.is_stale = lambda epoch, of_kraft: False  # type: ignore[attr-defined]

        async def learn(topics: Mapping[str, Uuid]) -> None:
            pass

        broker.topic_configs = SimpleNamespace(learn=learn)  # type: ignore[attr-defined]
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState
        states = [state("new", number, 1, 1, 0, [1], 0, [1], is_new=True) for number in range(50)]
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState("new", Uuid(bytes(15) + b"n"), states)
        long = (
            LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=states)
            if version < 2
            else LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic])
        )
        of_controller = broker.transport
        broker.feed(b"".join(encode_request(long, version, 1, "the controller")))
        made: list[int] = []
        while not of_controller.written:
            broker.connect()
            broker.feed(b"".join(encode_request(produce(1, acks=1), 9, 1, "a client")))
            assert broker.transport.written, "it is answered at once"
            made.append(sum(partition.topic == "new" for partition in broker.log_dirs.logs))
            broker.connection.abort()
            await asyncio.sleep(0)
        made.append(sum(partition.topic == "new" for partition in broker.log_dirs.logs))
        at_once = PARTITIONS_AT_ONCE // NEW_LOG
        assert made == [*range(at_once, 50, at_once), 50]
        answer = decode_response(LeaderAndIsrResponse, version, bytes(of_controller.written[4:]))[1]
        errors = answer.partition_errors if version < 5 else answer.topics[0].partition_errors
        assert [(each.partition_index, each.error_code) for each in errors] == [(each, 0) for each in range(50)]
        await broker.tasks.end()

    asyncio.run(story())


def told_of(topic: str, numbers: range, leader: int) -> list[UpdateMetadataRequest.UpdateMetadataTopicState]:
    """A topic's partitions, one by one."""
    state = UpdateMetadataRequest.UpdateMetadataPartitionState
    return [
        UpdateMetadataRequest.UpdateMetadataTopicState(topic, TOPIC_ID, [state("", number, 1, leader, 0, [1], 0, [1])])
        for number in numbers
    ]


def test_a_long_update_metadata_is_taken_up_in_slices_and_with_what_came_between_them(
    tmp_path: Path, turns: list[None]
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        broker.is_stale = lambda epoch, of_kraft: False  # type: ignore[attr-defined]
        broker.topics = SimpleNamespace(changed=Condition())  # type: ignore[attr-defined]
        broker.coordinators = SimpleNamespace(partitions_deleted=lambda deleted: None)  # type: ignore[attr-defined]
        long = UpdateMetadataRequest(controller_epoch=1, topic_states=told_of(TOPIC, range(PARTITIONS), 7))
        broker.feed(b"".join(encode_request(long, 7, 1, "a client")))
        for _ in range(100):
            if len(turns) >= 5:
                break
            await asyncio.sleep(0)
        assert len(broker.metadata.image.topics[TOPIC].partitions) == 1
        between = UpdateMetadataRequest(controller_epoch=1, topic_states=told_of(TOPIC, range(3000, 3003), 8))
        broker.metadata.update(between)
        for _ in range(10_000):
            if broker.transport.written:
                break
            await asyncio.sleep(0)
        assert answer_of(broker, long, 7).error_code == ErrorCode.NONE
        partitions = broker.metadata.image.topics[TOPIC].partitions
        assert {number: each.leader for number, each in partitions.items()} == {
            **dict.fromkeys(range(PARTITIONS), 7),
            **dict.fromkeys(range(3000, 3003), 8),
        }
        assert len(turns) >= 2 * PARTITIONS // SLICE
        await broker.tasks.end()

    asyncio.run(story())
