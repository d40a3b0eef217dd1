"""``JoinGroupRequest`` and ``JoinGroupResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class JoinGroupRequest(Message):
    """API key 11, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "JoinGroupRequest"
    api_key: ClassVar[int] = 11
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class JoinGroupRequestProtocol(Struct):
        __slots__ = (
            "name",
            "metadata",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        metadata: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            metadata: Bytes = b"",
        ) -> None:
            self.name = name
            self.metadata = metadata
            self.unknown_tagged_fields = None

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    session_timeout_ms: int  # int32, versions 0+
    rebalance_timeout_ms: int  # int32, versions 1+, ignorable
    member_id: str  # string, versions 0+
    group_instance_id: str | None  # string, versions 5+, nullable
    protocol_type: str  # string, versions 0+
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol]  # []JoinGroupRequestProtocol, versions 0+
    reason: str | None  # string, versions 8+, nullable, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = EMPTY,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is EMPTY else protocols
        self.reason = reason
        self.unknown_tagged_fields = None


class JoinGroupResponse(Message):
    """API key 11, versions 0-9, flexible since 6."""

    name: ClassVar[str] = "JoinGroupResponse"
    api_key: ClassVar[int] = 11
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 6

    class JoinGroupResponseMember(Struct):
        __slots__ = (
            "member_id",
            "group_instance_id",
            "metadata",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 0+
        group_instance_id: str | None  # string, versions 5+, nullable, ignorable
        metadata: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            group_instance_id: str | None = None,
            metadata: Bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.metadata = metadata
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 2+, ignorable
    error_code: int  # int16, versions 0+
    generation_id: int  # int32, versions 0+
    protocol_type: str | None  # string, versions 7+, nullable, ignorable
    protocol_name: str | None  # string, versions 0+, nullable in 7+
    leader: str  # string, versions 0+
    skip_assignment: bool  # bool, versions 9+
    member_id: str  # string, versions 0+
    members: list[JoinGroupResponse.JoinGroupResponseMember]  # []JoinGroupResponseMember, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponse.JoinGroupResponseMember] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is EMPTY else members
        self.unknown_tagged_fields = None
