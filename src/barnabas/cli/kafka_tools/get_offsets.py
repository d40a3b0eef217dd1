"""``kafka-get-offsets``: partitions' offsets for a time (``org.apache.kafka.tools.GetOffsetShell``)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

from barnabas.cli.kafka_tools.errors import RUNTIME, JavaError, in_future, print_stack_trace, wrapped
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.options import OptionError, OptionParser, Options
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.cli.kafka_tools.topic_rules import filter_pattern
from barnabas.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_USAGE: Final = "An interactive shell for getting topic-partition offsets."
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_TIMES: Final = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": -4,
    "latest-tiered": -5,
}
_TERSE: Final = "org.apache.kafka.tools.TerseException"
_FOREVER: Final = (1 << 31) - 1

Filter = Callable[[TopicPartition], bool]


class _Words:
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.broker_list = parser.takes(
            "broker-list", "DEPRECATED, use --bootstrap-server.", "HOST1:PORT1,...,HOST3:PORT3"
        )
        self.server = parser.takes(
            "bootstrap-server", "REQUIRED. The brokers to ask first.", "HOST1:PORT1,...,HOST3:PORT3"
        )
        self.topic_partitions = parser.takes(
            "topic-partitions",
            "Patterns of topics, each with a partition, a range without its end, or half a range; a pattern without "
            "a topic means all topics.",
            "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
        )
        self.topic = parser.takes("topic", "The topic, or a regular expression.", "topic")
        self.partitions = parser.takes("partitions", "Numbers of partitions.", "partition ids")
        self.time = parser.takes(
            "time",
            "The time for which offsets are shown.",
            "<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or "
            "latest-tiered",
            default="latest",
        )
        self.config_file = parser.takes("command-config", "A file of client properties.", "config file")
        self.exclude_internal = parser.flag("exclude-internal-topics", "Leave out internal topics.")
        if not words:
            parser.usage_and_exit(_USAGE)
        try:
            self.options = parser.parse(words)
            parser.require_servers(self.options, self.server, self.broker_list)
        except OptionError as error:
            raise _terse(error.message or "") from None
        self.servers = self.server if self.options.has(self.server) else self.broker_list
        parser.help_or_version(words, self.options, _USAGE)
        parser.require(self.options, self.servers)
        self._check_servers(self.options)

    def _check_servers(self, options: Options) -> None:
        text = options.value(self.servers)
        if not text.strip():
            self.parser.usage_and_exit("Error while validating the bootstrap address\n")
        if not all(re.fullmatch(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", address) for address in text.split(",")):
            self.parser.usage_and_exit("Please provide valid host:port like host1:9091,host2:9092\n")

    def filter(self) -> Filter:
        if self.options.has(self.topic_partitions):
            rules = [_rule(part) for part in self.options.value(self.topic_partitions).split(",")]
            return lambda partition: any(rule(partition) for rule in rules)
        pattern = filter_pattern(self.options.value(self.topic) or ".*")
        text = self.options.value(self.partitions)
        try:
            numbers = {int(number) for number in text.split(",")} if text else set()
        except ValueError:
            raise _terse(
                f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
            ) from None
        return lambda partition: (
            bool(pattern.fullmatch(partition.topic)) and (not numbers or partition.partition in numbers)
        )


def _terse(message: str) -> JavaError:
    return JavaError(_TERSE, message)


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        raise wrapped(RUNTIME, _terse(f"Invalid rule specification: {text}"))
    topic, single, low, high = match.groups()
    pattern = filter_pattern(topic or ".*")
    first, last = (int(single), int(single) + 1) if single else (int(low or 0), int(high or _FOREVER))
    return lambda partition: bool(pattern.fullmatch(partition.topic)) and first <= partition.partition < last


def _time(text: str) -> int:
    try:
        return _TIMES[text] if text in _TIMES else int(text)
    except ValueError:
        raise _terse(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or "
            "earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def main(arguments: list[str]) -> int:
    try:
        words = _Words(arguments)
        options = words.options
        if options.has(words.topic_partitions) and options.has_any((words.topic, words.partitions)):
            raise _terse("--topic-partitions cannot be used with --topic or --partitions")
        at = _time(options.value(words.time))
        allowed = words.filter()
        properties = client_properties(options.value(words.config_file))
        properties |= {"bootstrap.servers": options.value(words.servers), "client.id": "GetOffsetShell"}
        internal = not options.has(words.exclude_internal)
        offsets = with_admin(properties, lambda admin: _offsets(admin, allowed, at, internal), call="listTopics")
    except JavaError as error:
        print(f"Error occurred: {error.message}", file=sys.stderr)
        if error.name != _TERSE:
            print_stack_trace(error)
            print(file=sys.stderr)
        return 1
    for partition in sorted(offsets, key=str):
        print(f"{partition.topic}:{partition.partition}:{offsets[partition]}")
    return 0


async def _offsets(admin: ToolAdmin, allowed: Filter, at: int, internal: bool) -> dict[TopicPartition, int]:
    metadata = await admin.cluster.refresh(None)
    names = [name for name, topic in metadata.topics.items() if internal or not topic.is_internal]
    names = in_hash_order(names, sized_for=len(names))
    wanted = [partition for name in names for partition in metadata.partitions(name) if allowed(partition)]
    if not wanted:
        raise _terse("Could not match any topic-partitions with the specified filters")
    offsets: dict[TopicPartition, int] = {}
    for partition, outcome in (await admin.list_offsets(dict.fromkeys(wanted, at))).items():
        if isinstance(outcome, KafkaError):
            if outcome.code is ErrorCode.UNSUPPORTED_VERSION:
                raise in_future(outcome)
            text = in_future(outcome).message
            print(f"Skip getting offsets for topic-partition {partition} due to error: {text}", file=sys.stderr)
        elif outcome.offset != -1:
            offsets[partition] = outcome.offset
    return offsets
