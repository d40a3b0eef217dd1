"""``OffsetCommitRequest`` and ``OffsetCommitResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class OffsetCommitRequest(Message):
    """API key 8, versions 0-9, flexible since 8."""

    name: ClassVar[str] = "OffsetCommitRequest"
    api_key: ClassVar[int] = 8
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 8

    class OffsetCommitRequestTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition]  # []OffsetCommitRequestPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OffsetCommitRequestPartition(Struct):
        __slots__ = (
            "partition_index",
            "committed_offset",
            "committed_leader_epoch",
            "commit_timestamp",
            "committed_metadata",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        committed_offset: int  # int64, versions 0+
        committed_leader_epoch: int  # int32, versions 6+, ignorable
        commit_timestamp: int  # int64, versions 1
        committed_metadata: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            commit_timestamp: int = -1,
            committed_metadata: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.commit_timestamp = commit_timestamp
            self.committed_metadata = committed_metadata
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    generation_id_or_member_epoch: int  # int32, versions 1+, ignorable
    member_id: str  # string, versions 1+, ignorable
    group_instance_id: str | None  # string, versions 7+, nullable
    retention_time_ms: int  # int64, versions 2-4, ignorable
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic]  # []OffsetCommitRequestTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class OffsetCommitResponse(Message):
    """API key 8, versions 0-9, flexible since 8."""

    name: ClassVar[str] = "OffsetCommitResponse"
    api_key: ClassVar[int] = 8
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 8

    class OffsetCommitResponseTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition]  # []OffsetCommitResponsePartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OffsetCommitResponsePartition(Struct):
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
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 3+, ignorable
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]  # []OffsetCommitResponseTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
