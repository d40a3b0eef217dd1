"""Whether what readers found in the end is what producers and consumers were told. Values are sent once each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.model.ids import TopicPartition

Place = tuple[TopicPartition, int]
"""A partition and an offset in it."""


def acknowledged_survive(
    acknowledged: Mapping[bytes, Place], sent: Iterable[bytes], found: Mapping[Place, bytes]
) -> list[str]:
    """R7 and T1: every acknowledged value is there, once, where the producer was told; none was never sent.

    For idempotent producers that send every value once. `found` is everything a reader was given in the end.
    """
    wrong: list[str] = []
    places: dict[bytes, list[Place]] = {}
    for place, value in found.items():
        places.setdefault(value, []).append(place)
    for value, (topic_partition, offset) in acknowledged.items():
        at = places.get(value, [])
        if not at:
            wrong.append(f"R7: {value[:40]!r} was acknowledged at {topic_partition}@{offset} and is lost")
        elif offset >= 0 and (topic_partition, offset) not in at:
            wrong.append(f"R7: {value[:40]!r} was acknowledged at {topic_partition}@{offset} and is at {_named(at)}")
    wrong += [
        f"T1: {value[:40]!r} is there more than once: {_named(at)}" for value, at in places.items() if len(at) > 1
    ]
    known = frozenset(sent)
    wrong += [
        f"R10: {value[:40]!r} at {_named(at)} was never sent" for value, at in places.items() if value not in known
    ]
    return wrong


def order_is_kept(found: Mapping[Place, bytes], origin: Callable[[bytes], tuple[str, int]]) -> list[str]:
    """T1: what one idempotent producer sent to a partition is there in the order in which it was sent.

    `origin` tells of a value which producer sent it, and as its how many-eth.
    """
    wrong: list[str] = []
    last: dict[tuple[str, TopicPartition], int] = {}
    for (topic_partition, offset), value in sorted(found.items()):
        producer, number = origin(value)
        before = last.get((producer, topic_partition), -1)
        if number <= before:
            wrong.append(f"T1: record {number} of {producer} is at {topic_partition}@{offset}, after {before}")
        last[producer, topic_partition] = max(number, before)
    return wrong


def reads_stay(read: Mapping[Place, bytes], found: Mapping[Place, bytes]) -> list[str]:
    """R10: what a consumer was once given is still there, unchanged."""
    return [
        f"R10: {place[0]}@{place[1]} was read as {value[:40]!r} and is {found.get(place, b'gone')[:40]!r}"
        for place, value in read.items()
        if found.get(place) != value
    ]


def _named(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic_partition}@{offset}" for topic_partition, offset in places)
