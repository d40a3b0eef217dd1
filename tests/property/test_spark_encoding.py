"""Compiled encoding writes what plain Python writes: any rows, batch sizes, codecs, topics, partitions and headers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.producing import PartitionQueue
from barnabas.model.ids import TopicPartition
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.sink_sending import Sending
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, check_crc, parse_header, records_of

pytest.importorskip("numba")

PARTITIONS = {"t": 3, "u": 1, "v": 40}
YOUNGEST_MS = 2**40
"""Of the rows' own timestamps; the clock is beyond it."""
TYPES = {
    "key": (BinaryType(), pyarrow.binary()),
    "value": (StringType(), pyarrow.string()),
    "topic": (StringType(), pyarrow.string()),
    "partition": (IntegerType(), pyarrow.int32()),
    "timestamp": (TimestampType(), pyarrow.timestamp("us", tz="UTC")),
    "headers": (
        ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
    ),
}


class Offline(BlockingProducer):
    """The producer up to where a batch would be sent."""

    def __init__(self, batch_bytes: int, compression: str) -> None:
        super().__init__(BlockingCluster("nowhere:1"), batch_bytes=batch_bytes, compression=compression)
        self._counts.update(PARTITIONS)
        self.pushed: list[TopicPartition] = []
        self.drained = 0

    async def _identify(self, queue: PartitionQueue) -> None:
        queue.producer_id, queue.epoch = 7, 1

    def _push(self, queue: PartitionQueue) -> None:
        """It stays among the partition's batches."""
        self.pushed.append(queue.id)

    def _drain(self) -> None:
        """They stay there."""
        self.drained += 1

    def written(self) -> dict[TopicPartition, list[bytes]]:
        return {each.id: [bytes(batch.encoded or b"") for batch in each.batches] for each in self._queues.values()}


def written(
    batches: list[pyarrow.RecordBatch], encoder: str, names: tuple[str, ...], batch_bytes: int, codec: str
) -> dict[TopicPartition, list[bytes]]:
    given_ = {"kafka.bootstrap.servers": "nowhere:1", "kafka.batch.size": str(batch_bytes), "encoder": encoder}
    if "topic" not in names:
        given_["topic"] = "t"
    schema = StructType([StructField(name, TYPES[name][0]) for name in names])
    producer = Offline(batch_bytes, codec)
    sending = Sending(producer, SinkOptions.parse(given_, schema, streaming=False))
    for batch in batches:
        sending.send(batch)
    sending.flush()
    return producer.written()


def held(record: Record) -> tuple[Any, ...]:
    """What a row said; the clock's time counts as none."""
    timestamp = record.timestamp if record.timestamp <= YOUNGEST_MS else None
    return record.key, record.value, timestamp, [tuple(each) for each in record.headers]


data = st.none() | st.binary(max_size=70) | st.binary(min_size=120, max_size=140)
text = st.none() | st.text(max_size=12)
rows = st.fixed_dictionaries(
    {
        "key": data,
        "value": text,
        "topic": st.sampled_from(list(PARTITIONS)),
        "partition": st.none() | st.just(0),
        # Microseconds: a record has milliseconds, rounded down.
        "timestamp": st.none() | st.integers(-5_000_000, YOUNGEST_MS * 1000),
        "headers": st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": data}), max_size=3),
    }
)
columns = st.sets(st.sampled_from(["key", "topic", "partition", "timestamp", "headers"]))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(rows, max_size=25), min_size=1, max_size=3),
    columns,
    st.sampled_from([1, 100, 400, 100_000]),
    st.sampled_from([codec.name.lower() for codec in Codec]),
    st.integers(0, 3),
)
def test_both_encoders_write_the_same_records(
    lots: list[list[dict[str, Any]]], chosen: set[str], batch_bytes: int, codec: str, skip: int
) -> None:
    names = ("value", *sorted(chosen))
    schema = pyarrow.schema([(name, TYPES[name][1]) for name in names])
    # A slice has offsets of its own in Arrow.
    batches = [
        pyarrow.RecordBatch.from_pylist([{name: row[name] for name in names} for row in lot], schema=schema)[skip:]
        for lot in lots
    ]
    plain, compiled = (written(batches, encoder, names, batch_bytes, codec) for encoder in ("python", "compiled"))
    found: dict[str, dict[str, list[Any]]] = {}
    for name, those in (("plain", plain), ("compiled", compiled)):
        by_topic = found[name] = defaultdict(list)
        for (topic, partition), encoded in those.items():
            records = [record for batch in encoded for record in records_of(batch, 0, len(batch))]
            # Which partition takes what has no key and names none is left to the producer, in both ways.
            fixed = [held(each) for each in records if each.key is not None]
            by_topic[topic] += [(-1, repr(held(each))) for each in records if each.key is None]
            by_topic[topic] += [(partition, repr(each)) for each in enumerate(fixed)]
        for records in by_topic.values():
            records.sort()
    assert found["compiled"] == found["plain"]
    for encoded in compiled.values():
        sequence = 0
        for batch in encoded:
            header = parse_header(batch)
            records = records_of(batch, 0, len(batch))
            check_crc(batch, 0, len(batch))
            assert [each.offset for each in records] == list(range(header.record_count))
            assert header.max_timestamp == max(each.timestamp for each in records)
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, sequence)
            assert codec != "none" or len(batch) <= batch_bytes or header.record_count == 1
            sequence += header.record_count


def test_both_encoders_put_a_row_where_it_says_and_refuse_a_partition_that_is_not_there() -> None:
    names = ("value", "partition")
    schema = pyarrow.schema([(name, TYPES[name][1]) for name in names])
    given_ = [{"value": str(number), "partition": number % 3} for number in range(30)]
    good = pyarrow.RecordBatch.from_pylist(given_, schema=schema)
    bad = pyarrow.RecordBatch.from_pylist([*given_, {"value": "x", "partition": 3}], schema=schema)
    for encoder in ("python", "compiled"):
        for (_, partition), (batch,) in written([good], encoder, names, 1000, "none").items():
            values = [each.value for each in records_of(batch, 0, len(batch))]
            assert values == [b"%d" % number for number in range(partition, 30, 3)]
        with pytest.raises(ValueError, match="Topic 't' has the partitions 0 to 2, not 3"):
            written([bad], encoder, names, 1000, "none")


@pytest.mark.parametrize("encoder", ["python", "compiled"])
def test_a_header_without_key_and_a_row_without_topic_are_refused(encoder: str) -> None:
    for name, wrong, sentence in (
        ("headers", [{"key": None, "value": b"x"}], "header that is null, or whose key is null"),
        ("headers", [None], "header that is null, or whose key is null"),
        ("topic", None, "A row's topic is null"),
    ):
        names = ("value", name)
        schema = pyarrow.schema([(each, TYPES[each][1]) for each in names])
        batch = pyarrow.RecordBatch.from_pylist([{"value": "v", name: wrong}], schema=schema)
        with pytest.raises(ValueError, match=sentence):
            written([batch], encoder, names, 1000, "none")


def test_keyless_rows_take_one_partition_after_another_a_batch_each() -> None:
    batch = pyarrow.RecordBatch.from_pydict({"value": pyarrow.array(["x" * 50] * 100, pyarrow.string())})
    found = written([batch], "compiled", ("value",), 1000, "none")
    assert set(found) == {TopicPartition("t", each) for each in range(PARTITIONS["t"])}
    counts = sorted(len(each) for each in found.values())
    assert counts[-1] - counts[0] <= 1


def test_full_batches_go_at_once_and_the_rest_together_at_the_end_or_when_it_grows_beyond_the_buffer() -> None:
    schema = pyarrow.schema([("value", pyarrow.string()), ("partition", pyarrow.int32())])
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": "nowhere:1", "topic": "v", "kafka.batch.size": "2000000", "encoder": "compiled"},
        StructType([StructField("value", StringType()), StructField("partition", IntegerType())]),
        streaming=False,
    )

    def send(given_: list[tuple[int, int]], size: int) -> Offline:
        producer = Offline(options.batch_bytes, "none")
        sending = Sending(producer, options)
        for partition, count in given_:
            lot = [{"value": "x" * size, "partition": partition}] * count
            sending.send(pyarrow.RecordBatch.from_pylist(lot, schema=schema))
        before = producer.drained
        sending.flush()
        assert producer.drained == before + 1
        return producer

    few = send([(0, 25), (1, 5), (2, 5)], 100_000)
    assert few.pushed == [TopicPartition("v", 0)]
    assert few.drained == 1
    many = send([(each, 9) for each in range(40)], 100_000)  # 36 MB, and no batch of them full
    assert many.pushed == []
    assert many.drained == 2
    assert all(len(batches) == 1 for batches in many.written().values())
