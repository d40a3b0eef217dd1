"""``DescribeDelegationTokenRequest`` and ``DescribeDelegationTokenResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class DescribeDelegationTokenRequest(Message):
    """API key 41, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DescribeDelegationTokenRequest"
    api_key: ClassVar[int] = 41
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class DescribeDelegationTokenOwner(Struct):
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
        "owners",
        "unknown_tagged_fields",
    )

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None  # []DescribeDelegationTokenOwner, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = EMPTY,
    ) -> None:
        self.owners = [] if owners is EMPTY else owners
        self.unknown_tagged_fields = None


class DescribeDelegationTokenResponse(Message):
    """API key 41, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "DescribeDelegationTokenResponse"
    api_key: ClassVar[int] = 41
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class DescribedDelegationToken(Struct):
        __slots__ = (
            "principal_type",
            "principal_name",
            "token_requester_principal_type",
            "token_requester_principal_name",
            "issue_timestamp",
            "expiry_timestamp",
            "max_timestamp",
            "token_id",
            "hmac",
            "renewers",
            "unknown_tagged_fields",
        )

        principal_type: str  # string, versions 0+
        principal_name: str  # string, versions 0+
        token_requester_principal_type: str  # string, versions 3+
        token_requester_principal_name: str  # string, versions 3+
        issue_timestamp: int  # int64, versions 0+
        expiry_timestamp: int  # int64, versions 0+
        max_timestamp: int  # int64, versions 0+
        token_id: str  # string, versions 0+
        hmac: Bytes  # bytes, versions 0+
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]  # []DescribedDelegationTokenRenewer, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            principal_type: str = "",
            principal_name: str = "",
            token_requester_principal_type: str = "",
            token_requester_principal_name: str = "",
            issue_timestamp: int = 0,
            expiry_timestamp: int = 0,
            max_timestamp: int = 0,
            token_id: str = "",
            hmac: Bytes = b"",
            renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = EMPTY,
        ) -> None:
            self.principal_type = principal_type
            self.principal_name = principal_name
            self.token_requester_principal_type = token_requester_principal_type
            self.token_requester_principal_name = token_requester_principal_name
            self.issue_timestamp = issue_timestamp
            self.expiry_timestamp = expiry_timestamp
            self.max_timestamp = max_timestamp
            self.token_id = token_id
            self.hmac = hmac
            self.renewers = [] if renewers is EMPTY else renewers
            self.unknown_tagged_fields = None

    class DescribedDelegationTokenRenewer(Struct):
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
        "error_code",
        "tokens",
        "throttle_time_ms",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]  # []DescribedDelegationToken, versions 0+
    throttle_time_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = EMPTY,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is EMPTY else tokens
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tagged_fields = None
