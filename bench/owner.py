"""What a partition's owner would have to do for one message: ``python bench/owner.py --instructions``.

If a broker were several processes (decision 19), the process that accepted a connection would decode its produces and
pass to the owner of each partition a message: which of its partitions have records, and where these lie in memory that
both see. Here the leader of `bench/lane.py` is sent such messages in place of connections' frames: its logs, its
purgatories and its followers are the product's, and the answer is a row of offsets. What passes a message on to
another process is not in the figures.

``connection`` is a produce as brokers get it today, ``message`` the same produce as its owner would, and ``echo`` a
message that is answered at once: what the bench itself costs. Requests carry 1, 4 and 16 partitions (records of 100 B,
and batches of 16 KB of them), acks=all, with three replicas, where the followers' work is counted too, and with one.
Each figure is of a whole request. Behind a row of three stands the line that it makes: what a request costs whatever is
in it, and what each partition.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any, Final

import lane

from barnabas.log.validation import Unpacking
from barnabas.model.ids import TopicPartition
from barnabas.replica.delayed_produce import Appended
from barnabas.wire.messages.produce import ProduceRequest

HEAD: Final = Struct(">IIhIH")
"""Size of what follows, number, acks, timeout in ms, and how many partitions."""
ENTRY: Final = Struct(">HII")
"""A partition's number, and where its records begin in the message, and their bytes."""
ANSWER: Final = Struct(">II")
"""Size of what follows, and number."""
OUTCOME: Final = Struct(">hqqq")
"""Error, base offset, the log's append time and start offset."""
WAYS: Final = ("connection", "message", "echo")
SIZES: Final = {
    "a record each": ("spread", "four", "sixteen"),
    "16 KB each": ("spread-batches", "four-batches", "sixteen-batches"),
}


def message(request: ProduceRequest, number: int) -> bytes:
    """What a front would pass on, here with the records behind it."""
    (topic,) = request.topic_data
    entries = bytearray()
    records = bytearray()
    begin = HEAD.size + ENTRY.size * len(topic.partition_data)
    for data in topic.partition_data:
        assert data.records is not None
        entries += ENTRY.pack(data.index, begin + len(records), len(data.records))
        records += data.records
    size = begin + len(records) - 4
    return HEAD.pack(size, number, request.acks, request.timeout_ms, len(topic.partition_data)) + entries + records


class Owner:
    """Takes messages for the partitions of a broker, and answers them in the order in which they are done."""

    def __init__(self, broker: lane.Broker, back: asyncio.Transport, partitions: int) -> None:
        self._appending = broker.replicas.appending
        self._back = back
        self._partitions = [TopicPartition(lane.TOPIC, index) for index in range(partitions)]

    def arrived(self, data: bytearray) -> None:
        """Whole messages, in memory of their own: batches are stamped there, and written from there."""
        view = memoryview(data)
        while view:
            size, number, acks, timeout_ms, count = HEAD.unpack_from(view)
            self._produce(view, number, acks, timeout_ms, count)
            view = view[size + 4 :]

    def _produce(self, view: memoryview, number: int, acks: int, timeout_ms: int, count: int) -> None:
        appending, partitions, unpacking = self._appending, self._partitions, Unpacking()
        appended = [
            appending.append(partitions[index], view[begin : begin + size], acks, unpacking=unpacking)
            for index, begin, size in ENTRY.iter_unpack(view[HEAD.size : HEAD.size + count * ENTRY.size])
        ]
        waiting = appending.replicating(appended, timeout_ms, just_now=True)
        if waiting is None:
            self._answer(number, appended)
        else:
            waiting.then = partial(self._answer, number, appended)

    def _answer(self, number: int, appended: Sequence[Appended]) -> None:
        rows = [ANSWER.pack(4 + OUTCOME.size * len(appended), number)]
        for outcome in appended:
            assert not outcome.error, outcome
            rows.append(OUTCOME.pack(0, outcome.base_offset, outcome.log_append_time_ms, outcome.log_start_offset))
        self._back.write(b"".join(rows))


class Echo:
    """Answers each message at once."""

    def __init__(self, back: asyncio.Transport) -> None:
        self._back = back

    def arrived(self, data: bytearray) -> None:
        view = memoryview(data)
        while view:
            size, number, _, _, count = HEAD.unpack_from(view)
            self._back.write(ANSWER.pack(4 + OUTCOME.size * count, number) + bytes(OUTCOME.size * count))
            view = view[size + 4 :]


async def run(shape: lane.Shape, way: str, replicas: int, requests: int, rounds: int) -> list[float]:
    """CPU in µs a partition's batch, of each round."""
    directory = lane.log_directory()
    try:
        assignment = [lane.BROKERS[:replicas]] * shape.partitions
        brokers = await lane.brokers_for(assignment, directory)
        leader = brokers[lane.BROKERS[0]]
        serve: Any = {
            "connection": lane.by_connection(leader),
            "message": lambda back: Owner(leader, back, shape.partitions).arrived,
            "echo": lambda back: Echo(back).arrived,
        }[way]
        written = lane.frame if way == "connection" else message
        producers = [lane.Producer(number, shape, serve, written) for number in range(shape.connections)]
        figures = [await lane.cpu_us(producers, shape, requests) for _ in range(rounds)]
        await lane.end(brokers, assignment)
        return figures
    finally:
        shutil.rmtree(directory)


def thousands(name: str, way: str, replicas: int, arguments: argparse.Namespace) -> float:
    """Of instructions, or of ns of CPU, a request."""
    shape = lane.SHAPES[name]
    if arguments.instructions:
        more = ("--way", way, "--replicas", str(replicas))
        return lane.instructions_a_request(__file__, name, arguments.requests, *more) / 1000
    return min(asyncio.run(run(shape, way, replicas, arguments.requests, arguments.rounds))) * shape.at_once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", choices=lane.SHAPES, metavar="SHAPE", help="one alone, of bench/lane.py")
    parser.add_argument("--way", choices=WAYS, help="one alone")
    parser.add_argument("--replicas", type=int, choices=(1, 3), help="so many alone")
    parser.add_argument("--requests", type=int, default=1000, help="in a round, over all connections")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instructions", action="store_true", help="count instructions, by valgrind")
    arguments = parser.parse_args()
    unit = "thousand instructions" if arguments.instructions else "µs of CPU"
    sizes = SIZES if arguments.shape is None else {lane.SHAPES[arguments.shape].says: (arguments.shape,)}
    for replicas in (3, 1) if arguments.replicas is None else (arguments.replicas,):
        for size, names in sizes.items():
            print(f"replicas {replicas}, {size}: {unit} a request")
            for way in WAYS if arguments.way is None else (arguments.way,):
                figures = {lane.SHAPES[name].at_once: thousands(name, way, replicas, arguments) for name in names}
                row = "  ".join(f"{partitions}: {figure:,.0f}" for partitions, figure in figures.items())
                line = ""
                if len(figures) > 1:
                    slope, constant = statistics.linear_regression(list(figures), list(figures.values()))
                    line = f"   {constant:,.0f} + {slope:,.1f} a partition"
                print(f"  {way:<10} {row}{line}", flush=True)


if __name__ == "__main__":
    main()
