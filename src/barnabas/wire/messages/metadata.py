"""``MetadataRequest`` and ``MetadataResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class MetadataRequest(Message):
    """API key 3, versions 0-12, flexible since 9."""

    name: ClassVar[str] = "MetadataRequest"
    api_key: ClassVar[int] = 3
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 12
    flexible_since: ClassVar[int] = 9

    class MetadataRequestTopic(Struct):
        __slots__ = (
            "topic_id",
            "name",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 10+, ignorable
        name: str | None  # string, versions 0+, nullable in 10+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            name: str | None = "",
        ) -> None:
            self.topic_id = topic_id
            self.name = name
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        "unknown_tagged_fields",
    )

    topics: list[MetadataRequest.MetadataRequestTopic] | None  # []MetadataRequestTopic, versions 0+, nullable in 1+
    allow_auto_topic_creation: bool  # bool, versions 4+
    include_cluster_authorized_operations: bool  # bool, versions 8-10
    include_topic_authorized_operations: bool  # bool, versions 8+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[MetadataRequest.MetadataRequestTopic] | None = EMPTY,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.unknown_tagged_fields = None


class MetadataResponse(Message):
    """API key 3, versions 0-12, flexible since 9."""

    name: ClassVar[str] = "MetadataResponse"
    api_key: ClassVar[int] = 3
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 12
    flexible_since: ClassVar[int] = 9

    class MetadataResponseBroker(Struct):
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
        rack: str | None  # string, versions 1+, nullable, ignorable
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

    class MetadataResponseTopic(Struct):
        __slots__ = (
            "error_code",
            "name",
            "topic_id",
            "is_internal",
            "partitions",
            "topic_authorized_operations",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        name: str | None  # string, versions 0+, nullable in 12+
        topic_id: Uuid  # uuid, versions 10+, ignorable
        is_internal: bool  # bool, versions 1+, ignorable
        partitions: list[MetadataResponse.MetadataResponsePartition]  # []MetadataResponsePartition, versions 0+
        topic_authorized_operations: int  # int32, versions 8+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            name: str | None = "",
            topic_id: Uuid = ZERO_UUID,
            is_internal: bool = False,
            partitions: list[MetadataResponse.MetadataResponsePartition] = EMPTY,
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = [] if partitions is EMPTY else partitions
            self.topic_authorized_operations = topic_authorized_operations
            self.unknown_tagged_fields = None

    class MetadataResponsePartition(Struct):
        __slots__ = (
            "error_code",
            "partition_index",
            "leader_id",
            "leader_epoch",
            "replica_nodes",
            "isr_nodes",
            "offline_replicas",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        partition_index: int  # int32, versions 0+
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 7+, ignorable
        replica_nodes: list[int]  # []int32, versions 0+
        isr_nodes: list[int]  # []int32, versions 0+
        offline_replicas: list[int]  # []int32, versions 5+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: list[int] = EMPTY,
            isr_nodes: list[int] = EMPTY,
            offline_replicas: list[int] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = [] if replica_nodes is EMPTY else replica_nodes
            self.isr_nodes = [] if isr_nodes is EMPTY else isr_nodes
            self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 3+, ignorable
    brokers: list[MetadataResponse.MetadataResponseBroker]  # []MetadataResponseBroker, versions 0+
    cluster_id: str | None  # string, versions 2+, nullable, ignorable
    controller_id: int  # int32, versions 1+, ignorable
    topics: list[MetadataResponse.MetadataResponseTopic]  # []MetadataResponseTopic, versions 0+
    cluster_authorized_operations: int  # int32, versions 8-10
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponse.MetadataResponseBroker] = EMPTY,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponse.MetadataResponseTopic] = EMPTY,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is EMPTY else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is EMPTY else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.unknown_tagged_fields = None
