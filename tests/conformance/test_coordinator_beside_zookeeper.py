"""The embedded coordinator beside a real ZooKeeper: the same operations, the same answers, events and trees."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache
import pytest

from barnabas.zk.acl import digest_of
from barnabas.zk.errors import ZooKeeperError
from barnabas.zk.ops import (
    ACL,
    AUTH_XID,
    CREATOR_ALL_ACL,
    NOTIFICATION_XID,
    OPEN_ACL_UNSAFE,
    PING_XID,
    AddWatch,
    Auth,
    Check,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Create,
    Delete,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenWithoutStat,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Operation,
    Ping,
    RemoveWatches,
    SetACL,
    SetData,
    Stat,
    Sync,
    WatchEvent,
    decode_reply_header,
    encode_request,
    framed,
)

OPERATIONS = int(os.environ.get("BARNABAS_DIFFERENTIAL_OPERATIONS", "10000"))
SESSIONS = 3
READ_NAMES = ("a", "b", "c")
WRITTEN_NAMES = ("a", "b", "c", "d")
"""Below ``/d`` are the persistent watches only: before 3.9 ZooKeeper kept one kind of watch for a path and session."""
ACLS = (
    OPEN_ACL_UNSAFE,
    OPEN_ACL_UNSAFE,
    OPEN_ACL_UNSAFE,
    CREATOR_ALL_ACL,
    (ACL(1, "world", "anyone"), ACL(31, "auth", "")),
    (ACL(31, "digest", digest_of(b"alice:secret")), ACL(5, "world", "anyone")),
    (ACL(31, "ip", "127.0.0.1"),),
    (),
    (ACL(31, "nobody", "x"),),
    (ACL(31, "digest", "without-colon"),),
)


class Client:
    """One session, one operation at a time."""

    def __init__(self, address: str, *, authenticated: bool) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.socket.sendall(framed(ConnectRequest(40_000).encode()))
        self.session_id = ConnectResponse.decode(self.frame()).session_id
        self.events: list[WatchEvent] = []
        if authenticated:
            self.send(Auth("digest", b"alice:secret"), AUTH_XID)

    def bytes(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    def frame(self) -> bytes:
        return self.bytes(*struct.unpack(">i", self.bytes(4)))

    def send(self, operation: Operation[Any], xid: int) -> tuple[int, Any]:
        """The answer's zxid, and the result or the error's code."""
        self.socket.sendall(encode_request(xid, operation))
        while True:
            frame = self.frame()
            header = decode_reply_header(frame)
            if header.xid == NOTIFICATION_XID:
                self.events.append(WatchEvent.decode(frame, 16)[0])
                continue
            assert header.xid == xid
            return header.zxid, header.code or operation.decode_result(frame, 16)[0]

    def told(self) -> list[WatchEvent]:
        """The events that came until now."""
        self.send(Ping(), PING_XID)
        events, self.events = self.events, []
        return sorted(events)


class Server:
    """One of the two, with its sessions; what it says is freed of its own zxids, times and session ids."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.clients: list[Client] = []
        self.zxids: dict[int, object] = {0: 0}
        self.sessions: dict[int, str] = {0: "nobody", -(1 << 63): "container"}
        for number in range(SESSIONS):
            self.clients.append(self.connect(number, 0))

    def connect(self, number: int, life: int) -> Client:
        client = Client(self.address, authenticated=number == 0)
        self.sessions[client.session_id] = f"{number}/{life}"
        return client

    def do(self, index: int, session: int, operation: Operation[Any]) -> object:
        zxid, result = self.clients[session].send(operation, index + 1)
        self.zxids.setdefault(zxid, index)
        if isinstance(operation, CloseSession):
            self.clients[session].socket.close()
            self.clients[session] = self.connect(session, index)
        return self.plain(operation, result), [client.told() for client in self.clients]

    def plain(self, operation: Operation[Any], result: Any) -> Any:
        if isinstance(result, Stat):
            return result._replace(
                czxid=self.zxids[result.czxid],
                mzxid=self.zxids[result.mzxid],
                pzxid=self.zxids[result.pzxid],
                ephemeral_owner=self.sessions[result.ephemeral_owner],
                ctime=0,
                mtime=0,
            )
        if isinstance(operation, GetChildrenWithoutStat | GetEphemerals) and isinstance(result, list):
            return sorted(result)
        if isinstance(operation, GetChildren) and isinstance(result, tuple):
            return sorted(result[0]), self.plain(operation, result[1])
        if isinstance(operation, Multi) and isinstance(result, list):
            return [self.plain(part, one) for part, one in zip(operation.operations, result, strict=True)]
        if isinstance(result, ZooKeeperError):
            return f"error {result.code}"
        if isinstance(result, tuple):
            return tuple(self.plain(operation, one) if isinstance(one, Stat) else one for one in result)
        return result

    def tree(self) -> dict[str, object]:
        found: dict[str, object] = {}
        paths = ["/"]
        client = self.clients[0]
        for path in paths:
            names = client.send(GetChildren(path), 1)[1]
            data = client.send(GetData(path), 1)[1]
            found[path] = self.plain(GetData(path), data), client.send(GetACL(path), 1)[1][0] if data else None
            if isinstance(names, tuple) and path != "/zookeeper":
                paths += [f"{path.rstrip('/')}/{name}" for name in sorted(names[0])]
        return found


def path(draw: random.Random, names: tuple[str, ...] = READ_NAMES) -> str:
    if draw.random() < 0.02:
        root = ("/",) if names is WRITTEN_NAMES else ()  # the root has the recursive watches
        return draw.choice(("", "a", "//", "/a/", "/a//b", "/a/.", "/..", "/zookeeper", "/a\x01", *root))
    return "".join("/" + draw.choice(names) for _ in range(draw.choice((1, 1, 2, 2, 3))))


def version(draw: random.Random) -> int:
    return draw.choice((-1, -1, -1, 0, 0, 1, 2, 7))


def create(draw: random.Random) -> Create:
    kind = draw.random()
    return Create(
        path(draw, WRITTEN_NAMES),
        draw.choice((None, b"", b"x", b"yy")),
        ephemeral=kind < 0.3,
        sequential=draw.random() < 0.2,
        acl=draw.choice(ACLS),
        with_stat=draw.random() < 0.3,
    )


def part(draw: random.Random) -> Operation[Any]:
    return draw.choice((create, set_data, delete, check))(draw)


def set_data(draw: random.Random) -> Operation[Any]:
    return SetData(path(draw, WRITTEN_NAMES), draw.choice((None, b"", b"1", b"22")), version(draw))


def delete(draw: random.Random) -> Operation[Any]:
    return Delete(path(draw, WRITTEN_NAMES), version(draw))


def check(draw: random.Random) -> Operation[Any]:
    return Check(path(draw), version(draw))


KINDS: list[tuple[int, Callable[[random.Random], Operation[Any]]]] = [
    (20, create),
    (12, set_data),
    (14, delete),
    (12, lambda draw: Multi([part(draw) for _ in range(draw.choice((1, 2, 2, 3, 4)))])),
    (3, lambda draw: SetACL(path(draw), draw.choice(ACLS), version(draw))),
    (6, lambda draw: GetData(path(draw), draw.random() < 0.7)),
    (6, lambda draw: Exists(path(draw), draw.random() < 0.7)),
    (6, lambda draw: GetChildren(path(draw), draw.random() < 0.7)),
    (2, lambda draw: GetChildrenWithoutStat(path(draw), draw.random() < 0.7)),
    (2, lambda draw: GetACL(path(draw))),
    (1, lambda draw: Sync(path(draw))),
    (1, lambda draw: GetEphemerals(draw.choice(("/", "/a")))),
    (1, lambda draw: GetAllChildrenNumber(path(draw))),
    (1, lambda draw: MultiRead([GetData(path(draw)), GetChildrenWithoutStat(path(draw))])),
    (1, lambda draw: AddWatch("/d", 0)),
    (1, lambda draw: AddWatch("/", 1)),
    (1, lambda draw: RemoveWatches(path(draw), draw.choice((1, 2, 3)))),
    (1, lambda draw: CloseSession()),
]


def operations(seed: int, count: int) -> Iterator[tuple[int, Operation[Any]]]:
    draw = random.Random(seed)
    weights = [weight for weight, _ in KINDS]
    for _ in range(count):
        (kind,) = draw.choices([kind for _, kind in KINDS], weights)
        yield draw.randrange(SESSIONS), kind(draw)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[str]:
    port = apache.free_port()
    command = [sys.executable, "-m", "barnabas", "coordinator", "--port", str(port), "--dir", str(tmp_path / "ours")]
    with (tmp_path / "ours.log").open("wb") as log:
        process = subprocess.Popen([*command, "--no-fsync"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, (tmp_path / "ours.log").read_text()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.apache
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1])
def test_the_same_operations_have_the_same_answers(seed: int, embedded: str, tmp_path: Path) -> None:
    with apache.zookeeper(tmp_path / "theirs") as real:
        ours, theirs = Server(embedded), Server(real)
        for index, (session, operation) in enumerate(operations(seed, OPERATIONS)):
            expected = theirs.do(index, session, operation)
            assert ours.do(index, session, operation) == expected, (
                f"operation {index} of session {session}: {operation}"
            )
        assert ours.tree() == theirs.tree()


@pytest.mark.apache
def test_apache_kafka_runs_on_the_coordinator_and_outlives_a_controllers_death(embedded: str, tmp_path: Path) -> None:
    config = {"zookeeper.session.timeout.ms": "4000", "offsets.topic.replication.factor": "1"}
    with apache.ApacheCluster(tmp_path, brokers=2, zookeeper=embedded, config=config) as kafka:
        made = apache.tool(
            *("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--create"),
            *("--topic", "t", "--partitions", "4", "--replication-factor", "2"),
        )
        assert "Created topic t" in made.stdout
        client = Client(embedded, authenticated=False)

        def controller() -> int | None:
            result = client.send(GetData("/controller"), 1)[1]
            return json.loads(result[0])["brokerid"] if isinstance(result, tuple) else None

        dead = controller()
        assert dead is not None
        epoch = int(client.send(GetData("/controller_epoch"), 1)[1][0])
        kafka.kill(dead)
        deadline = time.monotonic() + 60
        while controller() in (dead, None):
            assert time.monotonic() < deadline, "nobody became controller"
            client.send(Ping(), PING_XID)
        assert int(client.send(GetData("/controller_epoch"), 1)[1][0]) == epoch + 1
        kafka.start(dead)
        assert sorted(client.send(GetChildren("/brokers/ids"), 1)[1][0]) == ["0", "1"]
        shell = apache.tool("zookeeper-shell", "-server", embedded, "get", "/controller_epoch")
        assert shell.stdout.strip().endswith(str(epoch + 1))
