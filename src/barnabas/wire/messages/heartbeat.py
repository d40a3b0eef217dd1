"""``HeartbeatRequest`` and ``HeartbeatResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class HeartbeatRequest(Message):
    """API key 12, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "HeartbeatRequest"
    api_key: ClassVar[int] = 12
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "unknown_tagged_fields",
    )

    group_id: str  # string, versions 0+
    generation_id: int  # int32, versions 0+
    member_id: str  # string, versions 0+
    group_instance_id: str | None  # string, versions 3+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.unknown_tagged_fields = None


class HeartbeatResponse(Message):
    """API key 12, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "HeartbeatResponse"
    api_key: ClassVar[int] = 12
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tagged_fields = None
