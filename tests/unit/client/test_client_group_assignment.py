"""Kafka's range assignor."""

from __future__ import annotations

from barnabas.client.group import range_assignment
from barnabas.model.ids import TopicPartition


def test_the_first_members_get_one_partition_more() -> None:
    given = range_assignment({"b": ["t"], "a": ["t"]}, {"t": 3})
    assert given == {"a": [TopicPartition("t", 0), TopicPartition("t", 1)], "b": [TopicPartition("t", 2)]}


def test_a_topic_goes_only_to_those_who_want_it() -> None:
    given = range_assignment({"a": ["t", "u"], "b": ["u"]}, {"t": 1, "u": 2})
    assert given == {"a": [TopicPartition("t", 0), TopicPartition("u", 0)], "b": [TopicPartition("u", 1)]}


def test_members_beyond_the_partitions_get_nothing() -> None:
    assert range_assignment({"a": ["t"], "b": ["t"]}, {"t": 1})["b"] == []
