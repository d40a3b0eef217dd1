"""``AlterPartitionReassignmentsRequest`` and ``AlterPartitionReassignmentsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AlterPartitionReassignmentsRequest(Message):
    """API key 45, versions 0, flexible since 0."""

    name: ClassVar[str] = "AlterPartitionReassignmentsRequest"
    api_key: ClassVar[int] = 45
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ReassignableTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]  # []ReassignablePartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class ReassignablePartition(Struct):
        __slots__ = (
            "partition_index",
            "replicas",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        replicas: list[int] | None  # []int32, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            replicas: list[int] | None = None,
        ) -> None:
            self.partition_index = partition_index
            self.replicas = replicas
            self.unknown_tagged_fields = None

    __slots__ = (
        "timeout_ms",
        "topics",
        "unknown_tagged_fields",
    )

    timeout_ms: int  # int32, versions 0+
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]  # []ReassignableTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = EMPTY,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class AlterPartitionReassignmentsResponse(Message):
    """API key 45, versions 0, flexible since 0."""

    name: ClassVar[str] = "AlterPartitionReassignmentsResponse"
    api_key: ClassVar[int] = 45
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ReassignableTopicResponse(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]  # []ReassignablePartitionResponse, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class ReassignablePartitionResponse(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]  # []ReassignableTopicResponse, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tagged_fields = None
