"""A lean load for any ZooKeeper server.

``python -m barnabas.bench.zookeeper_load PORT KIND CONNECTIONS WINDOW SECONDS``: The load must cost so little that the
server is measured. Requests are encoded before the clock starts and have one length, as have the answers; answers are
counted by their bytes, and the last one of each piece read is checked. Each connection has `WINDOW` requests under way.
KIND is ``fill``, ``read`` (getData, exists and getChildren in turn are too different in length: getData alone) or
``write`` (setData). Prints requests per second.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import sys
import time
from typing import Final

from barnabas.zk.protocol.errors import ZkErrorCode
from barnabas.zk.protocol.frames import ConnectRequest, encode_request, framed
from barnabas.zk.protocol.ops import Create, GetData, SetData, ZkOperation

ZNODES: Final = 1000
DATA: Final = bytes(range(100))
_READ_ANSWER: Final = 4 + 16 + 4 + len(DATA) + 68
_WRITE_ANSWER: Final = 4 + 16 + 68
_ENCODED_AHEAD: Final = 4096
_RECEIVE: Final = 1 << 18


def path(number: int) -> str:
    return f"/load/znode-{number:06d}"


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(framed(ConnectRequest(30_000).encode()))
    answer(connection)
    return connection


def answer(connection: socket.socket) -> bytes:
    """The next frame."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data[4:]


def fill(port: int) -> None:
    """Creates the znodes that are read and written; existing ones stay."""
    with connect(port) as connection:
        for made in ["/load", *map(path, range(ZNODES))]:
            connection.sendall(encode_request(1, Create(made, DATA)))
            code = struct.unpack_from(">i", answer(connection), 12)[0]
            if code not in (0, ZkErrorCode.NODE_EXISTS):
                raise RuntimeError(f"create of {made}: error {code}")


def load(port: int, kind: str, connections: int, window: int, seconds: float) -> float:
    """Requests per second."""
    draw = random.Random(1)

    def request() -> ZkOperation[object]:
        chosen = path(draw.randrange(ZNODES))
        return GetData(chosen) if kind == "read" else SetData(chosen, DATA)  # type: ignore[return-value]

    encoded = [encode_request(1, request()) for _ in range(_ENCODED_AHEAD)]
    length = len(encoded[0])
    requests = b"".join(encoded * 2)
    answer_length = _READ_ANSWER if kind == "read" else _WRITE_ANSWER
    sockets = {}
    begun = [0] * connections
    pending = [0] * connections
    poll = select.epoll()
    for number in range(connections):
        connection = connect(port)
        sockets[connection.fileno()] = number, connection
        poll.register(connection, select.EPOLLIN)
        begun[number] = draw.randrange(_ENCODED_AHEAD)
        first = begun[number] * length
        connection.sendall(requests[first : first + window * length])
    done = 0
    start = time.perf_counter()
    end = start + seconds
    now = start
    while now < end:
        for descriptor, _ in poll.poll():
            number, connection = sockets[descriptor]
            data = connection.recv(_RECEIVE)
            if not data:
                raise ConnectionError("the server closed the connection")
            count, rest = divmod(pending[number] + len(data), answer_length)
            pending[number] = rest
            if count:
                done += count
                if (
                    rest == 0
                    and len(data) >= answer_length
                    and data[-answer_length + 16 : -answer_length + 20] != b"\0\0\0\0"
                ):
                    raise RuntimeError(f"an answer with an error: {data[-answer_length:]!r}")
                first = (begun[number] + count) % _ENCODED_AHEAD
                begun[number] = first
                while count > 0:
                    some = min(count, _ENCODED_AHEAD)
                    connection.sendall(requests[first * length : (first + some) * length])
                    count -= some
        now = time.perf_counter()
    for _, connection in sockets.values():
        connection.close()
    return done / (now - start)


def main() -> None:
    port, kind, connections, window, seconds = sys.argv[1:6]
    if kind == "fill":
        fill(int(port))
    else:
        print(load(int(port), kind, int(connections), int(window), float(seconds)))


if __name__ == "__main__":
    main()
