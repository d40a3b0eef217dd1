"""The coordinator's door: sessions that ask for too much of its tree and of its watches."""

from __future__ import annotations

import contextlib
from typing import Any

from hostile_frame import Broken, Caller, Target, attack

from barnabas.zk.protocol.data import ACL, AddWatchMode
from barnabas.zk.protocol.frames import ConnectRequest, encode_request, framed
from barnabas.zk.protocol.ops import (
    Create,
    Delete,
    Exists,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenWithoutStat,
    Multi,
    MultiRead,
    SetData,
    ZkOperation,
)
from barnabas.zk.protocol.session_ops import AddWatch, SetWatches

MIB = 1 << 20
SESSIONS = 20
PATHS_OF_A_REQUEST = 80_000
"""About a megabyte of them."""


def session(target: Target, timeout_ms: int = 40_000) -> Caller:
    """It sends no pings: on a busy machine an attack lasts longer than the sessions of brokers."""
    caller = target.coordinator()
    caller.send(framed(ConnectRequest(timeout_ms).encode()))
    caller.answer()
    return caller


def ask(caller: Caller, operation: ZkOperation[Any]) -> bytes:
    caller.send(encode_request(1, operation))
    return caller.answer()


@attack("the coordinator is asked in one breath, by twenty sessions")
def coordinator_in_one_breath(target: Target) -> None:
    for operation in (Exists("/x"), GetAllChildrenNumber("/"), GetChildren("/brokers/topics")):
        request = encode_request(1, operation)
        callers = [session(target) for _ in range(SESSIONS)]
        for each in callers:
            each.socket.setblocking(False)
            with contextlib.suppress(Broken):  # it takes no more for now
                each.send(request * ((MIB if target.thorough else MIB // 8) // len(request)))
        for each in callers:
            each.socket.settimeout(60)
            each.answer_bytes()
            each.close()


@attack("twenty-five thousand reads in one request to the coordinator")
def many_reads(target: Target) -> None:
    parts = [GetChildrenWithoutStat("/brokers/topics")] * (25_000 if target.thorough else 2_500)
    for _ in range(4):
        ask(session(target), MultiRead(parts))


@attack("transactions of thousands of creations, and of their deletion")
def large_transactions(target: Target) -> None:
    caller = session(target)
    children = [f"/hostile/{each}" for each in range(5_000 if target.thorough else 1_500)]
    for _ in range(3):
        ask(caller, Multi([Create("/hostile"), *map(Create, children)]))
        ask(caller, Multi([*map(Delete, children), Delete("/hostile")]))


@attack("watches on half a million paths, and their end")
def watches_without_end(target: Target) -> None:
    for _ in range(2):
        caller = session(target)
        with contextlib.suppress(Broken):
            for start in range(0, 500_000 if target.thorough else 100_000, PATHS_OF_A_REQUEST):
                paths = [f"/{each}" for each in range(start, start + PATHS_OF_A_REQUEST)]
                ask(caller, SetWatches(0, [], paths, []))
        caller.close()


@attack("hundreds of sessions, each with its ephemeral")
def sessions_without_end(target: Target) -> None:
    for number in range(400 if target.thorough else 100):
        caller = session(target, 2000)
        ask(caller, Create(f"/ephemeral-{number}", ephemeral=True))
        caller.close()


@attack("a path of a megabyte, and half a million steps")
def deep_paths(target: Target) -> None:
    caller = session(target)
    path = "/a" * 500_000
    for operation in (Exists(path, watch=True), GetChildren(path, watch=True), GetAllChildrenNumber(path)):
        for _ in range(5):
            ask(caller, operation)


@attack("four-letter words about eighty thousand watches")
def words(target: Target) -> None:
    holder = session(target)
    with contextlib.suppress(Broken):  # all have too many
        ask(holder, SetWatches(0, [], [], [f"/w{each}" for each in range(PATHS_OF_A_REQUEST)]))
    for word in (b"wchp", b"wchc", b"wchs", b"dump", b"mntr", b"cons", b"stat", b"srvr", b"conf", b"envi", b"dirs"):
        for _ in range(10):
            caller = target.coordinator()
            caller.send(word)
        caller.until_closed()


@attack("an ACL of forty thousand addresses, looked at again and again")
def long_acl(target: Target) -> None:
    caller = session(target)
    addresses = [f"10.{each >> 16 & 255}.{each >> 8 & 255}.{each & 255}" for each in range(40_000)]
    ask(caller, Create("/addresses", acl=[ACL(31, "ip", each) for each in [*addresses, "127.0.0.1"]]))
    ask(caller, Create("/addresses", acl=[ACL(31, "ip", each) for each in [*addresses[:99], "127.0.0.1"]]))
    for _ in range(3):
        ask(caller, Multi([SetData("/addresses", b"")] * (30_000 if target.thorough else 3_000)))


@attack("everybody watches everything, and a transaction changes it twenty thousand times")
def watched_by_everybody(target: Target) -> None:
    for _ in range(200 if target.thorough else 50):
        ask(session(target), AddWatch("/", AddWatchMode.PERSISTENT_RECURSIVE))
    writer = session(target)
    ask(writer, Create("/watched"))
    for _ in range(3):
        ask(writer, Multi([SetData("/watched", b"")] * (20_000 if target.thorough else 4_000)))


@attack("a name of half a megabyte, watched by a hundred who do not read")
def long_name_watched(target: Target) -> None:
    writer = session(target)
    path = "/" + "n" * 500_000
    ask(writer, Create(path))
    for _ in range(100):
        ask(session(target), AddWatch("/", AddWatchMode.PERSISTENT_RECURSIVE))
    for _ in range(60 if target.thorough else 10):
        ask(writer, SetData(path, b""))
    ask(writer, Delete(path))


@attack("a hundred thousand znodes, counted a thousand times in one breath")
def counted_again_and_again(target: Target) -> None:
    writer = session(target)
    ask(writer, Create("/counted"))
    for begin in range(0, 100_000 if target.thorough else 10_000, 10_000):
        ask(writer, Multi([Create(f"/counted/{each:06}") for each in range(begin, begin + 10_000)]))
    counter = session(target)
    counter.send(encode_request(1, GetAllChildrenNumber("/counted")) * 1_000)
    for _ in range(20):
        counter.answer_bytes()


@attack("two thousand sessions at once, and a tree of as many steps")
def sessions_at_once(target: Target) -> None:
    callers = [session(target) for _ in range(2_000 if target.thorough else 200)]
    path = ""
    for begin in range(0, 2_000 if target.thorough else 200, 100):
        steps = []
        for _ in range(begin, begin + 100):
            path += "/d"
            steps.append(Create(path))
        ask(callers[0], Multi(steps))
    for each in callers:
        each.send(encode_request(1, GetAllChildrenNumber("/d")))
    for each in callers:
        each.answer_bytes()
    while path:
        steps = []
        for _ in range(100):
            steps.append(Delete(path))
            path = path.rpartition("/")[0]
        ask(callers[0], Multi(steps))
