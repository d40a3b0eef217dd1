"""``ListPartitionReassignmentsRequest`` and ``ListPartitionReassignmentsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ListPartitionReassignmentsRequest(Message):
    """API key 46, versions 0, flexible since 0."""

    name: ClassVar[str] = "ListPartitionReassignmentsRequest"
    api_key: ClassVar[int] = 46
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ListPartitionReassignmentsTopics(Struct):
        __slots__ = (
            "name",
            "partition_indexes",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partition_indexes: list[int]  # []int32, versions 0+
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
        "timeout_ms",
        "topics",
        "unknown_tagged_fields",
    )

    timeout_ms: int  # int32, versions 0+
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None  # []ListPartitionReassignmentsTopics, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.unknown_tagged_fields = None


class ListPartitionReassignmentsResponse(Message):
    """API key 46, versions 0, flexible since 0."""

    name: ClassVar[str] = "ListPartitionReassignmentsResponse"
    api_key: ClassVar[int] = 46
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class OngoingTopicReassignment(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]  # []OngoingPartitionReassignment, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OngoingPartitionReassignment(Struct):
        __slots__ = (
            "partition_index",
            "replicas",
            "adding_replicas",
            "removing_replicas",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        replicas: list[int]  # []int32, versions 0+
        adding_replicas: list[int]  # []int32, versions 0+
        removing_replicas: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            replicas: list[int] = EMPTY,
            adding_replicas: list[int] = EMPTY,
            removing_replicas: list[int] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.replicas = [] if replicas is EMPTY else replicas
            self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
            self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]  # []OngoingTopicReassignment, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
