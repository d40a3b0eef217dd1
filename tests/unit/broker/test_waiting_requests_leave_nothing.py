"""A request that waited is gone with its answer: none of it is left for Python's collector, which comes seldom."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from leading_broker import TOPIC, TOPIC_ID, Broker
from test_repeated_fetch import append, batch, fetch

from barnabas.replica import fetching
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest


@contextlib.contextmanager
def nothing_for_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(
            type(found).__qualname__ for found in gc.garbage if type(found).__module__.startswith("barnabas")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


async def answered(broker: Broker) -> bytes:
    for _ in range(1000):
        if broker.transport.written:
            told = bytes(broker.transport.written)
            broker.transport.written.clear()
            return told
        await asyncio.sleep(0.001)
    raise AssertionError("there is no answer")


def of_follower(session_id: int, epoch: int, offset: int, **fields: int) -> bytes:
    return fetch(17, session_id, epoch, [FetchRequest.FetchPartition(0, 0, offset, 0, 0, 1 << 20)], **fields)


async def follower(broker: Broker, **fields: int) -> int:
    """Lets the follower fetch all there is, one record; its session's id."""
    append(broker, 0, batch(b"a"))
    broker.feed(of_follower(0, 0, 0))
    (session_id,) = struct.unpack_from(">i", await answered(broker), 15)
    return int(session_id)


def waits(broker: Broker) -> bool:
    purgatories = broker.replicas.purgatories
    return bool(purgatories.follower_fetch.delayed + purgatories.consumer_fetch.delayed + purgatories.produce.delayed)


async def a_followers_fetches(broker: Broker) -> None:
    session_id = await follower(broker)
    for epoch in (1, 2, 3):
        broker.feed(of_follower(session_id, epoch, epoch))
        assert waits(broker)
        append(broker, 0, batch(b"b"))
        await answered(broker)


async def a_followers_fetches_whose_time_is_up(broker: Broker) -> None:
    session_id = await follower(broker)
    for epoch in (1, 2):
        broker.feed(of_follower(session_id, epoch, 1, max_wait_ms=20))
        assert waits(broker)
        await answered(broker)


async def a_consumers_fetches(broker: Broker) -> None:
    await follower(broker)
    topic = FetchRequest.FetchTopic(TOPIC, TOPIC_ID, [FetchRequest.FetchPartition(0, -1, 0, -1, -1, 1 << 20)])
    request = FetchRequest(
        max_wait_ms=20, min_bytes=1000, max_bytes=1 << 20, session_id=0, session_epoch=-1, topics=[topic]
    )
    for _ in range(2):
        broker.feed(b"".join(encode_request(request, 13, 1, "a consumer")))
        assert waits(broker)
        await answered(broker)


async def a_produce_with_acks_all(broker: Broker) -> None:
    session_id = await follower(broker)
    data = ProduceRequest.PartitionProduceData(0, records=batch(b"b"))
    topic = ProduceRequest.TopicProduceData(TOPIC, [data])
    broker.feed(b"".join(encode_request(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic]), 9, 1, "")))
    assert waits(broker)
    produced = broker.transport
    broker.connect()
    for epoch in (1, 2):
        broker.feed(of_follower(session_id, epoch, epoch, max_wait_ms=20))
        await answered(broker)
    assert produced.written


async def a_fetch_whose_connection_is_lost(broker: Broker) -> None:
    session_id = await follower(broker)
    broker.feed(of_follower(session_id, 1, 1))
    assert waits(broker)
    broker.connection.connection_lost(None)
    assert not waits(broker)


@pytest.mark.parametrize(
    "path",
    [
        a_followers_fetches,
        a_followers_fetches_whose_time_is_up,
        a_consumers_fetches,
        a_produce_with_acks_all,
        a_fetch_whose_connection_is_lost,
    ],
)
def test_a_request_that_waited_is_gone_with_its_answer(
    tmp_path: Path, path: Callable[[Broker], Awaitable[None]]
) -> None:
    async def story() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        with nothing_for_the_collector():
            await path(broker)
        await broker.tasks.end()

    asyncio.run(story())


@pytest.mark.parametrize("version", [4, 12])
def test_fetches_that_wait_hold_a_bounded_number_of_partitions_and_the_largest_are_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(fetching, "WAITING_MAX", 250)

    def asked(partitions: int) -> bytes:
        topic = FetchRequest.FetchTopic(TOPIC, partitions=[FetchRequest.FetchPartition(0)] * partitions)
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
        return b"".join(encode_request(request, version, 1, "a consumer"))

    async def story() -> None:
        broker = Broker(tmp_path)
        consumers = []
        for partitions in (100, 100, 100, 2, 100, 70):
            broker.connect()
            consumers.append((broker.connection, broker.transport))
            broker.feed(asked(partitions))
            for _ in range(100):  # turns of the loop
                await asyncio.sleep(0)
        answered = [bool(transport.written) for _, transport in consumers]
        assert answered == [True, False, True, False, True, False]
        for connection, _ in consumers:
            connection.connection_lost(None)
        assert broker.replicas.purgatories.consumer_fetch.delayed == 0
        await broker.tasks.end()

    asyncio.run(story())
