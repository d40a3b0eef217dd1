"""The admin endpoint: whoever looks at a broker takes nothing from those it serves."""

from __future__ import annotations

import contextlib
import json
import struct

from hostile_frame import Broken, Caller, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

RECORDS = 50_000
CONNECTIONS = 100
HEAD = b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def endpoint(target: Target) -> Caller:
    """A connection to broker 0's, which says nothing yet. Raises `Broken` while the broker starts."""
    status = json.loads((target.cluster.directory / "broker-0" / "status.json").read_text())
    if status["admin"] is None:
        raise Broken("broker 0 has no admin endpoint yet")
    caller = Caller(int(status["admin"].rpartition(":")[2]), target._count)
    target.callers.append(caller)
    return caller


def asked(path: str, *more: bytes) -> bytes:
    return HEAD % path.encode() + b"".join(line + b"\r\n" for line in more) + b"\r\n"


def status_of(caller: Caller) -> bytes:
    """The answer's first line; the connection ends behind the answer."""
    found = bytearray()
    with contextlib.suppress(Broken):
        while True:
            found += caller._some(1 << 20)
    return bytes(found[: found.find(b"\r\n")])


@attack("a search through batches that unpack to fifty thousand records each")
def search_through_bombs(target: Target) -> None:
    topic = target.topic()
    count = RECORDS if target.thorough else RECORDS // 10
    bomb = build_batch([Record(at, 0, b"k", b"") for at in range(count)], compression=Codec.ZSTD)
    data = ProduceRequest.PartitionProduceData(0, records=bomb)
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(topic, [data])])
    writer = target.caller()
    for _ in range(10):
        answer = writer.ask(produce, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
    for query in ("key=none", "limit=200", "at=1"):
        callers = [endpoint(target) for _ in range(8 if target.thorough else 2)]
        for each in callers:
            each.send(asked(f"/messages?topic={topic}&partition=0&{query}", b"Connection: close"))
        for each in callers:
            assert status_of(each).endswith(b"200 "), query


@attack("a hundred looks at everything in one breath, that nobody reads")
def looks_in_one_breath(target: Target) -> None:
    paths = (
        "/metrics",
        "/replicas",
        "/topics?limit=1000",
        "/groups",
        "/transactions",
        "/history",
        "/export",
        "/status",
    )
    for each in paths:
        callers = [endpoint(target) for _ in range(CONNECTIONS if target.thorough else 20)]
        for caller in callers:
            caller.socket.setsockopt(1, 8, 4096)  # SO_RCVBUF
            with contextlib.suppress(Broken):
                caller.send(asked(each) * 50)
        for caller in callers[-5:]:
            with contextlib.suppress(Broken):
                caller.first_byte()
        for caller in callers:
            caller.close()


@attack("requests of a byte at a time, and more streams than there may be")
def slow_looks(target: Target) -> None:
    streams = [endpoint(target) for _ in range(60)]
    for number, each in enumerate(streams):
        with contextlib.suppress(Broken):
            each.send(asked("/live" if number % 2 else "/events"))
    slow = [endpoint(target) for _ in range(300)]
    for at in range(20):
        for each in slow:
            with contextlib.suppress(Broken):  # others needed the room
                each.send(asked("/status")[at : at + 1])
    last = endpoint(target)
    last.send(asked("/status", b"Connection: close"))
    assert status_of(last).endswith(b"200 ")


@attack("the endpoint is asked for what is no HTTP")
def no_http(target: Target) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(64),
        struct.pack(">i", 100) + bytes(100),
        b"\xff" * 70_000,
    ):
        for _ in range(20):
            caller = endpoint(target)
            with contextlib.suppress(Broken):
                caller.send(data)
                caller.until_closed()
