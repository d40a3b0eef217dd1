"""``WriteTxnMarkersRequest`` and ``WriteTxnMarkersResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class WriteTxnMarkersRequest(Message):
    """API key 27, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "WriteTxnMarkersRequest"
    api_key: ClassVar[int] = 27
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class WritableTxnMarker(Struct):
        __slots__ = (
            "producer_id",
            "producer_epoch",
            "transaction_result",
            "topics",
            "coordinator_epoch",
            "unknown_tagged_fields",
        )

        producer_id: int  # int64, versions 0+
        producer_epoch: int  # int16, versions 0+
        transaction_result: bool  # bool, versions 0+
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]  # []WritableTxnMarkerTopic, versions 0+
        coordinator_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            producer_id: int = 0,
            producer_epoch: int = 0,
            transaction_result: bool = False,
            topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = EMPTY,
            coordinator_epoch: int = 0,
        ) -> None:
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.transaction_result = transaction_result
            self.topics = [] if topics is EMPTY else topics
            self.coordinator_epoch = coordinator_epoch
            self.unknown_tagged_fields = None

    class WritableTxnMarkerTopic(Struct):
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
        "markers",
        "unknown_tagged_fields",
    )

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]  # []WritableTxnMarker, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = EMPTY,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers
        self.unknown_tagged_fields = None


class WriteTxnMarkersResponse(Message):
    """API key 27, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "WriteTxnMarkersResponse"
    api_key: ClassVar[int] = 27
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class WritableTxnMarkerResult(Struct):
        __slots__ = (
            "producer_id",
            "topics",
            "unknown_tagged_fields",
        )

        producer_id: int  # int64, versions 0+
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]  # []WritableTxnMarkerTopicResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            producer_id: int = 0,
            topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = EMPTY,
        ) -> None:
            self.producer_id = producer_id
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class WritableTxnMarkerTopicResult(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]  # []WritableTxnMarkerPartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class WritableTxnMarkerPartitionResult(Struct):
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
        "markers",
        "unknown_tagged_fields",
    )

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]  # []WritableTxnMarkerResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = EMPTY,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers
        self.unknown_tagged_fields = None
