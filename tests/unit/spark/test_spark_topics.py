"""From which offset to which a read goes: by offsets, by timestamps, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.ids import TopicPartition
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import AtTimestamp, Bounds, Positions
from barnabas.spark.topics import resolved

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
WITHIN = {ZERO: Bounds(5, 50), ONE: Bounds(0, 9)}


class Listing:
    """A cluster where each record has its offset for its timestamp."""

    def list_offsets(self, wanted: dict[TopicPartition, int], *, isolation_level: int) -> Any:
        return {each: SimpleNamespace(offset=at if at < WITHIN[each].high else -1) for each, at in wanted.items()}


def found(positions: Positions, *, start: bool = True, **options: str) -> dict[TopicPartition, int]:
    cluster: Any = Listing()
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options}
    return resolved(cluster, positions, WITHIN, SourceOptions.parse(given).for_batch(), start=start)


def test_offsets_are_taken_as_they_are_and_two_of_them_stand_for_the_bounds() -> None:
    assert found(Positions(EARLIEST, {ZERO: EARLIEST, ONE: LATEST})) == {ZERO: 5, ONE: 9}
    assert found(Positions(EARLIEST, {ZERO: 7, ONE: 99})) == {ZERO: 7, ONE: 99}


def test_a_timestamp_behind_every_record_is_the_end_where_a_read_ends_and_no_place_to_begin_at() -> None:
    at = Positions(EARLIEST, {ZERO: AtTimestamp(20), ONE: AtTimestamp(20)})
    assert found(at, start=False) == {ZERO: 20, ONE: 9}
    with pytest.raises(ValueError, match="t-1 has no record at or after the timestamp 20"):
        found(at)
    assert found(at, startingOffsetsByTimestampStrategy="latest") == {ZERO: 20, ONE: 9}


def test_partitions_that_are_forgotten_or_not_there_are_named() -> None:
    with pytest.raises(ValueError, match="Offsets are given for t-7, which the read does not cover"):
        found(Positions(EARLIEST, {ZERO: 7, ONE: 1, TopicPartition("t", 7): 1}))
    with pytest.raises(ValueError, match="not for t-1: name each of them"):
        found(Positions(EARLIEST, {ZERO: 7}))
