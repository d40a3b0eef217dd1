"""Connections that want nothing, and logs of many files: a broker has only so many file descriptors."""

from __future__ import annotations

import os
import resource

from hostile_frame import Broken, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

IDLE = 400
ROOM = 160
"""So many more descriptors than it has does a broker get: connections may take a part of them."""


@attack("four hundred idle connections, and not as many descriptors")
def idle_connections(target: Target) -> None:
    pid = target.brokers[0]["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    allowed = len(os.listdir(f"/proc/{pid}/fd")) + ROOM
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, before[1]))
    try:
        for _ in range(IDLE):
            try:
                target.caller()
            except Broken:  # closed before it was seen to be made
                continue
        target.topic("made meanwhile", partitions=4)
        assert len(os.listdir(f"/proc/{pid}/fd")) <= allowed
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@attack("two thousand segments of a record, and not as many descriptors")
def segments_without_end(target: Target) -> None:
    topic = target.topic(segment_bytes="100")
    pid = target.brokers[0]["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    allowed = len(os.listdir(f"/proc/{pid}/fd")) + 2 * ROOM
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, before[1]))
    try:
        data = ProduceRequest.PartitionProduceData(0, records=build_batch([Record(0, 0, None, b"")]))
        produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(topic, [data])])
        writer = target.caller()
        for _ in range(2_000 if target.thorough else 600):
            answer = writer.ask(produce, 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
        reader = target.caller()
        for offset in range(0, 2_000 if target.thorough else 600, 2):
            wanted = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1)
            fetch = FetchRequest(
                replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1, session_epoch=-1,
                topics=[FetchRequest.FetchTopic(topic, partitions=[wanted])],
            )  # fmt: skip
            reader.send(b"".join(encode_request(fetch, 11, 1, "")))
            reader.answer_bytes()
        target.topic("made behind them", partitions=4)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
