"""``ExpireDelegationTokenRequest`` and ``ExpireDelegationTokenResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import Bytes, TaggedFields


class ExpireDelegationTokenRequest(Message):
    """API key 40, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "ExpireDelegationTokenRequest"
    api_key: ClassVar[int] = 40
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "hmac",
        "expiry_time_period_ms",
        "unknown_tagged_fields",
    )

    hmac: Bytes  # bytes, versions 0+
    expiry_time_period_ms: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        hmac: Bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
        self.unknown_tagged_fields = None


class ExpireDelegationTokenResponse(Message):
    """API key 40, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "ExpireDelegationTokenResponse"
    api_key: ClassVar[int] = 40
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    expiry_timestamp_ms: int  # int64, versions 0+
    throttle_time_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tagged_fields = None
