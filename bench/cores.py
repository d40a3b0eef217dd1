# ruff: noqa: TID251 -- a bench starts processes and reads what they took
"""What a record costs when each core of a machine has a broker of its own: ``python bench/cores.py --instructions``.

Three machines with 1, 2, 4, 8 and 16 cores, a broker for each core, and the machine's name as its ``broker.rack``: the
brokers are those of `bench/lane.py`, all in one process and without sockets, and replicas stand where
``CreateTopics`` puts them. One topic of 96 partitions, three replicas, acks=all, records of 100 B. Each broker has
eight connections with one request in flight, as many as a broker of one core has: so many clients are needed to keep it
busy. A client's produce for 16 partitions of a machine is a request for 16 of them with one core, and one for a
sixteenth of them to each broker with sixteen.

What is counted is all that brokers do for a record, leader and followers. Divided by the figure of one core it is what
does not divide: with sixteen cores a machine does sixteen divided by that times the work.

``--live SECONDS`` starts real brokers, each held to a core of its own. Clients want cores as well: where there are none
left, ``--share 0.25`` gives each broker a quarter of a core instead, by a control group (Linux, as root), so that a
machine of two cores shows by the clock what two, four or sixteen slow cores do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import lane
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.bench.clusters import process_cpu_s, running_barnabas
from barnabas.bench.produce_load import Load, ProduceLoad
from barnabas.broker.placement import assign_replicas

MACHINES: Final = 3
PARTITIONS: Final = 96
CONNECTIONS: Final = 8
LOADS: Final = {
    "one record of 100 B": Load(CONNECTIONS, 1, record_bytes=100),
    "batches of 100 KB": Load(4, 5, record_bytes=1000, batch_bytes=100_000),
}
RAMP_S: Final = 0.5
QUOTA_US: Final = 2000
"""What a broker of a share may use before it waits for its next turn: short, as a slower core; Linux takes 1,000."""
PATIENCE_S: Final = 60.0
"""How long a client may take to begin; then the others end with `BrokenBarrierError`."""


def assignment(cores: int) -> lane.Assignment:
    racks = {machine * cores + core + 1: f"machine-{machine}" for machine in range(MACHINES) for core in range(cores)}
    placed = assign_replicas(racks, PARTITIONS, MACHINES, lane.Seeded(1), start_index=0)
    for replicas in placed.values():
        assert len({racks[each] for each in replicas}) == MACHINES, "replicas stand on different machines"
    return [placed[index] for index in range(PARTITIONS)]


def shape_of(cores: int, at_once: int) -> lane.Shape:
    return lane.Shape("", MACHINES * cores * CONNECTIONS, PARTITIONS, max(1, at_once // cores), 1, 100)


class Opcodes:
    """Counts what the interpreter does, but in this directory's programs: the same on a machine that is busy."""

    def __init__(self) -> None:
        self.count = 0

    def begins(self, frame: FrameType, event: str, argument: object) -> Any:
        if os.path.dirname(frame.f_code.co_filename) == os.path.dirname(lane.__file__):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.goes_on

    def goes_on(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            self.count += 1
        return self.goes_on


async def run(cores: int, at_once: int, each: int, opcodes: bool = False) -> float:
    """CPU in µs a record, or thousand opcodes; each connection sends `each` requests, behind two that do not count."""
    directory = lane.log_directory()
    shape = shape_of(cores, at_once)
    try:
        placed = assignment(cores)
        brokers = await lane.brokers_for(placed, directory)
        producers = []
        for number in range(shape.connections):
            leader = brokers[number % len(brokers) + 1]
            led = [index for index, replicas in enumerate(placed) if replicas[0] == leader.broker_id]
            producers.append(lane.Producer(number, shape, lane.by_connection(leader), partitions=led))
        await lane.cpu_us(producers, shape, 2 * shape.connections)
        if opcodes:
            counted = Opcodes()
            sys.settrace(counted.begins)
        figure = await lane.cpu_us(producers, shape, each * shape.connections)
        if opcodes:
            sys.settrace(None)
            figure = counted.count / (each * shape.connections * shape.at_once) / 1000
        await lane.end(brokers, placed)
        return figure
    finally:
        shutil.rmtree(directory)


def thousand_instructions(cores: int, at_once: int) -> float:
    shape = shape_of(cores, at_once)
    few = max(2, 256 // shape.connections)
    more = ("--at-once", str(at_once))
    spent = [lane.instructions(__file__, str(cores), each, *more) for each in (few, 3 * few)]
    return (spent[1] - spent[0]) / (2 * few * shape.connections * shape.at_once) / 1000


def client(port: int, topic: str, load: Load, seconds: float, cores: set[int], barrier: Any, sent: Any) -> None:
    """A process of its own: tells how much its broker took between two meetings at the barrier."""
    os.sched_setaffinity(0, cores)
    with ProduceLoad(port, topic, load) as sending:
        sending.run(RAMP_S)
        barrier.wait()
        told = sending.run(seconds)
        barrier.wait()
        sent.put(told)


@contextmanager
def held_to_a_share(pid: int, share: float) -> Iterator[None]:
    """The process gets so much of one core and no more, by a control group of version 1 or 2.

    Raises `OSError` where this process may make none.
    """
    version_1 = Path("/sys/fs/cgroup/cpu")
    group = (version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")) / f"barnabas-{pid}"
    period_us = round(QUOTA_US / share)
    group.mkdir()
    try:
        if version_1.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        else:
            (group / "cpu.max").write_text(f"{QUOTA_US} {period_us}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def live(cores: int, load: Load, seconds: float, share: float | None) -> tuple[float, float]:
    """Requests a second, and the brokers' CPU in µs a request, with so many brokers on as many cores, or shares."""
    here = sorted(os.sched_getaffinity(0))
    forked = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_barnabas(Path(directory), cores) as first,
        ExitStack() as held,
    ):
        brokers = json.loads((Path(directory) / "cluster.json").read_text())["brokers"]
        own = here[:cores] if share is None else []
        for broker, core in zip(brokers, own, strict=False):
            os.sched_setaffinity(broker["pid"], {core})
        admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
        topics = [NewTopic(f"on-{broker['id']}", 1, replica_assignment=[[broker["id"]]]) for broker in brokers]
        for made in admin.create_topics(topics, operation_timeout=30).values():
            made.result()
        if share is not None:
            for broker in brokers:
                held.enter_context(held_to_a_share(broker["pid"], share))
        barrier, sent = forked.Barrier(cores + 1, timeout=PATIENCE_S + seconds), forked.SimpleQueue()
        left = {*here} - {*own} or {*here}
        clients = [
            forked.Process(
                target=client, args=(broker["port"], f"on-{broker['id']}", load, seconds, left, barrier, sent)
            )
            for broker in brokers
        ]
        for process in clients:
            process.start()
        barrier.wait()
        before = sum(process_cpu_s(broker["pid"]) for broker in brokers)
        barrier.wait()
        used = sum(process_cpu_s(broker["pid"]) for broker in brokers) - before
        told = [sent.get() for _ in clients]
        for process in clients:
            process.join()
        requests = sum(each.requests for each in told)
        return requests / max(each.seconds for each in told), used / requests * 1e6


def measure_live(counts: list[int], seconds: float, share: float | None) -> None:
    unit = "cores" if share is None else f"times {share:g} of a core"
    for says, load in LOADS.items():
        alone: tuple[float, float] | None = None
        for cores in counts:
            rate, cpu_us = live(cores, load, seconds, share)
            alone = alone or (rate, cpu_us)
            print(
                f"{says}, {cores:>2} {unit}: {rate:9,.0f} requests a second, {cpu_us:6.1f} µs of CPU each:"
                f" {rate / alone[0]:5.2f} and {cpu_us / alone[1]:.2f} times the first's",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cores", nargs="*", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--at-once", type=int, help="partitions of a machine in a produce; else 1, and 16")
    parser.add_argument("--requests", type=int, default=20, help="of each connection")
    parser.add_argument("--rounds", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--instructions", action="store_true", help="count instructions, by valgrind")
    parser.add_argument("--opcodes", action="store_true", help="count what the interpreter does")
    parser.add_argument("--live", type=float, metavar="SECONDS", help="real brokers, on cores of their own")
    parser.add_argument("--share", type=float, help="with --live: of a core, for each broker")
    arguments = parser.parse_args()
    if arguments.share is not None and not arguments.live:
        parser.error("--share is for the brokers of --live")
    if arguments.live:
        measure_live(arguments.cores, arguments.live, arguments.share)
        return
    for at_once in (1, 16) if arguments.at_once is None else (arguments.at_once,):
        alone = 0.0
        for cores in arguments.cores:
            if arguments.instructions:
                figure, unit = thousand_instructions(cores, at_once), "thousand instructions"
            else:
                figure = asyncio.run(run(cores, at_once, arguments.requests, arguments.opcodes))
                unit = "thousand opcodes" if arguments.opcodes else "µs of CPU"
            alone = alone or figure
            times = cores / arguments.cores[0] * alone / figure
            print(
                f"{at_once:>2} partitions a produce, {cores:>2} cores: {figure:7.1f} {unit} a record,"
                f" {figure / alone:.2f} of one core's: {times:.2f} times the work",
                flush=True,
            )


if __name__ == "__main__":
    main()
