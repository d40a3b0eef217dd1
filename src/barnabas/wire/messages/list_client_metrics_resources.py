"""``ListClientMetricsResourcesRequest`` and ``ListClientMetricsResourcesResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ListClientMetricsResourcesRequest(Message):
    """API key 74, versions 0, flexible since 0."""

    name: ClassVar[str] = "ListClientMetricsResourcesRequest"
    api_key: ClassVar[int] = 74
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "unknown_tagged_fields",
    )

    unknown_tagged_fields: TaggedFields

    def __init__(self) -> None:
        self.unknown_tagged_fields = None


class ListClientMetricsResourcesResponse(Message):
    """API key 74, versions 0, flexible since 0."""

    name: ClassVar[str] = "ListClientMetricsResourcesResponse"
    api_key: ClassVar[int] = 74
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ClientMetricsResource(Struct):
        __slots__ = (
            "name",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
        ) -> None:
            self.name = name
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_metrics_resources",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    client_metrics_resources: list[ListClientMetricsResourcesResponse.ClientMetricsResource]  # []ClientMetricsResource, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_metrics_resources: list[ListClientMetricsResourcesResponse.ClientMetricsResource] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_metrics_resources = [] if client_metrics_resources is EMPTY else client_metrics_resources
        self.unknown_tagged_fields = None
