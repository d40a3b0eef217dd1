"""Small requests that ask for much: bombs, millions of names, and lengths with nothing behind them."""

from __future__ import annotations

import secrets
import struct

from hostile_frame import Broken, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.api import ApiKey
from barnabas.wire.compression import Codec
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

MIB = 1 << 20
UNPACKED_MIB = 60
"""Of a batch: not much less than a broker takes."""


def produce(topic: str, batches: list[bytes]) -> ProduceRequest:
    partitions = [ProduceRequest.PartitionProduceData(index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(topic, partitions)])


@attack("six million names in Metadata")
def six_million_names(target: Target) -> None:
    body = struct.pack(">i", 6_000_000) + b"\0\1x" * 6_000_000
    caller = target.caller()
    caller.request(ApiKey.METADATA, 1, body)
    caller.refused()


@attack("a hundred thousand unknown topics in Metadata")
def a_hundred_thousand_topics(target: Target) -> None:
    names = b"".join(struct.pack(">h10s", 10, b"none-%05d" % number) for number in range(100_000))
    caller = target.caller()
    caller.request(ApiKey.METADATA, 4, struct.pack(">i", 100_000) + names + b"\0")
    assert caller.answer_bytes() > 1_000_000


@attack("an old client fetches gzip bombs")
def down_converted_bombs(target: Target) -> None:
    topic = target.topic()
    bomb = build_batch([Record(at, 0, b"k", bytes(MIB)) for at in range(UNPACKED_MIB)], compression=Codec.GZIP)
    answer = target.caller().ask(produce(topic, [bomb]), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
    request = FetchRequest(
        replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=MIB,
        topics=[FetchRequest.FetchTopic(topic, partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=MIB)])],
    )  # fmt: skip
    for _ in range(3):
        answer = target.caller().ask(request, 3)
        (data,) = answer.responses[0].partitions
        assert data.error_code == ErrorCode.NONE
        assert 0 < len(data.records) < 3 * MIB


@attack("two billion partitions")
def two_billion_partitions(target: Target) -> None:
    controller = target.caller().ask(MetadataRequest(topics=[]), 4).controller_id
    topic = CreateTopicsRequest.CreatableTopic("endless", 2**31 - 1, 1)
    created = target.caller(controller).ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4)
    assert created.topics[0].error_code == ErrorCode.POLICY_VIOLATION, created
    name = target.topic()
    more = CreatePartitionsRequest.CreatePartitionsTopic(name, 2**31 - 1, None)
    added = target.caller(controller).ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 1)
    assert added.results[0].error_code == ErrorCode.POLICY_VIOLATION, added


@attack("two hundred partitions that come and go, again and again")
def topics_that_come_and_go(target: Target) -> None:
    controller = target.caller(target.caller().ask(MetadataRequest(topics=[]), 4).controller_id)
    for _ in range(10 if target.thorough else 3):
        names = [f"comes-and-goes-{secrets.token_hex(4)}" for _ in range(10)]
        target.world.has_made(names)
        topics = [CreateTopicsRequest.CreatableTopic(name, 20, 3) for name in names]
        created = controller.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 4)
        deleted = controller.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 3)
        answered = {each.error_code for each in (*created.topics, *deleted.responses)}
        if answered != {ErrorCode.NONE}:
            raise Broken(f"topics were not made or deleted: {answered}")


@attack("the broker's configuration, sixty thousand times")
def configuration_again_and_again(target: Target) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="0")
    request = DescribeConfigsRequest(resources=[resource] * 60_000)
    answer = target.caller().ask(request, 1)
    assert {each.error_code for each in answer.results} == {ErrorCode.INVALID_REQUEST}
    answer = target.caller().ask(DescribeConfigsRequest(resources=[resource] * 300), 1)
    assert {(each.error_code, len(each.configs) > 100) for each in answer.results} == {(0, True)}


@attack("a length of 100 MiB and nothing behind it", memory_bytes=96 * MIB)
def long_silence(target: Target) -> None:
    for _ in range(20):
        target.caller().send(struct.pack(">i", 100 * MIB))
    # They are served in the order they came: when this one is answered, those are there.
    caller = target.caller()
    caller.request(ApiKey.API_VERSIONS, 0, b"")
    caller.answer_bytes()


@attack("HTTP, TLS and noise")
def noise(target: Target) -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(64), b"\xff" * 70_000):
        for _ in range(20):
            caller = target.caller()
            try:
                caller.send(data)
                assert caller.refused()
            except Broken:
                pass
