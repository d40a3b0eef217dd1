"""Divides long requests of the controller into shares.

Creating a log waits for the disk several times, deleting one waits once: milliseconds each. A request may name ten
thousand partitions. They are handled in shares, between which the broker does its other work: fetches, and the
heartbeats without which its ZooKeeper session would expire, so that all of it would begin anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Final, Protocol, TypeVar

PARTITIONS_AT_ONCE: Final = 64
NEW_LOG: Final = 16
"""A partition whose log has to be made counts as this many partitions."""

StateT = TypeVar("StateT")


class OfTopic(Protocol):
    """A request's entries for one topic's partitions."""

    topic_name: str
    partition_states: list[Any]


TopicT = TypeVar("TopicT", bound=OfTopic)


def one(name: str, state: object) -> int:
    """The cost of an ordinary partition."""
    return 1


def shares(topics: Iterable[TopicT], cost: Callable[[str, Any], int] = one) -> Iterator[list[TopicT]]:
    """The topics in their order, in shares of at most `PARTITIONS_AT_ONCE` partitions; at least one share.

    `cost` tells, from a topic's name and a partition's state, as how many partitions that one counts.
    """
    states = ((topic, state) for topic in topics for state in topic.partition_states)
    for portion in portions(states, lambda element: cost(element[0].topic_name, element[1])):
        share: list[TopicT] = []
        whole: TopicT | None = None
        for topic, state in portion:
            if topic is not whole:
                whole, part = topic, copy(topic)
                part.partition_states = []
                share.append(part)
            part.partition_states.append(state)
        yield share


def portions(states: Iterable[StateT], cost: Callable[[StateT], int]) -> Iterator[list[StateT]]:
    """The states in their order, in lists that cost at most `PARTITIONS_AT_ONCE` together, or hold one state; at least
    one list."""
    portion: list[StateT] = []
    room = PARTITIONS_AT_ONCE
    for state in states:
        takes = cost(state)
        if takes > room and portion:
            yield portion
            portion, room = [], PARTITIONS_AT_ONCE
        portion.append(state)
        room -= takes
    yield portion
