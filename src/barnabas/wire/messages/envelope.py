"""``EnvelopeRequest`` and ``EnvelopeResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import Bytes, TaggedFields


class EnvelopeRequest(Message):
    """API key 58, versions 0, flexible since 0."""

    name: ClassVar[str] = "EnvelopeRequest"
    api_key: ClassVar[int] = 58
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "request_data",
        "request_principal",
        "client_host_address",
        "unknown_tagged_fields",
    )

    request_data: Bytes  # bytes, versions 0+
    request_principal: Bytes | None  # bytes, versions 0+, nullable
    client_host_address: Bytes  # bytes, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        request_data: Bytes = b"",
        request_principal: Bytes | None = b"",
        client_host_address: Bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
        self.unknown_tagged_fields = None


class EnvelopeResponse(Message):
    """API key 58, versions 0, flexible since 0."""

    name: ClassVar[str] = "EnvelopeResponse"
    api_key: ClassVar[int] = 58
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "response_data",
        "error_code",
        "unknown_tagged_fields",
    )

    response_data: Bytes | None  # bytes, versions 0+, nullable
    error_code: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        response_data: Bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
        self.unknown_tagged_fields = None
