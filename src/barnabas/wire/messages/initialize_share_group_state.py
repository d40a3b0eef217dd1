"""``InitializeShareGroupStateRequest`` and ``InitializeShareGroupStateResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class InitializeShareGroupStateRequest(Message):
    """API key 83, versions 0, flexible since 0."""

    name: ClassVar[str] = "InitializeShareGroupStateRequest"
    api_key: ClassVar[int] = 83
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class InitializeStateData(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[InitializeShareGroupStateRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[InitializeShareGroupStateRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition",
            "state_epoch",
            "start_offset",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        state_epoch: int  # int32, versions 0+
        start_offset: int  # int64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            state_epoch: int = 0,
            start_offset: int = 0,
        ) -> None:
            self.partition = partition
            self.state_epoch = state_epoch
            self.start_offset = start_offset
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "topics",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]  # []InitializeStateData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        topics: list[InitializeShareGroupStateRequest.InitializeStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class InitializeShareGroupStateResponse(Message):
    """API key 83, versions 0, flexible since 0."""

    name: ClassVar[str] = "InitializeShareGroupStateResponse"
    api_key: ClassVar[int] = 83
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class InitializeStateResult(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]  # []PartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[InitializeShareGroupStateResponse.PartitionResult] = EMPTY,
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

    results: list[InitializeShareGroupStateResponse.InitializeStateResult]  # []InitializeStateResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        results: list[InitializeShareGroupStateResponse.InitializeStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
