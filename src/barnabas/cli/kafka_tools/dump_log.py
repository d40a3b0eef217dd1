"""``kafka-dump-log``: shows segments, indexes and snapshots from their files (``kafka.tools.DumpLogSegments``)."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.cli.kafka_tools.errors import JavaError
from barnabas.cli.kafka_tools.json_files import compact
from barnabas.cli.kafka_tools.log_records import UnknownRecord, dumped_key, dumped_value, transaction_value
from barnabas.cli.kafka_tools.options import OptionParser, ToolWords
from barnabas.model.sentinels import SEQUENCE_MAX
from barnabas.wire.errors import WireError
from barnabas.wire.records import BatchHeader, Record, TimestampType, batches, check_crc, records_of

_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED: Final = struct.Struct(">hqqqq")
_SNAPSHOT: Final = struct.Struct(">hIi")
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
_TIMESTAMPS: Final = {
    TimestampType.NO_TIMESTAMP: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_API: Final = "org.apache.kafka.tools.api"

Parsed = tuple[str | None, str | None]


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.print = parser.flag(
            "print-data-log", "Show the records' keys and values. Each decoder option does so as well."
        )
        self.verify = parser.flag(
            "verify-index-only", "Check an index against its segment without showing its entries."
        )
        self.sanity = parser.flag("index-sanity-check", "Only do a starting broker's checks of an index.")
        self.files = parser.takes("files", "REQUIRED: the files, separated by commas.", "file1, file2, ...")
        self.max_message_size = parser.takes(
            "max-message-size", "The maximal bytes of a message.", "size", kind="Integer", default=5 * 1024 * 1024
        )
        self.max_bytes = parser.takes(
            "max-bytes", "The number of bytes to read of a segment.", "size", kind="Integer", default=(1 << 31) - 1
        )
        self.deep = parser.flag("deep-iteration", "Show each record, not only batches.")
        self.value_decoder = parser.takes(
            "value-decoder-class", "The decoder of values.", optional=True, default=f"{_API}.StringDecoder"
        )
        self.key_decoder = parser.takes(
            "key-decoder-class", "The decoder of keys.", optional=True, default=f"{_API}.StringDecoder"
        )
        self.offsets = parser.flag("offsets-decoder", "The segment is one of __consumer_offsets.")
        self.transactions = parser.flag("transaction-log-decoder", "The segment is one of __transaction_state.")
        self.metadata = parser.flag("cluster-metadata-decoder", "The segment is one of KRaft's metadata.")
        self.remote = parser.flag("remote-log-metadata-decoder", "The segment is one of __remote_log_metadata.")
        self.skip = parser.flag("skip-record-metadata", "Show only keys and values of records.")
        self.options = parser.read(
            words,
            "This tool helps to parse a log file and dump its contents to the console, useful for debugging a "
            "seemingly corrupt log segment.",
        )
        parser.require(self.options, self.files)

    @property
    def prints(self) -> bool:
        decoders = (self.offsets, self.transactions, self.metadata, self.remote, self.value_decoder, self.key_decoder)
        return self.options.has_any((self.print, *decoders))

    def parser_of_records(self) -> Callable[[Record], Parsed]:
        if self.has(self.offsets):
            return _group_record
        if self.has(self.transactions):
            return _transaction_record
        if self.has(self.metadata) or self.has(self.remote):
            raise JavaError(
                "java.lang.UnsupportedOperationException",
                "Barnabas has no decoder for records of KRaft's metadata and of tiered storage, as it has neither",
            )
        value, key = _decoder(self.value(self.value_decoder)), _decoder(self.value(self.key_decoder))

        def parse(record: Record) -> Parsed:
            return (
                None if record.key is None else key(bytes(record.key)),
                None if record.value is None else value(bytes(record.value)),
            )

        return parse


_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "LongDecoder": lambda data: str(struct.unpack_from(">q", data)[0]),
    "IntegerDecoder": lambda data: str(struct.unpack_from(">i", data)[0]),
    "DefaultDecoder": lambda data: data.hex(),
}


def _decoder(name: str) -> Callable[[bytes], str]:
    package, _, simple = name.rpartition(".")
    if simple not in _DECODERS or package not in (_API, "kafka.serializer"):
        raise JavaError("java.lang.ClassNotFoundException", name)
    if package != _API:
        print(f"{name} is deprecated. Please use {_API}.{simple} instead")
    return _DECODERS[simple]


@dataclass(slots=True)
class _Findings:
    """Errors that are printed after all files: by file, in the order in which they were found."""

    index: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    times: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unordered: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def tell(self) -> None:
        sys.stdout.flush()
        _tell(self.index, "Mismatches in :{}", "  Index offset: {}, log offset: {}", newest_first=True)
        _tell(self.times, "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}")
        _tell(
            self.unordered,
            "Found out of order timestamp in :{}",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
        )
        _tell(
            self.lost,
            "The following indexed offsets are not found in the log.",
            "Indexed offset: {}, found log offset: {}",
        )
        _tell(self.gaps, "Non-consecutive offsets in {}", "  {} is followed by {}", newest_first=True)


def _tell(found: dict[str, list[tuple[int, int]]], head: str, line: str, *, newest_first: bool = False) -> None:
    for path, pairs in found.items():
        print(head.format(path), file=sys.stderr)
        for pair in reversed(pairs) if newest_first else pairs:
            print(line.format(*pair), file=sys.stderr)


def main(arguments: list[str]) -> int:
    words = _Words(arguments)
    findings = _Findings()
    for path in words.value(words.files).split(","):
        print(f"Dumping {path}")
        name = os.path.basename(path)
        if "." not in name:
            raise JavaError(
                "java.lang.StringIndexOutOfBoundsException", f"begin -1, end {len(name)}, length {len(name)}"
            )
        suffix = name[name.rindex(".") :]
        try:
            _dump(words, path, suffix, findings)
        except FileNotFoundError:
            raise JavaError("java.nio.file.NoSuchFileException", path) from None
        except WireError as error:
            raise JavaError("org.apache.kafka.common.errors.CorruptRecordException", str(error)) from error
    findings.tell()
    return 0


def _dump(words: _Words, path: str, suffix: str, findings: _Findings) -> None:
    if suffix == ".log":
        _dump_log(words, path, findings)
    elif suffix == ".index":
        _dump_index(words, path, findings)
    elif suffix == ".timeindex":
        _dump_time_index(words, path, findings)
    elif suffix == ".snapshot":
        _dump_snapshot(path)
    elif suffix == ".txnindex":
        for version, producer, first, last, stable in _ABORTED.iter_unpack(_whole(path, _ABORTED.size)):
            print(
                f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
                f"lastStableOffset: {stable}"
            )
    else:
        print(f"Ignoring unknown file {path}", file=sys.stderr)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _whole(path: str, size: int) -> bytes:
    """The file's complete entries."""
    data = _bytes(path)
    return data[: len(data) // size * size]


def _base_offset(path: str) -> int:
    name = os.path.basename(path).split(".")[0]
    if not re.fullmatch(r"-?[0-9]+", name):
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{name}"')
    return int(name)


def _sibling(path: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(path), os.path.basename(path).split(".")[0] + suffix)


# segments


def _dump_log(words: _Words, path: str, findings: _Findings) -> None:
    parse = words.parser_of_records()
    print(f"Log starting offset: {_base_offset(path)}")
    limit = words.value(words.max_bytes)
    data = _bytes(path)
    part = memoryview(data)[:limit]
    valid_bytes, last_offset = 0, -1
    for header, start, end in _batches(part):
        _print_batch(part, header, start, end)
        valid_bytes = end
        if not (words.has(words.deep) or words.prints):
            continue
        for record in records_of(part, start, end):
            if last_offset != -1 and record.offset != last_offset + 1:
                findings.gaps.setdefault(os.path.abspath(path), []).append((last_offset, record.offset))
            last_offset = record.offset
            print(_shown(words, header, record, parse))
    trailing = len(data) - valid_bytes
    if trailing > 0 and limit == (1 << 31) - 1:
        print(f"Found {trailing} invalid bytes at the end of {os.path.basename(path)}")


def _batches(data: memoryview) -> Iterator[tuple[BatchHeader, int, int]]:
    """Complete batches, up to the first one that is broken or cut off."""
    walk = batches(data)
    while True:
        try:
            yield next(walk)
        except (StopIteration, WireError):
            return


def _sequence(base: int, delta: int) -> int:
    return base if base < 0 else (base + delta) & SEQUENCE_MAX


def _print_batch(data: memoryview, header: BatchHeader, start: int, end: int) -> None:
    try:
        check_crc(data, start, end)
        valid = "true"
    except WireError:
        valid = "false"
    if header.magic >= 2:
        horizon = f"OptionalLong[{header.base_timestamp}]" if header.attributes & 0x40 else "OptionalLong.empty"
        text = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} "
            f"lastSequence: {_sequence(header.base_sequence, header.last_offset_delta)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {str(header.is_transactional).lower()} isControl: {str(header.is_control).lower()} "
            f"deleteHorizonMs: {horizon}"
        )
    else:
        text = f"offset: {header.last_offset}"
    print(
        f"{text} position: {start} {_TIMESTAMPS[header.timestamp_type]}: {header.max_timestamp} size: {header.length} "
        f"magic: {header.magic} compresscodec: {header.compression.name.lower()} crc: {header.crc & 0xFFFFFFFF} "
        f"isvalid: {valid}"
    )


def _shown(words: _Words, header: BatchHeader, record: Record, parse: Callable[[Record], Parsed]) -> str:
    line, prefix = "", "| "
    if not words.has(words.skip):
        key_size = -1 if record.key is None else len(record.key)
        value_size = -1 if record.value is None else len(record.value)
        line = (
            f"| offset: {record.offset} {_TIMESTAMPS[header.timestamp_type]}: {record.timestamp} keySize: {key_size} "
            f"valueSize: {value_size}"
        )
        prefix = " "
        if header.magic >= 2:
            names = ",".join(name for name, _ in record.headers)
            sequence = _sequence(header.base_sequence, record.offset - header.base_offset)
            line += f" sequence: {sequence} headerKeys: [{names}]"
        if header.is_control:
            line += _shown_control(record)
    if words.prints and not header.is_control:
        key, payload = parse(record)
        if key is not None:
            line += f"{prefix}key: {key}"
        if payload is not None:
            line += f" payload: {payload}"
    return line


def _shown_control(record: Record) -> str:
    kind = struct.unpack_from(">h", record.key or b"", 2)[0]
    if kind not in (0, 1):
        return f" controlType: UNKNOWN({kind})"
    epoch = struct.unpack_from(">i", record.value or b"", 2)[0]
    return f" endTxnMarker: {'COMMIT' if kind else 'ABORT'} coordinatorEpoch: {epoch}"


def _group_record(record: Record) -> Parsed:
    if record.key is None:
        raise JavaError(
            "java.lang.RuntimeException",
            f"Failed to decode message at offset {record.offset} using offset topic decoder (message had a missing "
            "key)",
        )
    try:
        stem, key = dumped_key(bytes(record.key))
        value = "<DELETE>" if record.value is None else compact(dumped_value(stem, bytes(record.value)))
        return compact(key), value
    except UnknownRecord as error:
        return f"Unknown record type {error} at offset {record.offset}, skipping.", None
    except (WireError, struct.error) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _transaction_record(record: Record) -> Parsed:
    from barnabas.cli.kafka_tools.log_records import transaction_key

    key = transaction_key(bytes(record.key or b"\0\0"))
    if key == "unknown":
        return f"unknown::version={struct.unpack_from('>h', record.key or b'')[0]}", None
    text = f"transaction_metadata::transactionalId={key['transactionalId']}"
    if record.value is None:
        return text, "<DELETE>"
    value = transaction_value(bytes(record.value))
    partitions = [
        f"{topic['topic']}-{number}"
        for topic in value["transactionPartitions"] or ()
        for number in topic["partitionIds"]
    ]
    return text, (
        f"producerId:{value['producerId']},producerEpoch:{value['producerEpoch']},"
        f"state={_STATES[value['transactionStatus']]},partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={value['transactionTimeoutMs']}"
    )


# indexes


def _corrupt(message: str) -> JavaError:
    return JavaError("org.apache.kafka.storage.internals.log.CorruptIndexException", message)


def _dump_index(words: _Words, path: str, findings: _Findings) -> None:
    base = _base_offset(path)
    log = memoryview(_bytes(_sibling(path, ".log")))
    data = _bytes(path)
    entries = list(_ENTRY.iter_unpack(_whole(path, _ENTRY.size)))
    if not entries:
        print(f"{path} is empty.")
        return
    if words.has(words.sanity):
        last, _ = entries[-1]
        if base + last < base:
            raise _corrupt(
                f"Corrupt index found, index file ({os.path.abspath(path)}) has non-zero size but the last offset is "
                f"{base + last} which is less than the base offset {base}."
            )
        if len(data) % _ENTRY.size:
            raise _corrupt(
                f"Index file {os.path.abspath(path)} is corrupt, found {len(data)} bytes which is neither positive nor "
                "a multiple of 8."
            )
        print(f"{path} passed sanity check.")
        return
    for number, (relative, position) in enumerate(entries):
        if relative == 0 and number > 0:
            return
        first = next(_batches(log[position : position + words.value(words.max_message_size)]), None)
        if first is None:
            raise JavaError("java.util.NoSuchElementException")
        header, _, _ = first
        if header.last_offset != base + relative:
            findings.index.setdefault(os.path.abspath(path), []).append((base + relative, header.last_offset))
        if not words.has(words.verify):
            print(f"offset: {base + relative} position: {position}")


def _dump_time_index(words: _Words, path: str, findings: _Findings) -> None:
    base = _base_offset(path)
    log = memoryview(_bytes(_sibling(path, ".log")))
    positions = list(_ENTRY.iter_unpack(_whole(_sibling(path, ".index"), _ENTRY.size)))
    entries = list(_TIME_ENTRY.iter_unpack(_whole(path, _TIME_ENTRY.size)))
    if words.has(words.sanity):
        if entries and (entries[-1][1] < 0 or entries[-1][0] < entries[0][0]):
            raise _corrupt(
                f"Corrupt time index found, time index file ({os.path.abspath(path)}) has a last entry below its first."
            )
        print(f"{path} passed sanity check.")
        return
    before = -1
    for number, (timestamp, relative) in enumerate(entries):
        if relative == 0 and number > 0:
            return
        offset = base + relative
        start = max((at for first, at in positions if base + first <= offset), default=0)
        rest = log[start:]
        found = next((batch for batch in _batches(rest) if batch[0].last_offset >= offset), None)
        header, begin, end = found or (None, 0, 0)
        name = os.path.abspath(path)
        if header is None or header.last_offset != offset:
            findings.lost.setdefault(name, []).append((offset, -1 if header is None else header.last_offset))
        else:
            highest = max((record.timestamp for record in records_of(rest, begin, end)), default=-1)
            if highest != timestamp:
                findings.times.setdefault(name, []).append((timestamp, highest))
            if before >= timestamp:
                findings.unordered.setdefault(name, []).append((timestamp, before))
        if not words.has(words.verify):
            print(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def _dump_snapshot(path: str) -> None:
    """Shows the producers' states. An unreadable snapshot is reported, and the next file is shown."""
    from crc32c import crc32c

    data = _bytes(path)
    try:
        version, crc, _ = _SNAPSHOT.unpack_from(data)
        rows = list(_PRODUCER.iter_unpack(data[_SNAPSHOT.size :]))
    except struct.error as error:
        print(f"Snapshot failed schema validation: {error}", file=sys.stderr)
        return
    if version != 1:
        print(f"Snapshot contained an unknown file version {version}", file=sys.stderr)
        return
    computed = crc32c(data[6:])
    if crc != computed:
        print(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}",
            file=sys.stderr,
        )
        return
    for producer, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first in rows:
        line = (
            f"producerId: {producer} producerEpoch: {epoch} coordinatorEpoch: {coordinator} currentTxnFirstOffset: "
            f"{f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} lastTimestamp: {timestamp} "
        )
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & SEQUENCE_MAX
            line += (
                f"firstSequence: {first_sequence} lastSequence: {last_sequence} lastOffset: {last_offset} "
                f"offsetDelta: {delta} timestamp: {timestamp}"
            )
        print(line)
