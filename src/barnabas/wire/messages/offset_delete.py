"""``OffsetDeleteRequest`` and ``OffsetDeleteResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct


class OffsetDeleteRequest(Message):
    """API key 47, versions 0, not flexible."""

    name: ClassVar[str] = "OffsetDeleteRequest"
    api_key: ClassVar[int] = 47
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 32767

    class OffsetDeleteRequestTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
        )

        name: str  # string, versions 0+
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition]  # []OffsetDeleteRequestPartition, versions 0+

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions

    class OffsetDeleteRequestPartition(Struct):
        __slots__ = (
            "partition_index",
        )

        partition_index: int  # int32, versions 0+

        def __init__(
            self,
            partition_index: int = 0,
        ) -> None:
            self.partition_index = partition_index

    __slots__ = (
        "group_id",
        "topics",
    )

    group_id: str  # string, versions 0+
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic]  # []OffsetDeleteRequestTopic, versions 0+

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class OffsetDeleteResponse(Message):
    """API key 47, versions 0, not flexible."""

    name: ClassVar[str] = "OffsetDeleteResponse"
    api_key: ClassVar[int] = 47
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 32767

    class OffsetDeleteResponseTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
        )

        name: str  # string, versions 0+
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition]  # []OffsetDeleteResponsePartition, versions 0+

        def __init__(
            self,
            name: str = "",
            partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions

    class OffsetDeleteResponsePartition(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code

    __slots__ = (
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    error_code: int  # int16, versions 0+
    throttle_time_ms: int  # int32, versions 0+, ignorable
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic]  # []OffsetDeleteResponseTopic, versions 0+

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
