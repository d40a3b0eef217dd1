"""``barnabas perf``: measures a cluster's throughput for producing and consuming, and its end-to-end latency.

It does the same as Kafka's perf-test tools, with this package's clients. It is one Python process, which may be the
bottleneck.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from barnabas.cli.command import CommandGroup, Option
from barnabas.cli.connect import number, security_of, settings_of, with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import partitions_of
from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table, progress
from barnabas.cli.records import Acks, Compression, SettledRecords, Topic, producer_by
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.producer import Delivered

app = CommandGroup("Measure how fast clients write to the cluster and read from it.")

Records = Annotated[int, Option("-n", "--num", metavar="N", min=1, help="How many records.")]
Size = Annotated[
    int,
    Option("--size", metavar="BYTES", min=1, max=1 << 30, help="The bytes of each record's value, which is random."),
]

_PAYLOADS: Final = 1024
_PAYLOAD_BYTES: Final = 64 << 20
"""The memory for different values is at most this."""
_UNDER_WAY: Final = 20_000
"""The most records that wait for acknowledgement at a time."""
_POLL_MS: Final = 1_000
_SILENCE_MS: Final = 10_000


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile."""
    return sorted_values[min(len(sorted_values) - 1, max(0, round(share * len(sorted_values) + 0.5) - 1))]


def latencies(values_ms: Sequence[float]) -> dict[str, float]:
    """Average, percentiles and maximum, in ms."""
    ordered = sorted(values_ms)
    if not ordered:
        return {}
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99_9_ms": 0.999}
    return {
        "avg_ms": round(sum(ordered) / len(ordered), 3),
        **{name: round(percentile(ordered, share), 3) for name, share in shares.items()},
        "max_ms": round(ordered[-1], 3),
    }


def _throughput(records: int, size: int, took_s: float) -> dict[str, float]:
    return {
        "records": records,
        "seconds": round(took_s, 3),
        "records_per_s": round(records / took_s, 1) if took_s else 0.0,
        "mb_per_s": round(size / took_s / 1e6, 3) if took_s else 0.0,
    }


def _tell(figures: dict[str, Any], output: Format) -> None:
    if output is Format.json:
        print_json(figures)
    else:
        heads = [name.replace("_per_s", "/s").replace("p99_9", "p99.9").replace("_", "-") for name in figures]
        print_table(heads, [[f"{value:,}" if isinstance(value, int) else value for value in figures.values()]])


@app.command("produce")
def produce(
    topic: Topic,
    records: Records = 100_000,
    size: Size = 100,
    rate: Annotated[
        float | None, Option("--rate", metavar="R", help="At most R records a second; by default no limit.")
    ] = None,
    compression: Compression = None,
    acks: Acks = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Write records; show records a second and the time to acknowledgement. The records stay in the topic."""
    values = settings_of(at)
    if rate is not None and not rate > 0:
        raise UsageError(f"--rate {rate:g} is not a number of records a second.")
    payloads = [os.urandom(size) for _ in range(max(1, min(records, _PAYLOADS, _PAYLOAD_BYTES // size)))]
    waits_ms: list[float] = []

    async def story(cluster: ClusterClient) -> tuple[SettledRecords, float]:
        await partitions_of(cluster, [topic])
        producer = producer_by(cluster, values, acks, compression)
        room = asyncio.Semaphore(_UNDER_WAY)
        with progress("records", records) as bar:
            settled = SettledRecords(bar)

            def is_over(sent: float, future: asyncio.Future[Delivered]) -> None:
                room.release()
                settled.take(future)
                if future.exception() is None:
                    waits_ms.append((time.perf_counter() - sent) * 1000)

            begun = time.perf_counter()
            for count in range(records):
                if rate is not None and (ahead := count / rate - (time.perf_counter() - begun)) > 0:
                    await asyncio.sleep(ahead)
                await room.acquire()
                sent = time.perf_counter()
                future = await producer.append(topic, payloads[count % len(payloads)])
                future.add_done_callback(partial(is_over, sent))
            await producer.flush()
            took_s = time.perf_counter() - begun
        await producer.close()
        return settled, took_s

    settled, took_s = with_cluster(at, story, values)
    _tell({**_throughput(len(waits_ms), len(waits_ms) * size, took_s), **latencies(waits_ms)}, output)
    settled.complain()


@app.command("consume")
def consume(
    topic: Topic,
    records: Annotated[
        int | None, Option("-n", "--num", metavar="N", min=1, help="At most this many records; by default all.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Read a topic from its start to its present end; show records a second."""
    values = settings_of(at)

    async def story(cluster: ClusterClient) -> tuple[int, int, float]:
        partitions = await partitions_of(cluster, [topic])
        starts = await cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await cluster.list_offsets(dict.fromkeys(partitions, LATEST))
        wanted = {
            partition: starts[partition].offset
            for partition in partitions
            if starts[partition].offset < ends[partition].offset
        }
        there = sum(ends[partition].offset - offset for partition, offset in wanted.items())
        consumer = Consumer(cluster, max_bytes=number(values, 50 * 1024 * 1024, "fetch.max.bytes"))
        count = size = 0
        begun = time.perf_counter()
        await consumer.assign(wanted)
        with progress("records", min(there, records or there)) as bar:
            while any(consumer.position(partition) < ends[partition].offset for partition in wanted):
                fetched = await consumer.poll(_POLL_MS)
                if records is not None:
                    fetched = fetched[: records - count]
                count += len(fetched)
                size += sum(len(consumed.record.value or b"") + len(consumed.record.key or b"") for consumed in fetched)
                bar.advance(len(fetched))
                if count == records:
                    break
        took_s = time.perf_counter() - begun
        await consumer.close()
        return count, size, took_s

    count, size, took_s = with_cluster(at, story, values)
    _tell(_throughput(count, size, took_s), output)


@app.command("latency")
def latency(
    topic: Topic,
    records: Records = 1_000,
    size: Size = 100,
    acks: Acks = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Send one record at a time and wait until it is read; show how long that takes. The records stay in the topic."""
    values = settings_of(at)
    tls, login = security_of(values)
    payload = os.urandom(size)

    async def story(cluster: ClusterClient) -> tuple[list[float], float]:
        first, *_ = await partitions_of(cluster, [topic])
        # The producer has its own client, so that a produce request does not wait behind a fetch.
        reader = ClusterClient(cluster.runtime, cluster.bootstrap, tls=tls, login=login)
        consumer = Consumer(reader)
        await consumer.assign({first: (await cluster.list_offsets({first: LATEST}))[first].offset})
        producer = producer_by(cluster, values, acks, None, linger_ms=0)
        trips_ms: list[float] = []
        with progress("round trips", records) as bar:
            begun = time.perf_counter()
            for _ in range(records):
                sent = time.perf_counter()
                future = await producer.append(topic, payload, partition=first.partition)
                fetched = await consumer.poll(_SILENCE_MS)
                await future
                if not fetched:
                    silence = f"within {_SILENCE_MS // 1000} s"
                    raise CommandError(f"A record of {first} was not read {silence}: see `barnabas status`.")
                trips_ms.append((time.perf_counter() - sent) * 1000)
                bar.advance()
            took_s = time.perf_counter() - begun
        await producer.close()
        await consumer.close()
        await reader.close()
        return trips_ms, took_s

    trips_ms, took_s = with_cluster(at, story, values)
    _tell({"records": len(trips_ms), "seconds": round(took_s, 3), **latencies(trips_ms)}, output)
