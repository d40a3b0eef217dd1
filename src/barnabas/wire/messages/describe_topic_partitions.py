"""``DescribeTopicPartitionsRequest`` and ``DescribeTopicPartitionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeTopicPartitionsRequest(Message):
    """API key 75, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeTopicPartitionsRequest"
    api_key: ClassVar[int] = 75
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicRequest(Struct):
        __slots__ = (
            "name",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
        ) -> None:
            self.name = name
            self.unknown_tagged_fields = None

    class Cursor(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partition_index: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "response_partition_limit",
        "cursor",
        "unknown_tagged_fields",
    )

    topics: list[DescribeTopicPartitionsRequest.TopicRequest]  # []TopicRequest, versions 0+
    response_partition_limit: int  # int32, versions 0+
    cursor: DescribeTopicPartitionsRequest.Cursor | None  # Cursor, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DescribeTopicPartitionsRequest.TopicRequest] = EMPTY,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequest.Cursor | None = None,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor
        self.unknown_tagged_fields = None


class DescribeTopicPartitionsResponse(Message):
    """API key 75, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeTopicPartitionsResponse"
    api_key: ClassVar[int] = 75
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DescribeTopicPartitionsResponseTopic(Struct):
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
        name: str | None  # string, versions 0+, nullable
        topic_id: Uuid  # uuid, versions 0+, ignorable
        is_internal: bool  # bool, versions 0+, ignorable
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]  # []DescribeTopicPartitionsResponsePartition, versions 0+
        topic_authorized_operations: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            name: str | None = "",
            topic_id: Uuid = ZERO_UUID,
            is_internal: bool = False,
            partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = EMPTY,
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = [] if partitions is EMPTY else partitions
            self.topic_authorized_operations = topic_authorized_operations
            self.unknown_tagged_fields = None

    class DescribeTopicPartitionsResponsePartition(Struct):
        __slots__ = (
            "error_code",
            "partition_index",
            "leader_id",
            "leader_epoch",
            "replica_nodes",
            "isr_nodes",
            "eligible_leader_replicas",
            "last_known_elr",
            "offline_replicas",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        partition_index: int  # int32, versions 0+
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+, ignorable
        replica_nodes: list[int]  # []int32, versions 0+
        isr_nodes: list[int]  # []int32, versions 0+
        eligible_leader_replicas: list[int] | None  # []int32, versions 0+, nullable
        last_known_elr: list[int] | None  # []int32, versions 0+, nullable
        offline_replicas: list[int]  # []int32, versions 0+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: list[int] = EMPTY,
            isr_nodes: list[int] = EMPTY,
            eligible_leader_replicas: list[int] | None = None,
            last_known_elr: list[int] | None = None,
            offline_replicas: list[int] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = [] if replica_nodes is EMPTY else replica_nodes
            self.isr_nodes = [] if isr_nodes is EMPTY else isr_nodes
            self.eligible_leader_replicas = eligible_leader_replicas
            self.last_known_elr = last_known_elr
            self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas
            self.unknown_tagged_fields = None

    class Cursor(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partition_index: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "next_cursor",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+, ignorable
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic]  # []DescribeTopicPartitionsResponseTopic, versions 0+
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None  # Cursor, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = EMPTY,
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.next_cursor = next_cursor
        self.unknown_tagged_fields = None
