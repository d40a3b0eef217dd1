"""Connections that want nothing, and logs of many files: a broker has only so many file descriptors."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hostile_frame import PATIENCE_S, Broken, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

IDLE = 400
ROOM = 160
"""So many more descriptors than it has does a broker get: connections may take a part of them."""


@contextmanager
def so_many_more(target: Target, more: int) -> Iterator[tuple[int, int]]:
    """Lets broker 0 open so many files more than it has; gives its process and how many that are together.

    Behind it the limit is the hard one, which brokers raise theirs to: another attack may have lowered it meanwhile.
    """
    pid = target.brokers[0]["pid"]
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    allowed = len(os.listdir(f"/proc/{pid}/fd")) + more
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, hard))
    try:
        yield pid, allowed
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))


@attack("four hundred idle connections, and not as many descriptors")
def idle_connections(target: Target) -> None:
    with so_many_more(target, ROOM) as (pid, allowed):
        for _ in range(IDLE):
            try:
                target.caller()
            except Broken:  # closed before it was seen to be made
                continue
        target.topic("made meanwhile", partitions=4)
        assert len(os.listdir(f"/proc/{pid}/fd")) <= allowed


@attack("two thousand segments of a record, and not as many descriptors")
def segments_without_end(target: Target) -> None:
    topic = target.topic(segment_bytes="100")
    with so_many_more(target, 2 * ROOM):
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


@attack("more logs than descriptors")
def logs_without_end(target: Target) -> None:
    """What opens no file any more is refused, and is had once there are descriptors again."""
    topic = target.topic(partitions=ROOM)
    records = build_batch([Record(0, 0, None, b"")])
    data = [ProduceRequest.PartitionProduceData(index, records=records) for index in range(ROOM)]
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(topic, data)])
    writer = target.caller()
    made_behind = threading.Thread(target=target.topic, args=("made behind them",), kwargs={"partitions": ROOM})
    with so_many_more(target, ROOM // 4):
        for _ in range(100):
            answer = writer.ask(produce, 9)
            codes = {partition.error_code for partition in answer.responses[0].partition_responses}
            assert codes <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}, codes
        made_behind.start()
        made_behind.join(5)
    made_behind.join(PATIENCE_S)
    assert not made_behind.is_alive(), "the partitions that were made then are led"
    codes = {partition.error_code for partition in writer.ask(produce, 9).responses[0].partition_responses}
    assert codes == {ErrorCode.NONE}, codes
