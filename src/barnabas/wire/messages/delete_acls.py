"""``DeleteAclsRequest`` and ``DeleteAclsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DeleteAclsRequest(Message):
    """API key 31, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DeleteAclsRequest"
    api_key: ClassVar[int] = 31
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class DeleteAclsFilter(Struct):
        __slots__ = (
            "resource_type_filter",
            "resource_name_filter",
            "pattern_type_filter",
            "principal_filter",
            "host_filter",
            "operation",
            "permission_type",
            "unknown_tagged_fields",
        )

        resource_type_filter: int  # int8, versions 0+
        resource_name_filter: str | None  # string, versions 0+, nullable
        pattern_type_filter: int  # int8, versions 1+
        principal_filter: str | None  # string, versions 0+, nullable
        host_filter: str | None  # string, versions 0+, nullable
        operation: int  # int8, versions 0+
        permission_type: int  # int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            resource_type_filter: int = 0,
            resource_name_filter: str | None = "",
            pattern_type_filter: int = 3,
            principal_filter: str | None = "",
            host_filter: str | None = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.resource_type_filter = resource_type_filter
            self.resource_name_filter = resource_name_filter
            self.pattern_type_filter = pattern_type_filter
            self.principal_filter = principal_filter
            self.host_filter = host_filter
            self.operation = operation
            self.permission_type = permission_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "filters",
        "unknown_tagged_fields",
    )

    filters: list[DeleteAclsRequest.DeleteAclsFilter]  # []DeleteAclsFilter, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        filters: list[DeleteAclsRequest.DeleteAclsFilter] = EMPTY,
    ) -> None:
        self.filters = [] if filters is EMPTY else filters
        self.unknown_tagged_fields = None


class DeleteAclsResponse(Message):
    """API key 31, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DeleteAclsResponse"
    api_key: ClassVar[int] = 31
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class DeleteAclsFilterResult(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "matching_acls",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]  # []DeleteAclsMatchingAcl, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
            matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.matching_acls = [] if matching_acls is EMPTY else matching_acls
            self.unknown_tagged_fields = None

    class DeleteAclsMatchingAcl(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "resource_type",
            "resource_name",
            "pattern_type",
            "principal",
            "host",
            "operation",
            "permission_type",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        pattern_type: int  # int8, versions 1+
        principal: str  # string, versions 0+
        host: str  # string, versions 0+
        operation: int  # int8, versions 0+
        permission_type: int  # int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "filter_results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]  # []DeleteAclsFilterResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is EMPTY else filter_results
        self.unknown_tagged_fields = None
