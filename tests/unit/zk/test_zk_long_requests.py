"""A long request waits for its turn: one at each turn of the loop, however many send them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.real import real_runtime
from barnabas.zk.protocol.data import AddWatchMode, WatcherType
from barnabas.zk.protocol.frames import ConnectRequest, WatchEvent, decode_reply_header, encode_request, framed
from barnabas.zk.protocol.ops import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    ZkOperation,
)
from barnabas.zk.protocol.session_ops import AddWatch, RemoveWatches, SetWatches
from barnabas.zk.server import server as server_module
from barnabas.zk.server.connection import REQUESTS_AT_ONCE, ServerConnection
from barnabas.zk.server.server import CoordinatorServer
from barnabas.zk.server.watches import WATCHES_AT_ONCE

REPLY_HEADER = 16


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = close = abort = pause_reading


class Client:
    """A connection that is fed with bytes."""

    def __init__(self, server: CoordinatorServer) -> None:
        self.transport = Transport()
        self.connection = ServerConnection(server)
        self.connection.connection_made(self.transport)
        self.connection.data_received(framed(ConnectRequest(60_000).encode()))
        self.xid = 0

    def ask(self, operation: ZkOperation[Any]) -> None:
        self.xid += 1
        self.connection.data_received(encode_request(self.xid, operation))

    def frames(self) -> list[bytes]:
        """Behind the answer to the handshake."""
        data, found = bytes(self.transport.written), []
        while data:
            length = int.from_bytes(data[:4], "big")
            found.append(data[4 : 4 + length])
            data = data[4 + length :]
        return found[1:]

    def answered(self) -> list[tuple[int, int]]:
        """xid and error code of each."""
        return [(header.xid, header.code) for header in map(decode_reply_header, self.frames())]


def play(directory: Path, story: Callable[[CoordinatorServer], Awaitable[None]]) -> None:
    async def run() -> None:
        server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(directory), fsync=False)
        await server.start()
        try:
            await story(server)
        finally:
            await server.close()

    asyncio.run(run())


async def turns_until(fact: Callable[[], bool]) -> int:
    for number in range(10_000):
        if fact():
            return number
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


def creates(parent: str, count: int = 1000) -> Multi:
    return Multi([Create(parent), *(Create(f"{parent}/{number:06d}") for number in range(count))])


def test_of_many_long_transactions_one_is_done_at_a_turn_and_short_requests_between(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        writers = [Client(server) for _ in range(10)]
        reader = Client(server)
        for number, writer in enumerate(writers):
            writer.ask(creates(f"/writer-{number}"))
            writer.ask(Exists(f"/writer-{number}/000999"))
        reader.ask(Exists("/zookeeper"))
        done: list[int] = []
        for _ in range(100):
            await asyncio.sleep(0)
            done.append(sum((1, 0) in writer.answered() for writer in writers))
            if done[-1] == 0:
                assert len(reader.answered()) <= 1
            if len(reader.answered()) == 1 and done[-1] < 3:
                break
        assert reader.answered() == [(1, 0)]
        assert done[-1] < 3, "the reader did not wait for all of them"
        await turns_until(lambda: all(len(writer.answered()) == 2 for writer in writers))
        assert all(writer.answered() == [(1, 0), (2, 0)] for writer in writers), "each in its client's order"

    play(tmp_path, story)


def test_watches_are_set_in_slices_and_what_the_client_asks_behind_them_waits(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client, other = Client(server), Client(server)
        paths = [f"/none-{number}" for number in range(10 * WATCHES_AT_ONCE)]
        client.ask(SetWatches(0, [*paths, "/zookeeper"], [], []))
        client.ask(Create("/behind"))
        await turns_until(lambda: len(client.frames()) > 0)
        assert len(client.frames()) < len(paths), "not all at once"
        other.ask(Exists("/zookeeper"))
        await turns_until(lambda: len(other.answered()) == 1)
        assert len(client.frames()) < len(paths)
        assert "/behind" not in server.tree.nodes
        await turns_until(lambda: len(client.frames()) == len(paths) + 2)
        *events, watches, created = client.frames()
        missed = [WatchEvent.decode(event, REPLY_HEADER)[0].path for event in events]
        assert missed == paths, "each is told, in order, before the answer"
        assert decode_reply_header(watches)[::2] == (1, 0)
        assert decode_reply_header(created)[::2] == (2, 0)
        assert server.tree.watches.data["/zookeeper"]

    play(tmp_path, story)


def test_who_goes_away_in_the_midst_leaves_no_watch(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        gone = Client(server)
        paths = [f"/none-{number}" for number in range(10 * WATCHES_AT_ONCE)]
        gone.ask(SetWatches(0, [], paths, []))
        await turns_until(lambda: len(server.tree.watches.data) >= WATCHES_AT_ONCE)
        gone.connection.connection_lost(None)
        assert not server.tree.watches.data
        for _ in range(20):
            await asyncio.sleep(0)
        assert not server.tree.watches.data

    play(tmp_path, story)


def test_a_long_request_of_who_is_gone_is_not_done(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        gone = Client(server)
        gone.ask(creates("/gone"))
        gone.connection.connection_lost(None)
        other = Client(server)
        other.ask(creates("/there"))
        await turns_until(lambda: len(other.answered()) == 1)
        assert "/gone" not in server.tree.nodes
        assert len(server.tree.nodes["/there"].children) == 1000

    play(tmp_path, story)


def test_the_longest_transaction_is_answered(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = Client(server)
        longest = creates("/many", 16_000)
        assert 800_000 < len(encode_request(1, longest)) < 1_000_000
        client.ask(longest)
        await turns_until(lambda: len(client.answered()) == 1)
        assert client.answered() == [(1, 0)]

    play(tmp_path, story)


def test_of_many_requests_in_one_breath_some_are_answered_and_the_others_wait_for_their_turn(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client, other = Client(server), Client(server)
        count = 10 * REQUESTS_AT_ONCE
        client.connection.data_received(b"".join(encode_request(xid, Exists("/zookeeper")) for xid in range(count)))
        other.ask(Exists("/zookeeper"))
        await turns_until(lambda: len(other.answered()) == 1)
        assert len(client.answered()) <= 2 * REQUESTS_AT_ONCE
        await turns_until(lambda: len(client.answered()) == count)
        assert [xid for xid, _ in client.answered()] == list(range(count))

    play(tmp_path, story)


def test_a_session_does_not_end_while_its_client_waits_for_its_turn(tmp_path: Path) -> None:
    """What it says meanwhile is not read."""

    async def story(server: CoordinatorServer) -> None:
        waits, silent = Client(server), Client(server)
        sessions = [client.connection.session for client in (waits, silent)]
        waits.ask(creates("/x"))
        assert waits.answered() == []
        for session in sessions:
            assert session is not None
            session.heard_ms -= 2 * session.timeout_ms
        server._expire_sessions()
        assert list(server.sessions.live.values()) == sessions[:1]
        await turns_until(lambda: waits.answered() == [(1, 0)])
        server._expire_sessions()
        assert list(server.sessions.live.values()) == sessions[:1]

    play(tmp_path, story)


def test_the_watches_of_who_goes_away_are_taken_away_in_slices(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        gone, other = Client(server), Client(server)
        gone.ask(SetWatches(0, [], [f"/none-{number}" for number in range(10 * WATCHES_AT_ONCE)], []))
        await turns_until(lambda: len(gone.answered()) == 1)
        gone.connection.connection_lost(None)
        assert len(server.tree.watches) == 9 * WATCHES_AT_ONCE
        other.ask(Create("/none-10000"))  # whoever watched it is gone
        assert await turns_until(lambda: not len(server.tree.watches)) > 5
        assert server.tree.watches.noted == 0
        assert len(gone.frames()) == 1

    play(tmp_path, story)


def test_the_client_with_most_watches_is_ended_when_all_have_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "WATCHES_MAX", 3 * WATCHES_AT_ONCE)

    async def story(server: CoordinatorServer) -> None:
        greedy, other = Client(server), Client(server)
        greedy.ask(SetWatches(0, [], [f"/none-{number}" for number in range(3 * WATCHES_AT_ONCE)], []))
        await turns_until(lambda: len(greedy.answered()) == 1)
        assert not greedy.connection.closing
        other.ask(Exists("/one-more", watch=True))
        assert (greedy.connection.closing, other.connection.closing) == (True, False)

    play(tmp_path, story)


def test_watches_that_are_spent_or_removed_count_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe for locks watches another znode each time, for as long as its connection lasts."""
    monkeypatch.setattr(server_module, "WATCHES_MAX", 10)

    async def story(server: CoordinatorServer) -> None:
        waits, other = Client(server), Client(server)
        watches = server.tree.watches
        for number in range(30):
            path = f"/lock-{number}"
            waits.ask(Exists(path, watch=True))
            other.ask(Create(path))
            for read in (GetData(path, True), GetChildren(path, True), AddWatch(path, AddWatchMode.PERSISTENT)):
                waits.ask(read)
            assert watches.noted == 1
            waits.ask(RemoveWatches(path, WatcherType.PERSISTENT))
            other.ask(SetData(path, b""))
            assert watches.noted == 1, "that of the children stands"
            other.ask(Delete(path))
            assert (watches.noted, watches.watchers(), len(watches)) == (0, [], 0)
        assert not waits.connection.closing

    play(tmp_path, story)
