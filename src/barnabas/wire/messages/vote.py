"""``VoteRequest`` and ``VoteResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class VoteRequest(Message):
    """API key 52, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "VoteRequest"
    api_key: ClassVar[int] = 52
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[VoteRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[VoteRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "candidate_epoch",
            "candidate_id",
            "candidate_directory_id",
            "voter_directory_id",
            "last_offset_epoch",
            "last_offset",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        candidate_epoch: int  # int32, versions 0+
        candidate_id: int  # int32, versions 0+
        candidate_directory_id: Uuid  # uuid, versions 1+, ignorable
        voter_directory_id: Uuid  # uuid, versions 1+, ignorable
        last_offset_epoch: int  # int32, versions 0+
        last_offset: int  # int64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            candidate_epoch: int = 0,
            candidate_id: int = 0,
            candidate_directory_id: Uuid = ZERO_UUID,
            voter_directory_id: Uuid = ZERO_UUID,
            last_offset_epoch: int = 0,
            last_offset: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.candidate_epoch = candidate_epoch
            self.candidate_id = candidate_id
            self.candidate_directory_id = candidate_directory_id
            self.voter_directory_id = voter_directory_id
            self.last_offset_epoch = last_offset_epoch
            self.last_offset = last_offset
            self.unknown_tagged_fields = None

    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 0+, nullable
    voter_id: int  # int32, versions 1+, ignorable
    topics: list[VoteRequest.TopicData]  # []TopicData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[VoteRequest.TopicData] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class VoteResponse(Message):
    """API key 52, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "VoteResponse"
    api_key: ClassVar[int] = 52
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[VoteResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[VoteResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "leader_id",
            "leader_epoch",
            "vote_granted",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        vote_granted: bool  # bool, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            vote_granted: bool = False,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.vote_granted = vote_granted
            self.unknown_tagged_fields = None

    class NodeEndpoint(Struct):
        __slots__ = (
            "node_id",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 1+
        host: str  # string, versions 1+
        port: int  # uint16, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.unknown_tagged_fields = None

    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    topics: list[VoteResponse.TopicData]  # []TopicData, versions 0+
    node_endpoints: list[VoteResponse.NodeEndpoint]  # []NodeEndpoint, versions 1+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        topics: list[VoteResponse.TopicData] = EMPTY,
        node_endpoints: list[VoteResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
