"""Many requests in one breath, and answers that nobody reads."""

from __future__ import annotations

import contextlib
import os
import socket

from hostile_frame import Broken, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

MIB = 1 << 20
CONNECTIONS = 8
READERS = 30
SMALL_AND_DEAR = (
    (MetadataRequest(topics=None), 1),
    (DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(4, "0")]), 1),
    (DescribeLogDirsRequest(topics=None), 1),
    (ApiVersionsRequest(), 0),
    (FindCoordinatorRequest(key="a"), 0),
)
"""A few bytes each, and an answer that takes a while."""


@attack("as many small requests as there is room for, in one breath")
def in_one_breath(target: Target) -> None:
    for message, version in SMALL_AND_DEAR:
        request = b"".join(encode_request(message, version, 1, ""))
        many = request * ((MIB if target.thorough else MIB // 8) // len(request))
        callers = [target.caller() for _ in range(CONNECTIONS)]
        for each in callers:
            each.socket.setblocking(False)
            with contextlib.suppress(Broken):  # it takes no more for now
                each.send(many)
        for each in callers:
            each.socket.settimeout(60)
            each.answer_bytes()
            each.close()


@attack("answers of fifty megabytes that nobody reads")
def nobody_reads(target: Target) -> None:
    topic = target.topic(retention_bytes=str(60 * MIB), segment_bytes=str(16 * MIB))
    batch = build_batch([Record(0, 0, None, os.urandom(MIB - 200))])
    data = ProduceRequest.PartitionProduceData(0, records=batch)
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(topic, [data])])
    writer = target.caller()
    for _ in range(50 if target.thorough else 20):
        answer = writer.ask(produce, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
    wanted = FetchRequest.FetchPartition(0, partition_max_bytes=60 * MIB)
    fetch = FetchRequest(
        replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=60 * MIB,
        topics=[FetchRequest.FetchTopic(topic, partitions=[wanted])],
    )  # fmt: skip
    readers = []
    for version in (3, 4, 11):  # converted, as it is, and as it is with a session
        for _ in range(READERS):
            reader = target.caller()
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.send(b"".join(encode_request(fetch, version, 1, "")) * 20)
            readers.append(reader)
    for each in readers:
        with contextlib.suppress(Broken):  # others needed the memory
            each.first_byte()


@attack("records that are deleted one by one")
def deleted_one_by_one(target: Target) -> None:
    topic = target.topic()
    count = 20_000 if target.thorough else 3_000
    batch = build_batch([Record(at, 0, None, b"") for at in range(count)])
    data = ProduceRequest.PartitionProduceData(0, records=batch)
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(topic, [data])])
    caller = target.caller()
    answer = caller.ask(produce, 9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE, answer
    for offset in range(answer.base_offset + 1, answer.base_offset + count):
        deleted = DeleteRecordsRequest.DeleteRecordsPartition(0, offset)
        delete = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [deleted])], 1000)
        caller.send(b"".join(encode_request(delete, 1, 1, "")))
    for _ in range(count - 1):
        caller.answer_bytes()
