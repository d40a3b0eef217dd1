"""``barnabas produce`` and ``barnabas consume``, with kcat's flags."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, BinaryIO, Final

import typer

from barnabas.cli.connect import number, parse_properties, with_cluster
from barnabas.cli.formats import DEFAULT_FORMAT, Bound, compile_format, json_envelope, parse_offset, unescape
from barnabas.cli.output import CommandError, Format, UsageError, complain, print_json
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer, Fetched
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.produce_requests import BATCH_BYTES, DELIVERY_TIMEOUT_MS
from barnabas.client.producer import Producer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_CHUNK_BYTES: Final = 256 * 1024
_PENDING_MAX: Final = 100_000

Topic = Annotated[str, typer.Option("-t", "--topic", help="The topic.")]
Bootstrap = Annotated[
    str | None, typer.Option("-b", "--bootstrap", "--bootstrap-server", metavar="H:P,..", help="Bootstrap servers.")
]
Properties = Annotated[
    list[str] | None, typer.Option("-X", metavar="K=V", help="A client property by librdkafka's name; may be repeated.")
]


def produce(
    topic: Topic,
    bootstrap: Bootstrap = None,
    properties: Properties = None,
    partition: Annotated[int | None, typer.Option("-p", "--partition", help="By the key's hash by default.")] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="One key for every record.")] = None,
    key_delimiter: Annotated[str | None, typer.Option("-K", help="Each line is KEY, this delimiter, VALUE.")] = None,
    delimiter: Annotated[str, typer.Option("-D", help="Between records.")] = "\\n",
    headers: Annotated[
        list[str] | None, typer.Option("-H", metavar="NAME=V", help="A header; may be repeated.")
    ] = None,
    null: Annotated[bool, typer.Option("-Z", help="An empty value or key is null (a tombstone).")] = False,
    compression: Annotated[str | None, typer.Option("-z", help="none, gzip, snappy, lz4 or zstd.")] = None,
    acks: Annotated[str | None, typer.Option("--acks", help="all, 1 or 0; all by default, idempotent.")] = None,
    file: Annotated[str | None, typer.Option("--file", help="Read this file instead of the standard input.")] = None,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON for programs.")] = Format.text,
) -> None:
    """Write records, one a line of the standard input."""
    values = parse_properties(properties or ())
    level = acks or values.get("acks", "all")
    if level not in ("all", "-1", "1", "0"):
        raise UsageError(f"--acks {level}: it takes all, 1 or 0.")
    codec = compression or values.get("compression.type") or values.get("compression.codec") or "none"
    if codec not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise UsageError(f"-z {codec}: it takes none, gzip, snappy, lz4 or zstd.")
    header_list = [_header(each) for each in headers or ()]
    split = unescape(key_delimiter).encode() if key_delimiter is not None else None
    end = unescape(delimiter).encode()
    if not end or split == b"":
        raise UsageError("A delimiter cannot be empty.")

    def empty_as_null(part: bytes | None) -> bytes | None:
        return None if null and part == b"" else part

    async def story(cluster: ClusterClient) -> tuple[int, dict[str, int]]:
        all_replicas = level in ("all", "-1")
        producer = Producer(
            cluster,
            acks=-1 if all_replicas else int(level),
            idempotent=all_replicas and values.get("enable.idempotence", "true") != "false",
            linger_ms=number(values, 5, "linger.ms", "queue.buffering.max.ms"),
            batch_bytes=number(values, BATCH_BYTES, "batch.size"),
            compression=codec,
            delivery_timeout_ms=number(values, DELIVERY_TIMEOUT_MS, "delivery.timeout.ms", "message.timeout.ms"),
        )
        pending: list[Any] = []
        failures: dict[str, int] = {}
        acknowledged = 0

        def settle() -> int:
            count = 0
            for future in pending:
                error = future.exception()
                if error is None:
                    count += 1
                else:
                    failures[str(error)] = failures.get(str(error), 0) + 1
            pending.clear()
            return count

        with _input(file) as source:
            for line in _records(source, end):
                record_key: bytes | None = key.encode() if key is not None else None
                value: bytes | None = line
                if split is not None and split in line:
                    record_key, _, value = line.partition(split)
                pending.append(
                    await producer.append(
                        topic,
                        empty_as_null(value),
                        key=empty_as_null(record_key),
                        partition=partition,
                        headers=header_list,
                    )
                )
                if len(pending) >= _PENDING_MAX:
                    await producer.flush()
                    acknowledged += settle()
        await producer.flush()
        acknowledged += settle()
        await producer.close()
        return acknowledged, failures

    acknowledged, failures = with_cluster(bootstrap, values, story)
    if output is Format.json:
        errors = [{"error": failure, "records": records} for failure, records in failures.items()]
        print_json({"topic": topic, "acknowledged": acknowledged, "errors": errors})
    for failure, records in failures.items():
        complain(f"{records} records were not acknowledged: {failure.rstrip('.')}.")
    if failures:
        raise typer.Exit(1)


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


def _records(source: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """The parts between delimiters; nothing after the last one is no record."""
    rest = b""
    while chunk := source.read1(_CHUNK_BYTES) if hasattr(source, "read1") else source.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(delimiter)
        yield from whole
    if rest:
        yield rest


def consume(
    topic: Topic,
    bootstrap: Bootstrap = None,
    properties: Properties = None,
    partitions: Annotated[
        list[int] | None, typer.Option("-p", "--partition", help="Only these; may be repeated.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option("-o", "--offset", help="start, end, N, -N (the last N), @ts, @ts:ts; start by default."),
    ] = None,
    count: Annotated[int | None, typer.Option("-n", "-c", "--num", min=1, help="Stop after so many records.")] = None,
    format_string: Annotated[str | None, typer.Option("-f", help="%t %p %o %k %v %K %S %T %h, \\n \\t.")] = None,
    json_lines: Annotated[bool, typer.Option("-J", help="One JSON object a record.")] = False,
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit-eof", help="Stop at the partitions' ends.")] = False,
    group: Annotated[str | None, typer.Option("-g", "-G", "--group", help="Share the topic with this group.")] = None,
    key_delimiter: Annotated[str | None, typer.Option("-K", help="Print KEY, this delimiter, VALUE.")] = None,
    output: Annotated[Format, typer.Option("--format", help="json is -J.")] = Format.text,
) -> None:
    """Read records and print them."""
    values = parse_properties(properties or ())
    now_ms = time.time_ns() // 1_000_000
    try:
        first, last = parse_offset(offset or "start", now_ms)
        shown = format_string or (f"%k{key_delimiter}%v\\n" if key_delimiter is not None else DEFAULT_FORMAT)
        form = json_envelope if json_lines or output is Format.json else compile_format(shown)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    if group is not None and (partitions or offset):
        raise UsageError("A group gives the partitions and keeps the offsets: leave out -p and -o.")
    isolation = values.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise UsageError(f"-X isolation.level={isolation}: it takes read_uncommitted or read_committed.")
    reset = {"earliest": EARLIEST, "latest": LATEST, "smallest": EARLIEST, "largest": LATEST, "none": None}
    policy = values.get("auto.offset.reset", "earliest")
    if policy not in reset:
        raise UsageError(f"-X auto.offset.reset={policy}: it takes earliest, latest or none.")

    async def story(cluster: ClusterClient) -> None:
        consumer = Consumer(
            cluster,
            group=group,
            isolation_level=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
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

    with_cluster(bootstrap, values, story)


async def _assign(
    cluster: ClusterClient,
    consumer: Consumer,
    topic: str,
    partitions: list[int] | None,
    first: Bound,
    last: Bound | None,
    exit_at_end: bool,
    form: Callable[[Fetched], bytes],
    count: int | None,
) -> None:
    """Reads partitions of the user's choice from one bound to another."""
    known = (await _described(cluster, topic)).partitions(topic)
    wanted = known if partitions is None else [TopicPartition(topic, each) for each in partitions]
    for each in wanted:
        if each not in known:
            raise CommandError(f"{topic} has no partition {each.partition}: it has 0 to {len(known) - 1}.")
    begin = await _offsets_at(cluster, wanted, first)
    stop: dict[TopicPartition, int] = {}
    if last is not None:
        stop = await _offsets_at(cluster, wanted, last)
    elif exit_at_end:
        stop = await _offsets_at(cluster, wanted, Bound("end"))
    if stop:
        begin = {each: offset for each, offset in begin.items() if offset < stop[each]}
    await consumer.assign(begin)
    left = count if count is not None else -1
    while left != 0 and (not stop or any(consumer.position(each) < stop[each] for each in begin)):
        fetched = await consumer.poll(1_000)
        if stop:
            fetched = [
                each for each in fetched if each.record.offset < stop[TopicPartition(each.topic, each.partition)]
            ]
        left = _print(fetched, form, left)


async def _share(
    consumer: Consumer, topic: str, exit_at_end: bool, form: Callable[[Fetched], bytes], count: int | None
) -> None:
    """Reads as a member of a group and commits what was printed."""
    await _described(consumer.cluster, topic)
    await consumer.subscribe([topic])
    left = count if count is not None else -1
    while left != 0:
        fetched = await consumer.poll(1_000)
        taken = fetched if left < 0 else fetched[:left]
        left = _print(taken, form, left)
        if taken:
            assert consumer.member is not None
            nexts = {TopicPartition(each.topic, each.partition): each.record.offset + 1 for each in taken}
            await consumer.member.commit(nexts)
        elif exit_at_end and _at_end(consumer):
            return


def _at_end(consumer: Consumer) -> bool:
    owned = consumer.assignment
    return bool(owned) and all(0 <= consumer.high_watermark(each) <= consumer.position(each) for each in owned)


def _print(fetched: Iterable[Fetched], form: Callable[[Fetched], bytes], left: int) -> int:
    """Prints at most `left` records (-1: all); returns how many may still come."""
    chosen = list(fetched)
    if left >= 0:
        chosen = chosen[:left]
        left -= len(chosen)
    if chosen:
        sys.stdout.buffer.write(b"".join(map(form, chosen)))
        sys.stdout.buffer.flush()
    return left


async def _described(cluster: ClusterClient, topic: str) -> Any:
    """The metadata with `topic` in it; a sentence where there is no such topic."""
    metadata = await cluster.refresh([topic])
    known = metadata.topics.get(topic)
    code = known.error if known is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
    offsets = {each: found.offset for each, found in listed.items()}
    if bound.kind == "tail":
        starts = await cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
        return {each: max(starts[each].offset, offset - bound.value) for each, offset in offsets.items()}
    younger_than_all = [each for each, offset in offsets.items() if offset < 0]
    if younger_than_all:
        ends = await cluster.list_offsets(dict.fromkeys(younger_than_all, LATEST))
        offsets.update({each: found.offset for each, found in ends.items()})
    return offsets
