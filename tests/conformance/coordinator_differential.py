"""The same random conversations with two ZooKeeper servers, compared frame by frame.

A conversation is a list of turns. In a turn one session sends a handful of requests at once, and both servers must
answer every one alike, with the watch events of that session between the answers at the same places; then every
session sends a ping, and what they were told meanwhile must be the same too. Zxids and session ids of the two servers
differ; they are compared as relations: a zxid of one always stands for the same zxid of the other, and their order is
the same. Times are left out.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from struct import Struct
from typing import Any, Final

from barnabas.zk.protocol.acl import digest_of
from barnabas.zk.protocol.data import (
    ACL,
    AUTH_XID,
    CREATOR_ALL_ACL,
    NOTIFICATION_XID,
    OPEN_ACL_UNSAFE,
    PING_XID,
    SET_WATCHES_XID,
    Stat,
)
from barnabas.zk.protocol.errors import ZkErrorCode
from barnabas.zk.protocol.frames import ConnectRequest, ConnectResponse, WatchEvent, encode_request, framed
from barnabas.zk.protocol.ops import (
    Check,
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
    SetACL,
    SetData,
    Sync,
    ZkOperation,
)
from barnabas.zk.protocol.session_ops import (
    AddWatch,
    Auth,
    CheckWatches,
    CloseSession,
    Ping,
    RemoveWatches,
    SetWatches,
    WhoAmI,
)

SESSIONS: Final = 5
SESSION_TIMEOUT_MS: Final = 40_000
CONTAINER_OWNER: Final = -(1 << 63)
_REPLY: Final = Struct(">iiqi")
_LENGTH: Final = Struct(">i")
_PING: Final = encode_request(PING_XID, Ping())

ALICE: Final = digest_of(b"alice:secret")
ACLS: Final = (
    *[OPEN_ACL_UNSAFE] * 80,
    CREATOR_ALL_ACL,
    (ACL(1, "world", "anyone"), ACL(31, "auth", "")),
    (ACL(31, "digest", ALICE), ACL(5, "world", "anyone")),
    (ACL(31, "digest", ALICE), ACL(1, "digest", digest_of(b"bob:b")), ACL(6, "world", "anyone")),
    (ACL(31, "ip", "127.0.0.1"),),
    (ACL(31, "ip", "127.0.0.0/8"), ACL(31, "ip", "127.0.0.0/8")),
    (ACL(31, "ip", "10.0.0.0/8"), ACL(1, "world", "anyone")),
    (ACL(19, "world", "anyone"), ACL(12, "ip", "127.0.0.1/31")),
    (),
    (ACL(31, "nobody", "x"),),
    (ACL(31, "digest", "without-colon"),),
    (ACL(31, "digest", "a:b:"), ACL(31, "digest", ":c")),
    (ACL(31, "ip", "127.0.0.1/33"),),
    (ACL(31, "ip", "::1"),),
    (ACL(31, "ip", "1.2.3"),),
    (ACL(31, "world", "everyone"),),
    (ACL(0, "world", "anyone"),),
)
BAD_PATHS: Final = (
    *("", "a", "a/b", "//", "/a/", "/a//b", "/a/.", "/a/../b", "/..", "/.", "/a\x01", "/a\0b", "/\ud7ff", "/\uf8ff"),
    *("/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/nothing", "/no/such/parent", "/", "/a\u0085"),
)
NAMES: Final = ("a", "b", "c", "d", "e", "f", "g", "é-1")
BAD_AUTH: Final = (("nothing", b"x"), ("world", b"anyone"), ("auth", b"x"), ("", b""), ("digest", None))
GOOD_AUTH: Final = (
    *(("digest", b"alice:secret"), ("digest", b"bob:b"), ("digest", b"alice:other:x"), ("digest", b"alice")),
    *(("digest", b"\xff:x"), ("digest", b"super:duper"), ("ip", b"")),
)

_create_head = struct.pack(">ii", 7, 1)
RAW: Final = (
    # What a client must not send, each behind its length.
    struct.pack(">ii", 5, 77),
    struct.pack(">ii", 5, -7) + b"abc",
    struct.pack(">ii", 5, 13) + struct.pack(">i", 2) + b"/a" + struct.pack(">i", -1),  # a check alone
    struct.pack(">ii", 5, 0),
    struct.pack(">ii", 5, 4) + struct.pack(">i", 2),  # the path is missing
    struct.pack(">ii", 5, 4) + struct.pack(">i", 100) + b"/a",
    struct.pack(">ii", 5, 3) + struct.pack(">i", -5),
    struct.pack(">ii", 5, 4),
    struct.pack(">ii", 5, 1),
    struct.pack(">ii", 5, 14),
    struct.pack(">ii", 5, 14) + struct.pack(">ibi", 3, 0, -1) + struct.pack(">i", 2) + b"/a\0",  # exists in a multi
    struct.pack(">ii", 5, 14) + struct.pack(">ibi", -1, 1, -1),  # a multi of nothing
    struct.pack(">ii", 5, 22) + struct.pack(">ibi", -1, 1, -1),
    struct.pack(">ii", 5, 22) + struct.pack(">ibi", 1, 0, -1) + b"\0\0\0\2/a" + b"\xff" * 8 + b"\0\0\0\0",
    struct.pack(">ii", 5, 5) + struct.pack(">i", 3) + b"a/b" + struct.pack(">ii", -1, -1),
    struct.pack(">ii", 5, 1) + struct.pack(">i", 2) + b"/q" + struct.pack(">iii", -1, 0, 0),
    struct.pack(">ii", 5, 1) + struct.pack(">i", 2) + b"/q" + struct.pack(">iii", -1, -1, 0),
    struct.pack(">ii", 5, 106) + struct.pack(">i", 2) + b"/a" + struct.pack(">i", 9),  # an unknown mode
    struct.pack(">ii", 5, 18) + struct.pack(">i", 2) + b"/a" + struct.pack(">i", 9),
    struct.pack(">ii", 5, 16) + struct.pack(">iiiq", -1, -1, -1, -1),  # reconfig
    struct.pack(">ii", 5, 20) + struct.pack(">i", 2) + b"/a",  # the server's own deleteContainer
)


class Difference(AssertionError):
    """The servers did not do the same."""


class Pairs:
    """Which number of one server is which of the other."""

    def __init__(self, fixed: tuple[int, ...]) -> None:
        self.theirs = {number: number for number in fixed}
        self.ours = {number: number for number in fixed}

    def same(self, ours: int, theirs: int) -> bool:
        return self.theirs.setdefault(theirs, ours) == ours and self.ours.setdefault(ours, theirs) == theirs

    def check_order(self) -> None:
        mapped = [ours for _, ours in sorted(self.theirs.items())]
        if mapped != sorted(mapped):
            raise Difference("the zxids of one server are in another order than those of the other")


class Connection:
    """One session at one server."""

    def __init__(
        self,
        address: str,
        session: tuple[int, bytes] = (0, bytes(16)),
        last_zxid: int = 0,
        read_only: bool | None = False,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.open = True
        self.socket.sendall(framed(ConnectRequest(SESSION_TIMEOUT_MS, *session, last_zxid, read_only).encode()))
        self.answer: ConnectResponse | None = None
        frames = self.frames(lambda frame: True)
        if frames:
            self.answer = ConnectResponse.decode(frames[0])

    def frames(self, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """The frames up to the one that `is_last`, or up to the end of the connection."""
        found: list[bytes] = []
        data = self.rest
        position = 0
        while True:
            size = len(data)
            while size - position >= 4:
                (length,) = _LENGTH.unpack_from(data, position)
                end = position + 4 + length
                if end > size:
                    break
                frame = data[position + 4 : end]
                position = end
                found.append(frame)
                if is_last(frame):
                    self.rest = data[position:]
                    return found
            try:
                part = self.socket.recv(1 << 18)
            except ConnectionError:
                part = b""
            if not part:
                self.open = False
                self.rest = b""
                return found
            data = data[position:] + part
            position = 0

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except ConnectionError:
            self.open = False

    def close(self) -> None:
        self.socket.close()


class Server:
    def __init__(self, address: str) -> None:
        self.address = address
        self.connections: list[Connection] = []


class Conversation:
    """`mixed_watches` False: no path has more than one kind of watch of a session (before 3.9 ZooKeeper forgot one)."""

    def __init__(self, ours: str, theirs: str, seed: int, *, mixed_watches: bool = True) -> None:
        self.random = random.Random(seed)
        self.servers = (Server(ours), Server(theirs))
        self.zxids = Pairs((0, -1))
        self.owners = Pairs((0, CONTAINER_OWNER))
        self.made: list[str] = []
        self.done = 0
        self.turns = 0
        self.events = 0
        self.mixed_watches = mixed_watches
        self.last_zxids = (0, 0)
        self.is_closing = False
        for _ in range(SESSIONS):
            self.connect(None)
        self.turn(0, [Auth("digest", b"alice:secret")], xids=[AUTH_XID])

    # -- Speaking ------------------------------------------------------------------------------------------------------

    def connect(self, number: int | None, *, again: bool = False, password: bytes | None = None) -> bool:
        """A new session (in place of session `number`), or the same one over a new connection."""
        answers = []
        read_only = self.random.choice((False, False, True, None))  # the oldest clients do not know the field
        for server in self.servers:
            session = 0, bytes(16)
            before: ConnectResponse | None = None
            if again:
                assert number is not None
                before = server.connections[number].answer
                assert before is not None
                session = before.session_id, password or before.password
                server.connections[number].close()
            connection = Connection(server.address, session, read_only=read_only)
            answers.append(connection.answer)
            if password is not None:
                connection.answer = before
            if number is None:
                server.connections.append(connection)
            else:
                server.connections[number] = connection
        mine, theirs = answers
        if (mine is None) != (theirs is None):
            raise Difference(f"connect: ours {mine}, theirs {theirs}")
        if mine is None or theirs is None:
            return False
        if (mine.timeout_ms, len(mine.password), mine.read_only) != (
            theirs.timeout_ms,
            len(theirs.password),
            theirs.read_only,
        ):
            raise Difference(f"connect: ours {mine}, theirs {theirs}")
        if password is None and not self.owners.same(mine.session_id, theirs.session_id):
            raise Difference(f"connect: ours {mine}, theirs {theirs}")
        return mine.timeout_ms > 0

    def turn(self, session: int, operations: list[ZkOperation[Any]], xids: list[int] | None = None) -> None:
        numbers = xids or list(range(1, len(operations) + 1))
        data = b"".join([encode_request(xid, operation) for xid, operation in zip(numbers, operations, strict=True)])
        for server in self.servers:
            server.connections[session].send(data)
        self.compare(session, dict(zip(numbers, operations, strict=True)))
        self.done += len(operations)
        self.turns += 1

    def compare(self, session: int, operations: dict[int, ZkOperation[Any]]) -> None:
        both = []
        last = next(reversed(operations)) if operations else None
        for server in self.servers:
            frames: list[bytes] = []
            connection = server.connections[session]
            if last is not None:
                mark = _LENGTH.pack(last)
                frames = connection.frames(lambda frame, mark=mark: frame[:4] == mark)  # type: ignore[misc]
            both.append(frames)
        self.compare_frames(session, both[0], both[1], operations)
        self.ping()

    def ping(self) -> None:
        """Everyone hears what there is to hear."""
        mark = _LENGTH.pack(PING_XID)
        for server in self.servers:
            for connection in server.connections:
                if connection.open:
                    connection.send(_PING)
        for number in range(len(self.servers[0].connections)):
            mine, theirs = (
                server.connections[number].frames(lambda frame: frame[:4] == mark)
                if server.connections[number].open
                else []
                for server in self.servers
            )
            self.compare_frames(number, mine, theirs, {})

    def compare_frames(
        self, session: int, mine: list[bytes], theirs: list[bytes], operations: dict[int, ZkOperation[Any]]
    ) -> None:
        if len(mine) == 1 == len(theirs) and not operations and mine[0][:4] == theirs[0][:4]:
            return  # a pong
        readable_mine, readable_theirs = self.readable(mine, operations), self.readable(theirs, operations)
        if self.is_closing:
            # ZooKeeper ends a session's ephemerals in the order of a hash set.
            readable_mine, readable_theirs = _sorted_events(readable_mine), _sorted_events(readable_theirs)
        if len(mine) != len(theirs) or any(
            not self.same(a, b) for a, b in zip(readable_mine, readable_theirs, strict=True)
        ):
            lines = [f"after {self.done} operations, session {session}, {len(operations)} requests:"]
            for index in range(max(len(mine), len(theirs))):
                a = readable_mine[index] if index < len(mine) else None
                b = readable_theirs[index] if index < len(theirs) else None
                if a is not None and b is not None and self.same(a, b):
                    continue
                if len(lines) == 1:
                    path = next((one[4] for one in (a, b) if one is not None and one[0] == "event"), None)
                    lines += [
                        f"  before {xid}: {operation!r:.400}"
                        for xid, operation in operations.items()
                        if path is not None and path in repr(operation)
                    ]
                for xid in dict.fromkeys(one[1] for one in (a, b) if one is not None and one[0] == "answer"):
                    lines.append(f"  sent   {xid}: {operations.get(xid)!r:.400}")
                lines += [f"  ours   {a!r:.600}", f"  theirs {b!r:.600}"]
                if len(lines) > 24:
                    lines.append("  ...")
                    break
            raise Difference("\n".join(lines))
        if self.servers[0].connections[session].open != self.servers[1].connections[session].open:
            raise Difference(
                f"after {self.done} operations, session {session}, {operations!r:.800}: "
                f"open: {[server.connections[session].open for server in self.servers]}"
            )

    def readable(self, frames: list[bytes], operations: dict[int, ZkOperation[Any]]) -> list[Any]:
        found: list[Any] = []
        for frame in frames:
            xid, zxid, code = _HEADER.unpack_from(frame)
            if xid == NOTIFICATION_XID:
                event = WatchEvent.decode(frame, 16)[0]
                found.append(("event", event.type, event.state, Zxid(zxid) if self.mixed_watches else -1, event.path))
                self.events += 1
                continue
            operation = operations.get(xid)
            if operation is None:
                found.append(("answer", xid, code, frame[16:]))
                continue
            result: Any = None
            if not code:
                result, end = operation.decode_result(frame, 16)
                if end != len(frame):
                    raise Difference(f"{operation!r}: {len(frame) - end} bytes too many in {frame!r:.200}")
            elif len(frame) != 16:
                raise Difference(f"{operation!r}: an error with a record, {frame!r:.200}")
            if isinstance(operation, GetChildren) and result:
                result = sorted(result[0]), result[1]
            elif isinstance(operation, GetACL) and result:
                # Identities are a hash set in ZooKeeper, and so in any order where ``auth`` stands for them.
                result = sorted(result[0]), result[1]
            elif isinstance(operation, GetChildrenWithoutStat | GetEphemerals | WhoAmI) and result:
                result = sorted(result)
            elif isinstance(operation, MultiRead) and result:
                result = [sorted(part) if isinstance(part, list) else part for part in result]
            wrote = not code and isinstance(operation, _WRITES) and not isinstance(operation, MultiRead)
            if isinstance(operation, Multi) and result and any(isinstance(part, Exception) for part in result):
                wrote = False
            found.append(("answer", xid, Zxid(zxid) if wrote else 0, code, result))
            if isinstance(operation, Create) and operation.sequential and result is not None:
                self.made.append(result if isinstance(result, str) else result[0])
        return found

    def same(self, mine: Any, theirs: Any) -> bool:
        kind = type(theirs)
        if kind is not type(mine):
            return False
        if kind is Stat:
            return (
                mine[4:7] == theirs[4:7]
                and mine[8:10] == theirs[8:10]
                and self.zxids.same(mine.czxid, theirs.czxid)
                and self.zxids.same(mine.mzxid, theirs.mzxid)
                and self.zxids.same(mine.pzxid, theirs.pzxid)
                and self.owners.same(mine.ephemeral_owner, theirs.ephemeral_owner)
                and (mine.mtime >= mine.ctime > 1 << 40 or mine.czxid == 0)
            )
        if kind is Zxid:
            if not self.zxids.same(mine, theirs):
                return False
            self.last_zxids = int(mine), int(theirs)
            return True
        if kind is tuple or kind is list:
            return len(mine) == len(theirs) and all(map(self.same, mine, theirs))
        if isinstance(theirs, Exception):
            return bool(mine.code == theirs.code)  # type: ignore[attr-defined]
        return bool(mine == theirs)

    # -- What is said --------------------------------------------------------------------------------------------------

    def path(self, names: tuple[str, ...] = NAMES) -> str:
        draw = self.random.random
        if draw() < 0.015:
            return self.random.choice(BAD_PATHS)
        if self.made and draw() < 0.1:
            return self.random.choice(self.made)
        depth = 1 + int(draw() * draw() * 3)
        count = len(names)
        return "".join(["/" + names[int(draw() * count)] for _ in range(depth)])

    def leaf(self) -> str:
        path = self.path()
        return f"{path}/{self.random.choice(NAMES)}" if self.random.random() < 0.5 else path

    def version(self) -> int:
        return -1 if self.random.random() < 0.7 else self.random.choice((0, 0, 1, 2, 7, -2))

    def data(self) -> bytes | None:
        draw = self.random.random()
        if draw < 0.002:
            return bytes([int(draw * 100_000)]) * self.random.choice((20_000, 150_000, 250_000))
        return self.random.choice((None, b"", b"x", b"yy", b"zzz" * 30))

    def create(self) -> ZkOperation[Any]:
        draw = self.random
        kind = draw.random()
        ttl_ms = draw.choice((5000, 1, 2**40 - 1, 2**40, 0)) if kind > 0.98 else None
        return Create(
            self.leaf(),
            self.data(),
            ephemeral=kind < 0.3,
            sequential=draw.random() < 0.2 and not 0.9 < kind < 0.97,
            acl=draw.choice(ACLS),
            with_stat=draw.random() < 0.3 or ttl_ms is not None,
            container=0.9 < kind < 0.97,
            ttl_ms=ttl_ms,
        )

    def delete(self) -> ZkOperation[Any]:
        if self.made and self.random.random() < 0.5:
            index = int(self.random.random() * len(self.made))
            self.made[index], self.made[-1] = self.made[-1], self.made[index]
            return Delete(self.made.pop(), -1)
        return Delete(self.leaf(), self.version())

    def set_data(self) -> ZkOperation[Any]:
        return SetData(self.path(), self.data(), self.version())

    def check(self) -> ZkOperation[Any]:
        return Check(self.path(), self.version())

    def multi(self) -> ZkOperation[Any]:
        kinds = self.random.choices((self.create, self.set_data, self.delete, self.check), k=self.random.choice(_SIZES))
        return Multi([kind() for kind in kinds])

    def multi_read(self) -> ZkOperation[Any]:
        return MultiRead(
            [
                GetData(self.path(), self.watches()) if draw < 0.5 else GetChildrenWithoutStat(self.path())
                for draw in [self.random.random() for _ in range(self.random.choice(_SIZES))]
            ]
        )

    def watches(self) -> bool:
        return self.random.random() < 0.4

    def watched_path(self) -> str:
        """Where persistent watches are."""
        if self.mixed_watches:
            return "/" if self.random.random() < 0.2 else self.path()
        return "/" + self.random.choice(("w", "w/a", "w/bb", "w/a/c", "w/a/cc"))

    def watch_mode(self, path: str) -> int:
        return self.random.choice((0, 1)) if self.mixed_watches else len(path) % 2

    def add_watch(self) -> ZkOperation[Any]:
        path = self.watched_path()
        return AddWatch(path, self.watch_mode(path))

    def operation(self) -> ZkOperation[Any]:
        return self.random.choices(_KINDS, cum_weights=_WEIGHTS)[0](self)

    def burst(self, length: int) -> list[ZkOperation[Any]]:
        """Ends with the first setACL: until that is done, ZooKeeper may judge what follows by the ACLs before it."""
        operations: list[ZkOperation[Any]] = []
        while len(operations) < length and not (operations and isinstance(operations[-1], SetACL)):
            operations.append(self.operation())
        return operations

    # -- The conversation ----------------------------------------------------------------------------------------------

    def run(self, operations: int) -> None:
        while self.done < operations:
            self.step()
        for session in range(SESSIONS):
            self.turn(session, [Sync("/")])
        self.compare_trees()
        self.zxids.check_order()

    def step(self) -> None:
        draw = self.random.random()
        session = int(self.random.random() * SESSIONS)
        if draw < 0.95:
            self.turn(session, self.burst(self.random.choice(_BURSTS)))
        elif draw < 0.96:
            self.close_session(session)
        elif draw < 0.975:
            self.come_back(session)
        elif draw < 0.985:
            self.authenticate(session)
        elif draw < 0.995:
            self.raw(session, framed(self.random.choice(RAW)))
        else:
            self.strange(session)

    def close_session(self, session: int) -> None:
        before = self.burst(self.random.choice((0, 1, 3)))
        self.is_closing = True
        self.turn(session, [*before, CloseSession()])
        self.is_closing = False
        for server in self.servers:
            server.connections[session].close()
        self.connect(session)

    def come_back(self, session: int) -> None:
        """The connection breaks; the client is back with its session and its watches."""
        if self.random.random() < 0.1:
            # A wrong password is told that the session has expired; who has the right one has it still.
            self.connect(session, again=True, password=b"wrong-password-x")
            self.connect(session, again=True)
            return
        zxids = self.last_zxids
        self.step_of_another(session)
        self.connect(session, again=True)
        lists = [sorted({self.path() for _ in range(self.random.choice((0, 1, 3)))}) for _ in range(3)]
        persistent: list[str] | None = None
        recursive: list[str] | None = None
        if self.random.random() < 0.5:
            paths = sorted({self.watched_path() for _ in range(2)})
            modes = [self.watch_mode(path) for path in paths]
            persistent = [path for path, mode in zip(paths, modes, strict=True) if mode == 0]
            recursive = [path for path, mode in zip(paths, modes, strict=True) if mode == 1]
        request = SetWatches(0, *lists, persistent, recursive)
        for server, zxid in zip(self.servers, zxids, strict=True):
            server.connections[session].send(encode_request(SET_WATCHES_XID, replace(request, relative_zxid=zxid)))
        self.compare(session, {SET_WATCHES_XID: request})

    def step_of_another(self, session: int) -> None:
        other = (session + 1) % SESSIONS
        self.turn(other, self.burst(5))

    def authenticate(self, session: int) -> None:
        xid = self.random.choice((AUTH_XID, 7))
        if self.random.random() < 0.2:
            self.turn(session, [Auth(*self.random.choice(BAD_AUTH))], xids=[xid])
            self.end_of(session)
            return
        self.turn(session, [Auth(*self.random.choice(GOOD_AUTH))], xids=[xid])

    def raw(self, session: int, data: bytes) -> None:
        """Bytes that no client should send; what comes back, and whether the connection stays."""
        answer, pong = _LENGTH.pack(5), _LENGTH.pack(PING_XID)
        both = []
        for server in self.servers:
            connection = server.connections[session]
            connection.send(data)
            frames = connection.frames(lambda frame: frame[:4] == answer)
            if frames and _HEADER.unpack_from(frames[-1])[2] == ZkErrorCode.UNIMPLEMENTED:
                frames += connection.frames(lambda frame: False)  # it is closed then
            elif connection.open:
                connection.send(_PING)
                frames += connection.frames(lambda frame: frame[:4] == pong)
            both.append(frames)
        mine, theirs = ([(_HEADER.unpack_from(f)[0::2], f[16:]) for f in frames] for frames in both)
        still = [server.connections[session].open for server in self.servers]
        if mine != theirs or still[0] != still[1]:
            raise Difference(f"raw {data!r:.200}: ours {mine} open {still[0]}, theirs {theirs} open {still[1]}")
        self.done += 1
        self.end_of(session)
        self.ping()

    def end_of(self, session: int) -> None:
        """Where the connection is closed the client comes back."""
        if not self.servers[0].connections[session].open:
            self.connect(session, again=True)

    def strange(self, session: int) -> None:
        match self.random.randrange(3):
            case 0:  # longer than jute.maxbuffer
                self.raw(session, encode_request(5, SetData("/a", bytes(0xFFFFF + 200))))
            case 1:
                self.raw(session, struct.pack(">i", -3))
            case 2:  # from another ensemble, as it seems
                answers = [Connection(server.address, last_zxid=1 << 50).answer for server in self.servers]
                if answers != [None, None]:
                    raise Difference(f"a zxid from the future: {answers}")

    def compare_trees(self) -> None:
        self.turn(0, [Auth("digest", b"super:duper")], xids=[AUTH_XID])
        paths = ["/"]
        for path in paths:
            if path == "/zookeeper":
                continue
            request = {1: GetChildren(path), 2: GetData(path), 3: GetACL(path)}
            data = b"".join([encode_request(xid, operation) for xid, operation in request.items()])
            both = []
            for server in self.servers:
                server.connections[0].send(data)
                both.append(server.connections[0].frames(lambda frame: frame[:4] == b"\0\0\0\3"))
            self.compare_frames(0, both[0], both[1], dict(request))
            names = self.readable(both[0], dict(request))[0][4]
            if names:
                paths += [f"{path.rstrip('/')}/{name}" for name in names[0]]
        if not self.servers[0].connections[0].open:
            raise Difference("the connection was closed under the comparison of the trees")

    def close(self) -> None:
        for server in self.servers:
            for connection in server.connections:
                connection.close()


class Zxid(int):
    """A zxid in what is compared."""


_HEADER = Struct(">iqi")
_WRITES = (Create, Delete, SetData, SetACL, Multi)
_SIZES: Final = (1, 1, 2, 2, 3, 4)
_BURSTS: Final = (1, 2, 4, 8, 20, 40, 80)


def _sorted_events(frames: list[Any]) -> list[Any]:
    """The events of one transaction sorted, all else as it is."""
    found: list[Any] = []
    for _, same in itertools.groupby(frames, lambda frame: frame[3] if frame[0] == "event" else id(frame)):
        found += sorted(same, key=lambda frame: (frame[-1], frame[1]) if frame[0] == "event" else ("", 0))
    return found


def _watches(self: Conversation, operation: type[RemoveWatches | CheckWatches]) -> ZkOperation[Any]:
    if self.random.random() < 0.5:
        return operation(self.path(), self.random.choice((1, 2, 3, 4, 5) if self.mixed_watches else (1, 2, 3)))
    return operation(self.watched_path(), self.random.choice((1, 2, 3, 4, 5) if self.mixed_watches else (3,)))


_TABLE: Final[list[tuple[int, Callable[[Conversation], ZkOperation[Any]]]]] = [
    (26, Conversation.create),
    (12, Conversation.set_data),
    (18, Conversation.delete),
    (12, Conversation.multi),
    (3, lambda self: SetACL(self.path(), self.random.choice(ACLS), self.version())),
    (6, lambda self: GetData(self.path(), self.watches())),
    (6, lambda self: Exists(self.path(), self.watches())),
    (6, lambda self: GetChildren(self.path(), self.watches())),
    (2, lambda self: GetChildrenWithoutStat(self.path(), self.watches())),
    (2, lambda self: GetACL(self.path())),
    (1, lambda self: Sync(self.path())),
    (1, lambda self: GetEphemerals(self.random.choice(("/", "/a", "", " ", "/a/b")))),
    (1, lambda self: GetAllChildrenNumber(self.path())),
    (1, lambda self: WhoAmI()),
    (2, Conversation.multi_read),
    (2, Conversation.add_watch),
    (2, lambda self: _watches(self, RemoveWatches)),
    # Before 3.9 checkWatches said yes when anyone at all watched the znode.
    (1, lambda self: _watches(self, CheckWatches if self.mixed_watches else RemoveWatches)),
]
_KINDS: Final = [kind for _, kind in _TABLE]
_WEIGHTS: Final = [sum(weight for weight, _ in _TABLE[: index + 1]) for index in range(len(_TABLE))]


def main() -> None:
    """``coordinator_differential.py OURS THEIRS SEED OPERATIONS [separate]``, both servers running."""
    ours, theirs, seed, operations = sys.argv[1:5]
    conversation = Conversation(ours, theirs, int(seed), mixed_watches="separate" not in sys.argv[5:])
    goal = int(operations)
    step = max(1, goal // 100)
    while conversation.done < goal:
        reached = conversation.done // step
        while conversation.done // step == reached:
            conversation.step()
        print(f"{conversation.done} operations, {conversation.events // 2} events", flush=True)
    conversation.run(goal)
    print(f"no difference in {conversation.done} operations, {conversation.turns} turns", flush=True)


if __name__ == "__main__":
    main()
