# ruff: noqa: TID251 -- a bench reads the real clock and files
"""What the kernel's buffers of a connection cost on one machine: ``python bench/socket_buffers.py``.

One process answers each byte with a megabyte of a file by ``sendfile``; another receives batches, a few in flight, and
answers each with a byte. Nothing of Kafka is in it. Shown is the CPU of the one that sends or receives the megabytes,
for each size of its own buffer (0: as the kernel finds good).
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import socket
import tempfile
from collections.abc import Callable

GIB = 1 << 30
ANSWER_BYTES = 1 << 20
FILE_BYTES = 256 * ANSWER_BYTES


def connected(option: int, size: int, peer: Callable[[socket.socket], None]) -> socket.socket:
    """The accepted end of a connection, whose other end a process of its own has."""
    with socket.socket() as listening:
        if size:
            listening.setsockopt(socket.SOL_SOCKET, option, size)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        if os.fork() == 0:
            with socket.create_connection(listening.getsockname()) as end:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer(end)
            os._exit(0)
        end, _ = listening.accept()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return end


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def take(end: socket.socket, into: memoryview) -> None:
    filled = 0
    while filled < len(into):
        filled += end.recv_into(into[filled:])


def sending(file: int, size: int, total: int) -> float:
    """CPU seconds a GiB of who sends answers from a file."""

    def ask(end: socket.socket) -> None:
        answer = memoryview(bytearray(ANSWER_BYTES))
        for _ in range(total // ANSWER_BYTES):
            end.send(b"?")
            take(end, answer)

    with connected(socket.SO_SNDBUF, size, ask) as end:
        end.setblocking(False)
        asked, room = select.poll(), select.poll()
        asked.register(end, select.POLLIN)
        room.register(end, select.POLLOUT)
        began = cpu_s()
        for number in range(total // ANSWER_BYTES):
            asked.poll()
            end.recv(1)
            position, left = number * ANSWER_BYTES % FILE_BYTES, ANSWER_BYTES
            while left:
                try:
                    sent = os.sendfile(end.fileno(), file, position, left)
                except BlockingIOError:
                    room.poll()
                    continue
                position, left = position + sent, left - sent
        used = cpu_s() - began
    os.wait()
    return used / (total / GIB)


def receiving(batch: int, in_flight: int, size: int, total: int) -> float:
    """CPU seconds a GiB of who receives batches."""

    def send(end: socket.socket) -> None:
        data, sent, answered = bytes(batch), 0, 0
        while answered < total // batch:
            while sent < total // batch and sent - answered < in_flight:
                end.sendall(data)
                sent += 1
            answered += len(end.recv(1000))

    with connected(socket.SO_RCVBUF, size, send) as end:
        into = memoryview(bytearray(batch))
        began = cpu_s()
        for _ in range(total // batch):
            take(end, into)
            end.send(b"!")
        used = cpu_s() - began
    os.wait()
    return used / (total / GIB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gib", type=int, default=2)
    options = parser.parse_args()
    total = options.gib * GIB
    with tempfile.TemporaryFile() as file:
        for _ in range(FILE_BYTES // ANSWER_BYTES):
            file.write(os.urandom(ANSWER_BYTES))
        file.flush()
        for _ in range(options.rounds):
            for size in (0, 65536, 102400, 262144, 524288):
                print(f"sends 1 MiB, buffer {size}: {sending(file.fileno(), size, total):.3f} s/GiB", flush=True)
            for batch, in_flight in ((100_000, 5), (1_000_000, 1), (16_000, 5)):
                for size in (0, 65536, 102400, 524288):
                    used = receiving(batch, in_flight, size, total)
                    print(f"receives {batch} B, {in_flight} in flight, buffer {size}: {used:.3f} s/GiB", flush=True)


if __name__ == "__main__":
    main()
