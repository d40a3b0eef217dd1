"""``SyncGroupRequest`` and ``SyncGroupResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class SyncGroupRequest(Message):
    """API key 14, versions 0-5, flexible since 4."""

    name: ClassVar[str] = "SyncGroupRequest"
    api_key: ClassVar[int] = 14
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 4

    class SyncGroupRequestAssignment(Struct):
        __slots__ = (
            "member_id",
            "assignment",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 0+
        assignment: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            assignment: Bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.assignment = assignment
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    generation_id: int  # int32, versions 0+
    member_id: str  # string, versions 0+
    group_instance_id: str | None  # string, versions 3+, nullable
    protocol_type: str | None  # string, versions 5+, nullable, ignorable
    protocol_name: str | None  # string, versions 5+, nullable, ignorable
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment]  # []SyncGroupRequestAssignment, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is EMPTY else assignments
        self.unknown_tagged_fields = None


class SyncGroupResponse(Message):
    """API key 14, versions 0-5, flexible since 4."""

    name: ClassVar[str] = "SyncGroupResponse"
    api_key: ClassVar[int] = 14
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 4

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "protocol_type",
        "protocol_name",
        "assignment",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 0+
    protocol_type: str | None  # string, versions 5+, nullable, ignorable
    protocol_name: str | None  # string, versions 5+, nullable, ignorable
    assignment: Bytes  # bytes, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: Bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
        self.unknown_tagged_fields = None
