"""``ShareFetchRequest`` and ``ShareFetchResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Records, Struct, TaggedFields


class ShareFetchRequest(Message):
    """API key 78, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareFetchRequest"
    api_key: ClassVar[int] = 78
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class FetchTopic(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+, ignorable
        partitions: list[ShareFetchRequest.FetchPartition]  # []FetchPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[ShareFetchRequest.FetchPartition] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class FetchPartition(Struct):
        __slots__ = (
            "partition_index",
            "partition_max_bytes",
            "acknowledgement_batches",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        partition_max_bytes: int  # int32, versions 0+
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]  # []AcknowledgementBatch, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            partition_max_bytes: int = 0,
            acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.partition_max_bytes = partition_max_bytes
            self.acknowledgement_batches = [] if acknowledgement_batches is EMPTY else acknowledgement_batches
            self.unknown_tagged_fields = None

    class AcknowledgementBatch(Struct):
        __slots__ = (
            "first_offset",
            "last_offset",
            "acknowledge_types",
            "unknown_tagged_fields",
        )

        first_offset: int  # int64, versions 0+
        last_offset: int  # int64, versions 0+
        acknowledge_types: list[int]  # []int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            first_offset: int = 0,
            last_offset: int = 0,
            acknowledge_types: list[int] = EMPTY,
        ) -> None:
            self.first_offset = first_offset
            self.last_offset = last_offset
            self.acknowledge_types = [] if acknowledge_types is EMPTY else acknowledge_types
            self.unknown_tagged_fields = None

    class ForgottenTopic(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+, ignorable
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "topics",
        "forgotten_topics_data",
        "unknown_tagged_fields",
    )

    group_id: str | None  # string, versions 0+, nullable
    member_id: str | None  # string, versions 0+, nullable
    share_session_epoch: int  # int32, versions 0+
    max_wait_ms: int  # int32, versions 0+
    min_bytes: int  # int32, versions 0+
    max_bytes: int  # int32, versions 0+, ignorable
    topics: list[ShareFetchRequest.FetchTopic]  # []FetchTopic, versions 0+
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]  # []ForgottenTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        topics: list[ShareFetchRequest.FetchTopic] = EMPTY,
        forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.topics = [] if topics is EMPTY else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is EMPTY else forgotten_topics_data
        self.unknown_tagged_fields = None


class ShareFetchResponse(Message):
    """API key 78, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareFetchResponse"
    api_key: ClassVar[int] = 78
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ShareFetchableTopicResponse(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+, ignorable
        partitions: list[ShareFetchResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[ShareFetchResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "error_message",
            "acknowledge_error_code",
            "acknowledge_error_message",
            "current_leader",
            "records",
            "acquired_records",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        acknowledge_error_code: int  # int16, versions 0+
        acknowledge_error_message: str | None  # string, versions 0+, nullable
        current_leader: ShareFetchResponse.LeaderIdAndEpoch  # LeaderIdAndEpoch, versions 0+
        records: Records  # records, versions 0+, nullable
        acquired_records: list[ShareFetchResponse.AcquiredRecords]  # []AcquiredRecords, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            acknowledge_error_code: int = 0,
            acknowledge_error_message: str | None = None,
            current_leader: ShareFetchResponse.LeaderIdAndEpoch = EMPTY,
            records: Records = None,
            acquired_records: list[ShareFetchResponse.AcquiredRecords] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.acknowledge_error_code = acknowledge_error_code
            self.acknowledge_error_message = acknowledge_error_message
            self.current_leader = ShareFetchResponse.LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
            self.records = records
            self.acquired_records = [] if acquired_records is EMPTY else acquired_records
            self.unknown_tagged_fields = None

    class LeaderIdAndEpoch(Struct):
        __slots__ = (
            "leader_id",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            leader_id: int = 0,
            leader_epoch: int = 0,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    class AcquiredRecords(Struct):
        __slots__ = (
            "first_offset",
            "last_offset",
            "delivery_count",
            "unknown_tagged_fields",
        )

        first_offset: int  # int64, versions 0+
        last_offset: int  # int64, versions 0+
        delivery_count: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_count: int = 0,
        ) -> None:
            self.first_offset = first_offset
            self.last_offset = last_offset
            self.delivery_count = delivery_count
            self.unknown_tagged_fields = None

    class NodeEndpoint(Struct):
        __slots__ = (
            "node_id",
            "host",
            "port",
            "rack",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 0+
        host: str  # string, versions 0+
        port: int  # int32, versions 0+
        rack: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
        "node_endpoints",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+, ignorable
    error_code: int  # int16, versions 0+, ignorable
    error_message: str | None  # string, versions 0+, nullable
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]  # []ShareFetchableTopicResponse, versions 0+
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]  # []NodeEndpoint, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = EMPTY,
        node_endpoints: list[ShareFetchResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
