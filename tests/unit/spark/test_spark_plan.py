"""What a read covers and how it is cut; options and their sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange, cut, parse_positions

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
    assert all(len(each) > 0 for each in pieces)
    if most is not None:
        assert all(len(each) <= most for each in pieces)


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
        ({"kafka.bootstrap.servers": "h:1"}, "subscribe, subscribePattern and assign"),
        ({**BASE, "assign": '{"t":[0]}'}, "subscribe, subscribePattern and assign"),
        ({**BASE, "startingOffsets": "soon"}, "startingOffsets"),
        ({**BASE, "startingOffsets": "latest"}, "latest"),
        ({**BASE, "endingOffsets": "earliest"}, "earliest"),
        ({**BASE, "columns": "value,colour"}, "colour"),
        ({**BASE, "minPartitions": "0"}, "minpartitions"),
        ({**BASE, "failOnDataLoss": "maybe"}, "failondataloss"),
        ({**BASE, "subscripe": "t"}, "subscripe"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        SourceOptions.parse(options)
    assert said in str(refused.value)


def test_the_schema_is_the_official_connectors_and_columns_prune_it() -> None:
    assert SourceOptions.parse(BASE).schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
        "`timestampType` int"
    )
    pruned = SourceOptions.parse({**BASE, "Columns": "offset, value", "KAFKA.isolation.level": "read_committed"})
    assert pruned.schema() == "`offset` bigint, `value` binary"
    assert pruned.isolation_level == READ_COMMITTED
