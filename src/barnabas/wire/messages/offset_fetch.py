"""``OffsetFetchRequest`` and ``OffsetFetchResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class OffsetFetchRequest(Message):
    """API key 9, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "OffsetFetchRequest"
    api_key: ClassVar[int] = 9
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class OffsetFetchRequestTopic(Struct):
        __slots__ = (
            "name",
            "partition_indexes",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0-7
        partition_indexes: list[int]  # []int32, versions 0-7
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_indexes: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
            self.unknown_tagged_fields = None

    class OffsetFetchRequestGroup(Struct):
        __slots__ = (
            "group_id",
            "member_id",
            "member_epoch",
            "topics",
            "unknown_tagged_fields",
        )

        group_id: str  # string, versions 8+
        member_id: str | None  # string, versions 9+, nullable, ignorable
        member_epoch: int  # int32, versions 9+, ignorable
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None  # []OffsetFetchRequestTopics, versions 8+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            group_id: str = "",
            member_id: str | None = None,
            member_epoch: int = -1,
            topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = EMPTY,
        ) -> None:
            self.group_id = group_id
            self.member_id = member_id
            self.member_epoch = member_epoch
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class OffsetFetchRequestTopics(Struct):
        __slots__ = (
            "name",
            "partition_indexes",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 8+
        partition_indexes: list[int]  # []int32, versions 8+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_indexes: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "topics",
        "groups",
        "require_stable",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0-7
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None  # []OffsetFetchRequestTopic, versions 0-7, nullable in 2-7
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup]  # []OffsetFetchRequestGroup, versions 8+
    require_stable: bool  # bool, versions 7+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = EMPTY,
        groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = EMPTY,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.groups = [] if groups is EMPTY else groups
        self.require_stable = require_stable
        self.unknown_tagged_fields = None


class OffsetFetchResponse(Message):
    """API key 9, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "OffsetFetchResponse"
    api_key: ClassVar[int] = 9
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class OffsetFetchResponseTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0-7
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition]  # []OffsetFetchResponsePartition, versions 0-7
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OffsetFetchResponsePartition(Struct):
        __slots__ = (
            "partition_index",
            "committed_offset",
            "committed_leader_epoch",
            "metadata",
            "error_code",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0-7
        committed_offset: int  # int64, versions 0-7
        committed_leader_epoch: int  # int32, versions 5-7, ignorable
        metadata: str | None  # string, versions 0-7, nullable
        error_code: int  # int16, versions 0-7
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code
            self.unknown_tagged_fields = None

    class OffsetFetchResponseGroup(Struct):
        __slots__ = (
            "group_id",
            "topics",
            "error_code",
            "unknown_tagged_fields",
        )

        group_id: str  # string, versions 8+
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics]  # []OffsetFetchResponseTopics, versions 8+
        error_code: int  # int16, versions 8+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            group_id: str = "",
            topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = EMPTY,
            error_code: int = 0,
        ) -> None:
            self.group_id = group_id
            self.topics = [] if topics is EMPTY else topics
            self.error_code = error_code
            self.unknown_tagged_fields = None

    class OffsetFetchResponseTopics(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 8+
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions]  # []OffsetFetchResponsePartitions, versions 8+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OffsetFetchResponsePartitions(Struct):
        __slots__ = (
            "partition_index",
            "committed_offset",
            "committed_leader_epoch",
            "metadata",
            "error_code",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 8+
        committed_offset: int  # int64, versions 8+
        committed_leader_epoch: int  # int32, versions 8+, ignorable
        metadata: str | None  # string, versions 8+, nullable
        error_code: int  # int16, versions 8+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "error_code",
        "groups",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 3+, ignorable
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic]  # []OffsetFetchResponseTopic, versions 0-7
    error_code: int  # int16, versions 2-7, ignorable
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup]  # []OffsetFetchResponseGroup, versions 8+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = EMPTY,
        error_code: int = 0,
        groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tagged_fields = None
