"""Filters that are handed down: what is read and then filtered by Spark is what filtering everything gives."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from barnabas.spark.filters import Pushed
from barnabas.spark.plan import OffsetRange

COMPARED = {
    EqualTo: lambda found, given: found == given,
    GreaterThan: lambda found, given: found > given,
    GreaterThanOrEqual: lambda found, given: found >= given,
    LessThan: lambda found, given: found < given,
    LessThanOrEqual: lambda found, given: found <= given,
}


def holds(each: Filter, row: dict[str, Any]) -> bool:
    if isinstance(each, In):
        return row[each.attribute[0]] in each.value
    if isinstance(each, IsNotNull):
        return True
    if isinstance(each, Not):
        return not holds(each.child, row)
    return COMPARED[type(each)](row[each.attribute[0]], each.value)


EVERY = [OffsetRange("t", partition, 0, 10) for partition in range(3)]


def read_of(pushed: Pushed) -> list[OffsetRange]:
    return [pushed.narrowed(each) for each in EVERY if pushed.takes(each.topic_partition)]


def rows(ranges: list[OffsetRange], tests: list[Filter]) -> list[tuple[int, int]]:
    found = [{"partition": each.partition, "offset": n} for each in ranges for n in range(each.start, each.end)]
    return [(row["partition"], row["offset"]) for row in found if all(holds(test, row) for test in tests)]


compared = st.builds(
    lambda kind, name, value: kind((name,), value),
    st.sampled_from(list(COMPARED)), st.sampled_from(["partition", "offset"]), st.integers(-2, 12),
)  # fmt: skip
chosen = st.builds(
    lambda name, values: In((name,), tuple(values)),
    st.sampled_from(["partition", "offset"]), st.lists(st.integers(0, 9), max_size=4),
)  # fmt: skip
filters = st.lists(compared | chosen | st.builds(Not, compared) | st.just(IsNotNull(("offset",))), max_size=5)


@given(filters)
def test_filters_handed_down_and_those_left_give_what_all_of_them_give(given_filters: list[Filter]) -> None:
    pushed, left = Pushed().with_filters(given_filters)
    assert all(any(each is one for one in given_filters) for each in left)
    assert rows(read_of(pushed), left) == rows(EVERY, given_filters)


@pytest.mark.parametrize("kind", COMPARED, ids=lambda kind: kind.__name__)
def test_each_comparison_with_an_offset_is_exact_and_leaves_nothing_to_spark(kind: type[Filter]) -> None:
    for value in range(1, 9):
        pushed, left = Pushed().with_filters([kind(("offset",), value)])
        assert (rows(read_of(pushed), []), left) == (rows(EVERY, [kind(("offset",), value)]), [])


def test_a_lower_bound_on_the_timestamp_is_used_and_still_left_to_spark() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    later, name = GreaterThanOrEqual(("timestamp",), moment), StringStartsWith(("topic",), "t")
    pushed, left = Pushed().with_filters([later, LessThan(("timestamp",), moment), name])
    assert pushed.timestamp_min_ms is not None
    assert pushed.timestamp_min_ms <= moment.timestamp() * 1000
    assert later in left
    assert name in left
    assert len(left) == 3
