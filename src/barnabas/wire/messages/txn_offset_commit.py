"""``TxnOffsetCommitRequest`` and ``TxnOffsetCommitResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class TxnOffsetCommitRequest(Message):
    """API key 28, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "TxnOffsetCommitRequest"
    api_key: ClassVar[int] = 28
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    class TxnOffsetCommitRequestTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]  # []TxnOffsetCommitRequestPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class TxnOffsetCommitRequestPartition(Struct):
        __slots__ = (
            "partition_index",
            "committed_offset",
            "committed_leader_epoch",
            "committed_metadata",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        committed_offset: int  # int64, versions 0+
        committed_leader_epoch: int  # int32, versions 2+, ignorable
        committed_metadata: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            committed_metadata: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.committed_metadata = committed_metadata
            self.unknown_tagged_fields = None

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
        "unknown_tagged_fields",
    )

    transactional_id: str  # string, versions 0+
    group_id: str  # string, versions 0+
    producer_id: int  # int64, versions 0+
    producer_epoch: int  # int16, versions 0+
    generation_id: int  # int32, versions 3+
    member_id: str  # string, versions 3+
    group_instance_id: str | None  # string, versions 3+, nullable
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]  # []TxnOffsetCommitRequestTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class TxnOffsetCommitResponse(Message):
    """API key 28, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "TxnOffsetCommitResponse"
    api_key: ClassVar[int] = 28
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    class TxnOffsetCommitResponseTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition]  # []TxnOffsetCommitResponsePartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class TxnOffsetCommitResponsePartition(Struct):
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
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]  # []TxnOffsetCommitResponseTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
