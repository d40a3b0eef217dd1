"""Filters that Spark pushes down to a batch read: they exclude partitions and offsets."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from barnabas.spark.plan import OffsetRange

if TYPE_CHECKING:
    from barnabas.client.blocking import BlockingCluster
    from barnabas.model.ids import TopicPartition

_TESTS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    EqualTo: lambda found, given: bool(found == given),
    EqualNullSafe: lambda found, given: bool(found == given),
    In: lambda found, given: found in given,
    GreaterThan: lambda found, given: bool(found > given),
    GreaterThanOrEqual: lambda found, given: bool(found >= given),
    LessThan: lambda found, given: bool(found < given),
    LessThanOrEqual: lambda found, given: bool(found <= given),
}
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """The pushed-down filters: they hold for every record that is read.

    They choose topics and partitions, and narrow offsets. A lower bound on the timestamp moves the start to the first
    record that is not older (nothing before it can match); Spark still tests each record, since timestamps need not
    rise. For the same reason an upper bound does not move the end.
    """

    choices: tuple[Filter, ...] = ()
    offset_min: int = 0
    offset_max: int | None = None
    timestamp_min_ms: int | None = None

    def with_filters(self, filters: Iterable[Filter]) -> tuple[Self, list[Filter]]:
        """The options with `filters` added, and the filters that Spark has to apply itself."""
        pushed, left = self, []
        for given in filters:
            name = given.attribute[0] if len(getattr(given, "attribute", ())) == 1 else None
            value = getattr(given, "value", None)
            if isinstance(given, IsNotNull) and name in _NEVER_NULL:
                continue
            if name in ("topic", "partition") and type(given) in _TESTS:
                pushed = replace(pushed, choices=(*pushed.choices, given))
                continue
            if name == "offset" and isinstance(value, int):
                narrowed = pushed._with_offset(given, value)
                if narrowed is not None:
                    pushed = narrowed
                    continue
            if name == "timestamp" and isinstance(given, GreaterThan | GreaterThanOrEqual | EqualTo):
                pushed = pushed._with_timestamp(value)
            left.append(given)
        return pushed, left

    def _with_offset(self, given: Filter, value: int) -> Self | None:
        low, high = self.offset_min, self.offset_max
        if isinstance(given, EqualTo | EqualNullSafe | GreaterThanOrEqual):
            low = max(low, value)
        elif isinstance(given, GreaterThan):
            low = max(low, value + 1)
        if isinstance(given, EqualTo | EqualNullSafe | LessThanOrEqual):
            high = value + 1 if high is None else min(high, value + 1)
        elif isinstance(given, LessThan):
            high = value if high is None else min(high, value)
        return (
            None
            if (low, high) == (self.offset_min, self.offset_max)
            else replace(self, offset_min=low, offset_max=high)
        )

    def _with_timestamp(self, value: Any) -> Self:
        if not isinstance(value, datetime.datetime) or value.tzinfo is None:
            return self
        # Rounded down: a record's timestamp has milliseconds, the filter's has microseconds.
        timestamp_ms = max(0, int(value.timestamp() * 1000) - 1)
        return replace(self, timestamp_min_ms=max(timestamp_ms, self.timestamp_min_ms or 0))

    def takes(self, topic_partition: TopicPartition) -> bool:
        found = topic_partition._asdict()
        return all(_TESTS[type(choice)](found[choice.attribute[0]], choice.value) for choice in self.choices)

    def narrowed(self, whole: OffsetRange) -> OffsetRange:
        end = whole.end if self.offset_max is None else min(whole.end, self.offset_max)
        start = max(whole.start, self.offset_min)
        return whole._replace(start=start, end=max(start, end))

    def first_offsets(
        self, cluster: BlockingCluster, chosen: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int]:
        """The offset at which each partition begins by the lower bound on the timestamp; empty without a bound."""
        wanted = [partition for partition in chosen if self.takes(partition)]
        if self.timestamp_min_ms is None or not wanted:
            return {}
        listed = cluster.list_offsets(dict.fromkeys(wanted, self.timestamp_min_ms))
        return {
            partition: found.offset if found.offset >= 0 else chosen[partition][1]
            for partition, found in listed.items()
        }
