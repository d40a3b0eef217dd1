"""``LeaveGroupRequest`` and ``LeaveGroupResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class LeaveGroupRequest(Message):
    """API key 13, versions 0-5, flexible since 4."""

    name: ClassVar[str] = "LeaveGroupRequest"
    api_key: ClassVar[int] = 13
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 4

    class MemberIdentity(Struct):
        __slots__ = (
            "member_id",
            "group_instance_id",
            "reason",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 3+
        group_instance_id: str | None  # string, versions 3+, nullable
        reason: str | None  # string, versions 5+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            group_instance_id: str | None = None,
            reason: str | None = None,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.reason = reason
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "member_id",
        "members",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    member_id: str  # string, versions 0-2
    members: list[LeaveGroupRequest.MemberIdentity]  # []MemberIdentity, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        members: list[LeaveGroupRequest.MemberIdentity] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is EMPTY else members
        self.unknown_tagged_fields = None


class LeaveGroupResponse(Message):
    """API key 13, versions 0-5, flexible since 4."""

    name: ClassVar[str] = "LeaveGroupResponse"
    api_key: ClassVar[int] = 13
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 4

    class MemberResponse(Struct):
        __slots__ = (
            "member_id",
            "group_instance_id",
            "error_code",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 3+
        group_instance_id: str | None  # string, versions 3+, nullable
        error_code: int  # int16, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            group_instance_id: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "members",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 0+
    members: list[LeaveGroupResponse.MemberResponse]  # []MemberResponse, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[LeaveGroupResponse.MemberResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is EMPTY else members
        self.unknown_tagged_fields = None
