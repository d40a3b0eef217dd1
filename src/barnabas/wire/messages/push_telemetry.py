"""``PushTelemetryRequest`` and ``PushTelemetryResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import Bytes, TaggedFields


class PushTelemetryRequest(Message):
    """API key 72, versions 0, flexible since 0."""

    name: ClassVar[str] = "PushTelemetryRequest"
    api_key: ClassVar[int] = 72
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "client_instance_id",
        "subscription_id",
        "terminating",
        "compression_type",
        "metrics",
        "unknown_tagged_fields",
    )

    client_instance_id: Uuid  # uuid, versions 0+
    subscription_id: int  # int32, versions 0+
    terminating: bool  # bool, versions 0+
    compression_type: int  # int8, versions 0+
    metrics: Bytes  # bytes, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        client_instance_id: Uuid = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: Bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
        self.unknown_tagged_fields = None


class PushTelemetryResponse(Message):
    """API key 72, versions 0, flexible since 0."""

    name: ClassVar[str] = "PushTelemetryResponse"
    api_key: ClassVar[int] = 72
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tagged_fields = None
