"""``ShareGroupDescribeRequest`` and ``ShareGroupDescribeResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ShareGroupDescribeRequest(Message):
    """API key 77, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareGroupDescribeRequest"
    api_key: ClassVar[int] = 77
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "group_ids",
        "include_authorized_operations",
        "unknown_tagged_fields",
    )

    group_ids: list[str]  # []string, versions 0+
    include_authorized_operations: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_ids: list[str] = EMPTY,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is EMPTY else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tagged_fields = None


class ShareGroupDescribeResponse(Message):
    """API key 77, versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareGroupDescribeResponse"
    api_key: ClassVar[int] = 77
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TopicPartitions(Struct):
        __slots__ = (
            "topic_id",
            "topic_name",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 0+
        topic_name: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            topic_name: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class Assignment(Struct):
        __slots__ = (
            "topic_partitions",
            "unknown_tagged_fields",
        )

        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]  # []TopicPartitions, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = EMPTY,
        ) -> None:
            self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
            self.unknown_tagged_fields = None

    class DescribedGroup(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "group_id",
            "group_state",
            "group_epoch",
            "assignment_epoch",
            "assignor_name",
            "members",
            "authorized_operations",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        group_id: str  # string, versions 0+
        group_state: str  # string, versions 0+
        group_epoch: int  # int32, versions 0+
        assignment_epoch: int  # int32, versions 0+
        assignor_name: str  # string, versions 0+
        members: list[ShareGroupDescribeResponse.Member]  # []Member, versions 0+
        authorized_operations: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            group_epoch: int = 0,
            assignment_epoch: int = 0,
            assignor_name: str = "",
            members: list[ShareGroupDescribeResponse.Member] = EMPTY,
            authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.group_id = group_id
            self.group_state = group_state
            self.group_epoch = group_epoch
            self.assignment_epoch = assignment_epoch
            self.assignor_name = assignor_name
            self.members = [] if members is EMPTY else members
            self.authorized_operations = authorized_operations
            self.unknown_tagged_fields = None

    class Member(Struct):
        __slots__ = (
            "member_id",
            "rack_id",
            "member_epoch",
            "client_id",
            "client_host",
            "subscribed_topic_names",
            "assignment",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 0+
        rack_id: str | None  # string, versions 0+, nullable
        member_epoch: int  # int32, versions 0+
        client_id: str  # string, versions 0+
        client_host: str  # string, versions 0+
        subscribed_topic_names: list[str]  # []string, versions 0+
        assignment: ShareGroupDescribeResponse.Assignment  # Assignment, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            rack_id: str | None = None,
            member_epoch: int = 0,
            client_id: str = "",
            client_host: str = "",
            subscribed_topic_names: list[str] = EMPTY,
            assignment: ShareGroupDescribeResponse.Assignment = EMPTY,
        ) -> None:
            self.member_id = member_id
            self.rack_id = rack_id
            self.member_epoch = member_epoch
            self.client_id = client_id
            self.client_host = client_host
            self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
            self.assignment = ShareGroupDescribeResponse.Assignment() if assignment is EMPTY else assignment
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "groups",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    groups: list[ShareGroupDescribeResponse.DescribedGroup]  # []DescribedGroup, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[ShareGroupDescribeResponse.DescribedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tagged_fields = None
