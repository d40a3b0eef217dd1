"""``DescribeClientQuotasRequest`` and ``DescribeClientQuotasResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeClientQuotasRequest(Message):
    """API key 48, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "DescribeClientQuotasRequest"
    api_key: ClassVar[int] = 48
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class ComponentData(Struct):
        __slots__ = (
            "entity_type",
            "match_type",
            "match",
            "unknown_tagged_fields",
        )

        entity_type: str  # string, versions 0+
        match_type: int  # int8, versions 0+
        match: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            entity_type: str = "",
            match_type: int = 0,
            match: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.match_type = match_type
            self.match = match
            self.unknown_tagged_fields = None

    __slots__ = (
        "components",
        "strict",
        "unknown_tagged_fields",
    )

    components: list[DescribeClientQuotasRequest.ComponentData]  # []ComponentData, versions 0+
    strict: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        components: list[DescribeClientQuotasRequest.ComponentData] = EMPTY,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is EMPTY else components
        self.strict = strict
        self.unknown_tagged_fields = None


class DescribeClientQuotasResponse(Message):
    """API key 48, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "DescribeClientQuotasResponse"
    api_key: ClassVar[int] = 48
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class EntryData(Struct):
        __slots__ = (
            "entity",
            "values",
            "unknown_tagged_fields",
        )

        entity: list[DescribeClientQuotasResponse.EntityData]  # []EntityData, versions 0+
        values: list[DescribeClientQuotasResponse.ValueData]  # []ValueData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            entity: list[DescribeClientQuotasResponse.EntityData] = EMPTY,
            values: list[DescribeClientQuotasResponse.ValueData] = EMPTY,
        ) -> None:
            self.entity = [] if entity is EMPTY else entity
            self.values = [] if values is EMPTY else values
            self.unknown_tagged_fields = None

    class EntityData(Struct):
        __slots__ = (
            "entity_type",
            "entity_name",
            "unknown_tagged_fields",
        )

        entity_type: str  # string, versions 0+
        entity_name: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            entity_type: str = "",
            entity_name: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.entity_name = entity_name
            self.unknown_tagged_fields = None

    class ValueData(Struct):
        __slots__ = (
            "key",
            "value",
            "unknown_tagged_fields",
        )

        key: str  # string, versions 0+
        value: float  # float64, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            key: str = "",
            value: float = 0.0,
        ) -> None:
            self.key = key
            self.value = value
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "entries",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    entries: list[DescribeClientQuotasResponse.EntryData] | None  # []EntryData, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[DescribeClientQuotasResponse.EntryData] | None = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is EMPTY else entries
        self.unknown_tagged_fields = None
