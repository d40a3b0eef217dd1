"""Requests of the controller in shares.

A partition's change of role, or its deletion, waits for the disk: a millisecond or more. A request may name ten
thousand partitions. They are taken in shares, and whatever else there is to do has its turn between them: fetches, and
the heartbeats without which the session at ZooKeeper would expire, so that all of it began anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Final, Protocol, TypeVar

PARTITIONS_AT_ONCE: Final = 64


class OfTopic(Protocol):
    """What a request says of one topic's partitions."""

    partition_states: list[Any]


TopicT = TypeVar("TopicT", bound=OfTopic)


def shares(topics: Sequence[TopicT]) -> Iterator[list[TopicT]]:
    """The topics in their order, in shares of at most `PARTITIONS_AT_ONCE` partitions; at least one share."""
    share: list[TopicT] = []
    room = PARTITIONS_AT_ONCE
    for topic in topics:
        states = topic.partition_states
        while states:
            if not room:
                yield share
                share, room = [], PARTITIONS_AT_ONCE
            part = copy(topic)
            part.partition_states, states = states[:room], states[room:]
            share.append(part)
            room -= len(part.partition_states)
    yield share
