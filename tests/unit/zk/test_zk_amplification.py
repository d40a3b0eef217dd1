"""Small requests that could cost the coordinator much: long ACLs, events for everybody, and who does not read them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from test_zk_long_requests import Client, Transport, play, turns_until

from barnabas.zk.protocol import acl as acls
from barnabas.zk.protocol.data import ACL, AddWatchMode, EventType
from barnabas.zk.protocol.errors import InvalidACL, ZkErrorCode
from barnabas.zk.protocol.frames import encode_request
from barnabas.zk.protocol.ops import Create, Exists, GetAllChildrenNumber, GetData, Multi, SetData
from barnabas.zk.protocol.session_ops import AddWatch, CloseSession
from barnabas.zk.server.connection import ServerConnection
from barnabas.zk.server.server import CoordinatorServer
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.unsent import UNSENT_BYTES_MAX, UnsentEvents
from barnabas.zk.server.watches import EVENTS_MAX


def addresses(count: int) -> list[ACL]:
    return [ACL(31, "ip", f"10.0.{number >> 8}.{number & 255}") for number in range(count)]


def test_an_acl_has_a_bound() -> None:
    assert len(acls.resolved(tuple(addresses(acls.ENTRIES_MAX)), [], "/x")) == acls.ENTRIES_MAX
    with pytest.raises(InvalidACL):
        acls.resolved(tuple(addresses(acls.ENTRIES_MAX + 1)), [], "/x")


def test_a_transaction_looks_at_an_acl_once_however_many_operations_it_has(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = Client(server)
        client.connection.identities.append(("ip", "127.0.0.1"))
        client.ask(Create("/x", acl=(*addresses(99), ACL(31, "ip", "127.0.0.1"))))
        calls = 0

        def count(frame: Any, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code is acls._network.__code__

        sys.setprofile(count)
        try:
            client.ask(Multi([SetData("/x", b"")] * 200))
        finally:
            sys.setprofile(None)
        await turns_until(lambda: len(client.answered()) == 2)
        assert client.answered() == [(1, 0), (2, 0)]
        assert calls <= 400, "twice for each entry and identity"

    play(tmp_path, story)


def closed(client: Client) -> bool:
    return client.connection.closing


def test_who_watches_persistently_is_closed_by_a_transaction_with_too_many_events(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        everybody = [Client(server) for _ in range(50)]
        for number, each in enumerate(everybody):
            mode = AddWatchMode.PERSISTENT_RECURSIVE if number % 2 else AddWatchMode.PERSISTENT
            each.ask(AddWatch("/" if number % 2 else "/x", mode))
        once, writer = Client(server), Client(server)
        once.ask(Exists("/y", watch=True))
        writer.ask(Create("/x"))
        await turns_until(lambda: len(writer.answered()) == 1)
        writer.ask(Multi([SetData("/x", b"")] * (EVENTS_MAX // 50)))
        await turns_until(lambda: len(writer.answered()) == 2)
        assert not any(map(closed, everybody)), "so many are told"
        writer.ask(Multi([*[SetData("/x", b"")] * (EVENTS_MAX // 50 + 1), Create("/y")]))
        await turns_until(lambda: len(writer.answered()) == 3)
        assert writer.answered()[-1] == (3, 0)
        assert all(map(closed, everybody))
        assert len(once.frames()) == 2, "it is told all the same"
        assert not server.tree.watches.persistent
        assert not server.tree.watches.recursive

    play(tmp_path, story)


def test_an_event_deep_in_the_tree_does_not_look_at_each_ancestor_where_few_watch() -> None:
    tree: DataTree[str] = DataTree()
    path = ""
    for zxid in range(1, 1_001):
        path += "/a"
        tree.write(Create(path), 0, (), zxid, 0)
    tree.watches.watch_persistently("/a/a", "above", recursive=True)
    tree.watches.watch_persistently("/a/b", "beside", recursive=True)
    tree.watches.watch_persistently("", "nowhere", recursive=True)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        _, fired = tree.write(SetData(path, b""), 0, (), 1_001, 0)
    finally:
        sys.setprofile(None)
    assert [(watcher, event.type) for watcher, event, _ in fired] == [("above", EventType.NODE_DATA_CHANGED)]
    assert calls < 100


def test_of_all_who_do_not_read_the_one_with_most_goes() -> None:
    unsent: UnsentEvents[str] = UnsentEvents()
    assert unsent.note("a", UNSENT_BYTES_MAX // 2) is None
    assert unsent.note("b", UNSENT_BYTES_MAX // 2) is None
    assert unsent.note("c", 1) == "a"
    assert unsent.held == UNSENT_BYTES_MAX // 2 + 1
    assert unsent.note("b", 0) is None
    assert unsent.note("c", UNSENT_BYTES_MAX) is None
    assert unsent.held == UNSENT_BYTES_MAX


class Unread:
    """Takes the place of a transport's write buffer, which grows by what is written."""

    def __init__(self, client: Client) -> None:
        self._transport = client.transport
        client.transport.get_write_buffer_size = self.size  # type: ignore[method-assign]
        client.connection.pause_writing()

    def size(self) -> int:
        return len(self._transport.written)


def test_a_hundred_who_watch_a_long_name_and_do_not_read_come_to_no_more_than_their_bound(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        path, writer = "/" + "n" * 900_000, Client(server)
        writer.ask(Create(path))
        watching = [Client(server) for _ in range(40)]
        for each in watching:
            each.ask(AddWatch("/", AddWatchMode.PERSISTENT_RECURSIVE))
        await turns_until(lambda: all(len(each.answered()) == 1 for each in watching))
        for each in watching:
            Unread(each)
        for number in range(3):
            writer.ask(SetData(path, b""))
            await turns_until(lambda number=number: len(writer.answered()) == 2 + number)  # type: ignore[misc]
        assert server.unsent.held <= UNSENT_BYTES_MAX
        assert sum(map(closed, watching)) >= 10
        assert not closed(writer)

    play(tmp_path, story)


def test_who_counts_znodes_does_so_once_at_a_turn(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        counting, other = Client(server), Client(server)
        for _ in range(20):
            counting.ask(GetAllChildrenNumber("/zookeeper"))
        other.ask(Exists("/zookeeper"))
        await turns_until(lambda: len(other.answered()) == 1)
        assert len(counting.answered()) < 5
        await turns_until(lambda: len(counting.answered()) == 20)
        assert {code for _, code in counting.answered()} == {ZkErrorCode.OK}

    play(tmp_path, story)


class Filling(Transport):
    """A transport whose other side reads nothing."""

    connection: ServerConnection
    aborted = False

    def write(self, data: Any) -> None:
        super().write(data)
        self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def abort(self) -> None:
        self.aborted = True


def test_who_asks_for_much_and_ends_the_session_and_does_not_read_counts_as_well(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        writer = Client(server)
        writer.ask(Create("/x", bytes(900_000)))
        await turns_until(lambda: len(writer.answered()) == 1)
        transports = []
        for _ in range(80):
            client = Client(server)
            await asyncio.sleep(0)  # the session is answered
            client.transport = client.connection.transport = filling = Filling()
            filling.connection = client.connection
            transports.append(filling)
            client.connection.data_received(encode_request(1, GetData("/x")) + encode_request(2, CloseSession()))
            await turns_until(lambda client=client: len(client.transport.written) > 900_000)  # type: ignore[misc]
        waiting = sum(len(transport.written) for transport in transports if not transport.aborted)
        assert waiting <= UNSENT_BYTES_MAX
        assert waiting >= UNSENT_BYTES_MAX - 1_000_000, "no more than that are ended"

    play(tmp_path, story)
