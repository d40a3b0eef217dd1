"""Partitions that a request about a group's offsets names, and the answer with each of them once."""

from __future__ import annotations

from barnabas.broker.named_partitions import by_topic, named
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest

Topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
Partition = OffsetDeleteRequest.OffsetDeleteRequestPartition


def topic(name: str, *numbers: int) -> Topic:
    return Topic(name=name, partitions=[Partition(partition_index=number) for number in numbers])


def test_a_partition_that_is_named_twice_is_answered_once_and_a_topic_without_one_not_at_all() -> None:
    topics = [topic("a", 1, 0, 1), topic("none"), topic("b", 0), topic("a", 2)]
    outcome = {key: ErrorCode.NONE for key, _ in named(topics)} | {
        TopicPartition("a", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    answered = by_topic(topics, outcome)
    assert [(name, list(partitions.items())) for name, partitions in answered.items()] == [
        ("a", [(1, ErrorCode.NONE), (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (2, ErrorCode.NONE)]),
        ("b", [(0, ErrorCode.NONE)]),
    ]
