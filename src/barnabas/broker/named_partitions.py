"""Shared by requests about a group's offsets: partitions by topic, and an answer with each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from barnabas.broker.authorize import authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition


class NamedPartition(Protocol):
    @property
    def partition_index(self) -> int: ...


P = TypeVar("P", bound=NamedPartition)
P_co = TypeVar("P_co", bound=NamedPartition, covariant=True)


class NamedTopic(Protocol[P_co]):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def named(topics: Iterable[NamedTopic[P]]) -> Iterator[tuple[TopicPartition, P]]:
    """Each partition as often as the request names it."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


async def readable(
    broker: BrokerParts, topics: Sequence[NamedTopic[P]], context: RequestContext
) -> tuple[list[tuple[TopicPartition, P]], dict[TopicPartition, ErrorCode]]:
    """The partitions that exist and that the caller may READ, and the errors of the others."""
    allowed = authorized_topics(context, Operation.READ, [topic.name for topic in topics])
    known = broker.metadata.image.topics
    found: list[tuple[TopicPartition, P]] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for key, partition in named(topics):
        if context.due():
            await context.turn()
        if key.topic not in allowed:
            refused[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif key.topic not in known or key.partition not in known[key.topic].partitions:
            refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            found.append((key, partition))
    return found, refused


def by_topic(topics: Iterable[NamedTopic[P]], outcome: Mapping[Any, ErrorCode]) -> dict[str, dict[int, ErrorCode]]:
    """Each partition once, however often it was named, and no topic without one (``OffsetCommitResponse.Builder``).

    `outcome` is keyed by `TopicPartition`; a plain tuple finds it as well, and is cheaper to make.
    """
    answered: dict[str, dict[int, ErrorCode]] = {}
    for topic in topics:
        if topic.partitions:
            codes = answered.setdefault(topic.name, {})
            for partition in topic.partitions:
                codes[partition.partition_index] = outcome[topic.name, partition.partition_index]
    return answered
