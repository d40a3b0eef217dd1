"""``DeleteRecordsRequest`` and ``DeleteRecordsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DeleteRecordsRequest(Message):
    """API key 21, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "DeleteRecordsRequest"
    api_key: ClassVar[int] = 21
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class DeleteRecordsTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]  # []DeleteRecordsPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class DeleteRecordsPartition(Struct):
        __slots__ = (
            "partition_index",
            "offset",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        offset: int  # int64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            offset: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.offset = offset
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "timeout_ms",
        "unknown_tagged_fields",
    )

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]  # []DeleteRecordsTopic, versions 0+
    timeout_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = EMPTY,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.unknown_tagged_fields = None


class DeleteRecordsResponse(Message):
    """API key 21, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "DeleteRecordsResponse"
    api_key: ClassVar[int] = 21
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class DeleteRecordsTopicResult(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]  # []DeleteRecordsPartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class DeleteRecordsPartitionResult(Struct):
        __slots__ = (
            "partition_index",
            "low_watermark",
            "error_code",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        low_watermark: int  # int64, versions 0+
        error_code: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            low_watermark: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.low_watermark = low_watermark
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]  # []DeleteRecordsTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
