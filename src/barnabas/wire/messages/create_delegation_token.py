"""``CreateDelegationTokenRequest`` and ``CreateDelegationTokenResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class CreateDelegationTokenRequest(Message):
    """API key 38, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreateDelegationTokenRequest"
    api_key: ClassVar[int] = 38
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class CreatableRenewers(Struct):
        __slots__ = (
            "principal_type",
            "principal_name",
            "unknown_tagged_fields",
        )

        principal_type: str  # string, versions 0+
        principal_name: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            principal_type: str = "",
            principal_name: str = "",
        ) -> None:
            self.principal_type = principal_type
            self.principal_name = principal_name
            self.unknown_tagged_fields = None

    __slots__ = (
        "owner_principal_type",
        "owner_principal_name",
        "renewers",
        "max_lifetime_ms",
        "unknown_tagged_fields",
    )

    owner_principal_type: str | None  # string, versions 3+, nullable
    owner_principal_name: str | None  # string, versions 3+, nullable
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]  # []CreatableRenewers, versions 0+
    max_lifetime_ms: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = EMPTY,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is EMPTY else renewers
        self.max_lifetime_ms = max_lifetime_ms
        self.unknown_tagged_fields = None


class CreateDelegationTokenResponse(Message):
    """API key 38, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreateDelegationTokenResponse"
    api_key: ClassVar[int] = 38
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    principal_type: str  # string, versions 0+
    principal_name: str  # string, versions 0+
    token_requester_principal_type: str  # string, versions 3+
    token_requester_principal_name: str  # string, versions 3+
    issue_timestamp_ms: int  # int64, versions 0+
    expiry_timestamp_ms: int  # int64, versions 0+
    max_timestamp_ms: int  # int64, versions 0+
    token_id: str  # string, versions 0+
    hmac: Bytes  # bytes, versions 0+
    throttle_time_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: Bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tagged_fields = None
