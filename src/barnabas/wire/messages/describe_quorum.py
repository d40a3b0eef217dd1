"""``DescribeQuorumRequest`` and ``DescribeQuorumResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeQuorumRequest(Message):
    """API key 55, versions 0-2, flexible since 0."""

    name: ClassVar[str] = "DescribeQuorumRequest"
    api_key: ClassVar[int] = 55
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 0

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[DescribeQuorumRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[DescribeQuorumRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "unknown_tagged_fields",
    )

    topics: list[DescribeQuorumRequest.TopicData]  # []TopicData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DescribeQuorumRequest.TopicData] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class DescribeQuorumResponse(Message):
    """API key 55, versions 0-2, flexible since 0."""

    name: ClassVar[str] = "DescribeQuorumResponse"
    api_key: ClassVar[int] = 55
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 0

    class ReplicaState(Struct):
        __slots__ = (
            "replica_id",
            "replica_directory_id",
            "log_end_offset",
            "last_fetch_timestamp",
            "last_caught_up_timestamp",
            "unknown_tagged_fields",
        )

        replica_id: int  # int32, versions 0+
        replica_directory_id: Uuid  # uuid, versions 2+
        log_end_offset: int  # int64, versions 0+
        last_fetch_timestamp: int  # int64, versions 1+, ignorable
        last_caught_up_timestamp: int  # int64, versions 1+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            replica_id: int = 0,
            replica_directory_id: Uuid = ZERO_UUID,
            log_end_offset: int = 0,
            last_fetch_timestamp: int = -1,
            last_caught_up_timestamp: int = -1,
        ) -> None:
            self.replica_id = replica_id
            self.replica_directory_id = replica_directory_id
            self.log_end_offset = log_end_offset
            self.last_fetch_timestamp = last_fetch_timestamp
            self.last_caught_up_timestamp = last_caught_up_timestamp
            self.unknown_tagged_fields = None

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partitions: list[DescribeQuorumResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partitions: list[DescribeQuorumResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "error_message",
            "leader_id",
            "leader_epoch",
            "high_watermark",
            "current_voters",
            "observers",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 2+, nullable, ignorable
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        high_watermark: int  # int64, versions 0+
        current_voters: list[DescribeQuorumResponse.ReplicaState]  # []ReplicaState, versions 0+
        observers: list[DescribeQuorumResponse.ReplicaState]  # []ReplicaState, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            leader_id: int = 0,
            leader_epoch: int = 0,
            high_watermark: int = 0,
            current_voters: list[DescribeQuorumResponse.ReplicaState] = EMPTY,
            observers: list[DescribeQuorumResponse.ReplicaState] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.high_watermark = high_watermark
            self.current_voters = [] if current_voters is EMPTY else current_voters
            self.observers = [] if observers is EMPTY else observers
            self.unknown_tagged_fields = None

    class Node(Struct):
        __slots__ = (
            "node_id",
            "listeners",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 2+
        listeners: list[DescribeQuorumResponse.Listener]  # []Listener, versions 2+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            node_id: int = 0,
            listeners: list[DescribeQuorumResponse.Listener] = EMPTY,
        ) -> None:
            self.node_id = node_id
            self.listeners = [] if listeners is EMPTY else listeners
            self.unknown_tagged_fields = None

    class Listener(Struct):
        __slots__ = (
            "name",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 2+
        host: str  # string, versions 2+
        port: int  # uint16, versions 2+
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
        "error_code",
        "error_message",
        "topics",
        "nodes",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 2+, nullable, ignorable
    topics: list[DescribeQuorumResponse.TopicData]  # []TopicData, versions 0+
    nodes: list[DescribeQuorumResponse.Node]  # []Node, versions 2+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[DescribeQuorumResponse.TopicData] = EMPTY,
        nodes: list[DescribeQuorumResponse.Node] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
        self.nodes = [] if nodes is EMPTY else nodes
        self.unknown_tagged_fields = None
