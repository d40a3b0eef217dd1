"""``IncrementalAlterConfigsRequest`` and ``IncrementalAlterConfigsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class IncrementalAlterConfigsRequest(Message):
    """API key 44, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "IncrementalAlterConfigsRequest"
    api_key: ClassVar[int] = 44
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class AlterConfigsResource(Struct):
        __slots__ = (
            "resource_type",
            "resource_name",
            "configs",
            "unknown_tagged_fields",
        )

        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]  # []AlterableConfig, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            resource_type: int = 0,
            resource_name: str = "",
            configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = EMPTY,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = [] if configs is EMPTY else configs
            self.unknown_tagged_fields = None

    class AlterableConfig(Struct):
        __slots__ = (
            "name",
            "config_operation",
            "value",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        config_operation: int  # int8, versions 0+
        value: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            config_operation: int = 0,
            value: str | None = "",
        ) -> None:
            self.name = name
            self.config_operation = config_operation
            self.value = value
            self.unknown_tagged_fields = None

    __slots__ = (
        "resources",
        "validate_only",
        "unknown_tagged_fields",
    )

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]  # []AlterConfigsResource, versions 0+
    validate_only: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is EMPTY else resources
        self.validate_only = validate_only
        self.unknown_tagged_fields = None


class IncrementalAlterConfigsResponse(Message):
    """API key 44, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "IncrementalAlterConfigsResponse"
    api_key: ClassVar[int] = 44
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class AlterConfigsResourceResponse(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "resource_type",
            "resource_name",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "responses",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]  # []AlterConfigsResourceResponse, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tagged_fields = None
