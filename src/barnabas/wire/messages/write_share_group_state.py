"""``WriteShareGroupStateRequest`` and ``WriteShareGroupStateResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class WriteShareGroupStateRequest(Message):
    """API key 85, versions 0, flexible since 0."""

    name: ClassVar[str] = "WriteShareGroupStateRequest"
    api_key: ClassVar[int] = 85
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class WriteStateData(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[WriteShareGroupStateRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[WriteShareGroupStateRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition",
            "state_epoch",
            "leader_epoch",
            "start_offset",
            "state_batches",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        state_epoch: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        start_offset: int  # int64, versions 0+
        state_batches: list[WriteShareGroupStateRequest.StateBatch]  # []StateBatch, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            state_epoch: int = 0,
            leader_epoch: int = 0,
            start_offset: int = 0,
            state_batches: list[WriteShareGroupStateRequest.StateBatch] = EMPTY,
        ) -> None:
            self.partition = partition
            self.state_epoch = state_epoch
            self.leader_epoch = leader_epoch
            self.start_offset = start_offset
            self.state_batches = [] if state_batches is EMPTY else state_batches
            self.unknown_tagged_fields = None

    class StateBatch(Struct):
        __slots__ = (
            "first_offset",
            "last_offset",
            "delivery_state",
            "delivery_count",
            "unknown_tagged_fields",
        )

        first_offset: int  # int64, versions 0+
        last_offset: int  # int64, versions 0+
        delivery_state: int  # int8, versions 0+
        delivery_count: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_state: int = 0,
            delivery_count: int = 0,
        ) -> None:
            self.first_offset = first_offset
            self.last_offset = last_offset
            self.delivery_state = delivery_state
            self.delivery_count = delivery_count
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "topics",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    topics: list[WriteShareGroupStateRequest.WriteStateData]  # []WriteStateData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        topics: list[WriteShareGroupStateRequest.WriteStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class WriteShareGroupStateResponse(Message):
    """API key 85, versions 0, flexible since 0."""

    name: ClassVar[str] = "WriteShareGroupStateResponse"
    api_key: ClassVar[int] = 85
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class WriteStateResult(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[WriteShareGroupStateResponse.PartitionResult]  # []PartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[WriteShareGroupStateResponse.PartitionResult] = EMPTY,
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

    results: list[WriteShareGroupStateResponse.WriteStateResult]  # []WriteStateResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        results: list[WriteShareGroupStateResponse.WriteStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
