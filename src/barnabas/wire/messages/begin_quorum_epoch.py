"""``BeginQuorumEpochRequest`` and ``BeginQuorumEpochResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class BeginQuorumEpochRequest(Message):
    """API key 53, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "BeginQuorumEpochRequest"
    api_key: ClassVar[int] = 53
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[BeginQuorumEpochRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[BeginQuorumEpochRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "voter_directory_id",
            "leader_id",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        voter_directory_id: Uuid  # uuid, versions 1+, ignorable
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            voter_directory_id: Uuid = ZERO_UUID,
            leader_id: int = 0,
            leader_epoch: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.voter_directory_id = voter_directory_id
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    class LeaderEndpoint(Struct):
        __slots__ = (
            "name",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 1+
        host: str  # string, versions 1+
        port: int  # uint16, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            host: str = "",
            port: int = 0,
        ) -> None:
            self.name = name
            self.host = host
            self.port = port
            self.unknown_tagged_fields = None

    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
        "leader_endpoints",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 0+, nullable
    voter_id: int  # int32, versions 1+, ignorable
    topics: list[BeginQuorumEpochRequest.TopicData]  # []TopicData, versions 0+
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint]  # []LeaderEndpoint, versions 1+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[BeginQuorumEpochRequest.TopicData] = EMPTY,
        leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is EMPTY else topics
        self.leader_endpoints = [] if leader_endpoints is EMPTY else leader_endpoints
        self.unknown_tagged_fields = None


class BeginQuorumEpochResponse(Message):
    """API key 53, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "BeginQuorumEpochResponse"
    api_key: ClassVar[int] = 53
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[BeginQuorumEpochResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[BeginQuorumEpochResponse.PartitionData] = EMPTY,
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
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
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
    topics: list[BeginQuorumEpochResponse.TopicData]  # []TopicData, versions 0+
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint]  # []NodeEndpoint, versions 1+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        topics: list[BeginQuorumEpochResponse.TopicData] = EMPTY,
        node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
