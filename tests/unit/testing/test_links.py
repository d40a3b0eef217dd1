"""What stands between a process of the cluster and its sockets does what a transport does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from barnabas.testing.loop import ClusterLoop, Process
from barnabas.testing.network import CLIENT, HOST, LinkNetwork, Links

MORE_THAN_SOCKETS_HOLD = 64 << 20
PATIENCE_S = 30


class Serving(asyncio.Protocol):
    def __init__(self) -> None:
        self.made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


@pytest.mark.parametrize("cut", [False, True], ids=["that does not read", "behind a cut link"])
def test_the_connection_of_a_client_ends_when_it_is_given_up_after_it_was_closed(cut: bool) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ClusterLoop)
        links, served = Links(), Serving()
        network = LinkNetwork(links, Process(loop, "broker 0", lambda who, what: None))
        listener = await network.listen(lambda: served, HOST, 0)
        client = socket.create_connection((HOST, listener.port), PATIENCE_S)
        with contextlib.closing(listener), contextlib.closing(client):
            transport = await asyncio.wait_for(served.made, PATIENCE_S)
            if cut:
                links.cut("broker 0", CLIENT)
            transport.write(bytes(MORE_THAN_SOCKETS_HOLD))
            transport.close()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not served.lost.done(), "what was written is still to be sent"
            transport.abort()
            await asyncio.wait_for(served.lost, PATIENCE_S)
            assert transport.get_write_buffer_size() == 0

    with asyncio.Runner(loop_factory=ClusterLoop) as runner:
        runner.run(story())


class HesitantLoop(ClusterLoop):
    """Makes no transport of a connected socket before `held` is over."""

    def __init__(self) -> None:
        super().__init__()
        self.held: asyncio.Future[None] = self.create_future()
        self.connected = asyncio.Event()
        self.closed_meanwhile: bool | None = None

    async def create_connection(self, *arguments: Any, **named: Any) -> Any:
        self.connected.set()
        try:
            await self.held
        finally:
            self.closed_meanwhile = named["sock"].fileno() < 0


def test_the_descriptor_of_a_transport_that_is_being_made_is_closed_by_nobody_else() -> None:
    """The transport closes it by its number: whose that was by then lost its connection, and the loop its way."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HesitantLoop)
        network = LinkNetwork(Links(), Process(loop, "broker 0", lambda who, what: None))
        with socket.create_server((HOST, 0)) as listener:
            port = listener.getsockname()[1]
            connecting = asyncio.create_task(network.connect(Serving, HOST, port, timeout_ms=30_000))
            await loop.connected.wait()
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            listener.setblocking(False)
            near, _ = listener.accept()
            with near:
                near.settimeout(PATIENCE_S)
                assert await asyncio.to_thread(near.recv, 1) == b"", "it is closed in the end"
            assert loop.closed_meanwhile is False

    with asyncio.Runner(loop_factory=HesitantLoop) as runner:
        runner.run(story())
