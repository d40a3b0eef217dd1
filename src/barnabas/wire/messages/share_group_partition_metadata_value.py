"""``ShareGroupPartitionMetadataValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ShareGroupPartitionMetadataValue(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareGroupPartitionMetadataValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicPartitionsInfo(Struct):
        __slots__ = (
            "topic_id",
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        topic_name: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            topic_name: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class TopicInfo(Struct):
        __slots__ = (
            "topic_id",
            "topic_name",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        topic_name: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            topic_name: str = "",
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.unknown_tagged_fields = None

    __slots__ = (
        "initialized_topics",
        "deleting_topics",
        "unknown_tagged_fields",
    )

    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo]  # []TopicPartitionsInfo, versions 0+
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo]  # []TopicInfo, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = EMPTY,
        deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = EMPTY,
    ) -> None:
        self.initialized_topics = [] if initialized_topics is EMPTY else initialized_topics
        self.deleting_topics = [] if deleting_topics is EMPTY else deleting_topics
        self.unknown_tagged_fields = None
