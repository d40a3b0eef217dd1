"""``ShareAcknowledgeRequest`` and ``ShareAcknowledgeResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ShareAcknowledgeRequest(Message):
    """API key 79, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareAcknowledgeRequest"
    api_key: ClassVar[int] = 79
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class AcknowledgeTopic(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]  # []AcknowledgePartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class AcknowledgePartition(Struct):
        __slots__ = (
            "partition_index",
            "acknowledgement_batches",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]  # []AcknowledgementBatch, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
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

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "topics",
        "unknown_tagged_fields",
    )

    group_id: str | None  # string, versions 0+, nullable
    member_id: str | None  # string, versions 0+, nullable
    share_session_epoch: int  # int32, versions 0+
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]  # []AcknowledgeTopic, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class ShareAcknowledgeResponse(Message):
    """API key 79, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareAcknowledgeResponse"
    api_key: ClassVar[int] = 79
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ShareAcknowledgeTopicResponse(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+, ignorable
        partitions: list[ShareAcknowledgeResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partitions: list[ShareAcknowledgeResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "error_message",
            "current_leader",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch  # LeaderIdAndEpoch, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.current_leader = ShareAcknowledgeResponse.LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
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
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]  # []ShareAcknowledgeTopicResponse, versions 0+
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]  # []NodeEndpoint, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = EMPTY,
        node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
