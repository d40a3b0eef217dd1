"""The messages between members of a classic group and an assignor. Pure.

A member's subscription and its assignment are messages inside JoinGroup and SyncGroup, with a version of their own
(Kafka's ``ConsumerProtocol``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.model.ids import TopicPartition, numbers_by_topic
from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

NO_GENERATION: Final = -1
_VERSION: Final = 3
"""The newest version of the embedded messages read and written here: 2 has a generation, 3 a rack."""
_SUBSCRIPTION_WITH_OWNED: Final = 1
_SUBSCRIPTION_WITH_GENERATION: Final = 2


class Subscription(NamedTuple):
    """A member's message when it joins: its topics, and the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    """The assignor's own data."""
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it keeps while the group rebalances (KIP-429)."""
    generation: int = NO_GENERATION
    """The generation in which the owned partitions were assigned (KIP-792)."""
    group_instance_id: str | None = None

    def encode(self) -> bytes:
        numbers = numbers_by_topic(self.owned)
        message = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            user_data=self.user_data,
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=sorted(numbers[topic]))
                for topic in sorted(numbers)
            ],
            generation_id=self.generation,
        )
        return _VERSION.to_bytes(2, "big") + message.encode(_VERSION)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, group_instance_id: str | None = None) -> Subscription:
        version = min(int.from_bytes(data[:2], "big"), _VERSION)
        message = ConsumerProtocolSubscription.decode(data, version, 2)[0]
        owned: tuple[TopicPartition, ...] = ()
        if version >= _SUBSCRIPTION_WITH_OWNED:
            owned = tuple(
                TopicPartition(owned_partition.topic, number)
                for owned_partition in message.owned_partitions
                for number in owned_partition.partitions
            )
        return cls(
            tuple(message.topics),
            None if message.user_data is None else bytes(message.user_data),
            owned,
            message.generation_id if version >= _SUBSCRIPTION_WITH_GENERATION else NO_GENERATION,
            group_instance_id,
        )


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ]
    )
    return _VERSION.to_bytes(2, "big") + message.encode(_VERSION)


def decode_assignment(data: bytes | bytearray | memoryview) -> list[TopicPartition]:
    if not data:
        return []
    version = min(int.from_bytes(data[:2], "big"), _VERSION)
    message = ConsumerProtocolAssignment.decode(data, version, 2)[0]
    return [
        TopicPartition(assigned_partition.topic, number)
        for assigned_partition in message.assigned_partitions
        for number in assigned_partition.partitions
    ]


class Assignor(ABC):
    """One way to assign partitions to members. It may remember its own member's assignment."""

    name: str
    cooperative = False
    """Whether members keep, while the group rebalances, the partitions that they will not lose (KIP-429)."""

    @abstractmethod
    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member. `partition_counts` has the topics that exist."""

    def user_data(self) -> bytes | None:
        """The member's message to the leader's assignor, in its next subscription."""
        return None

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 - most forget it
        """Tells the assignor its member's new assignment."""


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Member ids as Kafka's ``MemberInfo`` sorts them: static members first, by their instance id."""

    def key(member: str) -> tuple[bool, str]:
        instance = members[member].group_instance_id
        return (True, member) if instance is None else (False, instance)

    return sorted(members, key=key)
