"""``kafka-verifiable-producer``: writes rising numbers, and prints a line of JSON for each (``VerifiableProducer``)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from barnabas.cli.kafka_tools.arguments import Parser, number
from barnabas.cli.kafka_tools.errors import JavaError, java_error
from barnabas.cli.kafka_tools.json_files import compact
from barnabas.cli.kafka_tools.performance import Throttle, producer_of
from barnabas.cli.kafka_tools.session import API_TIMEOUT_MS, client_of, client_properties, reached
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.runtime import Clock

SERVERS = "HOST1:PORT1[,HOST2:PORT2[...]]"


def _parser() -> Parser:
    parser = Parser(
        prog="verifiable-producer",
        description="This tool writes rising numbers, and prints which of them were acknowledged.",
    )
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to write to")
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", metavar=SERVERS, help="the brokers to ask first")
    servers.add_argument("--broker-list", metavar=SERVERS, help="DEPRECATED, use --bootstrap-server")
    parser.add_argument(
        "--max-messages",
        type=number("Integer"),
        default=-1,
        metavar="MAX-MESSAGES",
        help="the number of records; -1: no limit",
    )
    parser.add_argument(
        "--throughput", type=number("Integer"), default=-1, metavar="THROUGHPUT", help="records a second; -1: no limit"
    )
    parser.add_argument(
        "--acks", type=number("Integer"), default=-1, choices=(0, 1, -1), metavar="ACKS", help="whose acknowledgement"
    )
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="CONFIG_FILE", help="a file of producer properties"
    )
    parser.add_argument(
        "--message-create-time",
        type=number("Long"),
        default=-1,
        metavar="CREATETIME",
        help="the first timestamp, in ms",
    )
    parser.add_argument(
        "--value-prefix", type=number("Integer"), metavar="VALUE-PREFIX", help="a prefix of every value"
    )
    parser.add_argument(
        "--repeating-keys",
        type=number("Integer"),
        metavar="REPEATING-KEYS",
        help="keys from 0 to this number - 1, again and again",
    )
    return parser


def main(words: list[str]) -> int:
    parser = _parser()
    given = parser.given(words)
    properties = {"bootstrap.servers": given.bootstrap_server or given.broker_list, "acks": str(given.acks)}
    try:
        properties |= client_properties(given.producer_config)
    except JavaError as error:
        parser.refuse(error.message)
    asyncio.run(_Run(given).run(properties))
    return 0


def until_signalled() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set: the tool then finishes the records under way and ends."""
    ended = asyncio.Event()
    for number_ in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number_, ended.set)
    return ended


class _Run:
    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._sent = self._acked = 0
        self._clock: Clock

    def _event(self, name: str, **fields: Any) -> None:
        print(compact({"timestamp": self._clock.now_ms(), "name": name, **fields}), flush=True)

    async def run(self, properties: Mapping[str, str]) -> None:
        cluster = client_of(properties)
        self._clock = cluster.runtime.clock
        ended = until_signalled()
        began_ms = self._clock.monotonic_ms()
        self._event("startup_complete")
        try:
            await reached(cluster, "metadata", API_TIMEOUT_MS)
            producer = producer_of(cluster, properties)
            await self._send(producer, ended)
            await producer.flush()
            await asyncio.sleep(0)  # lets the callbacks of the last futures run
            await producer.close()
        finally:
            await cluster.close()
        self._event("shutdown_complete")
        elapsed = max(1, self._clock.monotonic_ms() - began_ms)
        self._event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._given.throughput,
            avg_throughput=1000 * self._acked / elapsed,
        )

    async def _send(self, producer: Producer, ended: asyncio.Event) -> None:
        given = self._given
        throttle = Throttle(given.throughput, self._clock)
        stamp = given.message_create_time if given.message_create_time != -1 else None
        began_ms = self._clock.now_ms()
        while not ended.is_set() and (given.max_messages < 0 or self._sent < given.max_messages):
            text = str(self._sent) if given.value_prefix is None else f"{given.value_prefix}.{self._sent}"
            key = None if given.repeating_keys is None else str(self._sent % given.repeating_keys)
            self._sent += 1
            try:
                future = await producer.append(
                    given.topic, text.encode(), key=None if key is None else key.encode(), timestamp=stamp
                )
                future.add_done_callback(self._told(key, text))
            except KafkaError as error:
                self._failed(key, text, error)
            if stamp is not None:
                stamp += self._clock.now_ms() - began_ms
            if self._sent % 100 == 0:
                await asyncio.sleep(0)
            await throttle.after(self._sent)

    def _told(self, key: str | None, value: str) -> Any:
        def done(future: asyncio.Future[Any]) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                error = future.exception()
                if error is not None:
                    self._failed(key, value, error)
                    return
                self._acked += 1
                at = future.result()
                self._event(
                    "producer_send_success",
                    key=key,
                    value=value,
                    topic=at.topic,
                    partition=at.partition,
                    offset=at.offset,
                )

        return done

    def _failed(self, key: str | None, value: str, error: BaseException) -> None:
        told = java_error(error) if isinstance(error, KafkaError) else JavaError("java.io.IOException", str(error))
        self._event(
            "producer_send_error",
            key=key,
            value=value,
            topic=self._given.topic,
            exception=f"class {told.name}",
            message=told.message,
        )
