"""``SaslAuthenticateRequest`` and ``SaslAuthenticateResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import Bytes, TaggedFields


class SaslAuthenticateRequest(Message):
    """API key 36, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "SaslAuthenticateRequest"
    api_key: ClassVar[int] = 36
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "auth_bytes",
        "unknown_tagged_fields",
    )

    auth_bytes: Bytes  # bytes, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        auth_bytes: Bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes
        self.unknown_tagged_fields = None


class SaslAuthenticateResponse(Message):
    """API key 36, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "SaslAuthenticateResponse"
    api_key: ClassVar[int] = 36
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "error_code",
        "error_message",
        "auth_bytes",
        "session_lifetime_ms",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    auth_bytes: Bytes  # bytes, versions 0+
    session_lifetime_ms: int  # int64, versions 1+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: Bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
        self.unknown_tagged_fields = None
