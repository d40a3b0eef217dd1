# ruff: noqa: ASYNC110, TID251 -- a bench reads the real clock and files
"""What one more costs when there are many: ``python bench/many.py connections 100 1000 10000``.

Of connections, consumer groups, producer ids or partitions. Brokers of their own are started (three for partitions); at
each point, which is a total, it prints what each of those that were added took, the brokers' CPU to take it and their
memory, both read from ``/proc``, and then what one question and doing nothing cost with all of them there. A figure of
one that rises from point to point is a curve that bends. Connections and partitions need descriptors (``ulimit -n``).

``terabyte`` writes a partition of 1 TB as sparse files (1,000 segments of 1 GiB, each with a batch at either end, and
their indexes) beneath a stopped broker. It times the start after a clean shutdown and after ``kill -9``,
ListOffsets by time, and what retention takes to delete nine tenths of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from barnabas.bench.clusters import process_cpu_s
from barnabas.client.connection import Connection
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

TOPIC = "flights"
IDLE_S = 10.0
AT_ONCE = 50
NOW_MS = int(time.time() * 1000)


class Cluster:
    """Of ``barnabas up``, in a directory of its own."""

    def __init__(self, brokers: int, **config: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="barnabas-many-"))
        settings = [
            word for name, value in config.items() for word in ("--config", f"{name.replace('_', '.')}={value}")
        ]
        self.run("up", "-n", str(brokers), *settings)
        self.runtime = real_runtime()

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "barnabas", *words, "--dir", str(self.directory / "here")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def brokers(self) -> list[dict[str, Any]]:
        return list(json.loads(self.run("status", "--format", "json"))["brokers"])

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("down")
        shutil.rmtree(self.directory)

    async def connection(self, broker: int = 0) -> Connection:
        made = Connection(self.runtime, "127.0.0.1", self.ports[broker], "many", request_timeout_ms=600_000)
        await made.connect()
        await made.negotiate()
        return made

    def look(self) -> None:
        found = self.brokers()
        self.pids = [each["pid"] for each in found]
        self.ports = [each["port"] for each in found]

    def cpu_s(self) -> float:
        """Of all brokers."""
        return sum(map(process_cpu_s, self.pids))

    def memory_kb(self) -> int:
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 for pid in self.pids)


async def all_of(count: int, do: Callable[[int], Awaitable[object]], begin: int = 0) -> None:
    """`do` for each number, so many at a time."""
    numbers = iter(range(begin, count))

    async def some() -> None:
        for number in numbers:
            await do(number)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


@contextlib.asynccontextmanager
async def running(brokers: int, **config: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(brokers, **config)
    try:
        cluster.look()
        yield cluster
    finally:
        cluster.close()


async def grow(
    cluster: Cluster, points: list[int], add: Callable[[int], Awaitable[object]], ask: Callable[[], Awaitable[object]]
) -> None:
    """`add` for each new one, then `ask` 200 times, then nothing."""
    await all_of(20, add)
    done = 20
    print(
        f"{'of them':>9}  {'CPU of one':>10}  {'memory of one':>13}  {'one question':>12}  {'idle, of a core':>15}",
        flush=True,
    )
    for point in points:
        cpu, memory = cluster.cpu_s(), cluster.memory_kb()
        await all_of(point, add, done)
        added, done = point - done, point
        cpu, memory = cluster.cpu_s() - cpu, cluster.memory_kb() - memory
        began = cluster.cpu_s()
        for _ in range(200):
            await ask()
        asked = cluster.cpu_s() - began
        idle = cluster.cpu_s()
        await asyncio.sleep(IDLE_S)
        idle = cluster.cpu_s() - idle
        print(
            f"{point:>9,}  {cpu / added * 1e6:>7.0f} µs  {memory / added:>10.2f} KB  {asked / 200 * 1e6:>9.0f} µs"
            f"  {idle / IDLE_S:>15.2%}",
            flush=True,
        )


async def connections(points: list[int]) -> None:
    async with running(1) as cluster:
        open_ones = []

        async def add(number: int) -> None:
            open_ones.append(await cluster.connection())

        await grow(cluster, points, add, lambda: open_ones[0].send(ApiVersionsRequest(), 3))


async def groups(points: list[int]) -> None:
    async with running(1) as cluster:
        asking = await cluster.connection()
        await topic(cluster, asking, 1)
        while (await asking.send(FindCoordinatorRequest("group-0"), 1)).error_code:
            await asyncio.sleep(0.1)

        async def add(number: int) -> None:
            at = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)
            of = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, [at])
            answer = await asking.send(OffsetCommitRequest(f"group-{number}", topics=[of]), 7)
            assert not answer.topics[0].partitions[0].error_code, answer

        await grow(cluster, points, add, lambda: add(0))
        began = cluster.cpu_s()
        listed = await asking.send(ListGroupsRequest(), 4)
        print(f"ListGroups of {len(listed.groups):,}: {cluster.cpu_s() - began:.2f} s of CPU")


async def producer_ids(points: list[int]) -> None:
    async with running(1) as cluster:
        asking = await cluster.connection()
        await topic(cluster, asking, 1)

        async def produce(producer_id: int, sequence: int) -> None:
            batch = build_batch(
                [Record(0, NOW_MS, None, b"x", [])], producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
            data = ProduceRequest.TopicProduceData(TOPIC, [ProduceRequest.PartitionProduceData(0, batch)])
            answer = await asking.send(ProduceRequest(None, 1, 30_000, [data]), 9)
            assert not answer.responses[0].partition_responses[0].error_code, answer

        sequences = itertools.count()
        await grow(cluster, points, lambda number: produce(1 + number, 0), lambda: produce(0, next(sequences)))


async def partitions(points: list[int]) -> None:
    async with running(3, log_index_size_max_bytes="1048576") as cluster:
        asking = await cluster.connection()

        async def add(number: int) -> None:
            """A topic of 20 partitions for every twentieth."""
            if number % 20 == 0:
                await topic(cluster, asking, 20, f"topic-{number}", 3)

        await grow(cluster, points, add, lambda: asking.send(MetadataRequest([]), 9))
        began = cluster.cpu_s()
        await asking.send(MetadataRequest(None), 9)
        print(f"Metadata of all topics: {cluster.cpu_s() - began:.2f} s of CPU")


async def topic(cluster: Cluster, asking: Connection, count: int, name: str = TOPIC, replicas: int = 1) -> None:
    controller = (await asking.send(MetadataRequest([]), 9)).controller_id
    through = asking if controller == 0 else await cluster.connection(controller)
    wanted = CreateTopicsRequest.CreatableTopic(name, count, replicas)
    answer = await through.send(CreateTopicsRequest([wanted], 600_000), 5)
    assert not answer.topics[0].error_code, answer
    if through is not asking:
        through.abort()
    while True:
        told = await asking.send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)]), 9)
        if not told.topics[0].error_code and all(each.leader_id >= 0 for each in told.topics[0].partitions):
            return
        await asyncio.sleep(0.05)


SEGMENTS, SEGMENT_BYTES, OFFSETS = 1000, 1 << 30, 1000
"""Of the log of 1 TB, and how many offsets apart the segments begin."""


def write_segments(directory: Path) -> None:
    """Segment i begins at offset i * `OFFSETS`, at `NOW_MS` less a minute for each that comes after it."""
    for each in directory.glob("*.*"):
        if each.suffix in (".log", ".index", ".timeindex", ".snapshot", ".txnindex"):
            each.unlink()
    for number in range(SEGMENTS):
        base = number * OFFSETS
        at_ms = NOW_MS - (SEGMENTS - number) * 60_000
        first = build_batch([Record(base, at_ms, None, b"x", [])], leader_epoch=0)
        last = build_batch([Record(base + OFFSETS - 1, at_ms + 30_000, None, b"y", [])], leader_epoch=0)
        # The last one is active, and has no hole, since a start reads it.
        end = len(first) if number == SEGMENTS - 1 else SEGMENT_BYTES - len(last)
        stem = directory / f"{base:020}"
        with stem.with_suffix(".log").open("wb") as log:
            log.write(first)
            log.seek(end)
            log.write(last)
        stem.with_suffix(".index").write_bytes(struct.pack(">ii", OFFSETS - 1, end))
        stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", at_ms + 30_000, OFFSETS - 1))


async def terabyte(points: list[int]) -> None:
    async with running(1, log_retention_hours="-1") as cluster:
        asking = await cluster.connection()
        await topic(cluster, asking, 1)
        log_dir = Path(cluster.brokers()[0]["log_dir"])

        def stop() -> None:
            cluster.run("down")

        def start(how: str) -> None:
            began = time.monotonic()
            cluster.run("up")
            took = time.monotonic() - began
            cluster.look()
            print(
                f"{how}: ready in {took:.2f} s, CPU {cluster.cpu_s():.2f} s, {cluster.memory_kb() / 1024:.0f} MB",
                flush=True,
            )

        stop()
        start("a start without it")
        stop()
        write_segments(log_dir / f"{TOPIC}-0")
        (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 {(SEGMENTS - 1) * OFFSETS}\n")
        start("a start after a clean shutdown")
        os.kill(cluster.pids[0], signal.SIGKILL)
        (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 {(SEGMENTS - 1) * OFFSETS}\n")
        start("a start after kill -9")
        asking = await cluster.connection()
        of = ListOffsetsRequest
        began = cluster.cpu_s()
        for number in range(0, SEGMENTS, 5):
            at_ms = NOW_MS - (SEGMENTS - number) * 60_000
            wanted = of.ListOffsetsPartition(partition_index=0, timestamp=at_ms)
            answer = await asking.send(of(-1, 0, [of.ListOffsetsTopic(TOPIC, [wanted])]), 6)
            found = answer.topics[0].partitions[0]
            assert found.offset == number * OFFSETS, (found, number)
        each_us = (cluster.cpu_s() - began) / (SEGMENTS // 5) * 1e6
        print(f"ListOffsets by time, {SEGMENTS // 5} of them: {each_us:.0f} µs of CPU each")
        cluster.run("config", "alter", f"topic:{TOPIC}", "--set", f"retention.bytes={SEGMENTS // 10 * SEGMENT_BYTES}")
        cluster.run("down")
        stopped = time.monotonic()
        cluster.run("up", "--config", "log.retention.check.interval.ms=1000")
        cluster.look()
        while len(list((log_dir / f"{TOPIC}-0").glob("*.log"))) > SEGMENTS // 10 + 1:
            await asyncio.sleep(0.1)
        took = time.monotonic() - stopped
        print(f"retention deleted nine tenths {took:.1f} s after a start, CPU of both {cluster.cpu_s():.2f} s")


WHAT = {each.__name__.replace("_", "-"): each for each in (connections, groups, producer_ids, partitions, terabyte)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("points", type=int, nargs="*", default=[100, 1_000, 10_000])
    arguments = parser.parse_args()
    print(f"{arguments.what}:", flush=True)
    asyncio.run(WHAT[arguments.what](arguments.points))


if __name__ == "__main__":
    main()
