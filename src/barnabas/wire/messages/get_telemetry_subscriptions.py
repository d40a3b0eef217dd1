"""``GetTelemetrySubscriptionsRequest`` and ``GetTelemetrySubscriptionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, TaggedFields


class GetTelemetrySubscriptionsRequest(Message):
    """API key 71, versions 0, flexible since 0."""

    name: ClassVar[str] = "GetTelemetrySubscriptionsRequest"
    api_key: ClassVar[int] = 71
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "client_instance_id",
        "unknown_tagged_fields",
    )

    client_instance_id: Uuid  # uuid, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        client_instance_id: Uuid = ZERO_UUID,
    ) -> None:
        self.client_instance_id = client_instance_id
        self.unknown_tagged_fields = None


class GetTelemetrySubscriptionsResponse(Message):
    """API key 71, versions 0, flexible since 0."""

    name: ClassVar[str] = "GetTelemetrySubscriptionsResponse"
    api_key: ClassVar[int] = 71
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    client_instance_id: Uuid  # uuid, versions 0+
    subscription_id: int  # int32, versions 0+
    accepted_compression_types: list[int]  # []int8, versions 0+
    push_interval_ms: int  # int32, versions 0+
    telemetry_max_bytes: int  # int32, versions 0+
    delta_temporality: bool  # bool, versions 0+
    requested_metrics: list[str]  # []string, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: Uuid = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = EMPTY,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = [] if accepted_compression_types is EMPTY else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is EMPTY else requested_metrics
        self.unknown_tagged_fields = None
