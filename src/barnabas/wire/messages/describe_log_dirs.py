"""``DescribeLogDirsRequest`` and ``DescribeLogDirsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeLogDirsRequest(Message):
    """API key 35, versions 0-4, flexible since 2."""

    name: ClassVar[str] = "DescribeLogDirsRequest"
    api_key: ClassVar[int] = 35
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 2

    class DescribableLogDirTopic(Struct):
        __slots__ = (
            "topic",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "unknown_tagged_fields",
    )

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None  # []DescribableLogDirTopic, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class DescribeLogDirsResponse(Message):
    """API key 35, versions 0-4, flexible since 2."""

    name: ClassVar[str] = "DescribeLogDirsResponse"
    api_key: ClassVar[int] = 35
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 2

    class DescribeLogDirsResult(Struct):
        __slots__ = (
            "error_code",
            "log_dir",
            "topics",
            "total_bytes",
            "usable_bytes",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        log_dir: str  # string, versions 0+
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]  # []DescribeLogDirsTopic, versions 0+
        total_bytes: int  # int64, versions 4+, ignorable
        usable_bytes: int  # int64, versions 4+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            log_dir: str = "",
            topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = EMPTY,
            total_bytes: int = -1,
            usable_bytes: int = -1,
        ) -> None:
            self.error_code = error_code
            self.log_dir = log_dir
            self.topics = [] if topics is EMPTY else topics
            self.total_bytes = total_bytes
            self.usable_bytes = usable_bytes
            self.unknown_tagged_fields = None

    class DescribeLogDirsTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]  # []DescribeLogDirsPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class DescribeLogDirsPartition(Struct):
        __slots__ = (
            "partition_index",
            "partition_size",
            "offset_lag",
            "is_future_key",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        partition_size: int  # int64, versions 0+
        offset_lag: int  # int64, versions 0+
        is_future_key: bool  # bool, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            partition_size: int = 0,
            offset_lag: int = 0,
            is_future_key: bool = False,
        ) -> None:
            self.partition_index = partition_index
            self.partition_size = partition_size
            self.offset_lag = offset_lag
            self.is_future_key = is_future_key
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 3+, ignorable
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]  # []DescribeLogDirsResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
