"""What a read covers and how it is cut; options and their sentences."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import (
    AtTimestamp,
    OffsetRange,
    Positions,
    TopicOffsets,
    admitted,
    by_topic,
    cut,
    offsets_from_json,
    offsets_to_json,
    parse_positions,
)

ranges = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 500), st.integers(0, 500)).map(
        lambda t: OffsetRange("t", t[0], min(t[1:]), max(t[1:]))
    ),
    max_size=8,
    unique_by=lambda each: each.partition,
)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 100))
def test_cutting_keeps_every_offset_once(
    given_ranges: list[OffsetRange], minimum: int | None, most: int | None
) -> None:
    pieces = cut(given_ranges, min_partitions=minimum, max_records=most)
    offsets = [(each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert offsets == [(each.partition, offset) for each in given_ranges for offset in range(each.start, each.end)]
    assert all(each.size > 0 for each in pieces)
    if most is not None:
        assert all(each.size <= most for each in pieces)


def test_one_large_partition_is_cut_into_as_many_pieces_as_are_wanted() -> None:
    assert len(cut([OffsetRange("t", 0, 0, 1000)], min_partitions=8)) == 8


def test_positions_are_read_as_the_official_connector_reads_them() -> None:
    assert parse_positions("startingOffsets", "earliest", EARLIEST).of(TopicPartition("t", 0)) == EARLIEST
    given_positions = parse_positions("endingOffsets", '{"t":{"0":23,"1":-1}}', LATEST)
    assert given_positions.of(TopicPartition("t", 0)) == 23
    assert given_positions.of(TopicPartition("t", 1)) == LATEST
    assert given_positions.of(TopicPartition("t", 2)) == LATEST


BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers"),
        ({}, "FROM t WITH (..)"),
        ({"kafka.bootstrap.servers": "h:1"}, "subscribe, subscribePattern and assign"),
        ({**BASE, "assign": '{"t":[0]}'}, "subscribe, subscribePattern and assign"),
        ({**BASE, "startingOffsets": "soon"}, "startingOffsets"),
        ({**BASE, "startingOffsets": "latest"}, "latest"),
        ({**BASE, "endingOffsets": "earliest"}, "earliest"),
        ({**BASE, "columns": "value,colour"}, "colour"),
        ({**BASE, "minPartitions": "0"}, "minPartitions"),
        ({**BASE, "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({**BASE, "subscripe": "t"}, "Did you mean subscribe?"),
        ({**BASE, "startingTimestamp": "soon"}, "startingTimestamp"),
        ({**BASE, "startingOffsetsByTimestamp": "soon"}, "milliseconds"),
        ({**BASE, "kafka.security.protocol": "TLS"}, "SASL_SSL"),
        ({**BASE, "kafka.security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({**BASE, "kafka.bootstrap.servers": "h:x"}, "host:port"),
        ({**BASE, "value.format": "xml"}, "json"),
        ({**BASE, "value.format": "json"}, "value.schema"),
        ({**BASE, "value.format": "avro"}, "value.schema.registry"),
        ({**BASE, "subscribePattern": "(", "subscribe": ""}, "subscribe"),
        ({**BASE, "columns": "value,value"}, "once"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": " ,"}, "subscribe is empty"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": ""}, "subscribePattern is empty"),
        ({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[]}'}, "must name a partition"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        SourceOptions.parse(options).for_batch()
    assert said in str(refused.value)


def test_blanks_around_a_pattern_are_none_of_it() -> None:
    pattern = {"kafka.bootstrap.servers": "h:1", "subscribePattern": " ^orders$ "}
    assert SourceOptions.parse(pattern).subscribe_pattern == "^orders$"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"filterPushdown": "true"}, "batch"),
        ({"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "5"}, "one limit"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "above"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
    ],
)
def test_what_a_stream_cannot_have_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SourceOptions.parse({**BASE, **options}).for_stream()


def test_batches_begin_at_the_start_and_streams_at_the_end_unless_told() -> None:
    batch, stream = SourceOptions.parse(BASE).for_batch(), SourceOptions.parse(BASE).for_stream()
    assert (batch.starting, batch.ending) == (Positions(EARLIEST, {}), Positions(LATEST, {}))
    assert stream.starting == Positions(LATEST, {})
    at = {"startingTimestamp": "17", "startingOffsetsByTimestamp": '{"t":{"0":1}}', "startingOffsets": "latest"}
    assert SourceOptions.parse({**BASE, **at}).starting == Positions(AtTimestamp(17), {})


def test_offsets_go_to_the_same_group_in_every_run_of_a_subscription() -> None:
    first, again = SourceOptions.parse(BASE), SourceOptions.parse({**BASE, "columns": "offset"})
    assert first.group_id == again.group_id
    assert first.group_id != SourceOptions.parse({**BASE, "subscribe": "other"}).group_id
    assert SourceOptions.parse({**BASE, "commitOffsets": "false"}).group_id is None
    assert SourceOptions.parse({**BASE, "groupId": "mine"}).group_id == "mine"


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 1000), st.integers(0, 1000))), st.integers(1, 2000))
def test_a_limited_batch_takes_exactly_its_share_from_what_waits(
    waiting: dict[int, tuple[int, int]], limit: int
) -> None:
    starts = {TopicPartition("t", number): min(pair) for number, pair in waiting.items()}
    ends = {TopicPartition("t", number): max(pair) for number, pair in waiting.items()}
    chosen = admitted(starts, ends, limit)
    assert all(starts[each] <= chosen[each] <= ends[each] for each in ends)
    taken = sum(chosen.values()) - sum(starts.values())
    assert taken == min(limit, sum(ends.values()) - sum(starts.values()))


def test_a_checkpoints_offset_is_read_back_as_it_was_written() -> None:
    topics = {"t": TopicOffsets(Uuid(bytes(range(16))), {0: 5, 10: 7}, {0: 1, 10: 7})}
    written = json.loads(json.dumps(offsets_to_json(topics)))
    assert offsets_from_json(written) == topics
    assert not topics["t"].initial
    with pytest.raises(ValueError, match="checkpointLocation"):
        offsets_from_json({"logOffset": 5})


def test_offsets_of_many_topics_are_put_in_order_by_looking_at_each_partition_once() -> None:
    class Counted(dict[TopicPartition, int]):
        looks = 0

        def __iter__(self) -> Any:
            for each in super().__iter__():
                self.looks += 1
                yield each

        def items(self) -> Any:
            self.looks += len(self)
            return super().items()

    offsets = Counted({TopicPartition(f"t{n % 200}", n // 200): n for n in range(1000)})
    found = by_topic(offsets, dict.fromkeys(offsets, Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")), {"t7": {}})
    assert list(found) == sorted({f"t{n}" for n in range(200)})
    assert found["t3"].next_offsets == {0: 3, 1: 203, 2: 403, 3: 603, 4: 803}
    assert (found["t3"].first, found["t7"].first) == (None, {})
    assert offsets.looks <= 3 * len(offsets)


def test_the_schema_is_the_official_connectors_and_columns_prune_it() -> None:
    assert SourceOptions.parse(BASE).schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
        "`timestampType` int"
    )
    pruned = SourceOptions.parse({**BASE, "Columns": "offset, value", "KAFKA.isolation.level": "read_committed"})
    assert pruned.schema() == "`offset` bigint, `value` binary"
    assert pruned.isolation_level == READ_COMMITTED


def test_options_of_the_connector_that_change_nothing_are_taken_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {**BASE, "kafkaConsumer.pollTimeoutMs": "512", "kafka.max.poll.records": "9", "groupIdPrefix": "team"}
    parsed = SourceOptions.parse(given)
    assert parsed.group_id is not None
    assert parsed.group_id.startswith("team-")
    SourceOptions.parse(given)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "kafka.max.poll.records, kafkaconsumer.polltimeoutms" in said[0]


@pytest.mark.parametrize("option", ["kafka.auto.offset.reset", "kafka.key.deserializer", "kafka.ssl.provider"])
def test_options_that_would_change_what_is_read_or_protected_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="has no option"):
        SourceOptions.parse({**BASE, option: "x"})


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match=r"startingTimestamp \(5\) is after endingTimestamp \(4\)"):
        SourceOptions.parse({**BASE, "startingTimestamp": "5", "endingTimestamp": "4"}).for_batch()
    SourceOptions.parse({**BASE, "startingTimestamp": "5", "endingTimestamp": "5"}).for_batch()


def test_options_that_only_the_other_side_obeys_are_no_errors() -> None:
    SourceOptions.parse({**BASE, "kafka.linger.ms": "5", "kafka.max.poll.records": "5"})
    with pytest.raises(ValueError, match=r"no option kafka\.sasl\.login\.class"):
        SourceOptions.parse({**BASE, "kafka.sasl.login.class": "x"})


def test_what_spark_says_of_a_table_of_its_catalog_is_no_option() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "earliest"}
    of_table = {**options, **{f"option.{name}": value for name, value in options.items()}}
    told = {"provider": "barnabas", "owner": "ann", "comment": "orders", "external": "true", "location": "file:/t"}
    assert SourceOptions.parse({**of_table, **told}) == SourceOptions.parse(options)
    with pytest.raises(ValueError, match=r"has no option option\.subscrieb"):
        SourceOptions.parse({**of_table, "option.subscrieb": "t"})
