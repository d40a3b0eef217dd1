"""``ListGroupsRequest`` and ``ListGroupsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ListGroupsRequest(Message):
    """API key 16, versions 0-5, flexible since 3."""

    name: ClassVar[str] = "ListGroupsRequest"
    api_key: ClassVar[int] = 16
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "states_filter",
        "types_filter",
        "unknown_tagged_fields",
    )

    states_filter: list[str]  # []string, versions 4+
    types_filter: list[str]  # []string, versions 5+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        states_filter: list[str] = EMPTY,
        types_filter: list[str] = EMPTY,
    ) -> None:
        self.states_filter = [] if states_filter is EMPTY else states_filter
        self.types_filter = [] if types_filter is EMPTY else types_filter
        self.unknown_tagged_fields = None


class ListGroupsResponse(Message):
    """API key 16, versions 0-5, flexible since 3."""

    name: ClassVar[str] = "ListGroupsResponse"
    api_key: ClassVar[int] = 16
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 3

    class ListedGroup(Struct):
        __slots__ = (
            "group_id",
            "protocol_type",
            "group_state",
            "group_type",
            "unknown_tagged_fields",
        )

        group_id: str  # string, versions 0+
        protocol_type: str  # string, versions 0+
        group_state: str  # string, versions 4+, ignorable
        group_type: str  # string, versions 5+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            group_id: str = "",
            protocol_type: str = "",
            group_state: str = "",
            group_type: str = "",
        ) -> None:
            self.group_id = group_id
            self.protocol_type = protocol_type
            self.group_state = group_state
            self.group_type = group_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "groups",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 0+
    groups: list[ListGroupsResponse.ListedGroup]  # []ListedGroup, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListGroupsResponse.ListedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tagged_fields = None
