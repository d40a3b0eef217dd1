"""A stranger connects and sends bytes that are no request, or a length that is too large. The broker closes that
connection, and no other client notices. A valid request that is merely long is answered.

It visits brokers that nothing else disturbs: a cut link keeps connections open as well.

S2: a length that the broker does not allow closes the connection before a byte of it is waited for, and a closed
connection is not counted any more. S4: unreadable bytes end their own connection and nothing else, and so does a
request that is read and answered in slices.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from barnabas.broker.long_requests import ELEMENTS
from barnabas.client.cluster import ClusterClient
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.world import World, broker_number
from barnabas.wire.api import ApiKey
from barnabas.wire.compression import Codec
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch
from barnabas.wire.varint import write_unsigned

DOOR_S = 10.0
"""Within this time the broker has to close the connection."""
_MAX_REQUEST_BYTES = 104_857_600
_HEADER = struct.Struct(">hhihs")


class _Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.shown_out = asyncio.get_running_loop().create_future()
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """The first answer, without its length."""
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= 4 and not self.answered.done():
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) >= 4 + size:
                self.answered.set_result(bytes(self._received[4 : 4 + size]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self.shown_out.done():
            self.shown_out.set_result(None)


def _calls(chance: Chance) -> list[tuple[str, str, bytes]]:
    """What is sent: its description, the invariant that it tests, and the bytes."""
    unreadable = _HEADER.pack(ApiKey.METADATA, 9, 7, 1, b"s") + b"\0" + chance.bytes(3) + b"\xff" * 20
    return [
        ("a length above socket.request.max.bytes", "S2", struct.pack(">i", _MAX_REQUEST_BYTES + 1)),
        ("a length below zero", "S2", struct.pack(">i", -chance.whole(1, 1 << 30))),
        ("an unknown request", "S4", _framed(_HEADER.pack(999, 0, 1, 1, b"s"))),
        ("a request that ends in its middle", "S4", _framed(unreadable)),
        ("a header that ends in its middle", "S4", _framed(chance.bytes(3))),
        ("a request of more elements than its size allows", "S4", _framed(_names(b"\2x\0", ELEMENTS * 5 // 4))),
        (
            "a header with tagged fields without end",
            "S4",
            _framed(_HEADER.pack(3, 9, 7, 1, b"s") + b"\xff" * 4 + b"\x0f"),
        ),
    ]


def _names(name: bytes, count: int) -> bytes:
    """Metadata version 9 of so many topics; `name` as it is encoded there."""
    number = bytearray()
    write_unsigned(number, count + 1)
    return _HEADER.pack(ApiKey.METADATA, 9, 7, 1, b"s") + b"\0" + number + name * count + bytes(4)


def _long_question(chance: Chance) -> tuple[int, bytes]:
    """Metadata of many topics that do not exist and are not to be created."""
    names = chance.whole(300, 2000)
    topics = [MetadataRequest.MetadataRequestTopic(name=f"nobody's-{number}") for number in range(names)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return names, b"".join(encode_request(request, 9, 7, "s"))


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def visit(world: World, name: str, chance: Chance) -> None:
    """The stranger sends the broker `name` everything it has, as long as that process lives."""
    broker, process = world.brokers.get(name), world.nodes[name].process
    if broker is None or process is None:
        return
    port = broker.listeners.bound[0].port

    async def story(runtime: Runtime, cluster: ClusterClient) -> None:
        for what, invariant, data in _calls(chance):
            try:
                caller = await runtime.network.connect(_Caller, name, port, timeout_ms=5_000)
            except OSError:
                return
            assert caller.transport is not None
            caller.transport.write(data)
            await asyncio.sleep(DOOR_S)
            shown_out = caller.shown_out.done()
            caller.transport.abort()
            world.check(invariant)
            if not shown_out and process.alive:
                world.violated(invariant, f"{what} left its connection open for {DOOR_S:.0f} s", node=name)

        names, question = _long_question(chance)
        try:
            curious = await runtime.network.connect(_Caller, name, port, timeout_ms=5_000)
        except OSError:
            return
        assert curious.transport is not None
        curious.transport.write(question)
        await asyncio.sleep(DOOR_S)
        curious.transport.abort()
        world.check("S4")
        told = decode_response(MetadataResponse, 9, curious.answered.result())[1] if curious.answered.done() else None
        if process.alive and (told is None or len(told.topics) != names):
            world.violated("S4", f"a question about {names} topics is not answered within {DOOR_S:.0f} s", node=name)

        for _ in range(3):
            hasty = await runtime.network.connect(_Caller, name, port, timeout_ms=5_000)
            assert hasty.transport is not None
            hasty.transport.write(struct.pack(">i", _MAX_REQUEST_BYTES) + bytes(3000))
            hasty.transport.abort()
        await asyncio.sleep(1)
        world.check("S2")
        counted, there = len(broker.connections), world.network.open_at(process, port)
        if process.alive and counted != there:
            world.violated("S2", f"{counted} connections are counted and {there} are open", node=name)

    await world.client(story, f"stranger-{broker_number(name)}-{chance.whole(0, 1 << 30)}")


def _too_much(chance: Chance) -> list[bytes]:
    """Requests and other bytes that ask for more than is allowed."""
    names, question = _long_question(chance)
    bomb = build_batch([Record(0, 0, None, bytes(1 << 20))], compression=Codec.ZSTD)
    partitions = [ProduceRequest.PartitionProduceData(number, bomb) for number in range(chance.whole(1, 20))]
    produce = ProduceRequest(None, -1, 1000, [ProduceRequest.TopicProduceData("nobody's", partitions)])
    fetched = [FetchRequest.FetchPartition(number, partition_max_bytes=1) for number in range(names // 2)]
    fetch = FetchRequest(max_wait_ms=100, topics=[FetchRequest.FetchTopic("nobody's", partitions=fetched)])
    return [
        question,
        b"".join(encode_request(produce, 9, 7, "s")),
        b"".join(encode_request(fetch, 12, 7, "s")),
        struct.pack(">i", _MAX_REQUEST_BYTES) + bytes(3000),
        *(data for _, _, data in _calls(chance)),
    ]


async def intrude(world: World, name: str, chance: Chance) -> None:
    """Somebody comes to the broker `name` several times, each time with another request, and reads no answer, whatever
    else happens to the broker. What is watched is whether other clients are served."""
    broker = world.brokers.get(name)
    if broker is None or not broker.listeners.bound:
        return
    port = broker.listeners.bound[0].port

    async def story(runtime: Runtime, cluster: ClusterClient) -> None:
        for data in _too_much(chance):
            with suppress(OSError):
                caller = await runtime.network.connect(_Caller, name, port, timeout_ms=1_000)
                assert caller.transport is not None
                caller.transport.write(data)
                await asyncio.sleep(chance.whole(0, 300) / 1000)
                caller.transport.abort()

    await world.client(story, f"intruder-{broker_number(name)}-{chance.whole(0, 1 << 30)}")
