# ruff: noqa: TID251 -- a bench reads the real clock and files
"""What a broker's produce costs above the floor: ``python bench/floor.py --record 1000 --batch 100000``.

The floor is a null server: each connection has one buffer, into which frames are received as they come; it computes the
CRC of the batch in place, writes those bytes to the end of a file, and answers with bytes that it made before. It knows
nothing of Kafka but where the batch begins in the frames that it is sent. It runs on the loop that brokers run on. Both
are sent the same frames with acks=1 by the same client (`barnabas.bench.produce_load`), in turn, and the CPU is that of
each process, user and system, from ``/proc``. What a round wrote is given up before the next one: on a virtual machine a
page that is new can cost ten times one that was used before, and it would be compared who meets how many of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crc32c import crc32c

from barnabas.bench.clusters import drop_topic, make_topic, process_cpu_s, running_barnabas, until
from barnabas.bench.produce_load import Load, measured
from barnabas.bench.small_requests import PRODUCE_VERSION, produce_frame
from barnabas.runtime.event_loop import fastest_loop
from barnabas.wire import frames
from barnabas.wire.messages.produce import ProduceResponse
from barnabas.wire.records import CRC_AT

TOPIC = "floor"
COVERED_AT = CRC_AT + 4
"""Where what a batch's CRC covers begins."""


class Null(asyncio.BufferedProtocol):
    """One connection. `batch_at`: where the batch begins in a frame; `tail_bytes`: what follows it there."""

    def __init__(self, file: int, batch_at: int, tail_bytes: int, answer: bytes) -> None:
        self._file = file
        self._batch_at = batch_at
        self._tail_bytes = tail_bytes
        self._answer = answer
        self._buffer = bytearray(1 << 21)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        held, at, view = self._held + nbytes, 0, self._view
        while held - at >= 4:
            end = at + 4 + int.from_bytes(view[at : at + 4], "big")
            if end > held:
                break
            begin, stop = at + self._batch_at, end - self._tail_bytes
            (claimed,) = struct.unpack_from(">I", view, begin + CRC_AT)
            if crc32c(view[begin + COVERED_AT : stop]) != claimed:
                raise ValueError("the CRC of a batch is wrong")
            os.write(self._file, view[begin:stop])
            self._transport.write(self._answer)
            at = end
        if at:
            view[: held - at] = view[at:held]
        self._held = held - at


def serve(path: str, batch_at: int, tail_bytes: int, answer: bytes) -> None:
    """Prints its port, and serves until it is killed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Null(file, batch_at, tail_bytes, answer), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.Runner(loop_factory=fastest_loop()).run(forever())


@contextlib.contextmanager
def null_server(directory: Path, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Port and process id."""
    marker = b"here the batch begins".ljust(batch_bytes)
    empty = produce_frame(TOPIC, marker, 1)
    message = ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(TOPIC, [ProduceResponse.PartitionProduceResponse(0, 0, base_offset=0)])
        ]
    )
    answer = b"".join(frames.encode_response(message, PRODUCE_VERSION, 1))
    batch_at = empty.index(marker)
    tail_bytes = len(empty) - batch_at - len(marker)
    with serving(__file__, str(directory / "null"), str(batch_at), str(tail_bytes), answer.hex()) as served:
        yield served


@contextlib.contextmanager
def serving(program: str, *words: str) -> Iterator[tuple[int, int]]:
    """The null server that `program` runs with ``--serve``: its port, which it prints, and process id."""
    with subprocess.Popen([sys.executable, program, "--serve", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=int, default=1000, help="bytes of a record's value")
    parser.add_argument("--batch", type=int, default=100_000, help="bytes of a batch")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--in-flight", type=int, default=5, help="requests of a connection")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        path, batch_at, tail_bytes, answer = arguments.serve
        serve(path, int(batch_at), int(tail_bytes), bytes.fromhex(answer))
        return
    load = Load(arguments.connections, arguments.in_flight, record_bytes=arguments.record, batch_bytes=arguments.batch)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        ours = stack.enter_context(running_barnabas(Path(directory) / "barnabas"))
        port, pid = stack.enter_context(null_server(Path(directory), arguments.batch))
        ratios = []
        for _ in range(arguments.rounds):
            make_topic(ours, TOPIC)
            costs = []
            for at, of in ((ours.port, ours.pid(0)), (port, pid)):
                sent, used = measured(at, TOPIC, load, arguments.seconds, lambda of=of: process_cpu_s(of))  # type: ignore[misc]
                costs.append(used / sent.requests * 1e6)
            drop_topic(ours, TOPIC)
            until(lambda: not list(ours.log_dir(0).glob(f"{TOPIC}-*")), "the end of the topic's files")
            os.truncate(Path(directory) / "null", 0)
            ratios.append(costs[0] / costs[1])
            print(
                f"broker {costs[0]:.1f} µs, null server {costs[1]:.1f} µs of CPU a batch: {ratios[-1]:.2f}", flush=True
            )
        print(f"median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
