"""The offsets of a read, and how they are divided into Spark partitions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid

_POSITIONS: Final = {"earliest": EARLIEST, "latest": LATEST}


class OffsetRange(NamedTuple):
    """Records of one topic partition with `start` <= offset < `end`; `topic_id` tells topics of one name apart."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: Uuid = ZERO_UUID

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.start}, {self.end})"


class DataLoss(RuntimeError):
    """Records that a read was to cover are not in the topic any more."""


def lost(what: OffsetRange, why: str) -> str:
    """The sentence about records that were to be read and are gone."""
    return (
        f"{what.topic_partition}: offsets {what.start} to {what.end - 1} are gone, because {why}. Set "
        "failOnDataLoss=false to go on without them."
    )


class Bounds(NamedTuple):
    """A partition's current offsets: the first one, and the one after the last that may be read."""

    low: int
    high: int


class AtTimestamp(NamedTuple):
    """The first record whose timestamp is not below `timestamp_ms`."""

    timestamp_ms: int


Position: TypeAlias = "int | AtTimestamp"
"""An offset, `EARLIEST`, `LATEST` or a timestamp."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where a read starts or ends: `default`, and other positions for some partitions."""

    default: Position
    by_partition: Mapping[TopicPartition, Position]

    def of(self, topic_partition: TopicPartition) -> Position:
        return self.by_partition.get(topic_partition, self.default)

    def mentions(self, offset: int) -> bool:
        return self.default == offset or offset in self.by_partition.values()


def parse_positions(option: str, text: str, default: Position) -> Positions:
    """``earliest``, ``latest`` or ``{"topic":{"0":23,"1":-2}}``, as the official connector takes it.

    In the JSON -2 is the earliest offset and -1 the latest. Raises ``ValueError`` naming the option.
    """
    word = text.strip().lower()
    if word in _POSITIONS:
        return Positions(_POSITIONS[word], {})
    offsets = _by_partition(option, text, 'earliest, latest or JSON such as {"topic":{"0":23,"1":-2}}')
    negative = [offset for offset in offsets.values() if offset < EARLIEST]
    if negative:
        raise ValueError(
            f"Option {option} has the offset {negative[0]}: only -2 (earliest) and -1 (latest) are below 0."
        )
    return Positions(default, offsets)


def parse_timestamps(option: str, text: str, default: Position) -> Positions:
    """``{"topic":{"0":1700000000000}}``, milliseconds. Raises ``ValueError`` naming the option."""
    timestamps = _by_partition(option, text, 'JSON such as {"topic":{"0":1700000000000}}, in milliseconds')
    return Positions(default, {partition: AtTimestamp(timestamp_ms) for partition, timestamp_ms in timestamps.items()})


def _by_partition(option: str, text: str, taken: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(str(topic), int(partition)): int(number)
            for topic, partitions in json.loads(text).items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"Option {option} is {text!r}: it takes {taken} ({error}).") from None


def parse_assignment(text: str) -> list[TopicPartition]:
    """``{"topic":[0,1]}``. Raises ``ValueError``."""
    try:
        named = [TopicPartition(str(t), int(p)) for t, partitions in json.loads(text).items() for p in partitions]
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'Option assign is {text!r}: it takes JSON such as {{"topic":[0,1]}} ({error}).') from None
    if not named:
        raise ValueError(f"Option assign is {text!r}: it must name a partition.")
    return named


def cut(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Splits large ranges: at most `max_records` each, then in proportion to size until about `min_partitions` exist.

    Empty ranges are left out. The order of the input is kept.
    """
    wanted = [whole for whole in ranges if whole.size]
    if max_records is not None:
        wanted = [piece for whole in wanted for piece in _pieces(whole, -(-whole.size // max_records))]
    if min_partitions is not None and len(wanted) < min_partitions:
        total = sum(whole.size for whole in wanted)
        wanted = [piece for whole in wanted for piece in _pieces(whole, round(min_partitions * whole.size / total))]
    return wanted


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = max(1, min(count, whole.size))
    edges = [whole.start + whole.size * i // count for i in range(count + 1)]
    return [whole._replace(start=a, end=b) for a, b in pairwise(edges)]


def admitted(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, int]:
    """Ends of a micro-batch of at most `max_records`, in proportion to the waiting records (Spark's ``rateLimit``).

    If records wait, some are admitted: the sum is exactly `max_records`, or all of them.
    """
    waiting = {partition: max(0, end - starts.get(partition, end)) for partition, end in ends.items()}
    total = sum(waiting.values())
    if total <= max_records:
        return dict(ends)
    shares = {partition: count * max_records // total for partition, count in waiting.items()}
    # The rest after rounding goes to the partitions with the largest remainders, so that even one record a batch works.
    left = max_records - sum(shares.values())
    for partition in sorted(waiting, key=lambda name: (-(waiting[name] * max_records % total), name))[:left]:
        shares[partition] += 1
    return {partition: starts.get(partition, ends[partition]) + shares[partition] for partition in ends}


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """One topic in a streaming offset: the next offset of each partition, and where the query's first batch began."""

    topic_id: Uuid
    next_offsets: Mapping[int, int]
    first: Mapping[int, int] | None = None
    """Set only in the initial offset and in the end of the first batch. Spark asks for the initial offset again when it
    repeats that batch, and by then "latest" would have moved."""

    @property
    def initial(self) -> bool:
        return self.first is not None and self.first == self.next_offsets


def by_topic(
    offsets: Mapping[TopicPartition, int],
    topic_ids: Mapping[TopicPartition, Uuid],
    firsts: Mapping[str, Mapping[TopicPartition, int]] | None = None,
) -> dict[str, TopicOffsets]:
    """`firsts`: for topics whose first batch this is, the offsets where it began.

    A pattern may match thousands of topics: each partition is looked at once.
    """
    mine: dict[str, list[TopicPartition]] = {}
    for place in offsets:
        mine.setdefault(place.topic, []).append(place)
    found: dict[str, TopicOffsets] = {}
    for name, partitions in sorted(mine.items()):
        first = (firsts or {}).get(name)
        found[name] = TopicOffsets(
            topic_ids[partitions[0]],
            {place.partition: offsets[place] for place in partitions},
            None if first is None else {place.partition: first[place] for place in partitions if place in first},
        )
    return found


def offsets_to_json(topics: Mapping[str, TopicOffsets]) -> dict[str, Any]:
    """A checkpoint's offset: ``{"orders": {"id": "qJ..", "offsets": {"0": 15}}}``."""
    written: dict[str, Any] = {}
    for name, topic in sorted(topics.items()):
        written[name] = {"id": str(topic.topic_id), "offsets": _with_text_keys(topic.next_offsets)}
        if topic.first is not None:
            written[name]["first"] = _with_text_keys(topic.first)
    return written


def offsets_from_json(written: Mapping[str, Any]) -> dict[str, TopicOffsets]:
    """The inverse. Takes the official connector's ``{"orders": {"0": 15}}`` as well, which has no topic ids.

    Raises ``ValueError`` for other text.
    """
    try:
        return {
            name: TopicOffsets(ZERO_UUID, _with_number_keys(topic))
            if is_official(topic)
            else TopicOffsets(
                Uuid.parse(topic["id"]),
                _with_number_keys(topic["offsets"]),
                _with_number_keys(topic["first"]) if "first" in topic else None,
            )
            for name, topic in written.items()
        }
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"The checkpoint's offset {json.dumps(written)[:200]} is not of format('barnabas'): give this query a "
            "checkpointLocation of its own."
        ) from None


def is_official(topic: Any) -> bool:
    """Whether these are a topic's next offsets as the official connector writes them: ``{"0": 15}``."""
    return (
        isinstance(topic, dict)
        and bool(topic)
        and all(partition.isdecimal() and type(offset) is int and offset >= 0 for partition, offset in topic.items())
    )


def _with_text_keys(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _with_number_keys(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}
