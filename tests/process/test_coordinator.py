"""The embedded coordinator as a process of its own, seen through kazoo and raw sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coordinators import Coordinator, Wire
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.security import make_digest_acl
from processes import eventually

from barnabas.zk.protocol.data import NOTIFICATION_XID, SET_WATCHES_XID, EventType
from barnabas.zk.protocol.frames import WatchEvent
from barnabas.zk.protocol.ops import Create, GetData, GetEphemerals, SetData
from barnabas.zk.protocol.session_ops import Ping, SetWatches


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path)
    try:
        server.up()
        yield server
    finally:
        server.close()


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
    with Wire(coordinator, timeout_ms=4000) as silent:
        assert silent.connected.timeout_ms == 4000
        assert silent.call(Create("/silent", ephemeral=True)) == (1, 0)
    assert observer.exists("/silent") is not None
    eventually(lambda: observer.exists("/silent") is None)
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
    client = coordinator.client()
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
    writer = coordinator.client()
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
    client = coordinator.client()
    client.create("/mine", b"x", ephemeral=True)
    assert coordinator.stop() == 0
    assert list((coordinator.log.parent / "data").glob("snapshot.*"))
    coordinator.up()
    eventually(lambda: client.connected, what="the client is back")
    assert client.get("/mine")[0] == b"x"


def test_a_directory_has_one_coordinator(coordinator: Coordinator, tmp_path: Path) -> None:
    second = Coordinator(tmp_path, name="second")
    second.start()
    assert second.wait() == 1
    assert "another coordinator is using this directory" in second.output()


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


def test_the_four_letter_words_count_and_forget(coordinator: Coordinator) -> None:
    client = coordinator.client()
    client.create("/a", b"x")
    many = client.transaction()
    for number in range(1_000):
        many.create(f"/a/{number}", b"")
    many.commit()
    for _ in range(20):
        client.get("/a", watch=lambda event: None)
    srvr = dict(line.split(": ") for line in coordinator.word("srvr").splitlines())
    least, average, most = map(float, srvr["Latency min/avg/max"].split("/"))
    assert least <= average <= most
    assert most >= 1  # in whole milliseconds: one fsync may take less, a thousand znodes at once take more
    assert int(srvr["Received"]) >= 22
    (cons,) = [line for line in coordinator.word("cons").splitlines() if "sid=" in line]
    assert "lop=GETD" in cons
    assert "to=30000" in cons
    assert coordinator.word("srst") == "Server stats reset.\n"
    assert "Latency min/avg/max: 0/0.0/0\nReceived: 0\n" in coordinator.word("srvr")
    assert coordinator.word("crst") == "Connection stats reset.\n"
    assert coordinator.word("wchp") == f"/a\n\t{client.client_id[0]:#x}\n\n"
    assert coordinator.word("wchs").startswith("1 connections watching 1 paths\nTotal watches:1")
    sizes = dict(line.split(": ") for line in coordinator.word("dirs").splitlines())
    assert int(sizes["logdir_size"]) > 0


def test_only_words_on_the_white_list_are_answered(tmp_path: Path) -> None:
    server = Coordinator(tmp_path, "--config", "4lw.commands.whitelist=isro, srvr")
    try:
        server.up()
        assert "Mode: standalone" in server.word("srvr")
        assert server.word("dump") == "dump is not executed because it is not in the whitelist.\n"
    finally:
        server.close()


def test_an_empty_container_goes_by_and_by_and_its_watcher_hears_of_it(tmp_path: Path) -> None:
    server = Coordinator(tmp_path, "--config", "znode.container.checkIntervalMs=200")
    try:
        server.up()
        client = server.client()
        with Wire(server) as wire:
            assert wire.call(Create("/c", container=True)) == (1, 0)
        client.create("/c/child")
        assert client.exists("/c") is not None
        gone: list[str] = []
        client.get("/c", watch=lambda event: gone.append(event.type))
        client.delete("/c/child")
        eventually(lambda: gone == ["DELETED"])
        assert client.exists("/c") is None
    finally:
        server.close()


def test_a_znode_with_a_time_to_live_goes_when_it_is_over_also_after_a_restart(tmp_path: Path) -> None:
    options = ("--config", "znode.container.checkIntervalMs=200", "--config", "extendedTypesEnabled=true")
    server = Coordinator(tmp_path, *options)
    try:
        server.up()
        client = server.client()
        with Wire(server) as wire:
            assert wire.call(Create("/soon", ttl_ms=1)) == (1, 0)
            assert wire.call(Create("/later", ttl_ms=3_600_000)) == (1, 0)
        eventually(lambda: client.exists("/soon") is None)
        with Wire(server) as wire:
            assert wire.call(Create("/restarted", ttl_ms=1_000)) == (1, 0)
        server.kill()
        server.up()
        client = server.client()
        eventually(lambda: client.exists("/restarted") is None)
        assert client.exists("/later") is not None
    finally:
        server.close()


def test_session_timeouts_are_kept_within_the_bounds(tmp_path: Path) -> None:
    options = ("--config", "minSessionTimeout=3000", "--config", "maxSessionTimeout=9000")
    server = Coordinator(tmp_path, *options)
    try:
        server.up()
        for wanted, given in ((1, 3000), (5000, 5000), (1 << 30, 9000)):
            with Wire(server, timeout_ms=wanted) as client:
                assert client.connected.timeout_ms == given
    finally:
        server.close()


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
