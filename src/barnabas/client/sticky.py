"""Kafka's sticky assignors: balance first, then as few moves as possible (``AbstractStickyAssignor``).

If all members want the same topics, quotas say how many partitions each may keep, and the rest is dealt out
(`_Constrained`). If their topics differ, each partition goes to the member with the fewest, and partitions move as long
as that makes the group more even (`_General`). Members are taken in the order of their ids; Java takes the order of a
hash map.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.client.assignor import NO_GENERATION, Assignor, Subscription
from barnabas.model.ids import TopicPartition, numbers_by_topic

Assignment = dict[str, list[TopicPartition]]

_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")


class Claim(NamedTuple):
    """The partitions that a member claims to own, and the generation in which it got them, if it names one."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


class _Owned(NamedTuple):
    """The partitions that members may keep."""

    by_member: Assignment
    claimed_twice: set[TopicPartition]
    """Partitions that two members claim in one generation: neither keeps them."""
    generation: int
    """The highest generation that a member claims."""


class AbstractStickyAssignor(Assignor):
    @abstractmethod
    def claim(self, subscription: Subscription) -> Claim: ...

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        return self._assign(partition_counts, members)[0]

    def _assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> tuple[Assignment, dict[TopicPartition, str]]:
        """The assignment, and the new owner of each partition that another member may still hold."""
        claims = {member: self.claim(members[member]) for member in sorted(members)}
        owned = _owned(claims, partition_counts, members)
        if len({frozenset(subscription.topics) for subscription in members.values()}) <= 1:
            dealt = _Constrained(partition_counts, owned)
            return dealt.assignment, dealt.transferred
        assignment = _General(partition_counts, members, claims, owned).assignment
        return assignment, _transferred(members, assignment)


def _owned(
    claims: Mapping[str, Claim], partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
) -> _Owned:
    """The partitions that members may keep: one that two members claim belongs to that of the later generation."""
    by_member: Assignment = {}
    owner: dict[TopicPartition, str] = {}
    claimed_twice: set[TopicPartition] = set()
    highest = NO_GENERATION
    for member, (partitions, since) in claims.items():
        generation = NO_GENERATION if since is None else since
        highest = max(highest, generation)
        mine = by_member[member] = []
        for partition in partitions:
            if not 0 <= partition.partition < partition_counts.get(partition.topic, 0):
                continue  # its topic was deleted, and perhaps created again with fewer partitions
            other = owner.get(partition)
            others = NO_GENERATION if other is None else members[other].generation
            if other is None or generation > others:
                mine.append(partition)
            elif generation == others:
                claimed_twice.add(partition)
            else:
                continue
            if other is not None and partition in by_member[other]:
                by_member[other].remove(partition)
            owner[partition] = member
    return _Owned(by_member, claimed_twice, highest)


def _transferred(members: Mapping[str, Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """The new owner of each partition that another member has, by partition."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, assigned in assignment.items():
        before, after = set(members[member].owned), set(assigned)
        added.update({partition: member for partition in assigned if partition not in before})
        revoked |= before - after
    return {partition: member for partition, member in added.items() if partition in revoked}


class _Constrained:
    """All members want the same topics: each gets the quota, some one more."""

    def __init__(self, partition_counts: Mapping[str, int], owned: _Owned) -> None:
        total = sum(partition_counts.values())
        self._owned = owned
        self._quota, self._larger_shares = divmod(total, len(owned.by_member))
        """How many partitions each member gets at least; how many members get one more."""
        self._larger = 0
        self._below_quota: list[str] = []
        self._at_quota: deque[str] = deque()
        """Members that have the quota, and may get one more."""
        self._perhaps_revoked: dict[TopicPartition, str] = {}
        self.assignment: Assignment = {member: [] for member in owned.by_member}
        self.transferred: dict[TopicPartition, str] = {}
        kept = self._keep()
        self._below_quota.sort()
        self._at_quota = deque(sorted(self._at_quota))
        self._deal(
            [
                TopicPartition(topic, number)
                for topic in sorted(partition_counts)
                for number in range(partition_counts[topic])
                if TopicPartition(topic, number) not in kept
            ]
        )

    def _keep(self) -> set[TopicPartition]:
        """Lets members keep as many of their partitions as their quota allows."""
        kept: set[TopicPartition] = set()
        most = self._quota + (self._larger_shares > 0)
        for member, partitions in self._owned.by_member.items():
            mine = sorted(
                set(partitions) - self._owned.claimed_twice,
                key=lambda partition: (partition.partition, partition.topic),
            )
            if len(mine) < self._quota:
                share = len(mine)
                self._below_quota.append(member)
            elif len(mine) >= most and self._larger < self._larger_shares:
                share = most
                self._larger += 1
                if self._larger == self._larger_shares:
                    self._at_quota.clear()
            else:
                share = self._quota
                if self._larger < self._larger_shares:
                    self._at_quota.append(member)
            self.assignment[member] += mine[:share]
            kept.update(mine[:share])
            self._perhaps_revoked.update(dict.fromkeys(mine[share:], member))
        return kept

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        """Deals partitions in turn to members below the quota, then one each to members that may have one more."""
        turn = 0
        for partition in partitions:
            if self._below_quota:
                turn %= len(self._below_quota)
                member = self._below_quota[turn]
            else:
                member = self._at_quota.popleft()
            self.assignment[member].append(partition)
            if self._perhaps_revoked.get(partition, member) != member or partition in self._owned.claimed_twice:
                self.transferred[partition] = member
            if self._below_quota:
                if len(self.assignment[member]) == self._quota:
                    del self._below_quota[turn]
                    self._at_quota.append(member)
                else:
                    turn += 1


class _Movements:
    """The moves of partitions between members. A move back is replaced by one of a partition that came the same way."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._moved.pop(partition, None)
        if before is not None:
            self._by_pair[partition.topic, *before].pop(partition)
            source, _ = before
            if source == target:
                return
        self._moved[partition] = (source, target)
        self._by_pair.setdefault((partition.topic, source, target), {})[partition] = None

    def to_be_moved(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        before = self._moved.get(partition)
        if before is not None:
            source, _ = before
        return next(iter(self._by_pair.get((partition.topic, target, source), ())), partition)


class _General:
    """Members want different topics."""

    def __init__(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        claims: Mapping[str, Claim],
        owned: _Owned,
    ) -> None:
        self._counts = partition_counts
        self._topics = {
            member: [topic for topic in dict.fromkeys(members[member].topics) if topic in partition_counts]
            for member in sorted(members)
        }
        self._readers: dict[str, list[str]] = {topic: [] for topic in partition_counts}
        for member, topics in self._topics.items():
            for topic in topics:
                self._readers[topic].append(member)
        self._previous = self._previous_owners(claims, owned.generation)
        self._movements = _Movements()
        self._revoked = False
        self.assignment: Assignment = {}
        for member, partitions in owned.by_member.items():
            self.assignment[member] = [kept for kept in partitions if kept.topic in self._topics[member]]
            self._revoked |= len(self.assignment[member]) < len(partitions)
        self._owner = {partition: member for member, partitions in self.assignment.items() for partition in partitions}
        self._balance()

    def _previous_owners(self, claims: Mapping[str, Claim], generation: int) -> dict[TopicPartition, str]:
        """By partition its last owner in a generation before the highest."""
        found: dict[TopicPartition, tuple[int, str]] = {}
        for member, (partitions, since) in claims.items():
            had = NO_GENERATION if since is None else since
            if had >= generation:
                continue
            for partition in partitions:
                if partition not in found or had > found[partition][0]:
                    found[partition] = (had, member)
        return {partition: member for partition, (_, member) in found.items()}

    def _by_load(self) -> list[str]:
        return sorted(self.assignment, key=lambda member: (len(self.assignment[member]), member))

    def _balance(self) -> None:
        beginning = not any(self.assignment.values())
        everything = [
            TopicPartition(topic, number)
            for topic in sorted(self._counts, key=lambda topic: (len(self._readers[topic]), topic))
            for number in range(self._counts[topic])
        ]
        unassigned = [partition for partition in everything if partition not in self._owner]
        for partition in unassigned:
            reader = next((member for member in self._by_load() if partition.topic in self._topics[member]), None)
            if reader is not None:
                self.assignment[reader].append(partition)
                self._owner[partition] = reader
        movable = [partition for partition in everything if len(self._readers[partition.topic]) >= 2]
        fixed = {
            member: self.assignment.pop(member) for member in list(self.assignment) if not self._takes_part(member)
        }
        before = {member: list(partitions) for member, partitions in self.assignment.items()}
        if not self._revoked:
            waiting = set(unassigned)
            self._reassign([partition for partition in movable if partition in waiting])
        moved = self._reassign(movable)
        if not beginning and moved and _unevenness(self.assignment) >= _unevenness(before):
            self.assignment = before
        self.assignment |= fixed

    def _takes_part(self, member: str) -> bool:
        """Whether partitions may be moved to this member, or away from it."""
        partitions = self.assignment[member]
        if len(partitions) < sum(self._counts[topic] for topic in self._topics[member]):
            return True
        return any(len(self._readers[partition.topic]) >= 2 for partition in partitions)

    def _is_balanced(self) -> bool:
        """Whether no member could take a partition from a member that has at least two more."""
        ordered = self._by_load()
        if not ordered or len(self.assignment[ordered[0]]) >= len(self.assignment[ordered[-1]]) - 1:
            return True
        owner = {partition: member for member, partitions in self.assignment.items() for partition in partitions}
        for member in ordered:
            count = len(self.assignment[member])
            for topic in self._topics[member]:
                for number in range(self._counts[topic]):
                    other = owner.get(TopicPartition(topic, number), member)
                    if count + 1 < len(self.assignment[other]):
                        return False
        return True

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves partitions to members that have fewer, until none moves. Returns whether any moved."""
        moved = False
        modified = True
        while modified:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                modified |= self._moved(partition)
            moved |= modified
        return moved

    def _moved(self, partition: TopicPartition) -> bool:
        load = {member: len(partitions) for member, partitions in self.assignment.items()}
        mine = load[self._owner[partition]]
        previous = self._previous.get(partition)
        if previous in load and mine > load[previous] + 1:
            self._move(partition, previous)
            return True
        if any(mine > load[other] + 1 for other in self._readers[partition.topic] if other in load):
            target = next(member for member in self._by_load() if partition.topic in self._topics[member])
            self._move(partition, target)
            return True
        return False

    def _move(self, partition: TopicPartition, target: str) -> None:
        actual = self._movements.to_be_moved(partition, self._owner[partition], target)
        source = self._owner[actual]
        self._movements.move(actual, source, target)
        self.assignment[source].remove(actual)
        self.assignment[target].append(actual)
        self._owner[actual] = target


def _unevenness(assignment: Assignment) -> int:
    """The sum, over all pairs of members, of the difference of their partition counts."""
    sizes = sorted(len(partitions) for partitions in assignment.values())
    return sum(size * (2 * index - len(sizes) + 1) for index, size in enumerate(sizes))


class StickyAssignor(AbstractStickyAssignor):
    """Members give up all partitions before the group rebalances; each assignor remembers what its member had."""

    name = "sticky"

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._generation = NO_GENERATION

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._assigned, self._generation = tuple(partitions), generation

    def user_data(self) -> bytes | None:
        """``STICKY_ASSIGNOR_USER_DATA_V1``: the previous assignment by topic, and its generation."""
        if self._assigned is None:
            return None
        numbers = numbers_by_topic(self._assigned)
        parts = [_INT.pack(len(numbers))]
        for topic, partitions in numbers.items():
            name = topic.encode()
            parts += [_SHORT.pack(len(name)), name, struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)]
        return b"".join([*parts, _INT.pack(self._generation)])

    def claim(self, subscription: Subscription) -> Claim:
        if not subscription.user_data:
            return Claim((), None)
        try:
            return _read_claim(subscription.user_data)
        except (struct.error, UnicodeDecodeError):
            return Claim((), NO_GENERATION)  # unreadable user data counts as none, as in Kafka


def _read_claim(data: bytes) -> Claim:
    """Reads version 1, or 0, which has no generation."""
    partitions: list[TopicPartition] = []
    (topics,), at = _INT.unpack_from(data), 4
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(data, at)
        if length < 0 or at + 2 + length > len(data):
            raise struct.error("a name is longer than the data")
        topic = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = _INT.unpack_from(data, at)
        if not 0 <= count <= (len(data) - at) // 4:
            raise struct.error("there are more numbers than the data holds")
        partitions += (TopicPartition(topic, number) for number in struct.unpack_from(f">{count}i", data, at + 4))
        at += 4 + 4 * count
    return Claim(tuple(partitions), _INT.unpack_from(data, at)[0] if at < len(data) else None)


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """Members keep their partitions while the group rebalances; one that is to move is given up first, and assigned by
    the rebalance that follows (KIP-429)."""

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._generation = generation

    def user_data(self) -> bytes | None:
        """``COOPERATIVE_STICKY_ASSIGNOR_USER_DATA_V0``: the generation, for leaders that read old subscriptions."""
        return _INT.pack(self._generation)

    def claim(self, subscription: Subscription) -> Claim:
        if subscription.generation >= 0:
            return Claim(subscription.owned, subscription.generation)
        if subscription.user_data is None:
            return Claim(subscription.owned, None)
        if len(subscription.user_data) < _INT.size:
            return Claim(subscription.owned, NO_GENERATION)
        return Claim(subscription.owned, _INT.unpack_from(subscription.user_data)[0])

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assignment, transferred = self._assign(partition_counts, members)
        for partition, member in transferred.items():
            assignment[member].remove(partition)
        return assignment
