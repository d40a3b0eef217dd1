"""``barnabas produce`` and ``barnabas consume``, with kcat's flags."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Annotated, Any, BinaryIO, Final

from barnabas.cli.command import Option
from barnabas.cli.connect import number, settings_of, with_cluster
from barnabas.cli.formats import DEFAULT_FORMAT, Bound, compile_format, json_envelope, parse_offset, unescape
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.output import (
    READER_CHECK_S,
    CommandError,
    Exit,
    Format,
    ProgressBar,
    UsageError,
    complain,
    look_for_reader,
    print_json,
    progress,
)
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer, ConsumerRecord
from barnabas.client.metadata import METADATA_MAX_AGE_MS
from barnabas.client.offsets import EARLIEST, LATEST, isolation_level
from barnabas.client.produce_requests import BATCH_BYTES, DELIVERY_TIMEOUT_MS, MAX_REQUEST_BYTES
from barnabas.client.producer import Delivered, Producer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_CHUNK_BYTES: Final = 256 * 1024
_PENDING_MAX: Final = 100_000

Topic = Annotated[str, Option("-t", "--topic", metavar="TOPIC", help="The topic.", complete="topic")]
Compression = Annotated[
    str | None, Option("-z", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="The compression of batches.")
]
Acks = Annotated[
    str | None,
    Option(
        "--acks",
        choices=("all", "-1", "1", "0"),
        help="The required acknowledgements; by default all, with idempotence.",
    ),
]


def producer_by(
    cluster: ClusterClient, values: Mapping[str, str], acks: str | None, compression: str | None, linger_ms: int = 5
) -> Producer:
    """A producer with the properties of ``-X``; `acks` and `compression` override them. Raises `UsageError`."""
    level = acks or values.get("acks", "all")
    if level not in ("all", "-1", "1", "0"):
        raise UsageError(f"-X acks={level}: it takes all, 1 or 0.")
    codec = compression or values.get("compression.type") or values.get("compression.codec") or "none"
    if codec not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise UsageError(f"-X compression.type={codec}: it takes none, gzip, snappy, lz4 or zstd.")
    all_replicas = level in ("all", "-1")
    return Producer(
        cluster,
        acks=-1 if all_replicas else int(level),
        idempotent=all_replicas and values.get("enable.idempotence", "true") != "false",
        linger_ms=number(values, linger_ms, "linger.ms", "queue.buffering.max.ms"),
        batch_bytes=number(values, BATCH_BYTES, "batch.size"),
        compression=codec,
        delivery_timeout_ms=number(values, DELIVERY_TIMEOUT_MS, "delivery.timeout.ms", "message.timeout.ms"),
        max_request_bytes=number(values, MAX_REQUEST_BYTES, "max.request.size", "message.max.bytes"),
        metadata_max_age_ms=number(values, METADATA_MAX_AGE_MS, "metadata.max.age.ms"),
    )


def produce(
    topic: Topic,
    at: Reach = HERE,
    partition: Annotated[
        int | None, Option("-p", "--partition", help="The partition; by default the key's hash decides.")
    ] = None,
    key: Annotated[str | None, Option("-k", "--key", help="One key for every record.")] = None,
    key_delimiter: Annotated[
        str | None, Option("-K", help="Split each line at this delimiter into key and value.")
    ] = None,
    delimiter: Annotated[str, Option("-D", help="The delimiter between records.")] = "\\n",
    headers: Annotated[list[str] | None, Option("-H", metavar="NAME=V", help="A header; may be repeated.")] = None,
    null: Annotated[
        bool, Option("-Z", help="Send an empty value or key as null; a null value is a tombstone.")
    ] = False,
    compression: Compression = None,
    acks: Acks = None,
    file: Annotated[str | None, Option("--file", help="Read this file instead of the standard input.")] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Write each line of the standard input as a record."""
    values = settings_of(at)
    header_list = [_header(header) for header in headers or ()]
    split = unescape(key_delimiter).encode() if key_delimiter is not None else None
    end = unescape(delimiter).encode()
    if not end or split == b"":
        raise UsageError("A delimiter cannot be empty.")

    def empty_as_null(part: bytes | None) -> bytes | None:
        return None if null and part == b"" else part

    async def story(cluster: ClusterClient) -> SettledRecords:
        if partition is not None:
            await _partitions(cluster, topic, [partition])  # a producer would wait for a missing partition
        producer = producer_by(cluster, values, acks, compression)
        with _input(file) as source, progress("acknowledged") as bar:
            settled = SettledRecords(bar)
            async for lines in _records(source, end):
                for line in lines:
                    record_key: bytes | None = key.encode() if key is not None else None
                    value: bytes | None = line
                    if split is not None and split in line:
                        record_key, _, value = line.partition(split)
                    key_bytes = empty_as_null(record_key)
                    settled.pending.append(
                        await producer.append(
                            topic, empty_as_null(value), key=key_bytes, partition=partition, headers=header_list
                        )
                    )
                if len(settled.pending) >= _PENDING_MAX:
                    await producer.flush()
                settled.look()
            await producer.flush()
            settled.look()
        await producer.close()
        return settled

    settled = with_cluster(at, story, values)
    if output is Format.json:
        errors = [{"error": failure, "records": records} for failure, records in settled.failures.items()]
        print_json({"topic": topic, "acknowledged": settled.acknowledged, "errors": errors})
    settled.complain()


_TOO_FEW: Final = (
    "fewer replicas are in sync than min.insync.replicas asks for; `barnabas topic describe` shows which are missing"
)
_MEANINGS: Final = {ErrorCode.NOT_ENOUGH_REPLICAS: _TOO_FEW, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _TOO_FEW}
"""Explanations of errors for which brokers send a code without a message."""


class SettledRecords:
    """The number of acknowledged records, and of failed ones by reason."""

    def __init__(self, bar: ProgressBar) -> None:
        self.acknowledged = 0
        self.failures: dict[str, int] = {}
        self.pending: deque[asyncio.Future[Delivered]] = deque()
        self._bar = bar

    def look(self) -> None:
        """Removes acknowledged and failed records from the front of `pending`, up to the first that is neither."""
        while self.pending and self.pending[0].done():
            self.take(self.pending.popleft())

    def take(self, future: asyncio.Future[Delivered]) -> None:
        error = future.exception()
        if error is None:
            self.acknowledged += 1
            self._bar.advance()
        else:
            text = str(error).rstrip(".")
            for cause in (error, error.__cause__):
                if isinstance(cause, KafkaError) and cause.code in _MEANINGS:
                    text += f": {_MEANINGS[cause.code]}"
            self.failures[text] = self.failures.get(text, 0) + 1

    def complain(self) -> None:
        """Prints a sentence for each reason; exits with 1 if there is one."""
        for failure, records in self.failures.items():
            complain(f"{records} records were not acknowledged: {failure}.")
        if self.failures:
            raise Exit(1)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"-H takes NAME=VALUE, not {text!r}.")
    return name, value.encode() if equals else None


def _input(file: str | None) -> BinaryIO:
    if file is None:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(file, "rb")
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({error.strerror}): name a file by --file.") from None


async def _records(source: BinaryIO, delimiter: bytes) -> AsyncIterator[list[bytes]]:
    """Records between delimiters, in lists of those that arrived together. An empty rest after the last delimiter is
    not a record."""
    rest = b""
    async for chunk in _chunks(source.fileno()):
        *whole, rest = (rest + chunk).split(delimiter)
        yield whole
    if rest:
        yield [rest]


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Bytes as they arrive: a pipe's writer may be slow, and the records that arrived are sent meanwhile."""
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.create_future()
        try:
            loop.add_reader(descriptor, ready.set_result, None)
        except PermissionError:  # epoll refuses files, which are always ready
            await asyncio.sleep(0)
        else:
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


FormatString = Annotated[
    str | None,
    Option(
        "-f",
        help="How a record is printed: %t topic, %p partition, %o offset, %k key, %v value, %K and %S their lengths, "
        "%T time in ms, %h headers, \\n, \\t.",
    ),
]


def consume(
    topic: Topic,
    at: Reach = HERE,
    partitions: Annotated[
        list[int] | None, Option("-p", "--partition", help="Only these partitions; may be repeated.")
    ] = None,
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            help="start, end, N, -N (the last N), or by time in ms: @FROM, @FROM:TO; start by default.",
        ),
    ] = None,
    count: Annotated[int | None, Option("-n", "-c", "--num", min=1, help="Stop after this many records.")] = None,
    format_string: FormatString = None,
    json_lines: Annotated[bool, Option("-J", help="Print each record as a JSON object.")] = False,
    exit_at_end: Annotated[bool, Option("-e", "--exit-eof", help="Stop at the ends of the partitions.")] = False,
    group: Annotated[
        str | None,
        Option(
            "-g", "-G", "--group", metavar="GROUP", help="Read as a member of this consumer group.", complete="group"
        ),
    ] = None,
    key_delimiter: Annotated[str | None, Option("-K", help="Print key, this delimiter and value.")] = None,
    output: Annotated[Format, Option("--format", help="json is -J.")] = Format.text,
) -> None:
    """Read records and print them."""
    values = settings_of(at)
    now_ms = time.time_ns() // 1_000_000
    try:
        first, last = parse_offset(offset or "start", now_ms)
        shown = format_string or (f"%k{key_delimiter}%v\\n" if key_delimiter is not None else DEFAULT_FORMAT)
        form = json_envelope if json_lines or output is Format.json else compile_format(shown)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    if group is not None and (partitions or offset):
        raise UsageError("With a group its coordinator assigns partitions and keeps offsets: leave out -p and -o.")
    try:
        isolation = isolation_level(values.get("isolation.level", "read_uncommitted"))
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    reset = {"earliest": EARLIEST, "latest": LATEST, "smallest": EARLIEST, "largest": LATEST, "none": None}
    policy = values.get("auto.offset.reset", "earliest")
    if policy not in reset:
        raise UsageError(f"-X auto.offset.reset={policy}: it takes earliest, latest or none.")

    async def story(cluster: ClusterClient) -> None:
        consumer = Consumer(
            cluster,
            group=group,
            isolation_level=isolation,
            auto_offset_reset=reset[policy],
            max_wait_ms=number(values, 500, "fetch.wait.max.ms"),
            min_bytes=number(values, 1, "fetch.min.bytes"),
            max_bytes=number(values, 50 * 1024 * 1024, "fetch.max.bytes"),
            partition_max_bytes=number(values, 1024 * 1024, "max.partition.fetch.bytes"),
            check_crcs=values.get("check.crcs", "true") != "false",
            session_timeout_ms=number(values, 45_000, "session.timeout.ms"),
        )
        try:
            if group is None:
                await _assign(cluster, consumer, topic, partitions, first, last, exit_at_end, form, count)
            else:
                await _share(consumer, topic, exit_at_end, form, count)
        finally:
            await consumer.close()

    with_cluster(at, story, values)


async def _assign(
    cluster: ClusterClient,
    consumer: Consumer,
    topic: str,
    partitions: list[int] | None,
    first: Bound,
    last: Bound | None,
    exit_at_end: bool,
    form: Callable[[ConsumerRecord], bytes],
    count: int | None,
) -> None:
    """Reads the user's choice of partitions from one bound to the other."""
    wanted = await _partitions(cluster, topic, partitions)
    begin = await _offsets_at(cluster, wanted, first)
    stop: dict[TopicPartition, int] = {}
    if last is not None:
        stop = await _offsets_at(cluster, wanted, last)
    elif exit_at_end:
        stop = await _offsets_at(cluster, wanted, Bound("end"))
    if stop:
        begin = {partition: offset for partition, offset in begin.items() if offset < stop[partition]}
    await consumer.assign(begin)
    left = count if count is not None else -1
    while left != 0 and (not stop or any(consumer.position(partition) < stop[partition] for partition in begin)):
        fetched = await consumer.poll(READER_CHECK_S * 1000)
        if stop:
            fetched = [
                consumed
                for consumed in fetched
                if consumed.record.offset < stop[TopicPartition(consumed.topic, consumed.partition)]
            ]
        left = _print(fetched, form, left)


async def _share(
    consumer: Consumer, topic: str, exit_at_end: bool, form: Callable[[ConsumerRecord], bytes], count: int | None
) -> None:
    """Reads as a member of a group and commits the printed records."""
    await _described(consumer.cluster, topic)
    await consumer.subscribe([topic])
    left = count if count is not None else -1
    while left != 0:
        fetched = await consumer.poll(READER_CHECK_S * 1000)
        taken = fetched if left < 0 else fetched[:left]
        left = _print(taken, form, left)
        if taken:
            assert consumer.member is not None
            nexts = {
                TopicPartition(consumed.topic, consumed.partition): consumed.record.offset + 1 for consumed in taken
            }
            await consumer.member.commit(nexts)
        elif exit_at_end and _at_end(consumer):
            return


def _at_end(consumer: Consumer) -> bool:
    owned = consumer.assignment
    return bool(owned) and all(
        0 <= consumer.high_watermark(partition) <= consumer.position(partition) for partition in owned
    )


def _print(fetched: Iterable[ConsumerRecord], form: Callable[[ConsumerRecord], bytes], left: int) -> int:
    """Prints at most `left` records (-1: all); returns how many may still come."""
    chosen = list(fetched)
    if left >= 0:
        chosen = chosen[:left]
        left -= len(chosen)
    if chosen:
        sys.stdout.buffer.write(b"".join(map(form, chosen)))
        sys.stdout.buffer.flush()
    else:
        look_for_reader()
    return left


async def _partitions(cluster: ClusterClient, topic: str, numbers: list[int] | None) -> list[TopicPartition]:
    """The topic's partitions of these numbers, or all. Raises `CommandError` for a missing one."""
    known: list[TopicPartition] = (await _described(cluster, topic)).partitions(topic)
    wanted = known if numbers is None else [TopicPartition(topic, number) for number in numbers]
    for partition in wanted:
        if partition not in known:
            raise CommandError(f"{topic} has no partition {partition.partition}: it has 0 to {len(known) - 1}.")
    return wanted


async def _described(cluster: ClusterClient, topic: str) -> Any:
    """The metadata with `topic` in it. Raises `CommandError` for a missing topic."""
    metadata = await cluster.look_up([topic])
    code = metadata.error_of(topic)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise CommandError(f"There is no topic {topic}: `barnabas topic create {topic}` makes one.")
    if code is not ErrorCode.NONE and not code.retriable:
        raise KafkaError(code, f"topic {topic}: {code.name}")
    return metadata


async def _offsets_at(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], bound: Bound
) -> dict[TopicPartition, int]:
    """The offset that `bound` means in each partition."""
    wanted = list(partitions)
    if bound.kind == "offset":
        return dict.fromkeys(wanted, bound.value)
    timestamp = {"start": EARLIEST, "end": LATEST, "tail": LATEST, "time": bound.value}[bound.kind]
    listed = await cluster.list_offsets(dict.fromkeys(wanted, timestamp))
    offsets = {partition: found.offset for partition, found in listed.items()}
    if bound.kind == "tail":
        starts = await cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
        return {partition: max(starts[partition].offset, offset - bound.value) for partition, offset in offsets.items()}
    younger_than_all = [partition for partition, offset in offsets.items() if offset < 0]
    if younger_than_all:
        ends = await cluster.list_offsets(dict.fromkeys(younger_than_all, LATEST))
        offsets.update({partition: found.offset for partition, found in ends.items()})
    return offsets
