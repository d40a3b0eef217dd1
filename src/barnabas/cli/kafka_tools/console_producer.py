"""``kafka-console-producer``: writes the standard input's lines as records (``kafka.tools.ConsoleProducer``)."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.kafka_tools.errors import (
    EXECUTION,
    KAFKA_EXCEPTION,
    TIMEOUT,
    JavaError,
    java_error,
    log,
    of_futures,
    print_stack_trace,
    wrapped,
)
from barnabas.cli.kafka_tools.options import OptionError, OptionParser, ToolOption, ToolWords, key_values
from barnabas.cli.kafka_tools.session import CONFIG_EXCEPTION, client_of, client_properties, load_properties, reached
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_CHUNK: Final = 1 << 16
_PENDING_MAX: Final = 10_000
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_LINGER_MS_MAX: Final = 100
"""With Kafka's default each batch would wait for a second."""
_READER: Final = "kafka.tools.ConsoleProducer$LineMessageReader"


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.topic = parser.takes("topic", "REQUIRED: the topic to write to.", "topic")
        self.broker_list = parser.takes("broker-list", "DEPRECATED, use --bootstrap-server.", "broker-list")
        self.server = parser.takes(
            "bootstrap-server", "REQUIRED, or --broker-list: the brokers to ask first.", "server to connect to"
        )
        self.sync = parser.flag("sync", "Wait for each record's acknowledgement before the next.")
        self.codec = parser.takes(
            "compression-codec", "none, gzip, snappy, lz4 or zstd; gzip without a value.", "compression-codec",
            optional=True,
        )  # fmt: skip
        self.merged = self._producer_options(parser)
        self.reader = parser.takes(
            "line-reader", "The reader of lines; only Kafka's own is supported.", "reader_class", default=_READER
        )
        self.property = parser.takes(
            "property",
            "A property of the reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
            "headers.key.separator, null.marker, ignore.error.",
            "prop",
        )
        self.reader_config = parser.takes("reader-config", "A file of the reader's properties.", "config file")
        self.producer_property = parser.takes("producer-property", "A producer's property.", "producer_prop")
        self.producer_config = parser.takes("producer.config", "A file of producer properties.", "config file")
        try:
            self.options = parser.parse(words)
            parser.require_servers(self.options, self.server, self.broker_list)
        except OptionError as error:
            parser.usage_and_exit(error.message)
        parser.help_or_version(
            words, self.options, "This tool helps to read data from standard input and publish it to Kafka."
        )
        parser.require(self.options, self.topic)
        self.servers = self.server if self.has(self.server) else self.broker_list
        parser.check_addresses(self.value(self.servers))

    def _producer_options(self, parser: OptionParser) -> list[tuple[str, ToolOption]]:
        """Options that set a producer's property; the last one of the same property wins."""

        def number(name: str, description: str, placeholder: str, kind: str, default: int) -> ToolOption:
            return parser.takes(name, description, placeholder, kind=kind, default=default)

        return [
            ("linger.ms", number("timeout", "How long records wait to be batched.", "timeout_ms", "Long", 1000)),
            (
                "acks",
                parser.takes(
                    "request-required-acks", "The required acknowledgements: 0, 1, -1 or all.", "request required acks",
                    default="-1",
                ),
            ),
            (
                "request.timeout.ms",
                number("request-timeout-ms", "How long a request may take.", "request timeout ms", "Integer", 1500),
            ),
            ("retries", number("message-send-max-retries", "How often a record is sent again.", "", "Integer", 3)),
            (
                "retry.backoff.ms",
                number("retry-backoff-ms", "How long to wait before sending again.", "", "Long", 100),
            ),
            ("send.buffer.bytes", number("socket-buffer-size", "The socket's buffer.", "size", "Integer", 102400)),
            (
                "buffer.memory",
                number("max-memory-bytes", "The buffer for records.", "total memory in bytes", "Long", 33554432),
            ),
            ("batch.size", number("batch-size", "A batch's bytes.", "size", "Integer", 16384)),
            (
                "batch.size",
                number(
                    "max-partition-memory-bytes", "A batch's bytes.", "memory in bytes per partition", "Integer", 16384
                ),
            ),
            (
                "metadata.max.age.ms",
                number(
                    "metadata-expiry-ms", "The maximal age of metadata.", "metadata expiration interval", "Long", 300000
                ),
            ),
            (
                "max.block.ms",
                number("max-block-ms", "How long sending may wait for buffer.", "max block on send", "Long", 60000),
            ),
        ]  # fmt: skip

    def producer_properties(self) -> dict[str, str]:
        properties = client_properties(self.value(self.producer_config))
        properties |= key_values(self.options.values(self.producer_property))
        properties["bootstrap.servers"] = self.value(self.servers)
        codec = self.value(self.codec) or "gzip" if self.has(self.codec) else "none"
        properties["compression.type"] = codec
        properties.setdefault("client.id", "console-producer")
        for name, option in self.merged:
            if self.has(option) or name not in properties:
                properties[name] = str(self.value(option))
        return properties

    def reader_properties(self) -> dict[str, str]:
        properties = load_properties(self.value(self.reader_config))
        return properties | key_values(self.options.values(self.property))


@dataclass(frozen=True, slots=True)
class Line:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class LineReader:
    """``LineMessageReader``: splits a line into headers, key and value according to its properties."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_true(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._parse_key = is_true("parse.key")
        self._parse_headers = is_true("parse.headers")
        self._ignore_error = is_true("ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._line_number = 0
        self._check()

    def _check(self) -> None:
        names = {
            "headers.delimiter": self._delimiter,
            "headers.separator": self._separator,
            "headers.key.separator": self._header_key_separator,
            "null.marker": self._null,
            "key.separator": self._key_separator,
        }
        for first, second in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
            ("null.marker", "key.separator"),
            ("null.marker", "headers.separator"),
            ("null.marker", "headers.delimiter"),
            ("null.marker", "headers.key.separator"),
        ):
            if names[first] == names[second]:
                raise JavaError(KAFKA_EXCEPTION, f"{first} and {second} may not be equal")

    def read(self, line: str) -> Line:
        """Raises `JavaError` for a line without a required separator."""
        self._line_number += 1
        at = 0
        headers = self._part(self._parse_headers, line, at, self._delimiter, "headers delimiter")
        at += 0 if headers is None else len(headers) + len(self._delimiter)
        key = self._part(self._parse_key, line, at, self._key_separator, "key separator")
        at += 0 if key is None else len(key) + len(self._key_separator)
        split = () if headers is None or headers == self._null else tuple(self._headers(headers))
        return Line(self._bytes(key), self._bytes(line[at:]), split)

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()

    def _part(self, enabled: bool, line: str, at: int, separator: str, name: str) -> str | None:
        if not enabled:
            return None
        end = line.find(separator, at)
        if end >= 0:
            return line[at:end]
        if self._ignore_error:
            return None
        raise JavaError(KAFKA_EXCEPTION, f"No {name} found on line number {self._line_number}: '{line}'")

    def _headers(self, text: str) -> Iterator[tuple[str, bytes | None]]:
        pairs = re.split(self._separator, text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        for pair in pairs:
            name, found, value = pair.partition(self._header_key_separator)
            if not found and not self._ignore_error:
                raise JavaError(
                    KAFKA_EXCEPTION,
                    f"No header key separator found in pair '{pair}' on line number {self._line_number}",
                )
            if not found:
                yield pair, None
                continue
            if name == self._null:
                raise JavaError(
                    KAFKA_EXCEPTION,
                    f"Header keys should not be equal to the null marker '{self._null}' as they can't be null",
                )
            yield name, self._bytes(value)


def main(arguments: list[str]) -> int:
    try:
        words = _Words(arguments)
        properties = words.producer_properties()
        _check_producer(properties)
        if words.value(words.reader) not in (_READER, "org.apache.kafka.tools.LineMessageReader"):
            raise JavaError("java.lang.ClassNotFoundException", words.value(words.reader))
        reader = LineReader(words.reader_properties())
        asyncio.run(_produce(words.value(words.topic), properties, reader, in_step=words.has(words.sync)))
    except OptionError as error:
        print(error.message, file=sys.stderr)
        return 1
    except JavaError as error:
        print_stack_trace(error)
        return 1
    return 0


def _check_producer(properties: Mapping[str, str]) -> None:
    codec = properties["compression.type"]
    if codec not in _CODECS:
        raise JavaError(
            CONFIG_EXCEPTION,
            f"Invalid value {codec} for configuration compression.type: String must be one of: {', '.join(_CODECS)}",
        )
    if properties["acks"] not in _ACKS:
        raise JavaError(
            CONFIG_EXCEPTION,
            f"Invalid value {properties['acks']} for configuration acks: String must be one of: all, -1, 0, 1",
        )


async def _produce(topic: str, properties: Mapping[str, str], reader: LineReader, *, in_step: bool) -> None:
    cluster = client_of({**properties, "request.timeout.ms": "30000"})
    acks = _ACKS[properties["acks"]]
    patience_ms = int(properties["max.block.ms"])
    producer = Producer(
        cluster,
        acks=acks,
        linger_ms=min(int(properties["linger.ms"]), _LINGER_MS_MAX),
        idempotent=acks == -1 and properties.get("enable.idempotence", "true") != "false",
        batch_bytes=int(properties["batch.size"]),
        buffer_bytes=int(properties["buffer.memory"]),
        compression=properties["compression.type"],
        delivery_timeout_ms=int(properties.get("delivery.timeout.ms", "120000")),
        max_request_bytes=int(properties.get("max.request.size", "1048576")),
        metadata_max_age_ms=int(properties["metadata.max.age.ms"]),
    )
    pending: list[tuple[Line, asyncio.Future[Any]]] = []
    try:
        async for text in _lines():
            line = reader.read(text)
            try:
                await reached(cluster, "metadata", patience_ms)
                sent = await producer.append(topic, line.value, key=line.key, headers=line.headers)
            except (KafkaError, JavaError) as error:
                _refused(topic, line, error, in_step=in_step, patience_ms=patience_ms)
                continue
            if in_step:
                await _acknowledged(sent)
            else:
                pending.append((line, sent))
            if len(pending) >= _PENDING_MAX:
                await producer.flush()
                _settle(topic, pending)
        await producer.flush()
        _settle(topic, pending)
    finally:
        await producer.close()
        await cluster.close()


@of_futures
async def _acknowledged(sent: asyncio.Future[Any]) -> None:
    await sent


def _refused(topic: str, line: Line, error: Exception, *, in_step: bool, patience_ms: int) -> None:
    """Reports a record that the producer refused because its topic does not exist or no broker answers."""
    reason = error if isinstance(error, JavaError) else java_error(error) if isinstance(error, KafkaError) else None
    assert reason is not None
    if reason.simple_name == "InvalidTopicException":
        reason = JavaError(reason.name, f"Invalid topics: [{topic}]")
    if reason.name == TIMEOUT or reason.simple_name == "UnknownTopicOrPartitionException":
        reason = JavaError(TIMEOUT, f"Topic {topic} not present in metadata after {patience_ms} ms.")
    if in_step:
        raise wrapped(EXECUTION, reason)
    _complain(topic, line, reason)


def _settle(topic: str, pending: list[tuple[Line, asyncio.Future[Any]]]) -> None:
    for line, future in pending:
        error = future.exception()
        if isinstance(error, KafkaError):
            _complain(topic, line, java_error(error))
        elif error is not None:
            raise error
    pending.clear()


def _complain(topic: str, line: Line, error: JavaError) -> None:
    def size(data: bytes | None) -> str:
        return "null" if data is None else f"{len(data)} bytes"

    log(
        "ERROR",
        f"Error when sending message to topic {topic} with key: {size(line.key)}, value: {size(line.value)} "
        "with error:",
        "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback",
    )
    print(error, file=sys.stderr)


async def _lines() -> AsyncIterator[str]:
    """The standard input's lines as Java splits them; on a terminal each has a prompt."""
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    loop = asyncio.get_running_loop()
    rest = ""
    ended = False
    if prompts:
        print(">", end="", flush=True)
    while not ended:
        chunk = await loop.run_in_executor(None, os.read, 0, _CHUNK)
        ended = not chunk
        rest += decoder.decode(chunk, final=ended)
        lines = _LINE_END.split(rest)
        rest = lines.pop()
        if rest == "" and lines and chunk.endswith(b"\r") and not ended:
            rest = lines.pop() + "\r"  # the \n of a \r\n may still be to come
        if ended and rest:
            lines.append(rest.removesuffix("\r"))
        for line in lines:
            yield line
            if prompts:
                print(">", end="", flush=True)
