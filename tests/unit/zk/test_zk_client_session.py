"""What a client remembers of its session's watches, as values: no server, no loop."""

from __future__ import annotations

import pytest

from barnabas.model.errors import ConfigError
from barnabas.zk.client.connect_string import parse_connect
from barnabas.zk.client.session import SET_WATCHES_BYTES_MAX, ClientSession
from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.requests import default_acls
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.protocol.data import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, EventType, WatcherType
from barnabas.zk.protocol.ops import Exists, GetChildren, GetData
from barnabas.zk.protocol.session_ops import AddWatch, RemoveWatches, SetWatches


def watching() -> ClientSession:
    session = ClientSession(6000)
    session.last_zxid = 7
    session.watched(GetData("/a"), "/a", missing=False)
    session.watched(Exists("/b"), "/b", missing=True)
    session.watched(GetChildren("/a"), "/a", missing=False)
    return session


def test_the_watches_that_stand_are_set_again() -> None:
    assert list(watching().set_watches()) == [SetWatches(7, ["/a"], ["/b"], ["/a"])]
    session = watching()
    session.watch_added(AddWatch("/p", 0), "/p")
    session.watch_added(AddWatch("/r", 1), "/r")
    assert list(session.set_watches()) == [SetWatches(7, ["/a"], ["/b"], ["/a"], ["/p"], ["/r"])]
    assert list(ClientSession(6000).set_watches()) == []


def test_a_watch_is_spent_by_its_event_alone() -> None:
    session = watching()
    assert session.fired(EventType.NODE_DATA_CHANGED, "/a")
    assert not session.fired(EventType.NODE_DATA_CHANGED, "/a")
    assert session.fired(EventType.NODE_CHILDREN_CHANGED, "/a")
    assert not session.fired(EventType.NODE_CREATED, "/a")
    assert session.fired(EventType.NODE_CREATED, "/b")
    assert session.watch_count == 0
    session = watching()
    assert session.fired(EventType.NODE_DELETED, "/a")  # data and children at once
    assert list(session.set_watches()) == [SetWatches(7, [], ["/b"], [])]


def test_packets_of_watches_are_bounded() -> None:
    session = ClientSession(6000)
    for number in range(5_000):
        session.watched(GetData(f"/{'x' * 100}{number}"), f"/{'x' * 100}{number}", missing=False)
    packets = list(session.set_watches())
    assert len(packets) > 4
    assert all(len(packet.encode()) < SET_WATCHES_BYTES_MAX + 1_000 for packet in packets)
    assert sum(len(packet.data_watches) for packet in packets) == 5_000


def test_the_next_session_keeps_what_stays_and_never_goes_back() -> None:
    session = watching()
    session.watch_added(AddWatch("/r", 1), "/r")
    session.id, session.password = 5, b"x" * 16
    successor = session.successor(4000)
    assert (successor.id, successor.password, successor.timeout, successor.last_zxid) == (0, bytes(16), 4000, 7)
    assert list(successor.set_watches()) == [SetWatches(7, [], [], [], [], ["/r"])]
    assert not successor.expired


def test_persistent_watches_are_about_znodes_or_about_trees() -> None:
    session = ClientSession(6000)
    session.watch_added(AddWatch("/p", 0), "/p")
    session.watch_added(AddWatch("/", 1), "/")
    assert list(session.persistent_watches_of(EventType.NODE_CHILDREN_CHANGED, "/p")) == ["/p"]
    assert list(session.persistent_watches_of(EventType.NODE_CREATED, "/p/x")) == ["/"]
    assert list(session.persistent_watches_of(EventType.NODE_DATA_CHANGED, "/p")) == ["/p", "/"]
    session.watch_added(AddWatch("/p", 1), "/p")
    assert list(session.persistent_watches_of(EventType.NODE_CREATED, "/p/x")) == ["/p", "/"]
    session.watches_removed(RemoveWatches("/p", WatcherType.PERSISTENT), "/p")
    assert list(session.persistent_watches_of(EventType.NODE_CREATED, "/p/x")) == ["/p", "/"]
    session.watches_removed(RemoveWatches("/p", WatcherType.ANY), "/p")
    assert list(session.persistent_watches_of(EventType.NODE_CREATED, "/p/x")) == ["/"]


@pytest.mark.parametrize("kind", [WatcherType.DATA, WatcherType.CHILDREN])
def test_a_persistent_watch_stands_when_the_watch_of_a_read_is_removed(kind: WatcherType) -> None:
    """As it does at the server, of 3.9 and ours: it goes on telling, and is set again."""
    session = watching()
    session.watch_added(AddWatch("/a", 0), "/a")
    session.watch_added(AddWatch("/b", 1), "/b")
    for path in ("/a", "/b"):
        session.watches_removed(RemoveWatches(path, kind), path)
    data, children = ([], ["/a"]) if kind is WatcherType.DATA else (["/a"], [])
    exist = [] if kind is WatcherType.DATA else ["/b"]
    assert list(session.set_watches()) == [SetWatches(7, data, exist, children, ["/a"], ["/b"])]
    assert list(session.persistent_watches_of(EventType.NODE_DATA_CHANGED, "/a")) == ["/a"]


@pytest.mark.parametrize("connect", ["h:1//a", "h:1/a//b", "h:1/a/../b", "h:1/."])
def test_a_chroot_is_a_path(connect: str) -> None:
    if connect == "h:1//a":
        assert parse_connect(connect)[1] == "/a"
        return
    with pytest.raises(ConfigError, match="is no path"):
        parse_connect(connect)


def test_secure_znodes_are_readable_unless_they_hold_secrets() -> None:
    assert default_acls("/brokers/ids/1", secure=False) == OPEN_ACL_UNSAFE
    assert default_acls("/brokers/ids/1", secure=True) == CREATOR_ALL_ACL + READ_ACL_UNSAFE
    for path in ("/config/users/alice", "/config/brokers", "/delegation_token/tokens/x"):
        assert default_acls(path, secure=True) == CREATOR_ALL_ACL


def test_tokens_of_older_kafkas_are_read() -> None:
    old = (
        b'{"version":1,"owner":"User%3Abob","renewers":[],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,'
        b'"tokenId":"t"}'
    )
    assert TokenInformation.decode("t", old) == TokenInformation("t", "User:bob", "User:bob", (), 1, 3, 2)
    assert TokenInformation.decode("t", None) is None
    for bad in (b"{}", b"[", b'{"version":9}', b"[]"):
        with pytest.raises(ZNodeError, match="/delegation_token/tokens/t"):
            TokenInformation.decode("t", bad)
