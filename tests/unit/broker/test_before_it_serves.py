"""A broker listens before it serves: whoever connects meanwhile waits, and does not fill its memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from clocks import ManualClock
from test_broker_connection import Channel, echo, heartbeat, turns_until

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.connections import Connections
from barnabas.broker.framed_connection import SHARED_BYTES, ConnectionLimits
from barnabas.broker.request_memory import RequestMemory
from barnabas.model.config import broker_config

REQUESTS = 20_000

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_connects_before_the_broker_serves_is_answered_when_it_does(run: Run) -> None:
    async def story() -> None:
        channel: Any = Channel(echo)
        channel.connections = connections = Connections(ManualClock(), lambda: broker_config({}))
        made: list[BrokerConnection] = []

        def accept() -> BrokerConnection:
            made.append(BrokerConnection(channel, "PLAINTEXT", ConnectionLimits(1000)))
            return made[-1]

        loop = asyncio.get_running_loop()
        server = await loop.create_server(accept, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        request = heartbeat(0, "g" * 900)
        writer.write(request * REQUESTS)  # more than two sockets hold
        await turns_until(lambda: made)
        (connection,) = made
        for _ in range(100):
            await asyncio.sleep(0)
            assert connection.requests == 0
            assert connection._waiting_bytes <= SHARED_BYTES
        connections.serve()
        for _ in range(REQUESTS):
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size)
        assert connection.requests == REQUESTS
        writer.close()
        server.close()

    run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("told", "sized"),
    [
        ({}, {socket.SO_SNDBUF: 102_400}),
        ({"socket.send.buffer.bytes": "-1"}, {}),
        (
            {"socket.send.buffer.bytes": "65536", "socket.receive.buffer.bytes": "32768"},
            {socket.SO_SNDBUF: 65_536, socket.SO_RCVBUF: 32_768},
        ),
    ],
    ids=["nothing", "what the system finds good", "both"],
)
def test_a_connections_buffers_are_those_of_the_configuration(
    run: Run, told: dict[str, str], sized: dict[int, int]
) -> None:
    channel: Any = Channel(echo)
    channel.connections = connections = Connections(ManualClock(), lambda: broker_config({}))
    connections.serve()
    limits = ConnectionLimits.of(broker_config(told), RequestMemory())

    async def story() -> None:
        made: list[BrokerConnection] = []

        def accept() -> BrokerConnection:
            made.append(BrokerConnection(channel, "PLAINTEXT", limits))
            return made[-1]

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        await turns_until(lambda: made)
        await turns_until(lambda: made[0]._transport is not None)
        assert made[0]._transport is not None
        connected = made[0]._transport.get_extra_info("socket")
        with socket.socket() as untouched:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                found = connected.getsockopt(socket.SOL_SOCKET, option)
                if option in sized:
                    untouched.setsockopt(socket.SOL_SOCKET, option, sized[option])
                    assert found == untouched.getsockopt(socket.SOL_SOCKET, option)
                else:
                    assert found not in (2 * 102_400, 102_400)
        writer.close()
        server.close()

    run(asyncio.wait_for(story(), 60))
