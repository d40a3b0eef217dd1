"""``FindCoordinatorRequest`` and ``FindCoordinatorResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class FindCoordinatorRequest(Message):
    """API key 10, versions 0-6, flexible since 3."""

    name: ClassVar[str] = "FindCoordinatorRequest"
    api_key: ClassVar[int] = 10
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "key",
        "key_type",
        "coordinator_keys",
        "unknown_tagged_fields",
    )

    key: str  # string, versions 0-3
    key_type: int  # int8, versions 1+
    coordinator_keys: list[str]  # []string, versions 4+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = EMPTY,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is EMPTY else coordinator_keys
        self.unknown_tagged_fields = None


class FindCoordinatorResponse(Message):
    """API key 10, versions 0-6, flexible since 3."""

    name: ClassVar[str] = "FindCoordinatorResponse"
    api_key: ClassVar[int] = 10
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    flexible_since: ClassVar[int] = 3

    class Coordinator(Struct):
        __slots__ = (
            "key",
            "node_id",
            "host",
            "port",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        key: str  # string, versions 4+
        node_id: int  # int32, versions 4+
        host: str  # string, versions 4+
        port: int  # int32, versions 4+
        error_code: int  # int16, versions 4+
        error_message: str | None  # string, versions 4+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            key: str = "",
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.key = key
            self.node_id = node_id
            self.host = host
            self.port = port
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "node_id",
        "host",
        "port",
        "coordinators",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 0-3
    error_message: str | None  # string, versions 1-3, nullable, ignorable
    node_id: int  # int32, versions 0-3
    host: str  # string, versions 0-3
    port: int  # int32, versions 0-3
    coordinators: list[FindCoordinatorResponse.Coordinator]  # []Coordinator, versions 4+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[FindCoordinatorResponse.Coordinator] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is EMPTY else coordinators
        self.unknown_tagged_fields = None
