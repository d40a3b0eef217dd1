"""``UnregisterBrokerRequest`` and ``UnregisterBrokerResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class UnregisterBrokerRequest(Message):
    """API key 64, versions 0, flexible since 0."""

    name: ClassVar[str] = "UnregisterBrokerRequest"
    api_key: ClassVar[int] = 64
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "broker_id",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.unknown_tagged_fields = None


class UnregisterBrokerResponse(Message):
    """API key 64, versions 0, flexible since 0."""

    name: ClassVar[str] = "UnregisterBrokerResponse"
    api_key: ClassVar[int] = 64
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
