"""A stranger connects and sends what is no request; it has to be shown the door, and nobody else may notice.

For a broker that nothing else befalls meanwhile: a link that is cut keeps doors open too.

S2: a length that the broker does not allow ends the connection before a byte of it is waited for, and whoever has left
is not counted any more. S4: bytes that cannot be read end their own connection, and nothing besides.
"""

from __future__ import annotations

import asyncio
import struct

from barnabas.client.cluster import ClusterClient
from barnabas.runtime.doors import Runtime
from barnabas.sim.chance import Chance
from barnabas.sim.world import World, broker_number
from barnabas.wire.api import ApiKey

DOOR_S = 10.0
"""Until then the broker must have closed the connection."""
_MAX_REQUEST_BYTES = 104_857_600
_HEADER = struct.Struct(">hhihs")


class _Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.shown_out = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self.shown_out.done():
            self.shown_out.set_result(None)


def _calls(chance: Chance) -> list[tuple[str, str, bytes]]:
    """(what it is, the invariant that it tries, the bytes)."""
    unreadable = _HEADER.pack(ApiKey.METADATA, 9, 7, 1, b"s") + b"\0" + chance.bytes(3) + b"\xff" * 20
    return [
        ("a length above socket.request.max.bytes", "S2", struct.pack(">i", _MAX_REQUEST_BYTES + 1)),
        ("a length below zero", "S2", struct.pack(">i", -chance.whole(1, 1 << 30))),
        ("an unknown request", "S4", _framed(_HEADER.pack(999, 0, 1, 1, b"s"))),
        ("a request that ends in its middle", "S4", _framed(unreadable)),
        ("a header that ends in its middle", "S4", _framed(chance.bytes(3))),
    ]


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def visit(world: World, name: str, chance: Chance) -> None:
    """The stranger calls at the broker `name` with everything it has, as long as that broker lives."""
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

        for _ in range(3):
            hasty = await runtime.network.connect(_Caller, name, port, timeout_ms=5_000)
            assert hasty.transport is not None
            hasty.transport.abort()
        await asyncio.sleep(1)
        world.check("S2")
        counted, there = len(broker.connections), world.network.open_at(process, port)
        if process.alive and counted != there:
            world.violated("S2", f"{counted} connections are counted and {there} are open", node=name)

    await world.client(story, f"stranger-{broker_number(name)}-{chance.whole(0, 1 << 30)}")
