"""Which offsets a read covers, and how they are cut into Spark partitions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.ids import TopicPartition

_POSITIONS: Final = {"earliest": EARLIEST, "latest": LATEST}


class OffsetRange(NamedTuple):
    """Records of one topic partition with `start` <= offset < `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __len__(self) -> int:
        return max(0, self.end - self.start)


class Positions(NamedTuple):
    """Where a read starts or ends: `default` (`EARLIEST` or `LATEST`) or an offset for some partitions."""

    default: int
    by_partition: Mapping[TopicPartition, int]

    def of(self, topic_partition: TopicPartition) -> int:
        return self.by_partition.get(topic_partition, self.default)


def parse_positions(option: str, text: str, default: int) -> Positions:
    """``earliest``, ``latest`` or ``{"topic":{"0":23,"1":-2}}``, as the official connector takes it.

    In the JSON -2 is the earliest offset and -1 the latest. Raises ``ValueError`` naming the option.
    """
    word = text.strip().lower()
    if word in _POSITIONS:
        return Positions(_POSITIONS[word], {})
    try:
        given = json.loads(text)
        offsets = {
            TopicPartition(str(topic), int(partition)): int(offset)
            for topic, partitions in given.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"Option {option} is {text!r}: it takes earliest, latest or JSON such as "
            f'{{"topic":{{"0":23,"1":-2}}}} ({error}).'
        ) from None
    negative = [offset for offset in offsets.values() if offset < EARLIEST]
    if negative:
        raise ValueError(
            f"Option {option} has the offset {negative[0]}: only -2 (earliest) and -1 (latest) are below 0."
        )
    return Positions(default, offsets)


def parse_assignment(text: str) -> list[TopicPartition]:
    """``{"topic":[0,1]}``. Raises ``ValueError``."""
    try:
        return [TopicPartition(str(t), int(p)) for t, partitions in json.loads(text).items() for p in partitions]
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'Option assign is {text!r}: it takes JSON such as {{"topic":[0,1]}} ({error}).') from None


def cut(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Splits large ranges: at most `max_records` each, then in proportion to size until about `min_partitions` exist.

    Empty ranges are left out. The order of the input is kept.
    """
    wanted = [each for each in ranges if len(each)]
    if max_records is not None:
        wanted = [piece for each in wanted for piece in _pieces(each, -(-len(each) // max_records))]
    if min_partitions is not None and len(wanted) < min_partitions:
        total = sum(map(len, wanted))
        wanted = [piece for each in wanted for piece in _pieces(each, round(min_partitions * len(each) / total))]
    return wanted


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = max(1, min(count, len(whole)))
    edges = [whole.start + len(whole) * i // count for i in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, a, b) for a, b in pairwise(edges)]
