"""``OffsetForLeaderEpochRequest`` and ``OffsetForLeaderEpochResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class OffsetForLeaderEpochRequest(Message):
    """API key 23, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "OffsetForLeaderEpochRequest"
    api_key: ClassVar[int] = 23
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    class OffsetForLeaderTopic(Struct):
        __slots__ = (
            "topic",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]  # []OffsetForLeaderPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class OffsetForLeaderPartition(Struct):
        __slots__ = (
            "partition",
            "current_leader_epoch",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        current_leader_epoch: int  # int32, versions 2+, ignorable
        leader_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            current_leader_epoch: int = -1,
            leader_epoch: int = 0,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    __slots__ = (
        "replica_id",
        "topics",
        "unknown_tagged_fields",
    )

    replica_id: int  # int32, versions 3+, ignorable
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]  # []OffsetForLeaderTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        replica_id: int = -2,
        topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = EMPTY,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class OffsetForLeaderEpochResponse(Message):
    """API key 23, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "OffsetForLeaderEpochResponse"
    api_key: ClassVar[int] = 23
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    class OffsetForLeaderTopicResult(Struct):
        __slots__ = (
            "topic",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]  # []EpochEndOffset, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class EpochEndOffset(Struct):
        __slots__ = (
            "error_code",
            "partition",
            "leader_epoch",
            "end_offset",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        partition: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 1+, ignorable
        end_offset: int  # int64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            partition: int = 0,
            leader_epoch: int = -1,
            end_offset: int = -1,
        ) -> None:
            self.error_code = error_code
            self.partition = partition
            self.leader_epoch = leader_epoch
            self.end_offset = end_offset
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 2+, ignorable
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]  # []OffsetForLeaderTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
