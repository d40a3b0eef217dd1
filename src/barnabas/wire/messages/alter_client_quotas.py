"""``AlterClientQuotasRequest`` and ``AlterClientQuotasResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AlterClientQuotasRequest(Message):
    """API key 49, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "AlterClientQuotasRequest"
    api_key: ClassVar[int] = 49
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class EntryData(Struct):
        __slots__ = (
            "entity",
            "ops",
            "unknown_tagged_fields",
        )

        entity: list[AlterClientQuotasRequest.EntityData]  # []EntityData, versions 0+
        ops: list[AlterClientQuotasRequest.OpData]  # []OpData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            entity: list[AlterClientQuotasRequest.EntityData] = EMPTY,
            ops: list[AlterClientQuotasRequest.OpData] = EMPTY,
        ) -> None:
            self.entity = [] if entity is EMPTY else entity
            self.ops = [] if ops is EMPTY else ops
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

    class OpData(Struct):
        __slots__ = (
            "key",
            "value",
            "remove",
            "unknown_tagged_fields",
        )

        key: str  # string, versions 0+
        value: float  # float64, versions 0+
        remove: bool  # bool, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            key: str = "",
            value: float = 0.0,
            remove: bool = False,
        ) -> None:
            self.key = key
            self.value = value
            self.remove = remove
            self.unknown_tagged_fields = None

    __slots__ = (
        "entries",
        "validate_only",
        "unknown_tagged_fields",
    )

    entries: list[AlterClientQuotasRequest.EntryData]  # []EntryData, versions 0+
    validate_only: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        entries: list[AlterClientQuotasRequest.EntryData] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is EMPTY else entries
        self.validate_only = validate_only
        self.unknown_tagged_fields = None


class AlterClientQuotasResponse(Message):
    """API key 49, versions 0-1, flexible since 1."""

    name: ClassVar[str] = "AlterClientQuotasResponse"
    api_key: ClassVar[int] = 49
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class EntryData(Struct):
        __slots__ = (
            "error_code",
            "error_message",
            "entity",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        entity: list[AlterClientQuotasResponse.EntityData]  # []EntityData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            error_message: str | None = "",
            entity: list[AlterClientQuotasResponse.EntityData] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.entity = [] if entity is EMPTY else entity
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

    __slots__ = (
        "throttle_time_ms",
        "entries",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    entries: list[AlterClientQuotasResponse.EntryData]  # []EntryData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: list[AlterClientQuotasResponse.EntryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is EMPTY else entries
        self.unknown_tagged_fields = None
