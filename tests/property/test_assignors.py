"""Every assignor over groups that rebalance: each partition has one reader who wants it, and shares are even."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.assignor import Assignor, Subscription
from barnabas.client.assignors import RangeAssignor, assignors_named
from barnabas.client.sticky import StickyAssignor
from barnabas.model.ids import TopicPartition

NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
COUNTS = st.dictionaries(st.sampled_from("stuv"), st.integers(1, 7), min_size=1)
WISHES = st.dictionaries(st.sampled_from("abcde"), st.sets(st.sampled_from("stuv"), min_size=1), min_size=1)


class Group:
    """Members, each with an assignor that remembers, from one generation to the next."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._assignors: dict[str, Assignor] = {}
        self._generation = 0
        self.owned: dict[str, list[TopicPartition]] = {}

    def rebalance(self, counts: dict[str, int], wishes: dict[str, set[str]]) -> dict[str, list[TopicPartition]]:
        for member in [each for each in self._assignors if each not in wishes]:
            del self._assignors[member], self.owned[member]
        for member in wishes:
            if member not in self._assignors:
                (self._assignors[member],) = assignors_named([self._name])
                self.owned[member] = []
        said = {
            member: Subscription(
                tuple(sorted(topics)),
                self._assignors[member].user_data(),
                tuple(self.owned[member]) if self._assignors[member].cooperative else (),
                self._generation,
            )
            for member, topics in wishes.items()
        }
        said = {member: Subscription.decode(each.encode()) for member, each in said.items()}
        given = self._assignors[min(wishes)].assign(counts, said)
        self._generation += 1
        for member, partitions in given.items():
            self._assignors[member].assigned(partitions, self._generation)
            self.owned[member] = partitions
        return given


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.tuples(COUNTS, WISHES), min_size=1, max_size=4))
def test_each_partition_that_somebody_wants_has_one_reader_who_does(
    name: str, rounds: list[tuple[dict[str, int], dict[str, set[str]]]]
) -> None:
    group = Group(name)
    for there, wishes in rounds:
        wanted = {topic for topics in wishes.values() for topic in topics}
        counts = {topic: count for topic, count in there.items() if topic in wanted}
        # What a cooperative member has to give up first it gets by the rebalance that follows.
        before = {member: list(partitions) for member, partitions in group.owned.items()}
        given = group.rebalance(counts, wishes)
        for member, partitions in given.items():
            taken_over = set(partitions) - set(before.get(member, ()))
            others = {each for other, had in before.items() if other != member and other in wishes for each in had}
            assert name != "cooperative-sticky" or not taken_over & others
        if name == "cooperative-sticky":
            given = group.rebalance(counts, wishes)
        owners = Counter(each for partitions in given.values() for each in partitions)
        assert owners == Counter(TopicPartition(topic, number) for topic in counts for number in range(counts[topic]))
        assert all(each.topic in wishes[member] for member, partitions in given.items() for each in partitions)


@settings(deadline=None)
@given(st.sampled_from(["roundrobin", "sticky", "cooperative-sticky"]), COUNTS, st.integers(1, 6), st.integers(1, 6))
def test_members_who_want_the_same_have_the_same_but_for_one(
    name: str, counts: dict[str, int], first: int, then: int
) -> None:
    group = Group(name)
    for members in (first, then, then):
        given = group.rebalance(counts, {member: set(counts) for member in "abcdef"[:members]})
    sizes = [len(partitions) for partitions in given.values()]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(st.sampled_from(["sticky", "cooperative-sticky"]), COUNTS, st.integers(1, 5), st.integers(0, 4))
def test_who_stays_keeps_what_it_may(name: str, counts: dict[str, int], before: int, after: int) -> None:
    group = Group(name)
    had = group.rebalance(counts, {member: set(counts) for member in "abcde"[:before]})
    now = {member: set(counts) for member in "abcde"[: after + 1]}
    group.rebalance(counts, now)
    given = group.rebalance(counts, now)
    total = sum(counts.values())
    for member in given.keys() & had.keys():
        least = min(len(had[member]), total // len(now))
        assert len(set(given[member]) & set(had[member])) >= least


def test_what_two_members_have_claimed_in_one_generation_neither_of_them_goes_on_reading() -> None:
    """Each may be reading it: it is dealt out again when both have let it go."""
    (assignor,) = assignors_named(["cooperative-sticky"])
    both, other = TopicPartition("t", 0), TopicPartition("t", 1)

    def claims(generation: int) -> Subscription:
        return Subscription(("t",), assignor.user_data(), (both,), generation)

    same = assignor.assign({"t": 2}, {"a": claims(3), "b": claims(3)})
    assert [each for partitions in same.values() for each in partitions] == [other]
    assert both in assignor.assign({"t": 2}, {"a": claims(2), "b": claims(3)})["b"]
    assert both in assignor.assign({"t": 2}, {"a": claims(3), "b": claims(2)})["a"]


def test_the_first_members_of_a_range_get_one_partition_more_and_those_beyond_nothing() -> None:
    members = {"b": Subscription(("t",)), "a": Subscription(("t", "u")), "c": Subscription(("u",))}
    assert RangeAssignor().assign({"t": 3, "u": 1}, members) == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)],
        "b": [TopicPartition("t", 2)],
        "c": [],
    }


def test_static_members_come_first_in_the_order_of_their_instances() -> None:
    members = {
        "a": Subscription(("t",)),
        "b": Subscription(("t",), group_instance_id="z"),
        "c": Subscription(("t",), group_instance_id="y"),
    }
    given = RangeAssignor().assign({"t": 3}, members)
    assert [given[member][0].partition for member in "cba"] == [0, 1, 2]


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_garbage_for_user_data_is_as_if_nothing_had_been_said(data: bytes) -> None:
    for name in ("sticky", "cooperative-sticky"):
        (assignor,) = assignors_named([name])
        members = {"a": Subscription(("t",), data), "b": Subscription(("t",))}
        given = assignor.assign({"t": 2}, members)
        assert sorted(len(partitions) for partitions in given.values()) == [1, 1]


def test_an_assignor_of_ones_own_is_used_and_an_unknown_name_is_refused() -> None:
    class Everything(StickyAssignor):
        name = "everything"

    own = Everything()
    assert assignors_named([own, "range"])[0] is own
    with pytest.raises(
        ValueError, match="'nearest' is not an assignor; the assignors are range, roundrobin, sticky, cooperative"
    ):
        assignors_named(["nearest"])
