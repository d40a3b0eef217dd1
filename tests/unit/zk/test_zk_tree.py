from __future__ import annotations

from typing import Any

import pytest

from barnabas.zk.protocol.acl import digest_of
from barnabas.zk.protocol.data import (
    ACL,
    CONTAINER_OWNER,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    STAT_SIZE,
    EventType,
    WatcherType,
    encode_stat,
    read_stat,
)
from barnabas.zk.protocol.errors import (
    BadArguments,
    BadVersion,
    InvalidACL,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Unimplemented,
    ZkErrorCode,
    ZooKeeperError,
)
from barnabas.zk.protocol.ops import Check, Create, Delete, DeleteContainer, Multi, SetACL, SetData, ZkOperation
from barnabas.zk.protocol.paths import is_valid_path
from barnabas.zk.protocol.session_ops import CloseSession, SetWatches
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree

SESSION = 7


class Tree:
    """A data tree under a clock that moves a second with each transaction."""

    def __init__(self) -> None:
        self.data: DataTree[str] = DataTree()
        self.fired: list[tuple[str, EventType, str]] = []

    def write(self, operation: ZkOperation[Any], session: int = SESSION, who: tuple[tuple[str, str], ...] = ()) -> Any:
        zxid = self.data.last_zxid + 1
        result, fired = self.data.write(operation, session, who, zxid, zxid * 1000)
        self.fired += [(watcher, EventType(event.type), event.path) for watcher, event, _ in fired]
        return result


@pytest.fixture
def tree() -> Tree:
    return Tree()


def test_a_new_znode_has_the_stat_that_zookeeper_gives_it(tree: Tree) -> None:
    assert tree.write(Create("/a", b"data")) == "/a"
    assert tree.data.exists("/a") == (1, 1, 1000, 1000, 0, 0, 0, 0, 4, 0, 1)


def test_set_data_moves_version_mzxid_and_mtime_alone(tree: Tree) -> None:
    tree.write(Create("/a"))
    assert tree.write(SetData("/a", b"x", 0)) == (1, 2, 1000, 2000, 1, 0, 0, 0, 1, 0, 1)


def test_cversion_counts_what_came_and_what_went(tree: Tree) -> None:
    tree.write(Create("/a"))
    tree.write(Create("/a/b"))
    tree.write(Create("/a/c"))
    tree.write(Delete("/a/b"))
    stat = tree.data.exists("/a")
    assert (stat.cversion, stat.num_children, stat.pzxid) == (3, 1, 4)


def test_creations_beyond_those_of_32_bits_are_counted_on_from_below_as_zookeeper_counts_them(tree: Tree) -> None:
    """A znode that is made and deleted again in transactions gets there within a day."""
    tree.write(Create("/q"))
    tree.data.nodes["/q"].creations = 2**31 - 1
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n-2147483647"
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n--2147483648"
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n--2147483647"
    stat = tree.data.exists("/q")
    assert read_stat(encode_stat(stat), 0) == (stat, STAT_SIZE)
    sessions: Sessions[str] = Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)
    restored: DataTree[str] = DataTree()
    restore_snapshot(encode_snapshot(tree.data, sessions), restored, sessions, 0)
    assert restored.exists("/q") == stat


def test_the_roots_cversion_begins_at_minus_one_for_the_znode_it_was_born_with(tree: Tree) -> None:
    assert tree.data.exists("/").cversion == -1


def test_sequence_numbers_count_creations_and_never_come_back(tree: Tree) -> None:
    tree.write(Create("/q"))
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n-0000000000"
    tree.write(Create("/q/other"))
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n-0000000002"
    tree.write(Delete("/q/n-0000000002"))
    assert tree.write(Create("/q/n-", sequential=True)) == "/q/n-0000000003"
    assert tree.write(Create("/q/", sequential=True)) == "/q/0000000004"


def test_create2_answers_with_the_stat(tree: Tree) -> None:
    path, stat = tree.write(Create("/a", b"x", with_stat=True))
    assert path == "/a"
    assert stat == tree.data.exists("/a")


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Create("/missing/a"), NoNode),
        (Create("/a"), NodeExists),
        (Create("/"), NodeExists),
        (Create("a"), BadArguments),
        (Create(""), BadArguments),
        (Create("/a/"), BadArguments),
        (Create("/a/.."), BadArguments),
        (Create("/e/child"), NoChildrenForEphemerals),
        (Create("/b", acl=()), InvalidACL),
        (Create("/b", acl=CREATOR_ALL_ACL), InvalidACL),
        (Create("/b", acl=(ACL(31, "world", "someone"),)), InvalidACL),
        (Create("/b", ttl_ms=0), BadArguments),
        (Create("/b", ttl_ms=2**40), BadArguments),
        (SetData("/missing", b""), NoNode),
        (SetData("/a", b"", 3), BadVersion),
        (SetData("no-slash", b""), BadArguments),
        (Delete("/missing"), NoNode),
        (Delete("/a", 3), BadVersion),
        (Delete("/p"), NotEmpty),
        (Delete("/"), BadArguments),
        (Delete("/zookeeper"), BadArguments),
        (Check("/a", 1), BadVersion),
        (Check("/missing", 0), NoNode),
        (SetACL("/a", (ACL(31, "world", "anyone"),), 5), BadVersion),
    ],
)
def test_a_write_that_fails_says_why_and_changes_nothing(
    tree: Tree, operation: ZkOperation[Any], error: type[ZooKeeperError]
) -> None:
    for made in (Create("/a"), Create("/e", ephemeral=True), Create("/p"), Create("/p/child")):
        tree.write(made)
    before = {path: (node.data, node.acl, node.stat()) for path, node in tree.data.nodes.items()}
    with pytest.raises(error):
        tree.write(operation)
    assert {path: (node.data, node.acl, node.stat()) for path, node in tree.data.nodes.items()} == before
    assert tree.data.last_zxid == 4


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c", "/a/.b", "/a/b..", "/ü/€", "/a b"])
def test_paths_that_are_allowed(path: str) -> None:
    assert is_valid_path(path)


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//", "/a//b", "/.", "/..", "/a/./b", "/a/..", "/\x00", "/a\x1f", "/\x7f", "/\uf000"]
)
def test_paths_that_are_refused(path: str) -> None:
    assert not is_valid_path(path)


def test_a_multi_does_everything_under_one_zxid(tree: Tree) -> None:
    tree.write(Create("/epoch", b"1"))
    results = tree.write(Multi([Check("/epoch", 0), Create("/c", ephemeral=True), SetData("/epoch", b"2", 0)]))
    assert results[:2] == [None, "/c"]
    assert tree.data.exists("/c").czxid == tree.data.exists("/epoch").mzxid == 2
    assert tree.data.ephemerals_of(SESSION) == ["/c"]


def test_a_multi_that_fails_undoes_what_it_did_and_fires_nothing(tree: Tree) -> None:
    for made in (Create("/a", b"1"), Create("/p"), Create("/p/child", b"c", ephemeral=True)):
        tree.write(made)
    tree.data.exists("/a", watcher="watcher")
    tree.data.get_children("/p", watcher="watcher")
    before = {path: (node.data, node.stat()) for path, node in tree.data.nodes.items()}
    bytes_before = tree.data.data_bytes
    results = tree.write(
        Multi(
            [
                SetData("/a", b"22", 0),
                Delete("/p/child"),
                Create("/p/n-", b"x", sequential=True, ephemeral=True),
                Check("/a", 7),
                Delete("/p"),
            ]
        )
    )
    codes = [error.code for error in results]
    assert codes == [0, 0, 0, ZkErrorCode.BAD_VERSION, ZkErrorCode.RUNTIME_INCONSISTENCY]
    assert {path: (node.data, node.stat()) for path, node in tree.data.nodes.items()} == before
    assert (tree.data.last_zxid, tree.data.data_bytes, tree.fired) == (3, bytes_before, [])
    assert tree.data.ephemerals_of(SESSION) == ["/p/child"]


def test_a_later_part_of_a_multi_sees_the_earlier_ones(tree: Tree) -> None:
    assert tree.write(Multi([Create("/a"), Create("/a/b"), SetData("/a/b", b"x", 0), Check("/a/b", 1)]))[1] == "/a/b"


def test_the_end_of_a_session_takes_its_ephemerals_and_no_others(tree: Tree) -> None:
    tree.write(Create("/mine", ephemeral=True))
    tree.write(Create("/theirs", ephemeral=True), session=8)
    tree.write(Create("/kept"))
    tree.data.exists("/mine", watcher="watcher")
    tree.write(CloseSession())
    assert "/mine" not in tree.data.nodes
    assert {"/theirs", "/kept"} <= tree.data.nodes.keys()
    assert tree.fired == [("watcher", EventType.NODE_DELETED, "/mine")]


def test_a_watch_fires_once(tree: Tree) -> None:
    tree.write(Create("/a"))
    tree.data.get_data("/a", watcher="watcher")
    tree.write(SetData("/a", b"1"))
    tree.write(SetData("/a", b"2"))
    assert tree.fired == [("watcher", EventType.NODE_DATA_CHANGED, "/a")]


def test_an_exists_watch_waits_for_a_znode_that_is_not_there(tree: Tree) -> None:
    with pytest.raises(NoNode):
        tree.data.exists("/a", watcher="watcher")
    tree.write(Create("/a"))
    assert tree.fired == [("watcher", EventType.NODE_CREATED, "/a")]


def test_a_failed_read_of_data_or_children_sets_no_watch(tree: Tree) -> None:
    for read in (tree.data.get_data, tree.data.get_children):
        with pytest.raises(NoNode):
            read("/a", watcher="watcher")
    tree.write(Create("/a"))
    assert tree.fired == []


def test_deletion_tells_a_watcher_of_data_and_children_once_and_the_parents_watcher(tree: Tree) -> None:
    tree.write(Create("/p"))
    tree.write(Create("/p/a"))
    tree.data.get_data("/p/a", watcher="both")
    tree.data.get_children("/p/a", watcher="both")
    tree.data.get_children("/p/a", watcher="children")
    tree.data.get_children("/p", watcher="parent")
    tree.write(Delete("/p/a"))
    assert tree.fired == [
        ("both", EventType.NODE_DELETED, "/p/a"),
        ("children", EventType.NODE_DELETED, "/p/a"),
        ("parent", EventType.NODE_CHILDREN_CHANGED, "/p"),
    ]


def test_a_persistent_watch_stays_and_a_recursive_one_hears_of_the_whole_tree(tree: Tree) -> None:
    tree.write(Create("/p"))
    tree.data.watches.watch_persistently("/p", "persistent", recursive=False)
    tree.data.watches.watch_persistently("/p", "recursive", recursive=True)
    for operation in (Create("/p/a"), Create("/p/a/b"), SetData("/p/a/b", b"x"), SetData("/p", b"x")):
        tree.write(operation)
    assert tree.fired == [
        ("recursive", EventType.NODE_CREATED, "/p/a"),
        ("persistent", EventType.NODE_CHILDREN_CHANGED, "/p"),
        ("recursive", EventType.NODE_CREATED, "/p/a/b"),
        ("recursive", EventType.NODE_DATA_CHANGED, "/p/a/b"),
        ("persistent", EventType.NODE_DATA_CHANGED, "/p"),
        ("recursive", EventType.NODE_DATA_CHANGED, "/p"),
    ]


def test_watches_can_be_taken_back_and_go_with_their_connection(tree: Tree) -> None:
    tree.write(Create("/a"))
    tree.data.get_data("/a", watcher="one")
    tree.data.get_children("/a", watcher="two")
    assert not tree.data.watches.remove("/a", "one", WatcherType.CHILDREN)
    assert tree.data.watches.remove("/a", "one", WatcherType.DATA)
    tree.data.watches.forget("two")
    tree.write(SetData("/a", b"x"))
    tree.write(Create("/a/b"))
    assert tree.fired == []
    assert len(tree.data.watches) == 0


def test_watches_set_again_after_a_reconnect_tell_what_was_missed(tree: Tree) -> None:
    for path in ("/changed", "/same", "/gone", "/parent"):
        tree.write(Create(path))
    seen = tree.data.last_zxid
    for operation in (SetData("/changed", b"x"), Delete("/gone"), Create("/parent/child"), Create("/new")):
        tree.write(operation)
    request = SetWatches(seen, ["/changed", "/same", "/gone"], ["/new", "/never"], ["/parent", "/same"])
    missed = [event for event in tree.data.set_watches(request, "watcher") if event is not None]
    assert [(EventType(event.type).name, event.path) for event in missed] == [
        ("NODE_DATA_CHANGED", "/changed"),
        ("NODE_DELETED", "/gone"),
        ("NODE_CREATED", "/new"),
        ("NODE_CHILDREN_CHANGED", "/parent"),
    ]
    tree.write(SetData("/same", b"x"))
    tree.write(Create("/never"))
    assert [path for _, _, path in tree.fired] == ["/same", "/never"]


def test_acls_are_kept_under_the_creators_own_identity(tree: Tree) -> None:
    alice = (("ip", "127.0.0.1"), ("digest", digest_of(b"alice:secret")))
    tree.write(Create("/a", acl=CREATOR_ALL_ACL), who=alice)
    assert tree.data.get_acl("/a", alice)[0] == (ACL(31, *alice[1]),)
    for refused in (SetData("/a", b""), Create("/a/b"), SetACL("/a", CREATOR_ALL_ACL), Check("/a")):
        with pytest.raises((NoAuth, InvalidACL)):
            tree.write(refused)
    with pytest.raises(NoAuth):
        tree.data.get_data("/a", (("ip", "127.0.0.1"),))
    assert tree.write(SetData("/a", b"x"), who=alice).version == 1


def test_a_digest_is_hidden_from_those_who_may_not_change_it(tree: Tree) -> None:
    digest = digest_of(b"alice:secret")
    tree.write(Create("/a", acl=(ACL(31, "digest", digest), ACL(1, "world", "anyone"))))
    assert tree.data.get_acl("/a", ())[0][0].id == "alice:x"
    assert tree.data.get_acl("/a", (("digest", digest),))[0][0].id == digest


def test_an_event_carries_the_acls_of_the_znode_it_is_about(tree: Tree) -> None:
    mine = (ACL(31, "ip", "10.0.0.1"),)
    tree.write(Create("/p"))
    tree.data.watches.watch_persistently("/p", "watcher", recursive=False)
    tree.data.watches.watch_data("/p/a", "watcher")
    _, fired = tree.data.write(Create("/p/a", acl=mine), SESSION, (), 2, 0)
    assert [(event.path, acl) for _, event, acl in fired] == [("/p/a", mine), ("/p", OPEN_ACL_UNSAFE)]


def test_set_acl_moves_the_aversion_alone(tree: Tree) -> None:
    tree.write(Create("/a"))
    stat = tree.write(SetACL("/a", (ACL(1, "world", "anyone"), ACL(31, "ip", "10.0.0.0/8")), 0))
    assert (stat.aversion, stat.version, stat.mzxid) == (1, 0, 1)
    with pytest.raises(NoAuth):
        tree.write(SetData("/a", b""), who=(("ip", "127.0.0.1"),))
    tree.write(SetData("/a", b""), who=(("ip", "10.1.2.3"),))


def test_a_znode_outlives_its_time_to_live_once_it_is_not_changed_and_has_no_children(tree: Tree) -> None:
    path, stat = tree.write(Create("/t", ttl_ms=1000))
    assert (path, stat.ephemeral_owner) == ("/t", 0)
    node = tree.data.nodes["/t"]
    assert tree.data.outlived(node.mtime + 1000) == []
    assert tree.data.outlived(node.mtime + 1001) == ["/t"]
    tree.write(Create("/t/child"))
    assert tree.data.outlived(node.mtime + 1001) == []
    tree.write(Delete("/t/child"))
    tree.write(SetData("/t", b"again"))
    assert tree.data.outlived(node.mtime + 1000) == []
    tree.write(DeleteContainer("/t"))
    assert tree.data.ttls == {}


def test_without_extended_types_there_is_no_time_to_live(tree: Tree) -> None:
    tree.data.extended_types = False
    with pytest.raises(Unimplemented):
        tree.write(Create("/t", ttl_ms=1000))


def test_a_container_is_due_for_deletion_once_its_last_child_is_gone(tree: Tree) -> None:
    path, stat = tree.write(Create("/c", container=True))
    assert (path, stat.ephemeral_owner, tree.data.node(path).ephemeral_owner) == ("/c", 0, CONTAINER_OWNER)
    assert tree.data.outlived(0) == []
    tree.write(Create("/c/child"))
    tree.write(Delete("/c/child"))
    assert tree.data.outlived(0) == ["/c"]


READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16


@pytest.mark.parametrize(
    ("act", "right"),
    [
        (lambda tree: tree.data.get_data("/p"), READ),
        (lambda tree: tree.data.exists("/p"), READ),
        (lambda tree: tree.data.get_children("/p"), READ),
        (lambda tree: tree.write(Check("/p")), READ),
        (lambda tree: tree.write(SetData("/p", b"x")), WRITE),
        (lambda tree: tree.write(Create("/p/new")), CREATE),
        (lambda tree: tree.write(Delete("/p/child")), DELETE),
        (lambda tree: tree.write(SetACL("/p", OPEN_ACL_UNSAFE)), ADMIN),
    ],
    ids=["read", "exists", "children", "check", "write", "create", "delete", "admin"],
)
@pytest.mark.parametrize("given", [READ, WRITE, CREATE, DELETE, ADMIN])
def test_each_right_opens_what_it_is_for_and_nothing_else(tree: Tree, act: Any, right: int, given: int) -> None:
    tree.write(Create("/p"))
    tree.write(Create("/p/child", acl=(ACL(31, "ip", "10.0.0.1"),)))
    tree.write(SetACL("/p", (ACL(given, "world", "anyone"),)))
    if given == right:
        act(tree)
    else:
        with pytest.raises(NoAuth):
            act(tree)


def test_how_much_data_there_is_is_known_also_when_a_transaction_of_several_fails(tree: Tree) -> None:
    tree.write(Create("/a", b"12345"))
    tree.write(Create("/none"))
    before = tree.data.data_bytes
    steps = [SetData("/a", b"1"), SetData("/none", b"123"), Create("/b", b"12"), Delete("/none"), Delete("/absent")]
    tree.write(Multi(tuple(steps)))
    assert tree.data.data_bytes == before
    tree.write(SetData("/none", b"123"))
    tree.write(SetData("/a", None))
    assert tree.data.data_bytes == before - 2
    tree.write(Delete("/none"))
    assert tree.data.data_bytes == before - 5 - len("/none"), "names count as well, as in ZooKeeper"
