"""``RequestHeader``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class RequestHeader(Message):
    """Versions 0-2, flexible since 2."""

    name: ClassVar[str] = "RequestHeader"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "request_api_key",
        "request_api_version",
        "correlation_id",
        "client_id",
        "unknown_tagged_fields",
    )

    request_api_key: int  # int16, versions 0+
    request_api_version: int  # int16, versions 0+
    correlation_id: int  # int32, versions 0+
    client_id: str | None  # string, versions 1+, nullable, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.unknown_tagged_fields = None
