"""A client of a ZooKeeper server that takes all that it is sent, and says nothing."""

from __future__ import annotations

import asyncio
from typing import cast

from barnabas.runtime import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.network import SimulatedNetwork
from barnabas.sim.world.node import Node
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.data import PING_XID
from barnabas.zk.protocol.frames import ConnectResponse, encode_request, framed
from barnabas.zk.protocol.session_ops import Ping

SESSION_TIMEOUT_MS = 6_000
PING = encode_request(PING_XID, Ping())


class SilentServer(asyncio.Protocol):
    """Takes the session up, and answers nothing more."""

    def __init__(self) -> None:
        self.taken = b""
        self.is_left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self.taken:
            self._transport.write(framed(ConnectResponse(SESSION_TIMEOUT_MS, 1, bytes(16)).encode()))
        self.taken += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_left = True


def test_a_server_that_takes_pings_and_answers_none_is_left_within_the_sessions_time() -> None:
    chance = Chance(1, "test")
    loop = SimLoop(chance.stream("loop"), EventHash())
    network = SimulatedNetwork(loop, chance.stream("network"), EventHash())
    server, client = (Node(loop, network, chance, name) for name in ("zookeeper", "broker"))
    accepted: list[SilentServer] = []

    def accept() -> SilentServer:
        accepted.append(SilentServer())
        return accepted[-1]

    async def serve(runtime: Runtime) -> None:
        await runtime.network.listen(accept, "", 2181)
        await asyncio.sleep(1_000)

    async def stay_connected(runtime: Runtime) -> None:
        await ZooKeeperClient(
            runtime,
            "zookeeper:2181",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=SESSION_TIMEOUT_MS,
        ).start()
        await asyncio.sleep(1_000)

    server.begin(serve)
    loop.run_until_complete(asyncio.sleep(0.1))
    client.begin(stay_connected)
    loop.run_until_complete(asyncio.sleep(SESSION_TIMEOUT_MS / 1_000))
    first, again = accepted
    assert first.is_left
    assert PING * 2 in first.taken
    assert again.taken, "it connects again"
