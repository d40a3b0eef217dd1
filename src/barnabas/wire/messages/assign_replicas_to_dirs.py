"""``AssignReplicasToDirsRequest`` and ``AssignReplicasToDirsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AssignReplicasToDirsRequest(Message):
    """API key 73, versions 0, flexible since 0."""

    name: ClassVar[str] = "AssignReplicasToDirsRequest"
    api_key: ClassVar[int] = 73
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DirectoryData(Struct):
        __slots__ = (
            "id",
            "topics",
            "unknown_tagged_fields",
        )

        id: Uuid  # uuid, versions 0+
        topics: list[AssignReplicasToDirsRequest.TopicData]  # []TopicData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            id: Uuid = ZERO_UUID,
            topics: list[AssignReplicasToDirsRequest.TopicData] = EMPTY,
        ) -> None:
            self.id = id
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class TopicData(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[AssignReplicasToDirsRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[AssignReplicasToDirsRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "directories",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 0+
    directories: list[AssignReplicasToDirsRequest.DirectoryData]  # []DirectoryData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[AssignReplicasToDirsRequest.DirectoryData] = EMPTY,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is EMPTY else directories
        self.unknown_tagged_fields = None


class AssignReplicasToDirsResponse(Message):
    """API key 73, versions 0, flexible since 0."""

    name: ClassVar[str] = "AssignReplicasToDirsResponse"
    api_key: ClassVar[int] = 73
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DirectoryData(Struct):
        __slots__ = (
            "id",
            "topics",
            "unknown_tagged_fields",
        )

        id: Uuid  # uuid, versions 0+
        topics: list[AssignReplicasToDirsResponse.TopicData]  # []TopicData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            id: Uuid = ZERO_UUID,
            topics: list[AssignReplicasToDirsResponse.TopicData] = EMPTY,
        ) -> None:
            self.id = id
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class TopicData(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[AssignReplicasToDirsResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[AssignReplicasToDirsResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "directories",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    directories: list[AssignReplicasToDirsResponse.DirectoryData]  # []DirectoryData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[AssignReplicasToDirsResponse.DirectoryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is EMPTY else directories
        self.unknown_tagged_fields = None
