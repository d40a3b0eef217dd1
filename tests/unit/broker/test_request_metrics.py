"""What is counted of requests, and said of those that are refused."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from leading_broker import PARTITION, Broker
from test_produce_frames import batch, frame
from test_repeated_fetch import Follower, fetch, fetched_once

from barnabas.broker.request_metrics import TIMED_EACH, errors_in
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataResponse
from barnabas.wire.messages.produce import ProduceResponse


def consumers_fetch() -> bytes:
    """A whole frame of version 12."""
    asked = FetchRequest.FetchPartition(0, partition_max_bytes=1 << 20)
    message = FetchRequest(max_wait_ms=0, topics=[FetchRequest.FetchTopic("flights", partitions=[asked])])
    return b"".join(bytes(each) for each in encode_request(message, 12, 1, "c"))


def test_produces_are_counted_one_by_one_and_timed_in_the_place_of_several(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        for _ in range(4 * TIMED_EACH + 1):
            broker.feed(frame(11, batch()))
        broker.feed(frame(9, batch()))
        broker.connect()
        broker.feed(frame(9, batch()))
        produce = broker.requests.figures["Produce"]
        assert produce.requests == {11: 1 + 4 * TIMED_EACH, 9: 2}
        assert produce.errors == {0: 3 + 4 * TIMED_EACH}
        for part in ("queue", "local", "remote", "response_queue", "send", "total"):
            assert getattr(produce, part).count == 4 * TIMED_EACH + 1, part
        assert produce.request_bytes == (3 + 4 * TIMED_EACH) * (len(frame(9, batch())) - 4)
        assert produce.total.total_ns >= produce.local.total_ns > 0

    asyncio.run(main())


def test_fetches_are_counted_one_by_one_and_timed_in_the_place_of_several(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(11, batch()))
        for _ in range(4 * TIMED_EACH):
            broker.feed(consumers_fetch())
        fetches = broker.requests.figures["FetchConsumer"]
        assert fetches.requests == {12: 4 * TIMED_EACH}
        assert fetches.errors == {0: 8 * TIMED_EACH}
        for part in ("queue", "local", "remote", "response_queue", "send", "total"):
            assert getattr(fetches, part).count == 4 * TIMED_EACH - 1, part
        assert fetches.total.total_ns >= fetches.local.total_ns > 0

    asyncio.run(main())


def test_what_waits_for_followers_is_remote_time(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        for _ in range(2 * TIMED_EACH):
            broker.feed(frame(11, batch(), -1))
            await asyncio.sleep(0.005)
            partition = broker.replicas.partition(PARTITION)
            assert partition is not None
            end = partition.local_log().log_end_offset
            partition.record_fetch(2, -1, end, 0, end, 10**9)
            await asyncio.sleep(0)
        produce = broker.requests.figures["Produce"]
        # The first ones, and the last, which stands for several.
        assert produce.remote.count == produce.total.count == 2 * TIMED_EACH
        assert produce.remote.total_ns > 2 * TIMED_EACH * 4_000_000
        assert produce.local.total_ns < produce.remote.total_ns

    asyncio.run(main())


def test_followers_and_consumers_fetches_are_told_apart_and_together(tmp_path: Path) -> None:
    async def main() -> None:
        broker, session = fetched_once(tmp_path, 17)
        broker.feed(fetch(17, session.session_id, 1, [], max_wait_ms=0))
        broker.feed(consumers_fetch())
        figures = broker.requests.counted()
        assert figures["FetchFollower"].requests == {17: 2}
        assert figures["FetchConsumer"].requests == {12: 1}
        assert figures["Fetch"].requests == {17: 2, 12: 1}
        assert dict(broker.requests.times("total"))["Fetch"].count == 3

    asyncio.run(main())


def test_a_partitions_traffic_is_read_off_its_log(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        for _ in range(5):
            broker.feed(frame(11, batch()))
        broker.feed(frame(11, batch()[:17] + b"\0\0\0\0" + batch()[21:]))
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        traffic = partition.traffic.looked()
        assert (traffic.produces, traffic.failed_produces) == (6, 0), "a broken batch is its sender's failure"
        assert (traffic.records_in, traffic.bytes_in) == (5, 5 * len(batch()))
        partition.local_log().roll(now_ms=1)
        broker.feed(frame(11, batch()))
        partition.local_log().truncate_to(2, now_ms=1)
        assert partition.traffic.looked().bytes_in == 6 * len(batch())
        partition.forget()
        broker.replicas.former_traffic.add(partition.traffic)
        assert broker.replicas.former_traffic.produces == 7

    asyncio.run(main())


def test_what_followers_fetch_is_counted_both_ways_of_fetching(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=(0, 1))
        follower = Follower(17)
        for number in range(6):
            broker.feed(frame(11, batch()))
            broker.transport.written.clear()
            broker.feed(follower.request(max_wait_ms=0))
            follower.answered(bytes(broker.transport.written[4:]))
            assert follower.offsets[0] == number + 1
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.traffic.replication_bytes_out == 6 * len(batch())
        assert partition.traffic.bytes_out == 0

    asyncio.run(main())


def test_a_refusal_is_told_once_with_who_and_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        with caplog.at_level(logging.WARNING, "barnabas.broker.request_metrics"):
            for _ in range(3):
                broker.feed(frame(11, batch()[:17] + b"\0\0\0\0" + batch()[21:]))

    asyncio.run(main())
    (line,) = caplog.messages
    assert line.startswith("[broker 1] Produce of client test at ")
    assert "is refused: CORRUPT_MESSAGE for flights-0" in line


def test_errors_are_found_wherever_a_response_has_them() -> None:
    response = ProduceResponse(
        [
            ProduceResponse.TopicProduceResponse(
                "a",
                [
                    ProduceResponse.PartitionProduceResponse(0),
                    ProduceResponse.PartitionProduceResponse(7, 29, error_message="no"),
                ],
            )
        ]
    )
    codes, seen = errors_in(response)
    assert codes == {0: 1, 29: 1}
    assert str(seen) == "TOPIC_AUTHORIZATION_FAILED for a-7 (no)"
    topic = MetadataResponse.MetadataResponseTopic(
        3,
        "b",
        partitions=[
            MetadataResponse.MetadataResponsePartition(5, partition_index=2),
            MetadataResponse.MetadataResponsePartition(29, partition_index=4),
            MetadataResponse.MetadataResponsePartition(29, partition_index=5),
        ],
    )
    codes, seen = errors_in(MetadataResponse(topics=[topic]))
    assert codes == {3: 1, 5: 1, 29: 2}
    assert str(seen) == "TOPIC_AUTHORIZATION_FAILED for b-4", "the first that an operator is asked about"
    assert errors_in(MetadataResponse(topics=[])) == ({}, None)
