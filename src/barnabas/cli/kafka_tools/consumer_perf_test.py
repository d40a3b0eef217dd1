"""``kafka-consumer-perf-test``: measures how fast records are read (``org.apache.kafka.tools.ConsumerPerformance``)."""

from __future__ import annotations

import asyncio
import random
import re
import time
from typing import Final

from barnabas.cli.kafka_tools.errors import JavaError, illegal_argument, java_error, told_with_trace
from barnabas.cli.kafka_tools.options import OptionError, OptionParser, ToolWords
from barnabas.cli.kafka_tools.session import API_TIMEOUT_MS, client_of, client_properties, reached
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.positions import ConsumerRecord
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Clock

_MB: Final = 1024 * 1024
_MORE: Final = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_DATE_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.broker_list = parser.takes("broker-list", "DEPRECATED, use --bootstrap-server.", "broker-list")
        self.server = parser.takes("bootstrap-server", "REQUIRED: the brokers to ask first.", "server to connect to")
        self.topic = parser.takes("topic", "REQUIRED: the topic to read.", "topic")
        group = f"perf-consumer-{random.randrange(100_000)}"
        self.group = parser.takes("group", "The group to read in.", "gid", default=group)
        self.fetch_size = parser.takes(
            "fetch-size", "The maximal bytes of a partition in a fetch.", "size", kind="Integer", default=_MB
        )
        self.from_latest = parser.flag("from-latest", "Begin at the log's end if the group has no committed offset.")
        self.socket = parser.takes(
            "socket-buffer-size", "The socket's buffer.", "size", kind="Integer", default=2 * _MB
        )
        self.threads = parser.takes("threads", "DEPRECATED, ignored.", "count", kind="Integer", default=10)
        self.fetchers = parser.takes("num-fetch-threads", "DEPRECATED, ignored.", "count", kind="Integer", default=1)
        self.config = parser.takes("consumer.config", "A file of consumer properties.", "config file")
        self.metrics = parser.flag("print-metrics", "Print metrics at the end.")
        self.detailed = parser.flag("show-detailed-stats", "Print a line every interval.")
        self.timeout = parser.takes(
            "timeout", "How long to wait for a record.", "milliseconds", kind="Long", default=10000, optional=True
        )
        self.messages = parser.takes("messages", "REQUIRED: how many records to read.", "count", kind="Long")
        self.interval = parser.takes("reporting-interval", "The interval.", "interval_ms", kind="Long", default=5000)
        self.date_format = parser.takes(
            "date-format", "How times are printed (SimpleDateFormat).", "date format",
            default="yyyy-MM-dd HH:mm:ss:SSS",
        )  # fmt: skip
        self.hide_header = parser.flag("hide-header", "Leave out the line of headings.")
        try:
            self.options = parser.parse(words)
            parser.require_servers(self.options, self.server, self.broker_list)
        except OptionError as error:
            parser.usage_and_exit(error.message)
        if self.options.has_any((self.threads, self.fetchers)):
            print(
                "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test"
            )
        parser.help_or_version(words, self.options, "This tool is used to verify the consumer performance.")
        parser.require(self.options, self.topic, self.messages)

    def properties(self) -> dict[str, str]:
        return client_properties(
            self.value(self.config),
            self.value(self.server if self.has(self.server) else self.broker_list),
            "perf-consumer-client",
        )


def main(arguments: list[str]) -> int:
    words = _Words(arguments)
    try:
        if not words.has(words.hide_header):
            first = "time, threadId" if words.has(words.detailed) else "start.time, end.time"
            print(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec{_MORE}")
        asyncio.run(_Run(words).run())
    except JavaError as error:
        return told_with_trace(error)
    return 0


def _date(pattern: str, ms: int) -> str:
    def field(match: re.Match[str]) -> str:
        return f"{ms % 1000:03d}" if match[0] == "SSS" else time.strftime(_DATE_LETTERS[match[0]], at)

    at = time.localtime(ms / 1000)
    return re.sub("yyyy|MM|dd|HH|mm|ss|SSS", field, pattern)


def _rate(amount: float, ms: float) -> float:
    return 1000 * amount / ms if ms > 0 else 0.0


class _Run:
    def __init__(self, words: _Words) -> None:
        self._words = words
        self._bytes = self._messages = 0
        self._joined_ms = self._round_ms = self._join_began_ms = 0
        self._clock: Clock

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        elapsed = self._clock.monotonic_ms() - self._join_began_ms
        self._joined_ms += elapsed
        self._round_ms += elapsed

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._join_began_ms = self._clock.monotonic_ms()

    async def run(self) -> None:
        words = self._words
        cluster = client_of(words.properties())
        self._clock = cluster.runtime.clock
        consumer = Consumer(
            cluster,
            topics=[words.value(words.topic)],
            group=words.value(words.group),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            auto_offset_reset=LATEST if words.has(words.from_latest) else EARLIEST,
            partition_max_bytes=words.value(words.fetch_size),
            check_crcs=False,
            auto_commit_interval_ms=5_000,
        )
        try:
            await reached(cluster, "metadata", API_TIMEOUT_MS)
            start, begun_ms = self._clock.now_ms(), self._clock.monotonic_ms()
            self._join_began_ms = begun_ms
            await self._consume(consumer)
            elapsed = self._clock.monotonic_ms() - begun_ms
            if not words.has(words.detailed):
                self._print_total(start, elapsed)
        except KafkaError as error:
            raise java_error(error) from error
        finally:
            await consumer.close()
            await cluster.close()

    async def _consume(self, consumer: Consumer) -> None:
        words, clock = self._words, self._clock
        wanted, timeout_ms = words.value(words.messages), words.value(words.timeout)
        interval_ms = words.value(words.interval)
        if interval_ms <= 0:
            raise illegal_argument("Reporting interval must be greater than 0.")
        reported_ms = last_ms = clock.monotonic_ms()
        reported_bytes = reported_messages = 0
        while self._messages < wanted and clock.monotonic_ms() - last_ms <= timeout_ms:
            records = await consumer.poll(100)
            now = clock.monotonic_ms()
            if records:
                last_ms = now
            for record in records:
                self._count(record)
            if records and now - reported_ms >= interval_ms:
                if words.has(words.detailed):
                    self._print_progress(reported_ms, reported_bytes, reported_messages, now)
                self._round_ms = 0
                reported_ms, reported_bytes, reported_messages = now, self._bytes, self._messages
        if self._messages < wanted:
            print(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )

    def _count(self, fetched: ConsumerRecord) -> None:
        self._messages += 1
        self._bytes += len(fetched.record.key or b"") + len(fetched.record.value or b"")

    def _print_progress(self, since_ms: int, last_bytes: int, last_messages: int, now: int) -> None:
        elapsed = now - since_ms
        megabytes = (self._bytes - last_bytes) / _MB
        messages = self._messages - last_messages
        fetching = elapsed - self._round_ms
        shown = _date(self._words.value(self._words.date_format), self._clock.now_ms())
        print(
            f"{shown}, 0, {self._bytes / _MB:.4f}, {_rate(megabytes, elapsed):.4f}, {self._messages}, "
            f"{_rate(messages, elapsed):.4f}, {self._round_ms}, {fetching}, {_rate(megabytes, fetching):.4f}, "
            f"{_rate(messages, fetching):.4f}",
            flush=True,
        )

    def _print_total(self, start_ms: int, elapsed: int) -> None:
        pattern = self._words.value(self._words.date_format)
        megabytes = self._bytes / _MB
        fetching = elapsed - self._joined_ms
        print(
            f"{_date(pattern, start_ms)}, {_date(pattern, start_ms + elapsed)}, {megabytes:.4f}, "
            f"{_rate(megabytes, elapsed):.4f}, {self._messages}, {_rate(self._messages, elapsed):.4f}, "
            f"{self._joined_ms}, {fetching}, {_rate(megabytes, fetching):.4f}, {_rate(self._messages, fetching):.4f}"
        )
