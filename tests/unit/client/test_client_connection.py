"""The asyncio and the blocking connection, against a real listener that answers, is silent, lies or leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.client import cluster as cluster_client
from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection, ConnectionLost, Frame, NeverSent, RequestTimedOut
from barnabas.client.exchange import FrameReceiver
from barnabas.runtime import Bytes
from barnabas.runtime.real import real_runtime
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_request_header, decode_response, encode_request, encode_response
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Peer(asyncio.BufferedProtocol):
    """A broker's side of a connection: each whole request goes to `on_request`."""

    def __init__(self, on_request: Callable[[Peer, int], None]) -> None:
        self.transport: Any = None
        self._on_request = on_request
        self._frames = FrameReceiver()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._frames.received(nbytes):
            header, _ = decode_request_header(frame)
            self._on_request(self, header.correlation_id)

    def answer(self, correlation_id: int, error_code: int = 0) -> None:
        self.transport.writelines(encode_response(HeartbeatResponse(error_code=error_code), 4, correlation_id))


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def against(
    on_request: Callable[[Peer, int], None], story: Callable[[Connection], Awaitable[None]], **options: Any
) -> None:
    async def run() -> None:
        runtime = real_runtime()
        listener = await runtime.network.listen(lambda: Peer(on_request), "127.0.0.1", 0)
        connection = Connection(runtime, "127.0.0.1", listener.port, "test", **options)
        await connection.connect()
        try:
            await story(connection)
        finally:
            await connection.close()
            listener.close()

    asyncio.run(run())


def test_requests_under_way_at_the_same_time_get_their_own_answers() -> None:
    asked: list[int] = []

    def answer_three_at_once(peer: Peer, correlation_id: int) -> None:
        asked.append(correlation_id)
        if len(asked) == 3:
            for index, each in enumerate(asked):
                peer.answer(each, error_code=index)

    async def story(connection: Connection) -> None:
        futures = [connection.send_nowait(heartbeat(), 4) for _ in range(3)]
        assert connection.in_flight == 3
        assert [(await each).error_code for each in futures] == [0, 1, 2]
        assert connection.in_flight == 0

    against(answer_three_at_once, story)


def test_a_request_that_times_out_closes_the_connection_and_tells_every_other_one() -> None:
    async def story(connection: Connection) -> None:
        patient = connection.send_nowait(heartbeat(), 4, timeout_ms=60_000)
        with pytest.raises(RequestTimedOut):
            await connection.send(heartbeat(), 4, timeout_ms=20)
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            await patient
        with pytest.raises(NeverSent):
            await connection.send(heartbeat(), 4)

    against(lambda peer, correlation_id: None, story)


def test_a_broker_that_leaves_ends_every_request_with_a_clear_error() -> None:
    gone: list[Connection] = []

    async def story(connection: Connection) -> None:
        futures = [connection.send_nowait(heartbeat(), 4) for _ in range(2)]
        for each in futures:
            with pytest.raises(ConnectionError, match=str(connection.port)):
                await each
        assert connection.closed
        assert gone == [connection]

    against(lambda peer, correlation_id: peer.transport.abort(), story, on_closed=gone.append)


def test_an_answer_to_nothing_closes_the_connection() -> None:
    async def story(connection: Connection) -> None:
        with pytest.raises(ConnectionLost, match="correlation id 99"):
            await connection.send(heartbeat(), 4)

    against(lambda peer, correlation_id: peer.answer(99), story)


def test_a_caller_that_gave_up_does_not_disturb_the_others() -> None:
    held: list[tuple[Peer, int]] = []

    def hold_the_first(peer: Peer, correlation_id: int) -> None:
        held.append((peer, correlation_id))
        if len(held) == 2:
            for each_peer, each in held:
                each_peer.answer(each)

    async def story(connection: Connection) -> None:
        abandoned = connection.send_nowait(heartbeat(), 4)
        abandoned.cancel()
        assert (await connection.send(heartbeat(), 4)).error_code == 0

    against(hold_the_first, story)


def ask(correlation_id: int) -> list[Bytes]:
    return encode_request(heartbeat(), 4, correlation_id, "test")


def test_a_conversation_goes_on_in_the_turn_in_which_it_is_answered() -> None:
    turns: list[int] = []

    async def story(connection: Connection) -> None:
        answered: list[bytes] = []

        def then(answer: Bytes) -> Frame | None:
            answered.append(bytes(answer))
            before = connection.in_flight
            asyncio.get_running_loop().call_soon(lambda: turns.append(connection.in_flight - before))
            return ask if len(answered) < 3 else None

        last = await connection.converse(ask, then, 60_000)
        assert last == answered[-1]
        assert [decode_response(HeartbeatResponse, 4, each)[1].error_code for each in answered] == [0, 0, 0]
        await asyncio.sleep(0)
        assert turns == [1, 1, 0]
        assert (await connection.send(heartbeat(), 4)).error_code == 0

    against(lambda peer, correlation_id: peer.answer(correlation_id), story)


def test_a_conversation_ends_with_what_goes_wrong_in_it() -> None:
    async def story(connection: Connection) -> None:
        def then(answer: Bytes) -> Frame | None:
            raise ValueError("not what was asked")

        with pytest.raises(ValueError, match="not what was asked"):
            await connection.converse(ask, then, 60_000)
        assert (await connection.send(heartbeat(), 4)).error_code == 0
        with pytest.raises(RequestTimedOut):
            await connection.converse(lambda number: ask(number), lambda answer: ask, 20)
        with pytest.raises(ConnectionLost):
            await connection.converse(ask, then, 20)

    heard: list[int] = []

    def falls_silent(peer: Peer, correlation_id: int) -> None:
        heard.append(correlation_id)
        if len(heard) < 4:
            peer.answer(correlation_id)

    against(falls_silent, story)


def test_a_conversation_that_was_given_up_says_nothing_more() -> None:
    async def story(connection: Connection) -> None:
        answered: list[bytes] = []

        def then(answer: Bytes) -> Frame | None:
            answered.append(bytes(answer))
            return ask

        given_up = asyncio.get_running_loop().create_task(connection.converse(ask, then, 60_000))
        while not answered:  # noqa: ASYNC110
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        said = len(answered)
        assert (await connection.send(heartbeat(), 4)).error_code == 0
        assert len(answered) == said

    against(lambda peer, correlation_id: peer.answer(correlation_id), story)


def test_nobody_at_the_address_is_an_os_error() -> None:
    async def run() -> None:
        runtime = real_runtime()
        listener = await runtime.network.listen(asyncio.Protocol, "127.0.0.1", 0)
        listener.close()
        with pytest.raises(OSError):
            await Connection(runtime, "127.0.0.1", listener.port).connect()

    asyncio.run(run())


def test_a_broker_that_takes_connections_and_is_silent_holds_nobody_up_who_knows_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_client, "VERSIONS_TIMEOUT_MS", 500)

    def tell_versions(peer: Peer, correlation_id: int) -> None:
        peer.transport.writelines(encode_response(ApiVersionsResponse(), 3, correlation_id))

    async def run() -> None:
        runtime = real_runtime()
        silent = await runtime.network.listen(asyncio.Protocol, "127.0.0.1", 0)
        living = await runtime.network.listen(lambda: Peer(tell_versions), "127.0.0.1", 0)
        cluster = ClusterClient(
            runtime,
            [("127.0.0.1", silent.port), ("127.0.0.1", living.port)],
            request_timeout_ms=3_600_000,
        )
        try:
            assert (await asyncio.wait_for(cluster.any(), 60)).port == living.port
        finally:
            await cluster.close()
            silent.close()
            living.close()

    asyncio.run(run())


@pytest.fixture
def blocking() -> Any:
    """A blocking connection to a peer that answers each second request before the one it came after."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    port: list[int] = []
    held: list[int] = []

    def in_pairs(peer: Peer, correlation_id: int) -> None:
        held.append(correlation_id)
        if len(held) == 2:
            for each in reversed(held):
                peer.answer(each, error_code=each)
            held.clear()

    async def serve() -> None:
        listener = await real_runtime().network.listen(lambda: Peer(in_pairs), "127.0.0.1", 0)
        port.append(listener.port)
        started.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(10)
    connection = BlockingConnection("127.0.0.1", port[0], negotiate=False, request_timeout_ms=2_000)
    yield connection
    connection.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_a_blocking_reader_has_its_next_request_under_way(blocking: BlockingConnection) -> None:
    first = blocking.post(heartbeat(), 4)
    second = blocking.post(heartbeat(), 4)
    assert blocking.receive(first).error_code == first
    assert blocking.receive(second).error_code == second


def test_a_blocking_request_that_is_not_answered_times_out_and_closes(blocking: BlockingConnection) -> None:
    with pytest.raises(RequestTimedOut):
        blocking.send(heartbeat(), 4, timeout_ms=20)
    assert blocking.closed
    with pytest.raises(NeverSent):
        blocking.send(heartbeat(), 4)


def test_a_frame_beyond_the_bound_is_refused(blocking: BlockingConnection) -> None:
    small = BlockingConnection(blocking.host, blocking.port, negotiate=False, frame_max=4)
    first = small.post(heartbeat(), 4)
    small.post(heartbeat(), 4)
    with pytest.raises(WireError, match="bound is 4"):
        small.receive(first)
    assert small.closed


def test_a_connection_whose_beginning_is_interrupted_is_closed() -> None:
    async def run() -> None:
        runtime = real_runtime()
        asked, lost = asyncio.Event(), asyncio.Event()

        class Silent(Peer):
            def connection_lost(self, error: Exception | None) -> None:
                lost.set()

        listener = await runtime.network.listen(lambda: Silent(lambda *_: asked.set()), "127.0.0.1", 0)
        cluster = ClusterClient(runtime, [("127.0.0.1", listener.port)])
        connecting = asyncio.ensure_future(cluster.any())
        await asyncio.wait_for(asked.wait(), 10)
        connecting.cancel()
        await asyncio.wait([connecting])
        await asyncio.wait_for(lost.wait(), 10)
        listener.close()

    asyncio.run(run())


def test_requests_without_an_answer_wait_too_while_the_broker_reads_nothing() -> None:
    async def run() -> None:
        runtime = real_runtime()

        class ReadsNothing(Peer):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                self.transport.pause_reading()

        listener = await runtime.network.listen(lambda: ReadsNothing(lambda *_: None), "127.0.0.1", 0)
        connection = Connection(runtime, "127.0.0.1", listener.port, "test")
        await connection.connect()
        cluster = ClusterClient(runtime, [("127.0.0.1", listener.port)])
        large = HeartbeatRequest(group_id="g" * 30_000, generation_id=1, member_id="m")

        async def posts() -> None:
            for _ in range(2_000):
                await cluster.post(connection, large, 1_000, answered=False)

        posting = asyncio.ensure_future(posts())
        await asyncio.sleep(0)  # it posts until it has to wait
        waits = not posting.done()
        posting.cancel()
        await connection.close()
        listener.close()
        assert waits

    asyncio.run(run())
