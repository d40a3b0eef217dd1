"""The sink's options and marker: what is refused, in words that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from barnabas.client.offsets import CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.delivery import explained
from barnabas.spark.sink_marker import Marker, SinkError, TaskTransaction, is_in, successor
from barnabas.spark.sink_options import Delivery, SinkOptions

VALUE = StructType([StructField("value", StringType())])
GIVEN = {"kafka.bootstrap.servers": "h:1", "topic": "t", "sinkId": "s"}


def parse(schema: StructType = VALUE, *, streaming: bool = True, **options: str | None) -> SinkOptions:
    given = {**GIVEN, **{name.replace("__", "."): value for name, value in options.items()}}
    return SinkOptions.parse(
        {name: each for name, each in given.items() if each is not None}, schema, streaming=streaming
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": None}, "The rows have no topic"),
        ({"sinkId": None}, "sinkId is missing.*at-least-once"),
        ({"sinkId": "a b"}, "sinkId is 'a b'"),
        ({"delivery": "often"}, "exactly-once or exactly-once-by-task or at-least-once"),
        ({"encoder": "fast"}, "encoder is 'fast': it takes auto or compiled or python"),
        ({"kafka__acks": "1"}, "kafka.acks is '1': it takes all or -1"),
        ({"kafka__compression__type": "brotli"}, "kafka.compression.type: 'brotli' is no compression codec"),
        ({"kafka__batch__size": "0"}, "kafka.batch.size is '0'"),
        ({"sinkid2": "x"}, "no option sinkid2. Did you mean sinkId"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_takes(options: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse(**options)


def test_blanks_around_a_topic_are_not_its_name() -> None:
    assert parse(topic=" t ").topic == "t"
    assert parse(markerTopic=" m ").marker_topic == "m"
    with pytest.raises(ValueError, match="The rows have no topic"):
        parse(topic=" ")


def test_columns_are_checked_and_what_is_not_the_sinks_is_left_out() -> None:
    rows = StructType([StructField("value", StringType()), StructField("note", StringType())])
    assert parse(rows).columns == ("value",)
    with pytest.raises(ValueError, match="no column value; they have note"):
        parse(StructType([StructField("note", StringType())]))
    with pytest.raises(ValueError, match="Column key is int: the sink takes binary or string"):
        parse(StructType([*VALUE.fields, StructField("key", IntegerType())]))
    by_row = StructType([*VALUE.fields, StructField("topic", StringType())])
    with pytest.raises(ValueError, match="markerTopic is missing"):
        parse(by_row, topic=None)
    assert parse(by_row, topic=None, markerTopic="m").marker_topic == "m"


@pytest.mark.parametrize("location", ["{}", "file:{}", "file://{}"])
def test_a_sink_without_a_name_has_its_querys_id(tmp_path: Path, location: str) -> None:
    checkpoint = tmp_path / "a checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"3f0e7a52-6a3e-4a53-9d6a-8f1d2a1c0b11"}')
    where = location.format(checkpoint if ":" not in location else str(checkpoint).replace(" ", "%20"))
    assert parse(sinkId=None, checkpointLocation=where).sink_id == "3f0e7a52-6a3e-4a53-9d6a-8f1d2a1c0b11"
    assert parse(checkpointLocation=where).sink_id == "s"


@pytest.mark.parametrize("location", ["s3a://bucket/checkpoint", "/no/such/checkpoint"])
def test_a_checkpoint_that_cannot_be_read_here_names_no_sink(location: str) -> None:
    with pytest.raises(ValueError, match="sinkId is missing"):
        parse(sinkId=None, checkpointLocation=location)


def test_a_batch_write_needs_no_sink_id() -> None:
    assert parse(streaming=False, sinkId=None).delivery is Delivery.AT_LEAST_ONCE
    assert parse(streaming=False, delivery="at-least-once").delivery is Delivery.AT_LEAST_ONCE


@pytest.mark.parametrize("delivery", ["exactly-once", "exactly-once-by-task"])
def test_a_batch_write_does_not_promise_what_it_cannot_keep(delivery: str) -> None:
    with pytest.raises(ValueError, match=f"delivery is '{delivery}', and a batch write is at-least-once"):
        parse(streaming=False, delivery=delivery)


def test_a_marker_is_read_as_it_was_written() -> None:
    marker = successor(None, "q", 7, [TaskTransaction(3, 2**40, 9), TaskTransaction(4, 5, 0)])
    assert Marker.of(marker.committed(), "s") == marker
    assert Marker.of(CommittedOffset(-1), "s") is None
    with pytest.raises(SinkError, match="choose another sinkId"):
        Marker.of(CommittedOffset(5, "somebody's"), "s")


def test_a_batch_is_in_when_its_query_marked_it() -> None:
    marker = Marker(4, "q", 7)
    assert is_in(marker, "q", 7, sink_id="s", take_over=False)
    assert not is_in(marker, "q", 8, sink_id="s", take_over=False)
    assert not is_in(None, "q", 0, sink_id="s", take_over=False)
    assert not is_in(marker, "other", 0, sink_id="s", take_over=True)
    for query, batch in (("q", 6), ("other", 0)):
        with pytest.raises(SinkError, match="takeOver"):
            is_in(marker, query, batch, sink_id="s", take_over=False)


@pytest.mark.parametrize("said", ["Topic 't' is not there: create it.", "t-0: MESSAGE_TOO_LARGE"])
def test_a_refusal_ends_with_one_full_stop_and_what_to_do(said: str) -> None:
    with pytest.raises(SinkError) as refused, explained(parse(), "Task 0"):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, said)
    assert str(refused.value) == f"Task 0 failed: {said.rstrip('.')}."
