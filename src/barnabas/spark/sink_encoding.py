"""Arrow batches into record batches, compiled (`encode_kernels`): no row becomes a Python object.

`by_topic` returns an Arrow batch's columns in the kernels' form, `targets` a partition for each row. An `Encoder`
appends rows to the open batch of their partition, and gives each full batch to the producer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute

from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.produce_requests import BUFFER_BYTES
from barnabas.model.ids import TopicPartition
from barnabas.spark import encode_kernels as kernels
from barnabas.spark.murmur2 import positive_murmur2
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.sink_rows import check_headers, topic_column
from barnabas.wire.records import HEADER_BYTES

if TYPE_CHECKING:
    Array = numpy.ndarray[Any, Any]

KEYLESS: Final = -1
"""The target of a row that has neither a partition nor a key."""
_VARINT_BYTES_MAX: Final = 5
"""The most bytes of a length or a count."""


class Column(NamedTuple):
    """Bytes of each row: where they begin in `data`, how many they are, -1 for null."""

    data: Array
    starts: Array
    lengths: Array

    @classmethod
    def of(cls, array: Any) -> Column:
        """Of strings or bytes."""
        if not len(array):
            return cls.nulls(0)
        array = array.cast(pyarrow.binary())
        ends = _numbers(array.buffers()[1], numpy.int32)[array.offset : array.offset + len(array) + 1]
        lengths = numpy.diff(ends)
        if array.null_count:
            lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return cls(_numbers(array.buffers()[2], numpy.uint8), ends[:-1], _fixed(lengths))

    @classmethod
    def nulls(cls, rows: int) -> Column:
        none = _fixed(numpy.full(rows, -1, numpy.int32))
        return cls(_numbers(None, numpy.uint8), none, none)


class TopicRows(NamedTuple):
    """The rows of one topic. `timestamps` in ms; `tails` are the headers as they lie in a record, or nothing."""

    keys: Column
    values: Column
    timestamps: Array
    tails: Array
    tail_ends: Array
    partitions: Any
    """The Arrow columns, or None."""
    key_array: Any

    @classmethod
    def of(cls, batch: pyarrow.RecordBatch, options: SinkOptions) -> TopicRows:
        def column(name: str) -> Any:
            return batch.column(batch.schema.names.index(name)) if name in options.columns else None

        keys, headers, timestamps = column("key"), column("headers"), column("timestamp")
        tails, tail_ends = _tails(headers)
        return cls(
            Column.nulls(batch.num_rows) if keys is None else Column.of(keys),
            Column.of(column("value")),
            _milliseconds(timestamps, batch.num_rows),
            tails,
            tail_ends,
            column("partition"),
            keys,
        )


def by_topic(batch: pyarrow.RecordBatch, options: SinkOptions) -> Iterator[tuple[str, TopicRows]]:
    """The rows by topic, in their order. Raises ``ValueError`` as `rows_of` does."""
    if not batch.num_rows:
        return
    if options.topic is not None:
        yield options.topic, TopicRows.of(batch, options)
        return
    column = topic_column(batch)
    names = column.unique().to_pylist()
    for name in names:
        rows = batch if len(names) == 1 else batch.filter(pyarrow.compute.equal(column, name))
        yield name, TopicRows.of(rows, options)


def targets(columns: TopicRows, topic: str, producer: BlockingProducer) -> Array:
    """The partition of each row: the one it names, the one of its key by Kafka's partitioner, or `KEYLESS`.

    Raises ``ValueError`` for a partition that the topic doesn't have, `KafkaError` for a topic that doesn't exist.
    """
    count = producer.partition_count(topic)
    rows = len(columns.timestamps)
    given, keys = columns.partitions, columns.key_array
    if given is not None and given.null_count < rows:
        ends = pyarrow.compute.min_max(given).as_py()
        producer.check_partition(topic, ends["min"])
        producer.check_partition(topic, ends["max"])
    if given is not None and not given.null_count:
        return _fixed(given.to_numpy())
    if keys is None:
        chosen = numpy.full(rows, KEYLESS, numpy.int32)
    else:
        chosen = positive_murmur2(keys.cast(pyarrow.binary())).to_numpy() % numpy.int32(count)
        chosen[columns.keys.lengths < 0] = KEYLESS
    if given is not None:
        named = given.is_valid().to_numpy(zero_copy_only=False)
        chosen[named] = given.drop_null().to_numpy()
    return _fixed(chosen)


def placed(targets: Array, before: int, *, run: int, count: int) -> tuple[Array, int]:
    """The targets with `KEYLESS` rows sent to one of `count` partitions after another, `run` at a time; and how many
    such rows there are. `before`: how many of them came before these rows."""
    keyless = numpy.flatnonzero(targets == KEYLESS)
    if not len(keyless):
        return targets, 0
    chosen = targets.copy()
    chosen[keyless] = numpy.arange(before, before + len(keyless)) // run % count
    return _fixed(chosen), len(keyless)


def grouped(targets: Array) -> Iterator[tuple[int, Array]]:
    """Each target with the numbers of its rows, in their order."""
    rows = numpy.empty(len(targets), numpy.int64)
    ends = numpy.empty(int(targets.max(initial=KEYLESS)) + 3, numpy.int64)
    kernels.group(targets, rows, ends)
    _fixed(rows)
    start = 0
    for target, end in enumerate(ends.tolist(), KEYLESS):
        if end > start:
            yield target, rows[start:end]
        start = end


class _Open:
    """An open batch: room for the header in front, then the records that `state` describes."""

    def __init__(self, size: int) -> None:
        self.buffer = numpy.empty(size, numpy.uint8)
        self.state = numpy.zeros(kernels.STATE_FIELDS, numpy.int64)
        self.state[kernels.POSITION] = HEADER_BYTES


class Encoder:
    """Encodes rows for `producer`, in batches of at most `batch_bytes`; a larger record has a batch of its own.

    All open batches together have at most about `BUFFER_BYTES`.
    """

    def __init__(self, producer: BlockingProducer, batch_bytes: int) -> None:
        self._producer = producer
        self._batch_bytes = max(batch_bytes, HEADER_BYTES)
        self._open: dict[TopicPartition, _Open] = {}
        self._open_bytes = 0

    def send(self, batch: pyarrow.RecordBatch, options: SinkOptions) -> None:
        """Rows with a partition of their own, or that of Kafka's partitioner. Raises as `targets` and `by_topic`."""
        for topic, columns in by_topic(batch, options):
            for partition, rows in grouped(targets(columns, topic, self._producer)):
                if partition == KEYLESS:
                    self._scatter(topic, columns, rows)
                else:
                    self.append(TopicPartition(topic, partition), columns, rows)

    def append(self, target: TopicPartition, columns: TopicRows, rows: Array) -> None:
        done = 0
        while done < len(rows):
            done = self._fill(target, columns, rows, done)

    def _scatter(self, topic: str, columns: TopicRows, rows: Array) -> None:
        """Sends rows to the producer's sticky partition, which is another one for each batch."""
        done = 0
        while done < len(rows):
            target = TopicPartition(topic, self._producer.sticky_partition(topic))
            done = self._fill(target, columns, rows, done)

    def _fill(self, target: TopicPartition, columns: TopicRows, rows: Array, done: int) -> int:
        """Appends `rows[done:]` until the batch is full, and sends it then. Returns how many rows are done."""
        opened = self._open.get(target)
        if opened is None:
            opened = self._open[target] = _Open(self._batch_bytes)
        before = opened.state[kernels.POSITION]
        done = kernels.encode(
            rows, done, columns.timestamps, *columns.keys, *columns.values, columns.tails, columns.tail_ends,
            opened.buffer, opened.state,
        )  # fmt: skip
        self._open_bytes += int(opened.state[kernels.POSITION] - before)
        if done < len(rows):
            if opened.state[kernels.COUNT]:
                self._send(target, full=True)
            else:
                self._open[target] = _Open(HEADER_BYTES + int(opened.state[kernels.NEEDED]))
        elif self._open_bytes > BUFFER_BYTES:
            self.flush()
        return done

    def _send(self, target: TopicPartition, *, full: bool) -> None:
        opened = self._open.pop(target)
        self._open_bytes -= int(opened.state[kernels.POSITION]) - HEADER_BYTES
        position, count, base_timestamp, max_timestamp, _ = opened.state.tolist()
        self._producer.send_encoded(
            target,
            opened.buffer.data[:position],
            count,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            full=full,
        )

    def flush(self) -> None:
        """Sends the open batches, and returns when all rows are acknowledged."""
        for target in list(self._open):
            self._send(target, full=False)
        self._producer.flush()


def _tails(headers: Any) -> tuple[Array, Array]:
    """Each row's headers one after another, and where they end (a 0 in front); empty if no row has any."""
    if headers is None:
        return _numbers(None, numpy.uint8), _fixed(numpy.zeros(0, numpy.int64))
    entries = check_headers(headers)
    names, values = Column.of(entries.field(0)), Column.of(entries.field(1))
    counts = pyarrow.compute.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    sizes = int(names.lengths.sum(dtype=numpy.int64)) + int(values.lengths.clip(0).sum(dtype=numpy.int64))
    tails = numpy.empty(sizes + _VARINT_BYTES_MAX * (len(counts) + 2 * len(entries)), numpy.uint8)
    tail_ends = numpy.zeros(len(counts) + 1, numpy.int64)
    kernels.encode_headers(_fixed(counts), *names, *values, tails, tail_ends)
    return _fixed(tails), _fixed(tail_ends)


def _milliseconds(timestamps: Any, rows: int) -> Array:
    now = time.time_ns() // 1000
    if timestamps is None:
        return _fixed(numpy.full(rows, now // 1000, numpy.int64))
    microseconds = timestamps.cast(pyarrow.int64()).fill_null(now).to_numpy()
    return _fixed(microseconds // 1000)


def _numbers(buffer: Any, kind: Any) -> Array:
    return _fixed(numpy.frombuffer(b"" if buffer is None else buffer, kind))


def _fixed(array: Array) -> Array:
    """The array, read-only like all that the kernels read: for another type numba would compile once more."""
    array.flags.writeable = False
    return array
