"""``DeleteShareGroupStateRequest`` and ``DeleteShareGroupStateResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DeleteShareGroupStateRequest(Message):
    """API key 86, versions 0, flexible since 0."""

    name: ClassVar[str] = "DeleteShareGroupStateRequest"
    api_key: ClassVar[int] = 86
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DeleteStateData(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[DeleteShareGroupStateRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[DeleteShareGroupStateRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
        ) -> None:
            self.partition = partition
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "topics",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]  # []DeleteStateData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        topics: list[DeleteShareGroupStateRequest.DeleteStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class DeleteShareGroupStateResponse(Message):
    """API key 86, versions 0, flexible since 0."""

    name: ClassVar[str] = "DeleteShareGroupStateResponse"
    api_key: ClassVar[int] = 86
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DeleteStateResult(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]  # []PartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[DeleteShareGroupStateResponse.PartitionResult] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionResult(Struct):
        __slots__ = (
            "partition",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
        ) -> None:
            self.partition = partition
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "results",
        "unknown_tagged_fields",
    )

    results: list[DeleteShareGroupStateResponse.DeleteStateResult]  # []DeleteStateResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        results: list[DeleteShareGroupStateResponse.DeleteStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
