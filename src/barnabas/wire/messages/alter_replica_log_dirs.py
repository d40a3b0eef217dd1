"""``AlterReplicaLogDirsRequest`` and ``AlterReplicaLogDirsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AlterReplicaLogDirsRequest(Message):
    """API key 34, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "AlterReplicaLogDirsRequest"
    api_key: ClassVar[int] = 34
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class AlterReplicaLogDir(Struct):
        __slots__ = (
            "path",
            "topics",
            "unknown_tagged_fields",
        )

        path: str  # string, versions 0+
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]  # []AlterReplicaLogDirTopic, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            path: str = "",
            topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = EMPTY,
        ) -> None:
            self.path = path
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class AlterReplicaLogDirTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "dirs",
        "unknown_tagged_fields",
    )

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]  # []AlterReplicaLogDir, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = EMPTY,
    ) -> None:
        self.dirs = [] if dirs is EMPTY else dirs
        self.unknown_tagged_fields = None


class AlterReplicaLogDirsResponse(Message):
    """API key 34, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "AlterReplicaLogDirsResponse"
    api_key: ClassVar[int] = 34
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class AlterReplicaLogDirTopicResult(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]  # []AlterReplicaLogDirPartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class AlterReplicaLogDirPartitionResult(Struct):
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
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]  # []AlterReplicaLogDirTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
