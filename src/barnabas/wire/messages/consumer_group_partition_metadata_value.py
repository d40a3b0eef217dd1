"""``ConsumerGroupPartitionMetadataValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ConsumerGroupPartitionMetadataValue(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "ConsumerGroupPartitionMetadataValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicMetadata(Struct):
        __slots__ = (
            "topic_id",
            "topic_name",
            "num_partitions",
            "partition_metadata",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        topic_name: str  # string, versions 0+
        num_partitions: int  # int32, versions 0+
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]  # []PartitionMetadata, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            topic_name: str = "",
            num_partitions: int = 0,
            partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.num_partitions = num_partitions
            self.partition_metadata = [] if partition_metadata is EMPTY else partition_metadata
            self.unknown_tagged_fields = None

    class PartitionMetadata(Struct):
        __slots__ = (
            "partition",
            "racks",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        racks: list[str]  # []string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            racks: list[str] = EMPTY,
        ) -> None:
            self.partition = partition
            self.racks = [] if racks is EMPTY else racks
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "unknown_tagged_fields",
    )

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata]  # []TopicMetadata, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
