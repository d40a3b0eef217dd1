"""Record batches into Arrow columns, as Spark takes them: compiled (`record_columns`), or record by record in Python.

All decoders make the same columns, which a property test checks. Plain Python reads messages of magic 0 and 1, which
the compiled decoders don't support. If numba is the only compiled decoder, plain Python also reads the first records of
a process, since loading numba would take longer than it saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.compiled import record_walk
from barnabas.spark.plan import OffsetRange
from barnabas.spark.record_columns import FAULTS, NO_APPEND_TIME, TOTALS_FIELDS, RecordWalk
from barnabas.spark.values import Place, ValueFormat
from barnabas.wire.compression import Codec, decompress
from barnabas.wire.errors import WireError
from barnabas.wire.records import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, Record, records_of
from barnabas.wire.structs import Bytes

if TYPE_CHECKING:
    import numpy

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Unpacked bytes after which a chunk is passed on: a task holds this much of its partition at a time."""

_HEADER: Final = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
_TYPES: Final[dict[str, Any]] = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "timestampType": pyarrow.int32(),
    "headers": pyarrow.list_(_HEADER),
}


class Fetched(NamedTuple):
    """Data batches of one answer with their place in it: CRC verified, without aborted transactions."""

    data: memoryview
    batches: list[tuple[BatchHeader, int, int]]


class Columns(NamedTuple):
    """Which columns are wanted, in their order, and the type of ``value``."""

    names: tuple[str, ...]
    value_type: Any = _TYPES["value"]

    def schema(self) -> Any:
        return pyarrow.schema(
            [pyarrow.field(name, self.value_type if name == "value" else _TYPES[name]) for name in self.names]
        )


def unreadable(wanted: OffsetRange, offset: int, error: Exception) -> KafkaError:
    """The error for bytes at `offset` that are no record batch."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{wanted.topic_partition} at offset {offset} cannot be read: {error}")


def records_in(wanted: OffsetRange, part: Fetched, batch: tuple[BatchHeader, int, int]) -> list[Record]:
    """The records of one batch of an answer. Raises `KafkaError`, which names the batch."""
    header, start, end = batch
    try:
        return records_of(part.data, start, end)
    except WireError as error:
        raise unreadable(wanted, header.base_offset, error) from None


def record_batches(
    fetched: Iterator[Fetched], wanted: OffsetRange, columns: Columns, values: ValueFormat, *, compiled: bool
) -> Iterator[pyarrow.RecordBatch]:
    """Each answer's records inside `wanted` as one or more Arrow batches; empty ones are left out."""
    schema = columns.schema()
    for part in fetched:
        for chunk in _chunks(part):
            decode = decode_compiled if compiled and chunk.batches[0][0].magic == 2 else decode_plain
            try:
                found = decode(chunk, wanted, columns.names)
            except (WireError, OverflowError, pyarrow.ArrowInvalid) as error:
                raise _named(chunk, wanted, error) from None
            rows = len(found["offset"])
            if not rows:
                continue
            if "value" in found and values.kind != "raw":
                found["value"] = values.decode(found["value"], columns.value_type, _place(wanted, found["offset"]))
            constant = {"topic": wanted.topic, "partition": wanted.partition}
            arrays = [
                pyarrow.repeat(pyarrow.scalar(constant[name], _TYPES[name]), rows) if name in constant else found[name]
                for name in columns.names
            ]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _named(chunk: Fetched, wanted: OffsetRange, error: Exception) -> KafkaError:
    """`error` with the offset of the first batch of `chunk` that cannot be read."""
    for header, start, end in chunk.batches:
        try:
            records_of(chunk.data, start, end)
        except WireError as why:
            return unreadable(wanted, header.base_offset, why)
    return unreadable(wanted, chunk.batches[0][0].base_offset, error)


def _place(wanted: OffsetRange, offsets: Any) -> Place:
    return lambda row: f"{wanted.topic_partition}@{offsets[row]}"


def _chunks(fetched: Fetched) -> Iterator[Fetched]:
    """Runs of batches of one kind (magic 2 or older, compressed or not), each about `CHUNK_BYTES` at most."""

    def kind(batch: tuple[BatchHeader, int, int]) -> tuple[bool, bool]:
        return batch[0].magic == 2, batch[0].compression is Codec.NONE

    for (_, plain), run in groupby(fetched.batches, kind):
        chunk: list[tuple[BatchHeader, int, int]] = []
        size = 0
        for batch in run:
            chunk.append(batch)
            # A compressed batch counts as ten times as large: its unpacked size is not known yet.
            size += batch[0].length if plain else 10 * batch[0].length
            if size >= CHUNK_BYTES:
                yield Fetched(fetched.data, chunk)
                chunk, size = [], 0
        if chunk:
            yield Fetched(fetched.data, chunk)


def decode_plain(chunk: Fetched, wanted: OffsetRange, names: Sequence[str]) -> dict[str, Any]:
    """Columns by name, ``offset`` always among them. Raises `WireError`."""
    offsets: list[int] = []
    timestamps: list[int] = []
    types: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    headers: list[Any] = []
    for header, start, end in chunk.batches:
        records = records_of(chunk.data, start, end)
        if header.base_offset < wanted.start or header.last_offset >= wanted.end or header.magic < 2:
            records = [record for record in records if wanted.start <= record.offset < wanted.end]
        offsets += [record.offset for record in records]
        timestamps += [record.timestamp * 1000 for record in records]
        types += [int(header.timestamp_type)] * len(records)
        if "key" in names:
            keys += [record.key for record in records]
        if "value" in names:
            values += [record.value for record in records]
        if "headers" in names:
            headers += [
                [{"key": key, "value": value} for key, value in record.headers] if record.headers else None
                for record in records
            ]
    given = {
        "offset": offsets,
        "timestamp": timestamps,
        "timestampType": types,
        "key": keys,
        "value": values,
        "headers": headers,
    }
    return {
        name: pyarrow.array(column, _TYPES[name]) for name, column in given.items() if name in names or name == "offset"
    }


def decode_compiled(
    chunk: Fetched, wanted: OffsetRange, names: Sequence[str], walk: RecordWalk | None = None
) -> dict[str, Any]:
    """As `decode_plain`, by the compiled `walk`. Batches of magic 2 only. Raises `WireError`."""
    import numpy

    walk = walk or record_walk()
    source, sections = _sections(chunk)
    starts, ends, counts = sections.T[:3]
    rows_max = int(counts.sum())
    bytes_max = int((ends - starts).sum())
    with_keys, with_values = "key" in names, "value" in names
    keys, key_ends, key_validity = _binary_buffers(rows_max if with_keys else 0, bytes_max if with_keys else 0)
    values, value_ends, value_validity = _binary_buffers(
        rows_max if with_values else 0, bytes_max if with_values else 0
    )
    offsets = numpy.empty(rows_max, numpy.int64)
    timestamps = numpy.empty(rows_max, numpy.int64)
    types = numpy.empty(rows_max, numpy.int32)
    header_positions = numpy.empty(rows_max, numpy.int64)
    header_counts = numpy.empty(rows_max, numpy.int64)
    totals = numpy.zeros(TOTALS_FIELDS, numpy.int64)
    rows = walk.decode(
        source, sections, wanted.start, wanted.end, with_keys, with_values, offsets, timestamps, types,
        key_ends, keys, key_validity, value_ends, values, value_validity, header_positions, header_counts, totals,
    )  # fmt: skip
    if rows < 0:
        raise WireError(FAULTS[rows])
    key_bytes, null_keys, value_bytes, null_values, headers, bare = map(int, totals)
    found = {"offset": _fixed(_TYPES["offset"], offsets, rows)}
    if "timestamp" in names:
        found["timestamp"] = _fixed(_TYPES["timestamp"], timestamps, rows)
    if "timestampType" in names:
        found["timestampType"] = _fixed(_TYPES["timestampType"], types, rows)
    if with_keys:
        found["key"] = _binary(_TYPES["key"], keys[:key_bytes], key_ends, key_validity, null_keys, rows)
    if with_values:
        found["value"] = _binary(_TYPES["value"], values[:value_bytes], value_ends, value_validity, null_values, rows)
    if "headers" in names:
        found["headers"] = _headers(walk, source, rows, header_positions, header_counts, headers, bare)
    return found


def _sections(chunk: Fetched) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """The bytes of the records, decompressed if needed, and each batch's `SECTION_FIELDS`."""
    import numpy

    described: list[tuple[int, ...]] = []
    data: Bytes = chunk.data
    packed = chunk.batches[0][0].compression is not Codec.NONE
    unpacked: list[memoryview] = []
    position = 0
    for header, start, end in chunk.batches:
        begin, stop = start + HEADER_BYTES, end
        if packed:
            unpacked.append(memoryview(decompress(header.compression, chunk.data[begin:end])))
            begin, stop = position, position + len(unpacked[-1])
            position = stop
        # A record takes at least seven bytes: a larger count is false, and would only take memory.
        if header.record_count < 0 or header.record_count * 7 > stop - begin:
            raise WireError(f"a batch of {stop - begin} bytes says it has {header.record_count} records")
        append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_APPEND_TIME
        described.append(
            (
                begin,
                stop,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                append_time,
                int(header.timestamp_type),
            )
        )
    if packed:
        data = b"".join(unpacked) if len(unpacked) > 1 else unpacked[0]
    source = numpy.frombuffer(data, numpy.uint8)
    # One type for all sources, else numba compiles a second time.
    source.flags.writeable = False
    return source, numpy.array(described, numpy.int64)


def _binary_buffers(rows: int, size: int) -> tuple[Any, Any, Any]:
    """Buffers for bytes, their ends (a 0 in front) and their validity; untouched pages of `size` cost no memory."""
    import numpy

    ends = numpy.empty(rows + 1, numpy.int32)
    ends[0] = 0
    return numpy.empty(size, numpy.uint8), ends, numpy.zeros((rows >> 3) + 1, numpy.uint8)


def _fixed(kind: Any, values: Any, rows: int) -> Any:
    return pyarrow.Array.from_buffers(kind, rows, [None, pyarrow.py_buffer(values[:rows])])


def _binary(kind: Any, data: Any, ends: Any, validity: Any, nulls: int, rows: int) -> Any:
    buffers = [
        pyarrow.py_buffer(validity) if nulls else None,
        pyarrow.py_buffer(ends[: rows + 1]),
        pyarrow.py_buffer(data),
    ]
    return pyarrow.Array.from_buffers(kind, rows, buffers, nulls)


def _headers(walk: RecordWalk, source: Any, rows: int, positions: Any, counts: Any, headers: int, bare: int) -> Any:
    import numpy

    # Names and values are ranges of the source that do not overlap: its size is room enough.
    names, name_ends, _ = _binary_buffers(headers, source.shape[0] if headers else 0)
    values, value_ends, value_validity = _binary_buffers(headers, source.shape[0] if headers else 0)
    list_ends = numpy.empty(rows + 1, numpy.int32)
    list_ends[0] = 0
    list_validity = numpy.zeros((rows >> 3) + 1, numpy.uint8)
    totals = numpy.zeros(3, numpy.int64)
    count = walk.decode_headers(
        source, rows, positions, counts, list_ends, list_validity,
        name_ends, names, value_ends, values, value_validity, totals,
    )  # fmt: skip
    if count < 0:
        raise WireError(FAULTS[count])
    name_bytes, value_bytes, null_values = map(int, totals)
    name_array = _binary(pyarrow.binary(), names[:name_bytes], name_ends, None, 0, headers)
    try:
        name_array = name_array.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        name_array = pyarrow.array([str(name, "utf-8", "replace") for name in name_array.to_pylist()], pyarrow.string())
    value_array = _binary(pyarrow.binary(), values[:value_bytes], value_ends, value_validity, null_values, headers)
    structs = pyarrow.StructArray.from_arrays([name_array, value_array], fields=list(_HEADER))
    return pyarrow.Array.from_buffers(
        _TYPES["headers"],
        rows,
        [pyarrow.py_buffer(list_validity) if bare else None, pyarrow.py_buffer(list_ends)],
        bare,
        children=[structs],
    )
