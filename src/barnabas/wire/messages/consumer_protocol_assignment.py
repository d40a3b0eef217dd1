"""``ConsumerProtocolAssignment``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct


class ConsumerProtocolAssignment(Message):
    """Versions 0-3, not flexible."""

    name: ClassVar[str] = "ConsumerProtocolAssignment"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 32767

    class TopicPartition(Struct):
        __slots__ = (
            "topic",
            "partitions",
        )

        topic: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+

        def __init__(
            self,
            topic: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions

    __slots__ = (
        "assigned_partitions",
        "user_data",
    )

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]  # []TopicPartition, versions 0+
    user_data: Bytes | None  # bytes, versions 0+, nullable

    def __init__(
        self,
        assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = EMPTY,
        user_data: Bytes | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions
        self.user_data = user_data
