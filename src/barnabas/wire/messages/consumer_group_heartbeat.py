"""``ConsumerGroupHeartbeatRequest`` and ``ConsumerGroupHeartbeatResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ConsumerGroupHeartbeatRequest(Message):
    """API key 68, versions 0, flexible since 0."""

    name: ClassVar[str] = "ConsumerGroupHeartbeatRequest"
    api_key: ClassVar[int] = 68
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicPartitions(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
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
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "server_assignor",
        "topic_partitions",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    member_id: str  # string, versions 0+
    member_epoch: int  # int32, versions 0+
    instance_id: str | None  # string, versions 0+, nullable
    rack_id: str | None  # string, versions 0+, nullable
    rebalance_timeout_ms: int  # int32, versions 0+
    subscribed_topic_names: list[str] | None  # []string, versions 0+, nullable
    server_assignor: str | None  # string, versions 0+, nullable
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None  # []TopicPartitions, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions
        self.unknown_tagged_fields = None


class ConsumerGroupHeartbeatResponse(Message):
    """API key 68, versions 0, flexible since 0."""

    name: ClassVar[str] = "ConsumerGroupHeartbeatResponse"
    api_key: ClassVar[int] = 68
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicPartitions(Struct):
        __slots__ = (
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
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

    class Assignment(Struct):
        __slots__ = (
            "topic_partitions",
            "unknown_tagged_fields",
        )

        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]  # []TopicPartitions, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = EMPTY,
        ) -> None:
            self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    member_id: str | None  # string, versions 0+, nullable
    member_epoch: int  # int32, versions 0+
    heartbeat_interval_ms: int  # int32, versions 0+
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None  # Assignment, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
        self.unknown_tagged_fields = None
