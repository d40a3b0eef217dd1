"""``GroupMetadataValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class GroupMetadataValue(Message):
    """Versions 0-4, flexible since 4."""

    name: ClassVar[str] = "GroupMetadataValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    class MemberMetadata(Struct):
        __slots__ = (
            "member_id",
            "group_instance_id",
            "client_id",
            "client_host",
            "rebalance_timeout",
            "session_timeout",
            "subscription",
            "assignment",
            "unknown_tagged_fields",
        )

        member_id: str  # string, versions 0+
        group_instance_id: str | None  # string, versions 3+, nullable, ignorable
        client_id: str  # string, versions 0+
        client_host: str  # string, versions 0+
        rebalance_timeout: int  # int32, versions 1+, ignorable
        session_timeout: int  # int32, versions 0+
        subscription: Bytes  # bytes, versions 0+
        assignment: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            member_id: str = "",
            group_instance_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            rebalance_timeout: int = -1,
            session_timeout: int = 0,
            subscription: Bytes = b"",
            assignment: Bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.client_id = client_id
            self.client_host = client_host
            self.rebalance_timeout = rebalance_timeout
            self.session_timeout = session_timeout
            self.subscription = subscription
            self.assignment = assignment
            self.unknown_tagged_fields = None

    __slots__ = (
        "protocol_type",
        "generation",
        "protocol",
        "leader",
        "current_state_timestamp",
        "members",
        "unknown_tagged_fields",
    )

    protocol_type: str  # string, versions 0+
    generation: int  # int32, versions 0+
    protocol: str | None  # string, versions 0+, nullable
    leader: str | None  # string, versions 0+, nullable
    current_state_timestamp: int  # int64, versions 2+, ignorable
    members: list[GroupMetadataValue.MemberMetadata]  # []MemberMetadata, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: list[GroupMetadataValue.MemberMetadata] = EMPTY,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is EMPTY else members
        self.unknown_tagged_fields = None
