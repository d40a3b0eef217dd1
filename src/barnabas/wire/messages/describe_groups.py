"""``DescribeGroupsRequest`` and ``DescribeGroupsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class DescribeGroupsRequest(Message):
    """API key 15, versions 0-5, flexible since 5."""

    name: ClassVar[str] = "DescribeGroupsRequest"
    api_key: ClassVar[int] = 15
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 5

    __slots__ = (
        "groups",
        "include_authorized_operations",
        "unknown_tagged_fields",
    )

    groups: list[str]  # []string, versions 0+
    include_authorized_operations: bool  # bool, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        groups: list[str] = EMPTY,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is EMPTY else groups
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tagged_fields = None


class DescribeGroupsResponse(Message):
    """API key 15, versions 0-5, flexible since 5."""

    name: ClassVar[str] = "DescribeGroupsResponse"
    api_key: ClassVar[int] = 15
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 5

    class DescribedGroup(Struct):
        __slots__ = (
            "error_code",
            "group_id",
            "group_state",
            "protocol_type",
            "protocol_data",
            "members",
            "authorized_operations",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        group_id: str  # string, versions 0+
        group_state: str  # string, versions 0+
        protocol_type: str  # string, versions 0+
        protocol_data: str  # string, versions 0+
        members: list[DescribeGroupsResponse.DescribedGroupMember]  # []DescribedGroupMember, versions 0+
        authorized_operations: int  # int32, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            group_id: str = "",
            group_state: str = "",
            protocol_type: str = "",
            protocol_data: str = "",
            members: list[DescribeGroupsResponse.DescribedGroupMember] = EMPTY,
            authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.group_id = group_id
            self.group_state = group_state
            self.protocol_type = protocol_type
            self.protocol_data = protocol_data
            self.members = [] if members is EMPTY else members
            self.authorized_operations = authorized_operations
            self.unknown_tagged_fields = None

    class DescribedGroupMember(Struct):
        __slots__ = (
            "member_id",
            "group_instance_id",
            "client_id",
            "client_host",
            "member_metadata",
            "member_assignment",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 0+
        group_instance_id: str | None  # string, versions 4+, nullable, ignorable
        client_id: str  # string, versions 0+
        client_host: str  # string, versions 0+
        member_metadata: Bytes  # bytes, versions 0+
        member_assignment: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            group_instance_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            member_metadata: Bytes = b"",
            member_assignment: Bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.client_id = client_id
            self.client_host = client_host
            self.member_metadata = member_metadata
            self.member_assignment = member_assignment
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "groups",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    groups: list[DescribeGroupsResponse.DescribedGroup]  # []DescribedGroup, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribeGroupsResponse.DescribedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tagged_fields = None
