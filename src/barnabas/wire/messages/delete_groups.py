"""``DeleteGroupsRequest`` and ``DeleteGroupsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DeleteGroupsRequest(Message):
    """API key 42, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "DeleteGroupsRequest"
    api_key: ClassVar[int] = 42
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "groups_names",
        "unknown_tagged_fields",
    )

    groups_names: list[str]  # []string, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        groups_names: list[str] = EMPTY,
    ) -> None:
        self.groups_names = [] if groups_names is EMPTY else groups_names
        self.unknown_tagged_fields = None


class DeleteGroupsResponse(Message):
    """API key 42, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "DeleteGroupsResponse"
    api_key: ClassVar[int] = 42
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class DeletableGroupResult(Struct):
        __slots__ = (
            "group_id",
            "error_code",
            "unknown_tagged_fields",
        )

        group_id: str  # string, versions 0+
        error_code: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            group_id: str = "",
            error_code: int = 0,
        ) -> None:
            self.group_id = group_id
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[DeleteGroupsResponse.DeletableGroupResult]  # []DeletableGroupResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DeleteGroupsResponse.DeletableGroupResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
