"""Quotas as a connection goes by them: whatever a request waited for, its answer is what counts."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest
from clocks import ManualClock
from leading_broker import PARTITION, TOPIC, TOPIC_ID, Broker

from barnabas.broker.quotas import Quotas
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.model.ids import ZERO_UUID
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch

CLIENT = "greedy"
FOREVER_MS = 3_600_000
PRODUCE_VERSION = 9
FETCH_VERSION = 13


def leader(directory: Path, replicas: tuple[int, ...] = (1,)) -> tuple[Broker, ManualClock]:
    """Its quotas and what its requests take go by a clock that stands still."""
    broker, clock = Broker(directory, replicas=replicas), ManualClock()
    broker.requests = RequestMetrics(lambda: broker.broker_id, clock)
    broker.quotas = Quotas(clock, broker.config)
    broker.connect()
    return broker, clock


def produce(acks: int = -1) -> bytes:
    data = ProduceRequest.PartitionProduceData(0, build_batch([Record(0, 1, None, bytes(1000), [])]))
    message = ProduceRequest(None, acks, FOREVER_MS, [ProduceRequest.TopicProduceData(TOPIC, [data])])
    return b"".join(bytes(part) for part in encode_request(message, PRODUCE_VERSION, 1, CLIENT))


def fetch(session_id: int, epoch: int, offset: int, version: int = FETCH_VERSION) -> bytes:
    asked = FetchRequest.FetchPartition(0, -1, offset, -1, -1, 1 << 20)
    topic = FetchRequest.FetchTopic(TOPIC, TOPIC_ID if version >= 13 else ZERO_UUID, [asked])
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=FOREVER_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[topic],
    )
    return b"".join(encode_request(message, version, 1, CLIENT))


def fetched(broker: Broker, version: int = FETCH_VERSION) -> FetchResponse:
    response: FetchResponse = decode_response(FetchResponse, version, bytes(broker.transport.written[4:]))[1]
    broker.transport.written.clear()
    return response


def bytes_out(broker: Broker) -> int:
    partition = broker.replicas.partition(PARTITION)
    assert partition is not None
    return partition.traffic.bytes_out


def test_an_operator_is_told_once_of_a_client_that_is_throttled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path)
        broker.quotas.set(f"clients/{CLIENT}", {"producer_byte_rate": "100"})
        with caplog.at_level(logging.WARNING, "barnabas.broker.request_metrics"):
            for _ in range(3):
                broker.connect()
                broker.feed(produce(acks=1))
                broker.connection.abort()

    asyncio.run(main())
    (line,) = caplog.messages
    assert line.startswith(f"[broker 1] Produce of client {CLIENT} at ")
    assert re.search(r" is throttled by its quota for [1-9][0-9]* ms$", line)


def test_a_produce_that_waited_for_followers_counts_when_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path, replicas=(1, 2))
        broker.quotas.set(f"clients/{CLIENT}", {"producer_byte_rate": "100"})
        broker.feed(produce() + produce())
        assert broker.connection.busy
        assert not broker.connection._stalled
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        partition.record_fetch(2, -1, 2, 0, 2, 0)
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        size = len(broker.transport.written) // 2
        answers = [bytes(broker.transport.written[at : at + size]) for at in (0, size)]
        throttles = [
            decode_response(ProduceResponse, PRODUCE_VERSION, each[4:])[1].throttle_time_ms for each in answers
        ]
        assert 0 < throttles[0] < throttles[1]
        broker.transport.written.clear()
        broker.feed(produce(acks=1))
        assert not broker.transport.written, "it is not begun before the time is up"
        broker.connection.abort()

    asyncio.run(main())


def test_a_produce_counts_whose_client_hangs_up_before_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path, replicas=(1, 2))
        broker.quotas.set(f"clients/{CLIENT}", {"producer_byte_rate": "100"})
        broker.feed(produce() + produce())
        assert broker.connection.busy
        broker.connection.abort()
        broker.connect()
        broker.feed(produce(acks=0))
        assert broker.connection._stalled, "its client has used its quota up"
        assert broker.connection._throttle.when() - asyncio.get_running_loop().time() > 20, "three produces count"
        broker.connection.abort()

    asyncio.run(main())


def test_a_produce_counts_as_soon_as_there_is_a_quota(tmp_path: Path) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path)
        for _ in range(2):
            broker.feed(produce(acks=1))
        assert not broker.connection._stalled
        broker.quotas.set(f"clients/{CLIENT}", {"producer_byte_rate": "10"})
        broker.feed(produce(acks=1))
        assert broker.connection._stalled
        broker.connection.abort()

    asyncio.run(main())


async def answered_when_something_comes(broker: Broker) -> None:
    """What waits on the broker's connection is answered, since somebody else produces."""
    assert broker.connection.busy
    waiting = broker.connection, broker.transport
    broker.connect()
    broker.feed(produce(acks=1))
    broker.connection, broker.transport = waiting
    while broker.connection.busy:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", [9, FETCH_VERSION])
def test_a_fetch_that_waited_counts_when_it_is_answered(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path)
        broker.quotas.set(f"clients/{CLIENT}", {"consumer_byte_rate": "100"})
        broker.feed(fetch(0, 0, 0, version))
        await answered_when_something_comes(broker)
        answer = fetched(broker, version)
        assert answer.throttle_time_ms > 0
        assert (answer.session_id, answer.responses) == (0, [])
        assert not broker.replicas.fetch_sessions, "it has heard of none"
        assert bytes_out(broker) == 0
        assert broker.connection._stalled
        broker.connection.abort()

    asyncio.run(main())


def test_a_session_goes_on_behind_a_fetch_that_was_throttled(tmp_path: Path) -> None:
    async def main() -> None:
        broker, _ = leader(tmp_path)
        broker.feed(produce(acks=1))
        broker.transport.written.clear()
        broker.feed(fetch(0, 0, 0))
        begun = fetched(broker)
        sent = bytes_out(broker)
        assert sent > 1000
        broker.quotas.set(f"clients/{CLIENT}", {"consumer_byte_rate": "100"})
        broker.feed(fetch(begun.session_id, 1, 0))
        throttled = fetched(broker)
        assert throttled.throttle_time_ms > 0
        assert (throttled.session_id, throttled.responses) == (begun.session_id, [])
        assert bytes_out(broker) == sent
        broker.connection.abort()
        broker.quotas.set(f"clients/{CLIENT}", {})
        broker.connect()
        broker.feed(fetch(begun.session_id, 2, 0))
        assert fetched(broker).responses == begun.responses

    asyncio.run(main())


@pytest.mark.parametrize("version", [9, FETCH_VERSION])
def test_waiting_takes_no_time_of_the_broker_s(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker, clock = leader(tmp_path)
        broker.quotas.set(f"clients/{CLIENT}", {"request_percentage": "1"})
        broker.feed(fetch(0, 0, 0, version))
        clock.ms += 9000
        await answered_when_something_comes(broker)
        answer = fetched(broker, version)
        assert answer.throttle_time_ms == 0
        assert answer.responses[0].partitions[0].records

    asyncio.run(main())
