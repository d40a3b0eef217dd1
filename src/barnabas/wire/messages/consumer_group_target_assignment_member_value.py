"""``ConsumerGroupTargetAssignmentMemberValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "ConsumerGroupTargetAssignmentMemberValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicPartition(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "topic_partitions",
        "unknown_tagged_fields",
    )

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition]  # []TopicPartition, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.unknown_tagged_fields = None
