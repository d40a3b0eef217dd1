"""What no client should send: an error or a closed connection, and nobody else notices."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinators import Coordinator, Wire
from processes import eventually

from barnabas.zk.protocol.frames import ConnectRequest, encode_request, framed
from barnabas.zk.protocol.ops import Create, GetChildren, GetChildrenWithoutStat, GetData, SetData
from barnabas.zk.protocol.session_ops import AddWatch, Ping

PATIENCE_MS = 600_000
"""In which a busy machine has made all the sessions of a test: the first of them is still there."""


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    directory: Path = tmp_path_factory.mktemp("bad-input")
    server = Coordinator(directory, "--config", f"maxSessionTimeout={PATIENCE_MS}")
    try:
        server.up()
        yield server
    finally:
        server.close()


@pytest.fixture
def undisturbed(coordinator: Coordinator) -> Iterator[None]:
    """Another session writes and reads all the while, is always answered, and never waits long."""
    stop = threading.Event()
    longest = [0.0]
    rounds = [0]

    def work() -> None:
        with Wire(coordinator, timeout_ms=30_000) as client:
            client.call(Create("/undisturbed", b""))
            while not stop.is_set():
                begun = time.monotonic()
                assert client.call(SetData("/undisturbed", b"%d" % rounds[0])) == (1, 0)
                assert client.call(GetData("/undisturbed")) == (1, 0)
                longest[0] = max(longest[0], time.monotonic() - begun)
                rounds[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        eventually(lambda: rounds[0] > 3)
        yield
        before = rounds[0]
        eventually(lambda: rounds[0] > before + 3, what="the other session goes on")
    finally:
        stop.set()
        thread.join(30)
    assert longest[0] < 5


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
    coordinator: Coordinator, undisturbed: None, frame: bytes, handshake: bool
) -> None:
    address = ("127.0.0.1", coordinator.port)
    connection = Wire(coordinator).socket if handshake else socket.create_connection(address, timeout=5)
    with connection, contextlib.suppress(ConnectionResetError):
        connection.sendall(frame)
        assert connection.recv(100) == b""


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
    coordinator: Coordinator, undisturbed: None, request_record: bytes, code: int
) -> None:
    with Wire(coordinator) as client:
        client.socket.sendall(framed(request_record) + encode_request(-2, Ping()))
        assert client.header() == (1, code)
        assert client.header() == (-2, 0)


def test_an_unknown_op_code_is_answered_and_its_connection_closed_as_zookeeper_does(
    coordinator: Coordinator, undisturbed: None
) -> None:
    with Wire(coordinator) as client:
        client.socket.sendall(framed(struct.pack(">ii", 1, 77)))
        assert client.header() == (1, -6)
        assert client.closed()


def test_a_zxid_from_the_future_is_turned_away(coordinator: Coordinator, undisturbed: None) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port), timeout=5) as connection:
        connection.sendall(framed(ConnectRequest(5000, last_zxid_seen=1 << 40).encode()))
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""


def test_noise_in_every_place_of_a_conversation_harms_only_its_own_connection(
    coordinator: Coordinator, undisturbed: None
) -> None:
    draw = random.Random(7)
    good = [
        framed(ConnectRequest(5000).encode()),
        *(encode_request(xid, Create(f"/noise-{xid}", bytes(50), sequential=True)) for xid in range(1, 6)),
        encode_request(9, GetChildren("/")),
    ]
    for _ in range(150):
        data = bytearray(b"".join(good))
        match draw.randrange(3):
            case 0:  # some bytes are others
                for _ in range(draw.randrange(1, 6)):
                    data[draw.randrange(len(data))] = draw.randrange(256)
            case 1:  # it ends somewhere
                del data[draw.randrange(len(data)) :]
            case 2:  # nothing but noise
                data = bytearray(draw.randbytes(draw.randrange(1, 400)))
        connection = socket.create_connection(("127.0.0.1", coordinator.port), timeout=20)
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                continue


def test_a_request_longer_than_jute_maxbuffer_closes_its_connection_and_what_came_before_is_answered(
    coordinator: Coordinator, undisturbed: None
) -> None:
    with Wire(coordinator) as client:
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(encode_request(1, Ping()) + encode_request(2, Create("/long", bytes(2 << 20))))
        assert client.header() == (-2, 0)
        assert client.closed()


def test_a_frame_that_comes_byte_by_byte_is_understood(coordinator: Coordinator, undisturbed: None) -> None:
    with Wire(coordinator) as client:
        for byte in encode_request(3, Create("/slowly-", b"x" * 100, sequential=True)):
            client.socket.sendall(bytes([byte]))
        assert client.header() == (3, 0)


def test_a_client_that_does_not_read_holds_up_nobody_and_gets_all_once_it_does(
    coordinator: Coordinator, undisturbed: None
) -> None:
    with Wire(coordinator) as slow:
        slow.call(Create("/big", bytes(900_000)))
        slow.socket.sendall(encode_request(1, GetData("/big")) * 100)
        with Wire(coordinator) as other:
            assert other.call(GetData("/big")) == (1, 0)
        for _ in range(100):
            assert len(slow.frame()) > 900_000


def test_a_client_that_never_reads_its_watch_events_is_dropped_in_the_end(tmp_path: Path) -> None:
    server = Coordinator(tmp_path, "--no-fsync")
    try:
        server.up()
        with Wire(server, timeout_ms=40_000) as deaf, Wire(server, timeout_ms=40_000) as writer:
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            name = "/" + "n" * 20_000
            assert writer.call(Create(name, b"")) == (1, 0)
            # A persistent watch on what has a long name: each change is 20 KB to send.
            deaf.socket.sendall(encode_request(1, AddWatch(name, 0)))
            deaf.frame()
            changes = [encode_request(2, SetData(name, b"x"))] * 20
            with contextlib.suppress(ConnectionError):
                for _ in range(400):
                    writer.socket.sendall(b"".join(changes))
                    for _ in changes:
                        assert writer.header() == (2, 0)
            eventually(lambda: "does not read what is sent to it" in server.output(), what="it was dropped")
    finally:
        server.close()


def test_of_a_long_answer_no_more_is_kept_than_is_not_sent(tmp_path: Path) -> None:
    server = Coordinator(tmp_path, "--no-fsync")
    deaf: list[socket.socket] = []

    def resident_mib() -> int:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    try:
        server.up()
        with Wire(server) as writer:
            writer.call(Create("/many", b""))
            for begin in range(0, 12_000, 1000):
                creations = [Create(f"/many/{'n' * 240}{number:05}", b"") for number in range(begin, begin + 1000)]
                writer.socket.sendall(b"".join(encode_request(1, each) for each in creations))
                for _ in creations:
                    assert writer.header() == (1, 0)
        before = resident_mib()
        for _ in range(40):
            # The kernel takes most of an answer of 3 MB for a client that reads none of it.
            each = socket.socket()
            deaf.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", server.port))
            each.sendall(framed(ConnectRequest(20_000).encode()))
            each.recv(100)
            each.sendall(encode_request(1, GetChildrenWithoutStat("/many")))
            each.recv(100)
        assert resident_mib() < before + 60
    finally:
        for each in deaf:
            each.close()
        server.close()


def test_ten_thousand_idle_connections_cost_nobody_anything(coordinator: Coordinator, undisturbed: None) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 1_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1_000), hard))
    idle: list[socket.socket] = []
    try:
        for number in range(count):
            # Addresses of the loopback network, so that ports are enough.
            connection = socket.socket()
            idle.append(connection)
            connection.bind((f"127.0.0.{2 + number % 4}", 0))
            connection.connect(("127.0.0.1", coordinator.port))
            if number % 2:
                connection.sendall(framed(ConnectRequest(PATIENCE_MS).encode()))
        expected = count // 2
        eventually(lambda: _mntr(coordinator)["zk_global_sessions"] >= expected, what="half of them have sessions")
        with Wire(coordinator) as client:
            assert client.call(Ping(), -2) == (-2, 0)
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: _mntr(coordinator)["zk_num_alive_connections"] < 100, what="they are gone")


def _mntr(coordinator: Coordinator) -> dict[str, int]:
    lines = [line.split("\t") for line in coordinator.word("mntr").splitlines()]
    return {name: int(value) for name, value in lines if value.isdigit()}
