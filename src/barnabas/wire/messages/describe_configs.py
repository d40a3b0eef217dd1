"""``DescribeConfigsRequest`` and ``DescribeConfigsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeConfigsRequest(Message):
    """API key 32, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "DescribeConfigsRequest"
    api_key: ClassVar[int] = 32
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    class DescribeConfigsResource(Struct):
        __slots__ = (
            "resource_type",
            "resource_name",
            "configuration_keys",
            "unknown_tagged_fields",
        )

        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        configuration_keys: list[str] | None  # []string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            resource_type: int = 0,
            resource_name: str = "",
            configuration_keys: list[str] | None = EMPTY,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configuration_keys = [] if configuration_keys is EMPTY else configuration_keys
            self.unknown_tagged_fields = None

    __slots__ = (
        "resources",
        "include_synonyms",
        "include_documentation",
        "unknown_tagged_fields",
    )

    resources: list[DescribeConfigsRequest.DescribeConfigsResource]  # []DescribeConfigsResource, versions 0+
    include_synonyms: bool  # bool, versions 1+
    include_documentation: bool  # bool, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        resources: list[DescribeConfigsRequest.DescribeConfigsResource] = EMPTY,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is EMPTY else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation
        self.unknown_tagged_fields = None


class DescribeConfigsResponse(Message):
    """API key 32, versions 0-4, flexible since 4."""

    name: ClassVar[str] = "DescribeConfigsResponse"
    api_key: ClassVar[int] = 32
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    class DescribeConfigsResult(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "resource_type",
            "resource_name",
            "configs",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        resource_type: int  # int8, versions 0+
        resource_name: str  # string, versions 0+
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]  # []DescribeConfigsResourceResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = [] if configs is EMPTY else configs
            self.unknown_tagged_fields = None

    class DescribeConfigsResourceResult(Struct):
        __slots__ = (
            "name",
            "value",
            "read_only",
            "is_default",
            "config_source",
            "is_sensitive",
            "synonyms",
            "config_type",
            "documentation",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        value: str | None  # string, versions 0+, nullable
        read_only: bool  # bool, versions 0+
        is_default: bool  # bool, versions 0
        config_source: int  # int8, versions 1+, ignorable
        is_sensitive: bool  # bool, versions 0+
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]  # []DescribeConfigsSynonym, versions 1+, ignorable
        config_type: int  # int8, versions 3+, ignorable
        documentation: str | None  # string, versions 3+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            is_default: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
            synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = EMPTY,
            config_type: int = 0,
            documentation: str | None = "",
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.is_default = is_default
            self.config_source = config_source
            self.is_sensitive = is_sensitive
            self.synonyms = [] if synonyms is EMPTY else synonyms
            self.config_type = config_type
            self.documentation = documentation
            self.unknown_tagged_fields = None

    class DescribeConfigsSynonym(Struct):
        __slots__ = (
            "name",
            "value",
            "source",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 1+
        value: str | None  # string, versions 1+, nullable
        source: int  # int8, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            value: str | None = "",
            source: int = 0,
        ) -> None:
            self.name = name
            self.value = value
            self.source = source
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[DescribeConfigsResponse.DescribeConfigsResult]  # []DescribeConfigsResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResponse.DescribeConfigsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
