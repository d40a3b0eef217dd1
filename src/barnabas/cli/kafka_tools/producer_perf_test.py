"""``kafka-producer-perf-test``: measures how fast brokers acknowledge records
(``org.apache.kafka.tools.ProducerPerformance``)."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from collections.abc import Mapping
from typing import Any, Final

from barnabas.cli.kafka_tools.arguments import Parser, number
from barnabas.cli.kafka_tools.errors import illegal_argument, java_error
from barnabas.cli.kafka_tools.performance import Throttle, producer_of, producer_settings
from barnabas.cli.kafka_tools.session import API_TIMEOUT_MS, client_of, client_properties, reached
from barnabas.client.producer import Producer
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.runtime import Clock

_WINDOW_MS: Final = 5_000
_SAMPLES: Final = 500_000
_LETTERS: Final = bytes(range(65, 91))


def _parser() -> Parser:
    parser = Parser(prog="producer-performance", description="This tool measures how fast brokers acknowledge records.")
    payload = parser.add_mutually_exclusive_group(required=True)
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to write to")
    parser.add_argument("--num-records", required=True, type=number("Long"), metavar="NUM-RECORDS", help="how many")
    payload.add_argument("--record-size", type=number("Integer"), metavar="RECORD-SIZE", help="a record's bytes")
    payload.add_argument(
        "--payload-file", metavar="PAYLOAD-FILE", help="a file of values; each record takes one at random"
    )
    payload.add_argument("--payload-monotonic", action="store_true", help="the values are rising numbers")
    parser.add_argument(
        "--payload-delimiter", default="\\n", metavar="PAYLOAD-DELIMITER", help="the delimiter of values in the file"
    )
    parser.add_argument(
        "--throughput",
        required=True,
        type=number("Double"),
        metavar="THROUGHPUT",
        help="records a second; -1: no limit",
    )
    parser.add_argument("--producer-props", nargs="+", metavar="PROP-NAME=PROP-VALUE", help="producer's properties")
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="CONFIG-FILE", help="a file of producer properties"
    )
    parser.add_argument("--print-metrics", action="store_true", help="print metrics at the end")
    parser.add_argument(
        "--transactional-id",
        default="performance-producer-default-transactional-id",
        metavar="TRANSACTIONAL-ID",
        help="with a --transaction-duration-ms",
    )
    parser.add_argument(
        "--transaction-duration-ms", type=number("Long"), default=0, metavar="TRANSACTION-DURATION",
        help="commit after this time in ms; 0: no transactions",
    )  # fmt: skip
    return parser


def main(words: list[str]) -> int:
    parser = _parser()
    given = parser.given(words)
    if given.producer_props is None and given.producer_config is None:
        parser.refuse("Either --producer-props or --producer.config must be specified.")
    payloads = _payloads(given)
    asyncio.run(_run(given, _properties(given), payloads))
    return 0


def _payloads(given: argparse.Namespace) -> list[bytes]:
    path = given.payload_file
    if path is None:
        return []
    print(f"Reading payloads from: {os.path.abspath(path)}")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        raise illegal_argument("File does not exist or empty file provided.")
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        parts = file.read().split("\n" if given.payload_delimiter == "\\n" else given.payload_delimiter)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    print(f"Number of messages read: {len(parts)}")
    return [part.encode() for part in parts]


def _properties(given: argparse.Namespace) -> dict[str, str]:
    properties = client_properties(given.producer_config)
    for text in given.producer_props or ():
        pieces = text.split("=")
        if len(pieces) != 2:
            raise illegal_argument(f"Invalid property: {text}")
        name, value = pieces
        properties[name] = value
    properties.setdefault("client.id", "perf-producer-client")
    return properties


async def _run(given: argparse.Namespace, properties: Mapping[str, str], payloads: list[bytes]) -> None:
    cluster = client_of(properties)
    transactional = given.transaction_duration_ms > 0
    clock = cluster.runtime.clock
    try:
        await reached(cluster, "metadata", int(properties.get("max.block.ms", API_TIMEOUT_MS)))
        producer: Producer
        if transactional:
            producer = await _transactional(cluster, given, properties)
        else:
            producer = producer_of(cluster, properties)
        stats = Stats(given.num_records, clock)
        await _send(given, producer, payloads, stats, clock)
        await producer.flush()
        await asyncio.sleep(0)  # lets the callbacks of the last futures run
        stats.print_total()
        await producer.close()
    except KafkaError as error:
        raise java_error(error) from error
    finally:
        await cluster.close()


async def _transactional(cluster: Any, given: argparse.Namespace, properties: Mapping[str, str]) -> Producer:
    settings = producer_settings(properties)
    for name in ("acks", "idempotent"):
        del settings[name]
    producer = TransactionalProducer(cluster, given.transactional_id, **settings)
    await producer.init_transactions()
    return producer


async def _send(
    given: argparse.Namespace, producer: Producer, payloads: list[bytes], stats: Stats, clock: Clock
) -> None:
    draw = random.Random(0)
    throttle = Throttle(given.throughput, clock)
    began_ms = -1
    for sent in range(given.num_records):
        if payloads:
            payload = draw.choice(payloads)
        elif given.record_size is not None:
            payload = bytes(draw.choices(_LETTERS, k=given.record_size))
        else:
            payload = str(sent).encode()
        now_ms = clock.monotonic_ms()
        if isinstance(producer, TransactionalProducer) and began_ms < 0:
            await producer.begin_transaction()
            began_ms = now_ms
        future = await producer.append(given.topic, payload)
        future.add_done_callback(stats.callback(now_ms, len(payload)))
        if isinstance(producer, TransactionalProducer) and now_ms - began_ms >= given.transaction_duration_ms:
            await producer.commit_transaction()
            began_ms = -1
        if sent % 100 == 99:
            await asyncio.sleep(0)
        await throttle.after(sent + 1)
    if isinstance(producer, TransactionalProducer) and began_ms >= 0:
        await producer.commit_transaction()


class Stats:
    """Counts acknowledged records, and prints a line every five seconds."""

    def __init__(self, records: int, clock: Clock) -> None:
        self._clock = clock
        self._start_ms = self._window_ms = clock.monotonic_ms()
        self._sampling = max(1, records // min(max(records, 1), _SAMPLES))
        self._latencies: list[int] = []
        self._count = self._bytes = self._total_ms = self._max_ms = 0
        self._window = [0, 0, 0, 0]
        """Records, bytes, sum and maximum of their latencies since the last line."""

    def callback(self, sent_ms: int, size: int) -> Any:
        def acknowledged(future: asyncio.Future[Any]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                print(java_error(error) if isinstance(error, KafkaError) else error, file=sys.stderr)
                return
            now = self._clock.monotonic_ms()
            self._record(now - sent_ms, size, now)

        return acknowledged

    def _record(self, latency: int, size: int, now: int) -> None:
        if self._count % self._sampling == 0:
            self._latencies.append(latency)
        self._count += 1
        self._bytes += size
        self._total_ms += latency
        self._max_ms = max(self._max_ms, latency)
        records, sizes, total, highest = self._window
        self._window = [records + 1, sizes + size, total + latency, max(highest, latency)]
        if now - self._window_ms >= _WINDOW_MS:
            self._print_window(now)

    def _print_window(self, now: int) -> None:
        records, sizes, total, highest = self._window
        elapsed = now - self._window_ms
        print(
            f"{records} records sent, {1000 * records / elapsed:.1f} records/sec "
            f"({1000 * sizes / elapsed / 1048576:.2f} MB/sec), {total / records:.1f} ms avg latency, "
            f"{float(highest):.1f} ms max latency.",
            flush=True,
        )
        self._window_ms = now
        self._window = [0, 0, 0, 0]

    def print_total(self) -> None:
        elapsed = max(1, self._clock.monotonic_ms() - self._start_ms)
        ordered = sorted(self._latencies) or [0]
        p50, p95, p99, p99_9 = (
            ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (0.5, 0.95, 0.99, 0.999)
        )
        print(
            f"{self._count} records sent, {1000 * self._count / elapsed:.6f} records/sec "
            f"({1000 * self._bytes / elapsed / 1048576:.2f} MB/sec), {self._total_ms / max(1, self._count):.2f} ms avg "
            f"latency, {float(self._max_ms):.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, "
            f"{p99_9} ms 99.9th."
        )
