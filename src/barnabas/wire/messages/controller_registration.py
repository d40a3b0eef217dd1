"""``ControllerRegistrationRequest`` and ``ControllerRegistrationResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ControllerRegistrationRequest(Message):
    """API key 70, versions 0, flexible since 0."""

    name: ClassVar[str] = "ControllerRegistrationRequest"
    api_key: ClassVar[int] = 70
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class Listener(Struct):
        __slots__ = (
            "name",
            "host",
            "port",
            "security_protocol",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        host: str  # string, versions 0+
        port: int  # uint16, versions 0+
        security_protocol: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            host: str = "",
            port: int = 0,
            security_protocol: int = 0,
        ) -> None:
            self.name = name
            self.host = host
            self.port = port
            self.security_protocol = security_protocol
            self.unknown_tagged_fields = None

    class Feature(Struct):
        __slots__ = (
            "name",
            "min_supported_version",
            "max_supported_version",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        min_supported_version: int  # int16, versions 0+
        max_supported_version: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            min_supported_version: int = 0,
            max_supported_version: int = 0,
        ) -> None:
            self.name = name
            self.min_supported_version = min_supported_version
            self.max_supported_version = max_supported_version
            self.unknown_tagged_fields = None

    __slots__ = (
        "controller_id",
        "incarnation_id",
        "zk_migration_ready",
        "listeners",
        "features",
        "unknown_tagged_fields",
    )

    controller_id: int  # int32, versions 0+
    incarnation_id: Uuid  # uuid, versions 0+
    zk_migration_ready: bool  # bool, versions 0+
    listeners: list[ControllerRegistrationRequest.Listener]  # []Listener, versions 0+
    features: list[ControllerRegistrationRequest.Feature]  # []Feature, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: Uuid = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[ControllerRegistrationRequest.Listener] = EMPTY,
        features: list[ControllerRegistrationRequest.Feature] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is EMPTY else listeners
        self.features = [] if features is EMPTY else features
        self.unknown_tagged_fields = None


class ControllerRegistrationResponse(Message):
    """API key 70, versions 0, flexible since 0."""

    name: ClassVar[str] = "ControllerRegistrationResponse"
    api_key: ClassVar[int] = 70
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tagged_fields = None
