"""The judge's limit `librdkafka-validation`: librdkafka reads again what it has read, and no broker has told it a lie.

Two brokers by a script, whose answers are those of any broker; the first leads all the time, and its epoch rises, as it
does whenever a follower fails. The consumer waits at offset 3, where epoch 6 begins. It hears of epoch 7 and asks where
the epoch of its position, 5, ends (KIP-320). Then come the records of epoch 6, for which it had asked before, then
metadata again, and then the answer: at 3. librdkafka compares that with where it is by now, which it did not ask about,
takes it for a truncation, and goes back.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.model.errors import ErrorCode
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import ReadHeader, decode_request_header, encode_response, request_class
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorResponse
from barnabas.wire.messages.metadata import MetadataResponse
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from barnabas.wire.records import Record, build_batch

VERSIONS = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 9,
    ApiKey.FETCH: 11,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.PRODUCE: 7,  # without it librdkafka knows no record batches
}
TOPIC = "t"
LEADER = 0
TURN, END = 3, 6
"""Epoch 5 has the offsets before the one, epoch 6 those before the other."""


def records(start: int, end: int) -> bytes:
    batches = b""
    for offset in range(start, end):
        batch = bytearray(build_batch([Record(0, 1_700_000_000_000, None, b"%d" % offset, [])]))
        struct.pack_into(">q", batch, 0, offset)
        struct.pack_into(">i", batch, 12, 5 if offset < TURN else 6)
        batches += bytes(batch)
    return batches


class Script:
    """What the two brokers know, and say. `read` is how far the consumer has come."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.epoch = 5
        self.end = TURN
        self.read = 0
        self.metadata_told = 0
        self.changed = asyncio.Condition()

    async def until(self, fact: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(fact)

    async def tell(self, **facts: int) -> None:
        async with self.changed:
            for name, value in facts.items():
                setattr(self, name, value)
            self.changed.notify_all()

    async def metadata_is_taken_up(self) -> None:
        """What was told from now on: who asks again has taken up what it was told before."""
        told = self.metadata_told
        await self.until(lambda: self.metadata_told >= told + 3)

    async def answer(self, key: int, asked: Any) -> Any:
        match key:
            case ApiKey.API_VERSIONS:
                return ApiVersionsResponse(
                    api_keys=[ApiVersionsResponse.ApiVersion(each, 0, last) for each, last in VERSIONS.items()]
                )
            case ApiKey.FIND_COORDINATOR:
                return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            case ApiKey.METADATA:
                return await self.metadata()
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                return await self.end_of_epoch(asked.topics[0].partitions[0])
        assert key == ApiKey.FETCH
        return await self.fetch(asked)

    async def metadata(self) -> MetadataResponse:
        brokers = [
            MetadataResponse.MetadataResponseBroker(each, "127.0.0.1", port) for each, port in enumerate(self.ports)
        ]
        partition = MetadataResponse.MetadataResponsePartition(
            0, 0, LEADER, self.epoch, replica_nodes=[0, 1], isr_nodes=[0, 1]
        )
        topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, partitions=[partition])
        await self.tell(metadata_told=self.metadata_told + 1)
        return MetadataResponse(brokers=brokers, controller_id=1, topics=[topic], cluster_id="scripted")

    async def end_of_epoch(self, asked: Any) -> OffsetForLeaderEpochResponse:
        if asked.current_leader_epoch == 7 and self.end == TURN:
            assert asked.leader_epoch == 5
            await self.tell(end=END)  # that had come in epoch 6, and the fetch that waits is answered first
            await self.until(lambda: self.read == END)
            await self.metadata_is_taken_up()
        end = {5: TURN, 6: END}[asked.leader_epoch]
        result = OffsetForLeaderEpochResponse.EpochEndOffset(0, 0, asked.leader_epoch, end)
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC, partitions=[result])
        return OffsetForLeaderEpochResponse(topics=[topic])

    async def fetch(self, asked: Any) -> FetchResponse:
        if not asked.topics:
            await asyncio.sleep(asked.max_wait_ms / 1000)
            return FetchResponse()
        (one,) = asked.topics[0].partitions
        if one.current_leader_epoch == 6 and self.end == TURN:
            await self.tell(epoch=7)
            await self.until(lambda: self.end == END)
        elif one.fetch_offset == self.end:
            await asyncio.sleep(asked.max_wait_ms / 1000)
        data = FetchResponse.PartitionData(0, 0, self.end, self.end, 0, records=records(one.fetch_offset, self.end))
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(TOPIC, partitions=[data])])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def answered(header: ReadHeader, frame: bytes, at: int) -> None:
            version = min(header.api_version, VERSIONS[ApiKey(header.api_key)])
            asked, _ = request_class(header.api_key).decode(frame, version, at)
            response = await self.answer(header.api_key, asked)
            writer.writelines(encode_response(response, version, header.correlation_id))

        async with asyncio.TaskGroup() as answers:
            try:
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    frame = await reader.readexactly(size)
                    answers.create_task(answered(*_headed(frame)))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()


def _headed(frame: bytes) -> tuple[ReadHeader, bytes, int]:
    header, at = decode_request_header(frame)
    return header, frame, at


@contextmanager
def served(script: Script) -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> None:
        for _ in range(2):
            server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
            script.ports.append(server.sockets[0].getsockname()[1])

    async def end() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
        yield lambda story: asyncio.run_coroutine_threadsafe(story, loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.timeout(120)
def test_librdkafka_goes_back_by_an_answer_about_where_it_was_before() -> None:
    script = Script()
    offsets: list[int] = []
    with served(script) as run:
        consumer = Consumer(
            {
                "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in script.ports),
                "group.id": "g",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 100,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        try:
            while len(offsets) < END + 1:
                message = consumer.poll(60)
                assert message is not None
                assert message.error() is None
                offsets.append(message.offset())
                read = offsets[-1] + 1
                run(script.tell(read=read, epoch=6) if read == TURN else script.tell(read=read))
        finally:
            consumer.close()
    assert offsets == [0, 1, 2, 3, 4, 5, 3]
