"""A request that was answered is gone, without Python's collector: in a quiet broker that does not come for years."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from leading_broker import TOPIC, Broker

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.handlers import leader_and_isr
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.turns import SLICE
from barnabas.security.authorizer import AllowAll
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.message import Message
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.produce import ProduceRequest

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


def test_a_long_produce_is_answered_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    turn = BrokerConnection.turn

    def counted(connection: BrokerConnection) -> asyncio.Future[None]:
        turns.append(None)
        return turn(connection)

    async def story() -> None:
        monkeypatch.setattr(BrokerConnection, "turn", counted)
        broker = Broker(tmp_path)
        await feed(broker, produce(PARTITIONS, acks=1), 9)
        answer = decode_response(response_class(0), 9, bytes(broker.transport.written[4:]))[1]
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_RECORD] * PARTITIONS
        # Taken in slices of 64 partitions, and answered in slices of 128.
        assert len(turns) >= PARTITIONS // 64 + PARTITIONS // SLICE
        await broker.tasks.end()

    asyncio.run(story())


def test_nothing_is_done_for_a_leader_and_isr_of_a_controller_that_is_not_it_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        asked: list[str] = []
        broker.is_stale = lambda epoch: False  # type: ignore[attr-defined]

        async def learn(names: list[str]) -> None:
            asked.extend(names)

        broker.learn_topic_configs = learn  # type: ignore[attr-defined]
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState("strange")
        stale = LeaderAndIsrRequest(controller_epoch=0, topic_states=[topic])
        with pytest.raises(KafkaError) as refusal:
            await leader_and_isr.handle(broker, stale, Context())  # type: ignore[arg-type]
        assert refusal.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
        assert asked == []
        await broker.tasks.end()

    asyncio.run(story())


class Context:
    version = 5

    def __init__(self) -> None:
        self.connection = self
        self.authorizer = AllowAll()
        self.principal = None
        self.peer_host = "127.0.0.1"
