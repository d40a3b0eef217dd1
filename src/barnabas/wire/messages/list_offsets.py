"""``ListOffsetsRequest`` and ``ListOffsetsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ListOffsetsRequest(Message):
    """API key 2, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "ListOffsetsRequest"
    api_key: ClassVar[int] = 2
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class ListOffsetsTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]  # []ListOffsetsPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[ListOffsetsRequest.ListOffsetsPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class ListOffsetsPartition(Struct):
        __slots__ = (
            "partition_index",
            "current_leader_epoch",
            "timestamp",
            "max_num_offsets",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        current_leader_epoch: int  # int32, versions 4+, ignorable
        timestamp: int  # int64, versions 0+
        max_num_offsets: int  # int32, versions 0
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            current_leader_epoch: int = -1,
            timestamp: int = 0,
            max_num_offsets: int = 1,
        ) -> None:
            self.partition_index = partition_index
            self.current_leader_epoch = current_leader_epoch
            self.timestamp = timestamp
            self.max_num_offsets = max_num_offsets
            self.unknown_tagged_fields = None

    __slots__ = (
        "replica_id",
        "isolation_level",
        "topics",
        "unknown_tagged_fields",
    )

    replica_id: int  # int32, versions 0+
    isolation_level: int  # int8, versions 2+
    topics: list[ListOffsetsRequest.ListOffsetsTopic]  # []ListOffsetsTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsRequest.ListOffsetsTopic] = EMPTY,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class ListOffsetsResponse(Message):
    """API key 2, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "ListOffsetsResponse"
    api_key: ClassVar[int] = 2
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class ListOffsetsTopicResponse(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]  # []ListOffsetsPartitionResponse, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class ListOffsetsPartitionResponse(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "old_style_offsets",
            "timestamp",
            "offset",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        old_style_offsets: list[int]  # []int64, versions 0
        timestamp: int  # int64, versions 1+
        offset: int  # int64, versions 1+
        leader_epoch: int  # int32, versions 4+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            old_style_offsets: list[int] = EMPTY,
            timestamp: int = -1,
            offset: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.old_style_offsets = [] if old_style_offsets is EMPTY else old_style_offsets
            self.timestamp = timestamp
            self.offset = offset
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 2+, ignorable
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]  # []ListOffsetsTopicResponse, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
