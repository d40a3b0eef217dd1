"""A produce in a known envelope is answered, and appended, as the handler would have done it: byte for byte."""

from __future__ import annotations

import asyncio
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.authorize import AllowAll
from barnabas.broker.connection import BrokerConnection, ConnectionLimits
from barnabas.broker.router import Router
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

TOPIC = "flights"
PARTITION = TopicPartition(TOPIC, 0)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: Any) -> None:
        self.written += b"".join(parts)

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Connections:
    def opened(self, connection: BrokerConnection) -> None:
        pass


class Broker:
    """What a produce needs of a broker: it leads partition 0 of one topic, alone or with a follower that is away."""

    broker_id = 1
    connections = Connections()

    def __init__(self, directory: Path, *, replicas: tuple[int, ...] = (1,)) -> None:
        config = broker_config({"log.dirs": str(directory)})
        self.metadata = MetadataCache()
        self.tasks = Tasks(lambda name, error: None)
        self.log_dirs = LogDirs(real_runtime(), config)
        self.replicas = Replicas(
            real_runtime(),
            1,
            config,
            self.log_dirs,
            tasks=self.tasks,
            metadata=self.metadata,
            alter_partition=None,  # type: ignore[arg-type]
            connect=None,  # type: ignore[arg-type]
            inter_broker_listener="PLAINTEXT",
            broker_epoch=lambda: 1,
        )
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(TOPIC, 0, 1, 1, 0, list(replicas), 0, list(replicas))
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC, Uuid(bytes(15) + b"x"), [state])
        self.replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic]))
        self.router = Router()
        self.connect()

    def connect(self) -> None:
        self.transport = Transport()
        self.connection = BrokerConnection(self, self.router, "PLAINTEXT", AllowAll(), ConnectionLimits(1 << 20))  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    @property
    def log(self) -> bytes:
        partition = self.replicas.partition(PARTITION)
        assert partition is not None
        return bytes(partition.local_log().read(0, 1 << 30).records)


def frame(version: int, records: bytes | None, acks: int = 1, index: int = 0, client_id: str | None = "test") -> bytes:
    data = ProduceRequest.PartitionProduceData(index, records)
    message = ProduceRequest(None, acks, 1000, [ProduceRequest.TopicProduceData(TOPIC, [data])])
    return b"".join(bytes(part) for part in encode_request(message, version, random.randrange(1 << 31), client_id))


def batch(value: bytes = b"x" * 100, **fields: Any) -> bytes:
    return build_batch([Record(0, 1_700_000_000_000, None, value, [])], **fields)


def odd_frames(version: int, acks: int) -> list[bytes]:
    """Requests of one partition, in order and out of it."""
    good = batch()
    return [
        frame(version, good, acks),
        frame(version, batch(b""), acks),
        frame(version, batch(b"y" * 40_000), acks),
        frame(version, batch(b"z", compression="gzip"), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=0), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=1), acks),
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=0), acks),  # again
        frame(version, batch(producer_id=7, producer_epoch=0, base_sequence=9), acks),  # out of order
        frame(version, batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True), acks),
        frame(version, good[:17] + b"\0\0\0\0" + good[21:], acks),  # the CRC
        frame(version, good[:16] + b"\1" + good[17:], acks),  # the magic
        frame(version, good + good, acks),
        frame(version, good[:-1], acks),
        frame(version, good[:60], acks),
        frame(version, b"", acks),
        frame(version, None, acks),
        frame(version, good, acks, index=1),
        frame(version, good, acks, client_id=None),
        frame(version, good, acks, client_id="ü" * 200),
        frame(version, good, acks, client_id="__admin_client"),
        frame(version, good, 5),
    ]


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_is_repeated_is_answered_as_the_first_time(tmp_path: Path, version: int, acks: int) -> None:
    async def main() -> None:
        ordinary, repeating = Broker(tmp_path / "a"), Broker(tmp_path / "b")
        ordinary.router.repeated_produces._versions.clear()
        chance = random.Random(version)
        frames = odd_frames(version, acks)
        for number in range(400):
            data = frames[number % len(frames)] if number < 2 * len(frames) else chance.choice(frames)
            if number > 100 and chance.random() < 0.5:
                at = chance.randrange(4, min(len(data), 200))
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            for broker in (ordinary, repeating):
                broker.feed(data)
            assert repeating.transport.written == ordinary.transport.written, (number, data.hex())
            assert repeating.transport.closed == ordinary.transport.closed, (number, data.hex())
            if ordinary.transport.closed:
                ordinary.connect()
                repeating.connect()
        assert ordinary.log == repeating.log
        assert len(ordinary.log) > 10_000

    asyncio.run(main())


@pytest.mark.parametrize("version", [7, 11])
def test_the_second_request_of_a_kind_needs_no_handler(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path)
        broker.feed(frame(version, batch()))
        broker.connection._routes = {}
        broker.feed(frame(version, batch(b"another")))
        assert not broker.transport.closed
        broker.feed(frame(version, batch(), index=1))
        assert broker.transport.closed

    asyncio.run(main())


def test_what_waits_for_followers_is_answered_in_order_when_they_have_it(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        for _ in range(3):
            broker.feed(frame(9, batch(), -1))
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        assert partition.local_log().log_end_offset == 3
        await asyncio.sleep(0)
        assert not broker.transport.written
        partition.record_fetch(2, -1, 3, 0, 3, real_runtime().clock.monotonic_ms())
        while broker.connection.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
        size = 4 + struct.unpack_from(">i", broker.transport.written)[0]
        assert len(broker.transport.written) == 3 * size
        base_offset_at = size - 1 - 4 - 1 - 1 - 1 - 1 - 8 - 8 - 8
        offsets = [
            struct.unpack_from(">q", broker.transport.written, number * size + base_offset_at)[0] for number in range(3)
        ]
        assert offsets == [0, 1, 2]

    asyncio.run(main())
