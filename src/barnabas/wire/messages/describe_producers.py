"""``DescribeProducersRequest`` and ``DescribeProducersResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeProducersRequest(Message):
    """API key 61, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeProducersRequest"
    api_key: ClassVar[int] = 61
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicRequest(Struct):
        __slots__ = (
            "name",
            "partition_indexes",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partition_indexes: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_indexes: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "unknown_tagged_fields",
    )

    topics: list[DescribeProducersRequest.TopicRequest]  # []TopicRequest, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DescribeProducersRequest.TopicRequest] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class DescribeProducersResponse(Message):
    """API key 61, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeProducersResponse"
    api_key: ClassVar[int] = 61
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicResponse(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[DescribeProducersResponse.PartitionResponse]  # []PartitionResponse, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[DescribeProducersResponse.PartitionResponse] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionResponse(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "error_message",
            "active_producers",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        active_producers: list[DescribeProducersResponse.ProducerState]  # []ProducerState, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            active_producers: list[DescribeProducersResponse.ProducerState] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.active_producers = [] if active_producers is EMPTY else active_producers
            self.unknown_tagged_fields = None

    class ProducerState(Struct):
        __slots__ = (
            "producer_id",
            "producer_epoch",
            "last_sequence",
            "last_timestamp",
            "coordinator_epoch",
            "current_txn_start_offset",
            "unknown_tagged_fields",
        )

        producer_id: int  # int64, versions 0+
        producer_epoch: int  # int32, versions 0+
        last_sequence: int  # int32, versions 0+
        last_timestamp: int  # int64, versions 0+
        coordinator_epoch: int  # int32, versions 0+
        current_txn_start_offset: int  # int64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            producer_id: int = 0,
            producer_epoch: int = 0,
            last_sequence: int = -1,
            last_timestamp: int = -1,
            coordinator_epoch: int = 0,
            current_txn_start_offset: int = -1,
        ) -> None:
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.last_sequence = last_sequence
            self.last_timestamp = last_timestamp
            self.coordinator_epoch = coordinator_epoch
            self.current_txn_start_offset = current_txn_start_offset
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    topics: list[DescribeProducersResponse.TopicResponse]  # []TopicResponse, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeProducersResponse.TopicResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
