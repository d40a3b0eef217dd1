"""The embedded coordinator as a process of its own, seen through kazoo and raw sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.recipe.cache import TreeCache
from kazoo.security import make_digest_acl
from processes import Process, eventually

from barnabas.cli.apache import free_port
from barnabas.zk.ops import (
    NOTIFICATION_XID,
    SET_WATCHES_XID,
    ConnectRequest,
    ConnectResponse,
    Create,
    EventType,
    GetData,
    GetEphemerals,
    Operation,
    Ping,
    SetData,
    SetWatches,
    WatchEvent,
    decode_reply_header,
    encode_request,
    framed,
)


class Coordinator(Process):
    def __init__(self, directory: Path, *options: str) -> None:
        self.port = free_port()
        data = str(directory / "data")
        super().__init__("coordinator", directory, "coordinator", "--port", str(self.port), "--dir", data, *options)
        self.clients: list[KazooClient] = []

    def up(self) -> None:
        self.start()
        eventually(lambda: self.word("ruok") == "imok", what="the coordinator answers")

    def word(self, word: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def client(self, timeout: float = 5.0, **options: Any) -> KazooClient:
        client = KazooClient(f"127.0.0.1:{self.port}", timeout=timeout, **options)
        client.start(10)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            with contextlib.suppress(Exception):
                client.stop()
                client.close()
        if self.running:
            self.kill()


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path)
    try:
        server.up()
        yield server
    finally:
        server.close()


class Wire:
    """A client by hand: says exactly what a test wants, and goes without a word."""

    def __init__(
        self, coordinator: Coordinator, timeout_ms: int = 5000, session: tuple[int, bytes] = (0, bytes(16))
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", coordinator.port), timeout=5)
        self.socket.sendall(framed(ConnectRequest(timeout_ms, *session).encode()))
        self.connected = ConnectResponse.decode(self.frame())
        self.session = self.connected.session_id, self.connected.password

    def bytes(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the coordinator closed the connection"
            data += part
        return data

    def frame(self) -> bytes:
        return self.bytes(*struct.unpack(">i", self.bytes(4)))

    def send(self, operation: Operation[Any], xid: int = 1) -> None:
        self.socket.sendall(encode_request(xid, operation))

    def call(self, operation: Operation[Any], xid: int = 1) -> tuple[int, int]:
        """(xid, error code) of the next frame, which need not be the answer."""
        self.send(operation, xid)
        return self.header()

    def header(self) -> tuple[int, int]:
        header = decode_reply_header(self.frame())
        return header.xid, header.code

    def closed(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def test_a_client_creates_reads_changes_and_deletes(coordinator: Coordinator) -> None:
    client = coordinator.client()
    assert client.create("/a", b"one") == "/a"
    data, stat = client.get("/a")
    assert (data, stat.version, stat.dataLength) == (b"one", 0, 3)
    assert client.set("/a", b"two").version == 1
    with pytest.raises(BadVersionError):
        client.set("/a", b"three", version=0)
    with pytest.raises(NodeExistsError):
        client.create("/a")
    assert client.create("/a/n-", sequence=True) == "/a/n-0000000000"
    assert client.get_children("/a") == ["n-0000000000"]
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None
    with pytest.raises(NoNodeError):
        client.get("/a")


def test_a_transaction_is_done_as_a_whole_or_not_at_all(coordinator: Coordinator) -> None:
    client = coordinator.client()
    client.create("/a", b"")
    transaction = client.transaction()
    transaction.check("/a", 0)
    transaction.set_data("/a", b"x")
    transaction.create("/b", b"y", ephemeral=True)
    checked, stat, path = transaction.commit()
    assert (checked, stat.version, path) == (True, 1, "/b")
    transaction = client.transaction()
    transaction.create("/c", b"")
    transaction.check("/a", 7)
    transaction.delete("/b")
    assert [type(result) for result in transaction.commit()] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert client.exists("/c") is None


def test_a_watch_reaches_another_client(coordinator: Coordinator) -> None:
    watching, writing = coordinator.client(), coordinator.client()
    seen: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        seen.append((event.type, event.path))

    writing.create("/a", b"")
    watching.get("/a", watch=note)
    watching.get_children("/", watch=note)
    watching.exists("/later", watch=note)
    writing.set("/a", b"x")
    writing.create("/later", b"")
    eventually(lambda: len(seen) == 3)
    assert seen == [("CHANGED", "/a"), ("CREATED", "/later"), ("CHILD", "/")]


def test_an_ephemeral_goes_at_once_with_a_closed_session_and_later_with_a_silent_one(coordinator: Coordinator) -> None:
    observer, closing = coordinator.client(), coordinator.client()
    closing.create("/closing", ephemeral=True)
    closing.stop()
    assert observer.exists("/closing") is None
    with Wire(coordinator, timeout_ms=1500) as silent:
        assert silent.connected.timeout_ms == 1500
        assert silent.call(Create("/silent", ephemeral=True)) == (1, 0)
    assert observer.exists("/silent") is not None
    eventually(lambda: observer.exists("/silent") is None, within=10)
    with Wire(coordinator, session=silent.session) as late:
        assert late.connected.expired
        assert late.closed()


def test_digest_acls_hold(coordinator: Coordinator) -> None:
    owner, stranger = coordinator.client(auth_data=[("digest", "alice:secret")]), coordinator.client()
    owner.create("/private", b"x", acl=[make_digest_acl("alice", "secret", all=True)])
    with pytest.raises(NoAuthError):
        stranger.get("/private")
    with pytest.raises(NoAuthError):
        stranger.set_acls("/private", [make_digest_acl("bob", "b", all=True)])
    assert owner.get("/private")[0] == b"x"


def test_everything_acknowledged_is_there_after_a_kill(coordinator: Coordinator) -> None:
    client = coordinator.client(timeout=10)
    client.create("/kept", b"0")
    client.create("/mine", b"", ephemeral=True)
    session = client.client_id
    for number in range(200):
        client.set("/kept", b"%d" % number)
    stat_before = client.exists("/kept")
    coordinator.kill()
    coordinator.up()
    eventually(lambda: client.connected, what="the client is back")
    assert client.client_id == session
    assert client.get("/kept") == (b"199", stat_before)
    assert client.exists("/mine").ephemeralOwner == session[0]
    assert client.create("/after", b"") == "/after"


def test_a_client_that_is_back_is_told_what_it_missed_before_anything_else(coordinator: Coordinator) -> None:
    writer = coordinator.client(timeout=10)
    writer.create("/a", b"")
    writer.create("/b", b"")
    seen = writer.exists("/b").mzxid
    with Wire(coordinator) as gone:
        assert gone.call(GetData("/a", watch=True)) == (1, 0)
    writer.set("/a", b"x")
    with Wire(coordinator, session=gone.session) as back:
        assert back.session == gone.session
        back.send(SetWatches(seen, ["/a", "/b"], [], []), SET_WATCHES_XID)
        event = WatchEvent.decode(back.frame(), 16)[0]
        assert (event.type, event.path) == (EventType.NODE_DATA_CHANGED, "/a")
        assert back.header() == (SET_WATCHES_XID, 0)
        writer.set("/b", b"x")
        assert WatchEvent.decode(back.frame(), 16)[0].path == "/b"


def test_a_watch_fires_before_the_session_can_see_the_new_state(coordinator: Coordinator) -> None:
    with Wire(coordinator) as client:
        client.call(Create("/a", b""))
        client.call(GetData("/a", watch=True))
        client.send(SetData("/a", b"x"), 2)
        client.send(GetData("/a"), 3)
        assert [client.header() for _ in range(3)] == [(NOTIFICATION_XID, 0), (2, 0), (3, 0)]


def test_a_stop_keeps_a_snapshot_and_the_sessions(coordinator: Coordinator) -> None:
    client = coordinator.client(timeout=10)
    client.create("/mine", b"x", ephemeral=True)
    assert coordinator.stop() == 0
    assert list((coordinator.log.parent / "data").glob("snapshot.*"))
    coordinator.up()
    eventually(lambda: client.connected, what="the client is back")
    assert client.get("/mine")[0] == b"x"


def test_a_directory_has_one_coordinator(coordinator: Coordinator, tmp_path: Path) -> None:
    second = Coordinator(tmp_path)
    second.name = "second"
    second.log = tmp_path / "second.log"
    second.start()
    assert second.wait() == 1
    assert "another coordinator is using this directory" in second.output()


def test_kazoos_lock_and_tree_cache_work(coordinator: Coordinator) -> None:
    first, second = coordinator.client(), coordinator.client()
    held = first.Lock("/lock", "first")
    assert held.acquire(timeout=5)
    waiting = second.Lock("/lock", "second")
    assert not waiting.acquire(blocking=False)
    held.release()
    assert waiting.acquire(timeout=5)
    first.create("/cached/a", b"1", makepath=True)
    cache = TreeCache(second, "/cached")
    cache.start()
    eventually(lambda: cache.get_data("/cached/a") and cache.get_data("/cached/a").data == b"1")
    first.set("/cached/a", b"2")
    eventually(lambda: cache.get_data("/cached/a").data == b"2")
    cache.close()


def test_the_four_letter_words_tell_what_goes_on(coordinator: Coordinator) -> None:
    client = coordinator.client()
    client.create("/a", ephemeral=True)
    client.get("/a", watch=lambda event: None)
    assert coordinator.word("isro") == "rw"
    assert client.server_version() == (3, 9, 2)
    mntr = dict(line.split("\t") for line in coordinator.word("mntr").splitlines())
    assert (mntr["zk_server_state"], mntr["zk_ephemerals_count"], mntr["zk_watch_count"]) == ("standalone", "1", "1")
    assert f"{client.client_id[0]:#x}\n\t/a\n" in coordinator.word("wchc")
    assert f"{client.client_id[0]:#x}:\n\t/a\n" in coordinator.word("dump")
    assert f"clientPort={coordinator.port}" in coordinator.word("conf")
    assert f"sid={client.client_id[0]:#x}" in coordinator.word("cons")


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
    ],
)
@pytest.mark.parametrize("handshake", [False, True])
def test_garbage_closes_its_own_connection_and_no_other(
    coordinator: Coordinator, frame: bytes, handshake: bool
) -> None:
    client = coordinator.client()
    address = ("127.0.0.1", coordinator.port)
    connection = Wire(coordinator).socket if handshake else socket.create_connection(address, timeout=5)
    with connection, contextlib.suppress(ConnectionResetError):
        connection.sendall(frame)
        assert connection.recv(100) == b""
    assert client.create("/still-here") == "/still-here"


@pytest.mark.parametrize(
    ("request_record", "code"),
    [
        (struct.pack(">iii", 1, 4, 1 << 20), -5),  # a path longer than the frame
        (struct.pack(">iii", 1, 4, -7), -5),  # a negative length
        (struct.pack(">ii", 1, 14), -5),  # a multi that does not end
        (struct.pack(">iii", 1, 1, 3) + b"/ab" + struct.pack(">iii", -1, 0, 0), -114),  # no ACL
        (struct.pack(">iii", 1, 5, 3) + b"abc" + struct.pack(">ii", -1, -1), -8),  # a path without a slash
    ],
)
def test_a_damaged_request_is_answered_with_an_error_and_the_session_goes_on(
    coordinator: Coordinator, request_record: bytes, code: int
) -> None:
    with Wire(coordinator) as client:
        client.socket.sendall(framed(request_record) + encode_request(-2, Ping()))
        assert client.header() == (1, code)
        assert client.header() == (-2, 0)


def test_an_unknown_op_code_is_answered_and_its_connection_closed_as_zookeeper_does(coordinator: Coordinator) -> None:
    with Wire(coordinator) as client:
        client.socket.sendall(framed(struct.pack(">ii", 1, 77)))
        assert client.header() == (1, -6)
        assert client.closed()


def test_a_zxid_from_the_future_is_turned_away(coordinator: Coordinator) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port), timeout=5) as connection:
        connection.sendall(framed(ConnectRequest(5000, last_zxid_seen=1 << 40).encode()))
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""


def test_a_session_goes_over_to_the_clients_new_connection(coordinator: Coordinator) -> None:
    with Wire(coordinator) as first:
        first.call(Create("/mine", ephemeral=True))
        with Wire(coordinator, session=first.session) as second:
            assert second.session == first.session
            assert first.closed()
            assert second.call(GetEphemerals()) == (1, 0)
            with Wire(coordinator, session=(first.session[0], bytes(16))) as stranger:
                assert stranger.connected.expired
            assert second.call(Ping(), -2) == (-2, 0)


def test_a_client_that_does_not_read_holds_up_nobody(coordinator: Coordinator) -> None:
    client = coordinator.client()
    client.create("/big", bytes(900_000))
    with Wire(coordinator) as slow:
        requests = encode_request(1, GetData("/big")) * 100
        slow.socket.sendall(requests)
        assert client.get("/big")[1].dataLength == 900_000
        for _ in range(100):
            assert len(slow.frame()) > 900_000
