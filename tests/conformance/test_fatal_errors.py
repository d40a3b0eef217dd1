"""librdkafka's fatal errors, as a broker that has lost records brings them about: the judge's clients go on after them.

A proxy says of records that those before them are not there, in place of a broker that lost them.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.client import NewTopic, connect
from barnabas.judge.history import NONE, Client, Status
from barnabas.judge.journal import Notes
from barnabas.judge.librdkafka import QUIET, RecordUnderWay, fatal_errors, said, send
from barnabas.judge.proxy import ProxiedClient, Proxy, framed, read_frame
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import decode_request_header, encode_response
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse

TOPIC = "fatal"
PARTITIONS = 4
_HEADER = struct.Struct(">hhi")


class Broker(ProxiedClient):
    """What a broker says, but to Produce, once it has lost what producers sent."""

    lost = False

    async def requests(self, behind: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(self.reader)
                api_key, version, correlation_id = _HEADER.unpack_from(frame)
                if api_key == ApiKey.PRODUCE and Broker.lost:
                    _, position = decode_request_header(frame)
                    asked, _ = ProduceRequest.decode(frame, version, position)
                    topics = [
                        ProduceResponse.TopicProduceResponse(
                            name=topic.name,
                            partition_responses=[
                                ProduceResponse.PartitionProduceResponse(
                                    index=one.index, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, base_offset=-1
                                )
                                for one in topic.partition_data
                            ],
                        )
                        for topic in asked.topic_data
                    ]
                    self._writer.writelines(encode_response(ProduceResponse(topics), version, correlation_id))
                    continue
                self._asked[correlation_id] = (api_key, version)
                behind.write(framed(frame))


@pytest.fixture
def proxied(ours: str) -> Iterator[str]:
    async def addresses() -> dict[int, tuple[str, int]]:
        async with connect(ours) as cluster:
            await cluster.admin.create_topics([NewTopic(TOPIC, partitions=PARTITIONS, replication_factor=3)])
            brokers = (await cluster.refresh([])).brokers.values()
            return {broker.broker_id: (broker.host, broker.port) for broker in brokers}

    proxy = Proxy(asyncio.run(addresses()), link=Broker)
    Broker.lost = False
    try:
        yield proxy.bootstrap
    finally:
        proxy.close()


@pytest.mark.timeout(120)
def test_a_fatal_error_that_comes_in_a_flush_is_an_error_of_the_client_and_no_record_is_forgotten(proxied: str) -> None:
    notes = Notes({TOPIC: {}})
    journal = notes.journal(Client("writer"))
    producer = Producer({"bootstrap.servers": proxied, "enable.idempotence": True, **QUIET})

    def sent() -> list[RecordUnderWay]:
        made = [
            RecordUnderWay(journal, TopicPartition(TOPIC, number % PARTITIONS), NONE, value=notes.value())
            for number in range(40)
        ]
        for record in made:
            send(producer, record)
        return made

    sent()
    with fatal_errors():
        producer.flush(60)
    Broker.lost = True
    unknown = sent()
    with pytest.raises(KafkaException) as fatal, fatal_errors():
        producer.flush(60)
    assert said(fatal.value).fatal()
    for record in unknown:
        record.give_up()
    history = notes.history()
    assert sorted(history.value.tolist()) == list(range(80))
    assert history.status[history.value.argsort()].tolist() == [Status.OK] * 40 + [Status.UNKNOWN] * 40
