"""``ConsumerProtocolSubscription``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct


class ConsumerProtocolSubscription(Message):
    """Versions 0-3, not flexible."""

    name: ClassVar[str] = "ConsumerProtocolSubscription"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 32767

    class TopicPartition(Struct):
        __slots__ = (
            "topic",
            "partitions",
        )

        topic: str  # string, versions 1+
        partitions: list[int]  # []int32, versions 1+

        def __init__(
            self,
            topic: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions

    __slots__ = (
        "topics",
        "user_data",
        "owned_partitions",
        "generation_id",
        "rack_id",
    )

    topics: list[str]  # []string, versions 0+
    user_data: Bytes | None  # bytes, versions 0+, nullable
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]  # []TopicPartition, versions 1+, ignorable
    generation_id: int  # int32, versions 2+, ignorable
    rack_id: str | None  # string, versions 3+, nullable, ignorable

    def __init__(
        self,
        topics: list[str] = EMPTY,
        user_data: Bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = EMPTY,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is EMPTY else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
