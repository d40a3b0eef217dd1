"""Assigns partitions to members: Kafka's four assignors, as the leader of a classic group runs them. Pure.

Each member offers the assignors that it knows, the coordinator chooses one that all offer, and the leader assigns the
partitions by it. Names, choices and user data are those of Kafka's Java client, so that either client may lead a group
of both. Racks are ignored: all members count as equally near to every broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.client.assignor import Assignor, Subscription, in_order
from barnabas.client.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.model.ids import TopicPartition


class RangeAssignor(Assignor):
    """Every member gets a run of partitions of each topic that it reads; the first members get one more."""

    name = "range"

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        ordered = in_order(members)
        for topic in sorted(partition_counts):
            readers = [member for member in ordered if topic in members[member].topics]
            if not readers:
                continue
            share, extra = divmod(partition_counts[topic], len(readers))
            first = 0
            for index, member in enumerate(readers):
                count = share + (index < extra)
                given[member].extend(TopicPartition(topic, number) for number in range(first, first + count))
                first += count
        return given


class RoundRobinAssignor(Assignor):
    """Deals out the partitions of all topics, one after the other, to one member after the other."""

    name = "roundrobin"

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        ordered = in_order(members)
        subscribed = {topic for subscription in members.values() for topic in subscription.topics}
        turn = 0
        for topic in sorted(subscribed & partition_counts.keys()):
            for number in range(partition_counts[topic]):
                while topic not in members[ordered[turn]].topics:
                    turn = (turn + 1) % len(ordered)
                given[ordered[turn]].append(TopicPartition(topic, number))
                turn = (turn + 1) % len(ordered)
        return given


def assignors_named(names: Sequence[str | Assignor]) -> list[Assignor]:
    """New assignors, since an assignor has a state. Raises ``ValueError`` for an unknown name."""
    known: dict[str, type[Assignor]] = {
        kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
    }
    made: list[Assignor] = []
    for name in names:
        if isinstance(name, Assignor):
            made.append(name)
            continue
        kind = known.get(name) or known.get(_JAVA_CLASSES.get(name.rpartition(".")[2], ""))
        if kind is None:
            raise ValueError(f"{name!r} is not an assignor; the assignors are {', '.join(known)}")
        made.append(kind())
    if not made:
        raise ValueError("a member of a group must have at least one assignor")
    return made


_JAVA_CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""As ``partition.assignment.strategy`` names them in Kafka's configuration."""
