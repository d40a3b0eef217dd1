"""``DescribeAclsRequest`` and ``DescribeAclsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeAclsRequest(Message):
    """API key 29, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DescribeAclsRequest"
    api_key: ClassVar[int] = 29
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

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


class DescribeAclsResponse(Message):
    """API key 29, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DescribeAclsResponse"
    api_key: ClassVar[int] = 29
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class DescribeAclsResource(Struct):
        __slots__ = (
            "resource_type",
            "resource_name",
            "pattern_type",
            "acls",
            "unknown_tagged_fields",
        )

        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        pattern_type: int  # int8, versions 1+
        acls: list[DescribeAclsResponse.AclDescription]  # []AclDescription, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            acls: list[DescribeAclsResponse.AclDescription] = EMPTY,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.acls = [] if acls is EMPTY else acls
            self.unknown_tagged_fields = None

    class AclDescription(Struct):
        __slots__ = (
            "principal",
            "host",
            "operation",
            "permission_type",
            "unknown_tagged_fields",
        )

        principal: str  # string, versions 0+
        host: str  # string, versions 0+
        operation: int  # int8, versions 0+
        permission_type: int  # int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "resources",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    resources: list[DescribeAclsResponse.DescribeAclsResource]  # []DescribeAclsResource, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResponse.DescribeAclsResource] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is EMPTY else resources
        self.unknown_tagged_fields = None
