"""``CreateAclsRequest`` and ``CreateAclsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class CreateAclsRequest(Message):
    """API key 30, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreateAclsRequest"
    api_key: ClassVar[int] = 30
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class AclCreation(Struct):
        __slots__ = (
            "resource_type",
            "resource_name",
            "resource_pattern_type",
            "principal",
            "host",
            "operation",
            "permission_type",
            "unknown_tagged_fields",
        )

        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        resource_pattern_type: int  # int8, versions 1+
        principal: str  # string, versions 0+
        host: str  # string, versions 0+
        operation: int  # int8, versions 0+
        permission_type: int  # int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            resource_type: int = 0,
            resource_name: str = "",
            resource_pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.resource_pattern_type = resource_pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "creations",
        "unknown_tagged_fields",
    )

    creations: list[CreateAclsRequest.AclCreation]  # []AclCreation, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        creations: list[CreateAclsRequest.AclCreation] = EMPTY,
    ) -> None:
        self.creations = [] if creations is EMPTY else creations
        self.unknown_tagged_fields = None


class CreateAclsResponse(Message):
    """API key 30, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreateAclsResponse"
    api_key: ClassVar[int] = 30
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class AclCreationResult(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[CreateAclsResponse.AclCreationResult]  # []AclCreationResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[CreateAclsResponse.AclCreationResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
