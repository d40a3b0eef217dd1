# ruff: noqa: TID251 -- a bench reads the real clock and files
"""What a broker's fetch costs above sendfile: ``python bench/fetch_floor.py``, and ``--cold`` from the disk.

The floor is a null server: whatever it is asked, it answers with bytes that it made before and the next megabyte of a
file by ``sendfile``; where the socket is full it waits until that has room, and sends on. It runs on the loop that
brokers run on, and its file is a copy of the broker's segment. Both are asked by the same client over plain sockets, in
turn, each connection with one request in flight for a megabyte at most; CPU is that of each process, user and system,
from ``/proc``.
``--cold`` has the kernel drop the pages of both files before each round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import select
import shutil
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from floor import serving

from barnabas.bench.clusters import make_topic, process_cpu_s, running_barnabas
from barnabas.bench.produce_load import Load, ProduceLoad
from barnabas.bench.small_requests import connect
from barnabas.runtime.event_loop import fastest_loop
from barnabas.wire import frames
from barnabas.wire.messages.fetch import FetchRequest

TOPIC: Final = "floor"
FETCH_VERSION: Final = 11
"""The last one that librdkafka and others send with a topic's name."""
ANSWER_BYTES: Final = 1_000_000
BATCH_BYTES: Final = 100_000
HEAD_BYTES: Final = 90
LOG_BYTES: Final = 400_000_000


class Null(asyncio.Protocol):
    """One connection. A request is whatever comes in one piece: there is one in flight."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = os.fstat(file).st_size
        self._position = 0
        self._left = 0
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        # A socket of its own: the one that a transport shows refuses to send.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))

    def data_received(self, data: bytes) -> None:
        if self._position + ANSWER_BYTES > self._size:
            self._position = 0
        head = (HEAD_BYTES - 4 + ANSWER_BYTES).to_bytes(4, "big") + bytes(HEAD_BYTES - 4)
        self._socket.send(head, socket.MSG_MORE)
        self._left = ANSWER_BYTES
        self._go_on()

    def _go_on(self) -> None:
        while self._left:
            try:
                sent = os.sendfile(self._socket.fileno(), self._file, self._position, self._left)
            except BlockingIOError:
                if not self._waits:
                    self._waits = True
                    self._loop.add_writer(self._socket.fileno(), self._go_on)
                return
            self._left -= sent
            self._position += sent
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._socket.fileno())

    def connection_lost(self, error: Exception | None) -> None:
        if self._waits:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()


def serve(path: str) -> None:
    """Prints its port, and serves until it is killed."""
    file = os.open(path, os.O_RDONLY)

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Null(file), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.Runner(loop_factory=fastest_loop()).run(forever())


def fetch_frame(offset: int) -> bytes:
    asked = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=ANSWER_BYTES)
    message = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50_000_000,
        topics=[FetchRequest.FetchTopic(TOPIC, partitions=[asked])],
    )
    return b"".join(frames.encode_request(message, FETCH_VERSION, 1, "bench"))


def fetched(port: int, requests: list[bytes], connections: int, seconds: float) -> tuple[int, int]:
    """Answers and bytes that come in `seconds`, the requests sent in turn, one in flight on each connection."""
    left: dict[int, int] = {}
    answers = received = 0
    buffer = bytearray(1 << 20)
    with contextlib.ExitStack() as stack, select.epoll() as poll:
        opened = [stack.enter_context(connect(port)) for _ in range(connections)]
        sockets = {each.fileno(): each for each in opened}
        turn = [itertools.cycle(requests[number:] + requests[:number]) for number in range(connections)]
        next_frame = dict(zip(sockets, turn, strict=True))
        for descriptor, each in sockets.items():
            poll.register(descriptor, select.EPOLLIN)
            each.sendall(next(next_frame[descriptor]))
            left[descriptor] = 0
        end = time.monotonic() + seconds
        waiting = set(sockets)
        while waiting:
            for descriptor, _ in poll.poll(30):
                each = sockets[descriptor]
                count = each.recv_into(buffer)
                if not count:
                    raise ConnectionError("the connection was closed")
                received += count
                if not left[descriptor]:
                    left[descriptor] = 4 + int.from_bytes(buffer[:4], "big")
                left[descriptor] -= count
                if not left[descriptor]:
                    answers += 1
                    if time.monotonic() < end:
                        each.sendall(next(next_frame[descriptor]))
                    else:
                        waiting.discard(descriptor)
    return answers, received


def forget(*paths: Path) -> None:
    """Has the kernel drop a file's pages."""
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cold", action="store_true", help="from the disk")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    load = Load(4, 5, record_bytes=1000, batch_bytes=BATCH_BYTES)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        ours = stack.enter_context(running_barnabas(directory / "barnabas"))
        make_topic(ours, TOPIC)
        batches = LOG_BYTES // BATCH_BYTES
        with ProduceLoad(ours.port, TOPIC, load) as sending:
            sending.run(0, batches)
        segment = directory / "barnabas" / "broker-0" / "data" / f"{TOPIC}-0" / f"{0:020}.log"
        copy = Path(shutil.copy(segment, directory))
        port, pid = stack.enter_context(serving(__file__, str(copy)))
        at_once = ANSWER_BYTES // BATCH_BYTES
        requests = [fetch_frame(first * load.records) for first in range(0, batches - at_once, at_once)]
        subjects: Any = ((ours.port, ours.pid(0)), (port, pid))
        ratios = []
        for _ in range(arguments.rounds):
            costs = []
            for at, of in subjects:
                if arguments.cold:
                    forget(segment, copy)
                before = process_cpu_s(of)
                answers, received = fetched(at, requests, arguments.connections, arguments.seconds)
                costs.append((process_cpu_s(of) - before) / received * 1e9)
                print(f"{received / answers / 1e3:.0f} KB an answer, {costs[-1]:.3f} s of CPU a GB", flush=True)
            ratios.append(costs[0] / costs[1])
            print(f"broker / null server: {ratios[-1]:.2f}", flush=True)
        print(f"median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
