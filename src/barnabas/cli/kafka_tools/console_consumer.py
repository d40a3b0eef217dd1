"""``kafka-console-consumer``: prints records to the standard output
(``org.apache.kafka.tools.consumer.ConsoleConsumer``)."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from typing import Final

from barnabas.cli.kafka_tools.errors import JavaError, ToolExit, java_error, log, print_stack_trace
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.message_formatters import FORMATTERS, ConsumedMessage, Formatter, formatter_of
from barnabas.cli.kafka_tools.options import OptionError, OptionParser, ToolWords, key_values
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import CONFIG_EXCEPTION, client_of, client_properties, load_properties, reached
from barnabas.cli.output import look_for_reader
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST
from barnabas.client.positions import ConsumerRecord
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

_LOGGER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FOREVER_MS: Final = 1 << 62
_LOOK_AGAIN_MS: Final = 5_000
"""How often the tool looks for new topics that match, and for new partitions."""
_COMMIT_MS: Final = 5_000


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self._declare(parser)
        try:
            self.options = parser.parse(words)
        except OptionError as error:
            parser.usage_and_exit(error.message)
        parser.help_or_version(
            words, self.options, "This tool helps to read data from Kafka topics and outputs it to standard output."
        )
        self._check()
        self.properties = self._consumer_properties()
        self.offset = self._offset()
        timeout_ms = self.value(self.timeout) if self.has(self.timeout) else -1
        self.timeout_ms = timeout_ms if timeout_ms >= 0 else _FOREVER_MS
        self.formatter = self._formatter()

    def _declare(self, parser: OptionParser) -> None:
        self.topic = parser.takes("topic", "The topic to read.", "topic")
        self.whitelist = parser.takes("whitelist", "DEPRECATED, use --include.", "Java regex (String)")
        self.include = parser.takes("include", "The topics to read, as a regular expression.", "Java regex (String)")
        self.partition = parser.takes(
            "partition", "The one partition to read; without --offset from its end.", "partition", kind="Integer"
        )
        self.offset_option = parser.takes(
            "offset",
            "The offset to begin at in the partition: a number, earliest or latest.",
            "consume offset",
            default="latest",
        )
        self.consumer_property = parser.takes("consumer-property", "A consumer's property.", "consumer_prop")
        self.consumer_config = parser.takes("consumer.config", "A file of consumer properties.", "config file")
        self.formatter_class = parser.takes(
            "formatter", "The formatter of the records.", "class", default=next(iter(FORMATTERS))
        )
        self.property = parser.takes(
            "property",
            "A property of the formatter: print.timestamp, print.key, print.offset, print.partition, print.headers, "
            "print.value, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
            "value.deserializer, headers.deserializer.",
            "prop",
        )
        self.formatter_config = parser.takes("formatter-config", "A file of the formatter's properties.", "config file")
        self.from_beginning = parser.flag(
            "from-beginning",
            "Begin with the first record, not with the next one, if the group has no committed offset.",
        )
        self.max_messages = parser.takes(
            "max-messages", "End after this number of records.", "num_messages", kind="Integer"
        )
        self.timeout = parser.takes(
            "timeout-ms", "End when no record arrives for this time.", "timeout_ms", kind="Long"
        )
        self.skip = parser.flag("skip-message-on-error", "Skip records that cannot be shown.")
        self.server = parser.takes("bootstrap-server", "REQUIRED: the brokers to ask first.", "server to connect to")
        self.key_deserializer = parser.takes("key-deserializer", "", "deserializer for key")
        self.value_deserializer = parser.takes("value-deserializer", "", "deserializer for values")
        self.events = parser.flag("enable-systest-events", "Print a line when the tool ends.")
        self.isolation = parser.takes(
            "isolation-level",
            "read_committed leaves out records of open and aborted transactions.",
            default="read_uncommitted",
        )
        self.group = parser.takes("group", "The group to read in.", "consumer group id")

    @property
    def pattern(self) -> str | None:
        text: str | None = self.value(self.include if self.has(self.include) else self.whitelist)
        return text

    def _check(self) -> None:
        parser = self.parser
        if self.has(self.topic) == (self.pattern is not None):
            deprecated = "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
            parser.usage_and_exit(
                "Exactly one of --include/--topic is required. " + (deprecated if self.has(self.whitelist) else "")
            )
        if self.has(self.partition):
            if not self.has(self.topic):
                parser.usage_and_exit("The topic is required when partition is specified.")
            if self.has(self.from_beginning) and self.has(self.offset_option):
                parser.usage_and_exit("Options from-beginning and offset cannot be specified together.")
        elif self.has(self.offset_option):
            parser.usage_and_exit("The partition is required when offset is specified.")
        parser.require(self.options, self.server)

    def _consumer_properties(self) -> dict[str, str]:
        from_file = client_properties(self.value(self.consumer_config))
        extra = key_values(self.options.values(self.consumer_property))
        groups = [self.value(self.group)] if self.has(self.group) else []
        groups += [source["group.id"] for source in (from_file, extra) if "group.id" in source]
        groups = in_hash_order(groups)
        if len(groups) > 1:
            names = ", ".join(f"'{group}'" for group in groups)
            self.parser.usage_and_exit(
                "The group ids provided in different places (directly using '--group', via '--consumer-property', or "
                f"via '--consumer.config') do not match. Detected group ids: {names}"
            )
        if groups and self.has(self.partition):
            self.parser.usage_and_exit("Options group and partition cannot be specified together.")
        properties = from_file | extra
        reset = properties.get("auto.offset.reset")
        if reset is not None and self.has(self.from_beginning) and reset != "earliest":
            print(
                f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one "
                "option",
                file=sys.stderr,
            )
            raise ToolExit(1)
        properties.setdefault("auto.offset.reset", "earliest" if self.has(self.from_beginning) else "latest")
        properties["bootstrap.servers"] = self.value(self.server)
        properties.setdefault("client.id", "console-consumer")
        if self.has(self.isolation) or "isolation.level" not in properties:
            properties["isolation.level"] = self.value(self.isolation)
        if groups:
            properties["group.id"] = groups[0]
        return properties

    def _offset(self) -> int:
        if not self.has(self.offset_option):
            return EARLIEST if self.has(self.from_beginning) else LATEST
        text = self.value(self.offset_option)
        if text.lower() in ("earliest", "latest"):
            return EARLIEST if text.lower() == "earliest" else LATEST
        if not re.fullmatch(r"\+?[0-9]+", text):
            self.parser.usage_and_exit(
                f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
                "non-negative long."
            )
        return int(text)

    def _formatter(self) -> Formatter:
        properties = load_properties(self.value(self.formatter_config))
        for option, name in (
            (self.key_deserializer, "key.deserializer"),
            (self.value_deserializer, "value.deserializer"),
        ):
            if self.value(option):
                properties[name] = self.value(option)
        properties |= key_values(self.options.values(self.property))
        try:
            return formatter_of(self.value(self.formatter_class), properties)
        except JavaError as error:
            self.parser.usage_and_exit(error.message)


def main(arguments: list[str]) -> int:
    words = _Words(arguments)
    reader = _Reader(words)
    code, failure = 0, None
    try:
        asyncio.run(reader.run())
    except JavaError as error:
        code, failure = 1, error
    except KeyboardInterrupt:
        code = 130
    except asyncio.CancelledError:  # SIGTERM: the consumer has committed the shown records and left the group
        code = 143
    sys.stdout.flush()
    print(f"Processed a total of {reader.count} messages", file=sys.stderr)
    if failure is not None:
        _tell(failure)
    if words.has(words.events):
        print("shutdown_complete")
    return code


class _Reader:
    """One run of the consumer; `count` is the number of records shown."""

    def __init__(self, words: _Words) -> None:
        self.count = 0
        self._words = words
        self._topic: str | None = words.value(words.topic) if words.has(words.topic) else None
        self._wanted = None if self._topic is not None else re.compile(words.pattern or "")
        self._consumed: dict[TopicPartition, int] = {}
        self._stamps: dict[str, str] = {}

    async def run(self) -> None:
        """Raises `JavaError`."""
        isolation = self._words.properties["isolation.level"]
        if isolation not in ISOLATION_LEVELS:
            raise JavaError(
                CONFIG_EXCEPTION,
                f"Invalid value {isolation} for configuration isolation.level: String must be one of: "
                "read_committed, read_uncommitted",
            )
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        words = self._words
        cluster = client_of(words.properties)
        consumer: Consumer | None = None
        try:
            await reached(cluster, "metadata", _FOREVER_MS)
            consumer = await self._started(cluster)
            await self._show(cluster, consumer)
        except KafkaError as error:
            raise java_error(error) from error
        finally:
            if consumer is not None:
                await self._end(consumer)
            await cluster.close()

    async def _started(self, cluster: ClusterClient) -> Consumer:
        properties = self._words.properties
        resets: dict[str, int | None] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
        consumer = Consumer(
            cluster,
            group=properties.get("group.id"),
            isolation_level=ISOLATION_LEVELS[properties["isolation.level"]],
            auto_offset_reset=resets.get(properties["auto.offset.reset"], LATEST),
            max_wait_ms=int(properties.get("fetch.max.wait.ms", "500")),
            min_bytes=int(properties.get("fetch.min.bytes", "1")),
            max_bytes=int(properties.get("fetch.max.bytes", str(50 * 1024 * 1024))),
            partition_max_bytes=int(properties.get("max.partition.fetch.bytes", str(1024 * 1024))),
        )
        if self._words.has(self._words.partition):
            partition = TopicPartition(str(self._topic), self._words.value(self._words.partition))
            await consumer.assign({partition: self._words.offset})
        elif "group.id" in properties:
            await consumer.subscribe(await self._topics(cluster))
        else:
            await self._assign_new(cluster, consumer)
        return consumer

    async def _topics(self, cluster: ClusterClient) -> list[str]:
        if self._topic is not None:
            await cluster.refresh([self._topic], allow_auto_topic_creation=True)
            return [self._topic]
        assert self._wanted is not None
        topics = (await cluster.refresh(None)).topics
        return [name for name, topic in topics.items() if self._wanted.fullmatch(name) and not topic.is_internal]

    async def _assign_new(self, cluster: ClusterClient, consumer: Consumer) -> None:
        """Assigns partitions that are not assigned yet. A partition that appears later is read from its beginning."""
        there = consumer.assignment
        found = [partition for name in await self._topics(cluster) for partition in cluster.metadata.partitions(name)]
        new = [partition for partition in found if partition not in there]
        if new:
            properties = self._words.properties
            begin = EARLIEST if there or properties["auto.offset.reset"] == "earliest" else LATEST
            positions = {partition: consumer.position(partition) for partition in there}
            await consumer.assign(positions | dict.fromkeys(new, begin))

    async def _show(self, cluster: ClusterClient, consumer: Consumer) -> None:
        words = self._words
        limit = words.value(words.max_messages) if words.has(words.max_messages) else -1
        clock = cluster.runtime.clock
        waited_from = committed_at = looked_at = clock.monotonic_ms()
        fixed = words.has(words.partition) or "group.id" in words.properties
        while limit == -1 or self.count < limit:
            records = await consumer.poll(min(words.timeout_ms, 500))
            for record in records:
                if limit != -1 and self.count >= limit:
                    break
                await self._show_one(cluster, record)
                self._consumed[record.topic_partition] = record.offset + 1
            sys.stdout.flush()
            look_for_reader()
            now = clock.monotonic_ms()
            if records:
                waited_from = now
            elif now - waited_from > words.timeout_ms:
                log("ERROR", "Error processing message, terminating consumer process: ", _LOGGER)
                print("org.apache.kafka.common.errors.TimeoutException", file=sys.stderr)
                return
            if now - committed_at > _COMMIT_MS:
                await self._commit(consumer)
                committed_at = now
            if not fixed and now - looked_at > _LOOK_AGAIN_MS:
                await self._assign_new(cluster, consumer)
                looked_at = now

    async def _show_one(self, cluster: ClusterClient, fetched: ConsumerRecord) -> None:
        self.count += 1
        formatter = self._words.formatter
        kind = await self._stamp(cluster, fetched.topic) if formatter.shows_timestamps else ""
        try:
            sys.stdout.buffer.write(
                formatter.shown(ConsumedMessage(fetched.topic, fetched.partition, kind, fetched.record))
            )
        except JavaError as error:
            if not self._words.has(self._words.skip):
                raise
            log("ERROR", "Error processing message, skipping this message: ", _LOGGER)
            print_stack_trace(error)

    async def _stamp(self, cluster: ClusterClient, topic: str) -> str:
        """CreateTime or LogAppendTime, by the topic's configuration: records do not keep it."""
        if topic not in self._stamps:
            entries = (await ToolAdmin(cluster).topic_configs([topic]))[topic]
            self._stamps[topic] = next(
                (str(entry.value) for entry in entries if entry.name == "message.timestamp.type"), "CreateTime"
            )
        return self._stamps[topic]

    async def _commit(self, consumer: Consumer) -> None:
        automatic = self._words.properties.get("enable.auto.commit", "true").strip().lower() == "true"
        owned = set(consumer.assignment)
        offsets = {partition: offset for partition, offset in self._consumed.items() if partition in owned}
        if consumer.member is not None and automatic and offsets:
            try:
                await consumer.commit(offsets)
            except KafkaError as error:
                log("WARN", f"Offset commit failed: {java_error(error).message}", _LOGGER)

    async def _end(self, consumer: Consumer) -> None:
        await self._commit(consumer)
        await consumer.close()


def _tell(error: JavaError) -> None:
    if error.simple_name == "SaslAuthenticationException":
        log("ERROR", "Authentication failed: terminating consumer process", _LOGGER)
    else:
        log("ERROR", "Unknown error when running consumer: ", _LOGGER)
    print_stack_trace(error)
