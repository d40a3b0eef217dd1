"""``barnabas zk`` as a user gives it, against the embedded coordinator and a real ZooKeeper."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache
import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl
from processes import Process, answers, eventually

from barnabas.cli.app import run
from barnabas.cli.process import _write_status


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Zk = Callable[..., Said]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("coordinator")
    port = apache.free_port()
    server = Process("coordinator", directory, "coordinator", "--port", str(port), "--dir", str(directory / "data"))
    server.start()
    try:
        eventually(lambda: answers(port), what="the coordinator answers")
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    apache.require()
    with apache.ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble.connect


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.apache)])
def server(request: pytest.FixtureRequest) -> str:
    """A server's address; tests keep to a chroot of their own."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def chroot(server: str, request: pytest.FixtureRequest) -> str:
    path = "/" + request.node.originalname
    with Kazoo(server) as client:
        if client.exists(path):
            client.delete(path, recursive=True)
        client.create(path)
    return server + path


@pytest.fixture
def zk(capfd: pytest.CaptureFixture[str]) -> Zk:
    """Gives the command in this process, which is what it does in one of its own."""

    def give(*words: str, at: str) -> Said:
        capfd.readouterr()
        code = run(["zk", *words, "--zookeeper", at])
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return give


class Kazoo:
    def __init__(self, hosts: str, **options: Any) -> None:
        self.client = KazooClient(hosts, timeout=10.0, **options)

    def __enter__(self) -> KazooClient:
        self.client.start(10)
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()


def started(*words: str, at: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", "zk", *words, "--zookeeper", at],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_znodes_are_made_read_written_and_deleted(chroot: str, zk: Zk) -> None:
    assert zk("create", "/a", "one", at=chroot).out == "/a\n"
    assert zk("create", "-p", "/b/c/d", at=chroot).out == "/b/c/d\n"
    assert zk("create", "-s", "/a/q-", "--format", "json", at=chroot).json == {"path": "/a/q-0000000000"}
    assert zk("ls", "/", at=chroot).out == "a\nb\n"
    assert zk("ls", "/", "--format", "json", at=chroot).json == ["a", "b"]
    assert "a  " in zk("ls", "-l", "/", at=chroot).out
    assert zk("get", "/a", at=chroot).out == "one"
    assert zk("set", "/a", "two", "--version", "0", at=chroot).code == 0
    assert zk("set", "/a", "two", "--version", "0", "--format", "json", at=chroot).code == 1
    found = zk("get", "/a", "--format", "json", at=chroot).json
    assert (found["data"], found["stat"]["version"], found["stat"]["ephemeral_owner"]) == ("two", 1, None)
    assert "acl             world:anyone:cdrwa" in zk("stat", "/a", at=chroot).out
    assert zk("delete", "/a", at=chroot).code == 1
    assert zk("delete", "-r", "/a", at=chroot).out == "deleted /a and 1 below it\n"
    assert zk("ls", "/", at=chroot).out == "b\n"


def test_every_trouble_is_one_sentence(chroot: str, zk: Zk) -> None:
    zk("create", "/a", "one", at=chroot)
    zk("create", "/a/b", at=chroot)
    zk("create", "/closed", "--acl", "digest:u:qwErTy=:cdrwa", at=chroot)
    for words, code, text in (
        (("get", "/x"), 1, "/x does not exist"),
        (("get", "x"), 2, "must begin with a slash"),
        (("create", "/a"), 1, "exists already"),
        (("create", "/x/y"), 1, "no parent"),
        (("create", "/x", "--acl", "all"), 2, "scheme:id:permissions"),
        (("create", "/x", "--acl", "nobody:x:r"), 1, "cannot have these ACLs"),
        (("create", "/x", "-e", "-c"), 2, "container"),
        (("delete", "/a"), 1, "has children"),
        (("delete", "/"), 2, "root cannot be deleted"),
        (("delete", "/a/b", "--version", "7"), 1, "another version"),
        (("get", "/closed"), 1, "--auth digest:user:password"),
        (("get", "/a", "--auth", "digest:me"), 2, "scheme:auth"),
        (("import", "/nowhere"), 1, "cannot be read"),
        (("export", "/nowhere/tree.jsonl"), 1, "cannot be written"),
    ):
        said = zk(*words, at=chroot)
        assert (said.code, said.out) == (code, ""), words
        assert text in said.err, words
        assert said.err.count("\n") == 1, (words, said.err)


def test_who_is_not_there_is_named(zk: Zk) -> None:
    said = zk("ls", at="127.0.0.1:1")
    assert said.code == 1
    assert "No ZooKeeper answers at 127.0.0.1:1" in said.err
    assert zk("ls", at="nonsense:port").code == 2


def test_a_chroot_that_is_not_there_is_told_as_such(server: str, zk: Zk) -> None:
    said = zk("export", at=server + "/nowhere")
    assert said.code == 1
    assert "The chroot that --zookeeper names does not exist" in said.err


def test_a_directory_without_a_cluster_is_told_as_such() -> None:
    assert run(["zk", "ls", "--dir", "/nowhere"]) == 1


def test_an_ephemeral_znode_lives_as_long_as_the_command(chroot: str, server: str) -> None:
    with Kazoo(chroot) as client:
        made = started("create", "-e", "/mine", "here", at=chroot)
        try:
            assert made.stdout is not None
            assert made.stdout.readline() == "/mine\n"
            assert client.get("/mine")[0] == b"here"
            made.send_signal(signal.SIGINT)
            assert made.wait(10) == 0
            assert client.exists("/mine") is None
        finally:
            made.kill()
            made.communicate()


def test_a_watch_prints_what_happens_and_ends_cleanly(chroot: str) -> None:
    with Kazoo(chroot) as client:
        client.create("/a")
        watching = started("watch", "/a", "-r", "--format", "json", at=chroot)
        try:
            assert watching.stdout is not None
            # Nothing tells when a watch is set: write until one write is seen.
            eventually(lambda: client.set("/a", b"0") and _readable(watching), what="the watch is set")
            client.create("/a/b", b'{"x":1}')
            client.set("/a/b", b"\xff")
            client.delete("/a/b")
            lines = []
            for line in watching.stdout:
                lines.append(json.loads(line))
                if lines[-1]["event"] == "deleted":
                    watching.send_signal(signal.SIGINT)
            told = [(line["event"], line["path"]) for line in lines if line["path"] == "/a/b"]
            assert told == [("created", "/a/b"), ("changed", "/a/b"), ("deleted", "/a/b")]
            assert watching.wait(10) == 0
            assert watching.stderr is not None
            assert watching.stderr.read() == ""
        finally:
            watching.kill()
            watching.communicate()


def test_a_watch_whose_reader_has_gone_ends_although_nothing_happens(embedded: str) -> None:
    watching = started("watch", "/zookeeper", at=embedded)
    try:
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.close()
        assert (watching.wait(30), watching.stderr.read()) == (0, "")
    finally:
        watching.kill()


def _readable(process: subprocess.Popen[str]) -> bool:
    return bool(select.select([process.stdout], [], [], 0.1)[0])


def grown(client: KazooClient) -> None:
    """A tree with everything in it that a move has to keep, or to leave behind."""
    client.create("/brokers")
    client.create("/brokers/seqid")
    for _ in range(7):
        client.set("/brokers/seqid", b"")
    client.create("/changes")
    for number in range(12):
        client.create("/changes/change_", str(number).encode(), sequence=True)
    for number in range(9):
        client.delete(f"/changes/change_{number:010d}")
    client.create("/text", '{"a":"ü"}'.encode())
    client.create("/bytes", bytes(range(256)))
    client.create("/none", None)
    client.create("/empty", b"")
    client.create("/closed", b"secret", acl=[make_digest_acl("alice", "pw", all=True)])
    for _ in range(3):
        client.set_acls("/closed", [make_digest_acl("alice", "pw", all=True)])
    client.create("/closed/below", b"deeper", acl=[make_digest_acl("alice", "pw", all=True)])
    client.set("/closed/below", b"deepest")
    client.create("/readable", b"r", acl=[make_digest_acl("alice", "pw", all=True), *READ_ACL_UNSAFE])
    client.set("/readable", b"r2")
    client.create("/changed", b"c")
    client.set_acls("/changed", OPEN_ACL_UNSAFE)
    client.create("/alive", b"session", ephemeral=True)


def described(client: KazooClient, path: str = "/") -> dict[str, Any]:
    """What must be equal after a move."""
    data, stat = client.get(path)
    acls = sorted(str(acl) for acl in client.get_acls(path)[0])
    creations = (stat.cversion + stat.numChildren) // 2
    found = {} if path == "/" else {path: (data or b"", stat.version, creations, acls)}
    for name in sorted(client.get_children(path)):
        child = f"{path.rstrip('/')}/{name}"
        if client.exists(child).ephemeralOwner == 0:
            found |= described(client, child)
    return found


AUTH = ("--auth", "digest:alice:pw")
ALICE = {"auth_data": [("digest", "alice:pw")]}


@pytest.fixture
def target(request: pytest.FixtureRequest) -> str:
    path = "/target_" + request.node.originalname
    address = str(request.getfixturevalue("embedded"))
    with Kazoo(address, **ALICE) as client:
        if client.exists(path):
            client.delete(path, recursive=True)
    return address + path


def test_a_moved_tree_is_the_same_in_data_versions_counters_and_acls(
    chroot: str, target: str, zk: Zk, tmp_path: Path
) -> None:
    file = str(tmp_path / "tree.jsonl")
    with Kazoo(chroot, **ALICE) as client:
        grown(client)
        assert zk("export", file, at=chroot).code == 1  # /closed is not for everybody
        assert not Path(file).exists()
        said = zk("export", file, *AUTH, at=chroot)
        assert said.code == 0
        assert "1 ephemeral znodes are marked" in said.err
        before = described(client)
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    by_path = {line["path"]: line for line in lines[1:-1]}
    assert by_path["/alive"]["ephemeral"] is True
    assert base64.b64decode(by_path["/bytes"]["base64"]) == bytes(range(256))
    assert by_path["/closed"]["acl"][0].startswith("digest:alice:")
    said = zk("import", file, "--format", "json", at=target)
    assert said.json == {"created": len(lines) - 4, "unchanged": 1, "overwritten": 0, "left_out": 1}
    with Kazoo(target, **ALICE) as client:
        assert described(client) == before
        assert client.create("/changes/change_", sequence=True) == "/changes/change_0000000012"
        assert client.set("/brokers/seqid", b"").version == 8
        assert client.exists("/alive") is None
        assert client.get_acls("/closed")[1].aversion == 3
    with Kazoo(target) as client:
        assert client.get("/readable")[0] == b"r2"
        assert client.exists("/brokers") is not None
    assert zk("get", "/closed", at=target).code == 1


def test_an_import_goes_on_where_it_was_killed_and_does_nothing_twice(target: str, zk: Zk, tmp_path: Path) -> None:
    znodes = 3000
    file = tmp_path / "big.jsonl"
    lines = ['{"format":"barnabas znodes","version":1}', '{"path":"/","data":null,"version":0,"creations":1}']
    lines += ['{"path":"/n","data":null,"version":0,"creations":4000}']
    lines += [json.dumps({"path": f"/n/{each}", "data": "x" * 50, "version": each % 9}) for each in range(znodes)]
    file.write_text("\n".join([*lines, json.dumps({"end": {"znodes": znodes + 2, "ephemerals": 0}})]) + "\n")
    with Kazoo(target.partition("/")[0]) as client:
        chroot = "/" + target.partition("/")[2]
        importing = started("import", str(file), at=target)

        def some_are_there() -> bool:
            stat = client.exists(chroot + "/n")
            return stat is not None and stat.numChildren > 100

        eventually(some_are_there, what="the import has begun")
        importing.kill()
        importing.communicate()
        assert client.exists(chroot + "/n").numChildren < znodes
    assert zk("import", str(file), at=target).code == 0
    with Kazoo(target) as client:
        stat = client.exists("/n")
        assert (stat.numChildren, (stat.cversion + stat.numChildren) // 2) == (znodes, 4000)
        assert all(client.exists(f"/n/{each}").version == each % 9 for each in range(0, znodes, 97))
    again = zk("import", str(file), "--format", "json", at=target)
    assert again.json == {"created": 0, "unchanged": znodes + 2, "overwritten": 0, "left_out": 0}


@pytest.mark.parametrize(
    ("given_out", "goes_on_behind"),
    [(None, "1000000000"), ('{"version":1,"broker":2,"block_start":"5000","block_end":"5999"}', "1000005999")],
)
def test_producer_ids_that_were_given_out_since_an_export_are_left_out(
    chroot: str, target: str, zk: Zk, tmp_path: Path, given_out: str | None, goes_on_behind: str
) -> None:
    """Their producers' batches would be taken for those of the old ones, already written."""
    file, block = str(tmp_path / "tree.jsonl"), "/latest_producer_id_block"
    with Kazoo(chroot) as client:
        client.create(block, None if given_out is None else given_out.encode())
    assert zk("export", file, at=chroot).code == 0
    assert zk("import", file, at=target).code == 0
    assert json.loads(zk("get", block, at=target).out)["block_end"] == goes_on_behind
    again = zk("import", file, "--format", "json", at=target).json
    assert (again["created"], again["overwritten"]) == (0, 0)


def test_nothing_is_overwritten_unless_it_is_asked_for(chroot: str, zk: Zk, tmp_path: Path) -> None:
    file = tmp_path / "tree.jsonl"
    zk("create", "/a", "theirs", at=chroot)
    zk("create", "/z", "zz", at=chroot)
    assert zk("export", str(file), at=chroot).code == 0
    zk("set", "/a", "mine", at=chroot)
    zk("delete", "/z", at=chroot)
    said = zk("import", str(file), at=chroot)
    assert said.code == 1
    assert said.err.startswith("barnabas: /a is there already"), said
    assert zk("ls", at=chroot).out == "a\n"
    said = zk("import", str(file), "--force", at=chroot)
    assert said.code == 0
    assert "1 overwritten" in said.out
    assert "/a: the version in ZooKeeper was higher" in said.err
    assert zk("get", "/a", at=chroot).out == "theirs"
    assert zk("get", "/z", at=chroot).out == "zz"


@pytest.mark.parametrize("more", [(), ("--force",)], ids=("", "force"))
@pytest.mark.parametrize("below", ["", "/kafka"])
def test_a_tree_that_brokers_are_at_work_on_is_let_be(
    chroot: str, zk: Zk, tmp_path: Path, below: str, more: tuple[str, ...]
) -> None:
    file = tmp_path / "tree.jsonl"
    with Kazoo(chroot) as client:
        client.ensure_path(f"{below}/brokers/ids")
        client.create(f"{below}/controller_epoch", b"1")
        assert zk("export", str(file), at=chroot).code == 0
        client.set(f"{below}/controller_epoch", b"2")
        client.create(f"{below}/brokers/ids/7", b"{}", ephemeral=True)
        said = zk("import", str(file), *more, at=chroot)
        assert said.code == 1
        assert said.err.startswith(f"barnabas: Brokers are at work on this tree ({below}/brokers/ids/7)")
        assert client.get(f"{below}/controller_epoch")[0] == b"2"
        client.delete(f"{below}/brokers/ids/7")
    assert zk("import", str(file), "--force", at=chroot).code == 0
    assert zk("get", f"{below}/controller_epoch", at=chroot).out == "1"


def test_what_is_no_file_is_written_to_and_stays_what_it_is(chroot: str, zk: Zk, tmp_path: Path) -> None:
    """Whoever exports to /dev/null, as root, has it afterwards."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    assert zk("export", str(pipe), at=chroot).code == 0
    reader.join(30)
    assert pipe.is_fifo()
    whole = tmp_path / "tree.jsonl"
    link = tmp_path / "link"
    link.symlink_to(whole)
    assert zk("export", str(link), at=chroot).code == 0
    assert link.is_symlink()
    assert found == [whole.read_bytes()]
    _write_status(str(link), {"state": "running"})
    assert json.loads(whole.read_bytes())["state"] == "running"


def test_a_damaged_export_is_refused_before_anything_is_written(target: str, zk: Zk, tmp_path: Path) -> None:
    whole = ['{"format":"barnabas znodes","version":1}', '{"path":"/","data":null,"version":0}']
    whole += ['{"path":"/a","data":null,"version":0}', '{"end":{"znodes":2,"ephemerals":0}}']
    file = tmp_path / "tree.jsonl"
    for damaged, text in (
        (whole[:-1], "cut off"),
        (whole[1:], "Line 1"),
        ([whole[0], *whole[2:]], "1 znodes were read"),
        ([*whole, whole[2]], "behind the end"),
        ([whole[0], '{"path":"a","data":null,"version":0}', *whole[2:]], "'a' is no path"),
        ([whole[0].replace("1", "2"), *whole[1:]], "version 2"),
        ([], "cut off"),
    ):
        file.write_text("".join(line + "\n" for line in damaged))
        said = zk("import", str(file), at=target)
        assert said.code == 1
        assert text in said.err
        assert said.err.count("\n") == 1, (text, said)
    with Kazoo(target.partition("/")[0]) as client:
        assert client.exists("/" + target.partition("/")[2]) is None


def test_acls_of_a_scheme_that_the_server_does_not_know_are_refused_early(target: str, zk: Zk, tmp_path: Path) -> None:
    file = tmp_path / "tree.jsonl"
    file.write_text(
        '{"format":"barnabas znodes","version":1}\n{"path":"/","data":null,"version":0}\n'
        '{"path":"/a","data":null,"version":0,"acl":["kerberos:me:cdrwa"]}\n{"end":{"znodes":2,"ephemerals":0}}\n'
    )
    said = zk("import", str(file), at=target)
    assert said.code == 1
    assert "does not take the ACLs of /a (kerberos:me:" in said.err
    assert zk("ls", at=target).out == ""


def test_a_tree_without_kafka_is_told_as_such(chroot: str, zk: Zk) -> None:
    said = zk("check", "--settle", "0", at=chroot)
    assert said.code == 1
    assert "There is no Kafka cluster in this tree" in said.out
    assert zk("check", "--settle", "0", "--format", "json", at=chroot).json["findings"][0]["rule"] == "no-cluster"


def test_a_tree_is_drawn(chroot: str, zk: Zk) -> None:
    zk("create", "-p", "/brokers/topics/t", '{"partitions":{"0":[1,2]},"version":3}', at=chroot)
    zk("create", "/plain", "some text", at=chroot)
    drawn = zk("tree", at=chroot).out
    assert "    └── t (38 B) {0: 1,2}" in drawn
    assert "└── plain (9 B) some text" in drawn
    assert "topics" not in zk("tree", "-d", "1", at=chroot).out
    paths = [each["path"] for each in zk("tree", "/brokers", "--format", "json", at=chroot).json]
    assert paths == ["/brokers", "/brokers/topics", "/brokers/topics/t"]


@pytest.mark.apache
def test_what_belongs_to_a_sasl_user_is_moved_by_that_user(zk: Zk, tmp_path: Path) -> None:
    sasl = ("--auth", "sasl:kafka:secret")
    file = str(tmp_path / "tree.jsonl")
    with apache.ZooKeeperEnsemble(tmp_path, sasl_users={"kafka": "secret"}) as ensemble:
        at = ensemble.connect
        made = zk("create", "-p", "/old/users", "credentials", "--acl", "sasl:kafka:cdrwa", *sasl, at=at)
        assert made.code == 0, made.err
        assert zk("export", file, at=f"{at}/old").code == 1
        refused = zk("ls", "--auth", "sasl:kafka:wrong", at=at)
        assert refused.code == 1
        assert "refused the login" in refused.err
        assert zk("export", file, *sasl, at=f"{at}/old").code == 0
        moved = zk("import", file, at=f"{at}/new")
        assert moved.code == 0, moved.err
        assert zk("get", "/users", at=f"{at}/new").code == 1
        assert zk("get", "/users", *sasl, at=f"{at}/new").out == "credentials"
