"""``DescribeUserScramCredentialsRequest`` and ``DescribeUserScramCredentialsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeUserScramCredentialsRequest(Message):
    """API key 50, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeUserScramCredentialsRequest"
    api_key: ClassVar[int] = 50
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class UserName(Struct):
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
        "users",
        "unknown_tagged_fields",
    )

    users: list[DescribeUserScramCredentialsRequest.UserName] | None  # []UserName, versions 0+, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        users: list[DescribeUserScramCredentialsRequest.UserName] | None = EMPTY,
    ) -> None:
        self.users = [] if users is EMPTY else users
        self.unknown_tagged_fields = None


class DescribeUserScramCredentialsResponse(Message):
    """API key 50, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeUserScramCredentialsResponse"
    api_key: ClassVar[int] = 50
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class DescribeUserScramCredentialsResult(Struct):
        __slots__ = (
            "user",
            "error_code",
            "error_message",
            "credential_infos",
            "unknown_tagged_fields",
        )

        user: str  # string, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]  # []CredentialInfo, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = EMPTY,
        ) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message
            self.credential_infos = [] if credential_infos is EMPTY else credential_infos
            self.unknown_tagged_fields = None

    class CredentialInfo(Struct):
        __slots__ = (
            "mechanism",
            "iterations",
            "unknown_tagged_fields",
        )

        mechanism: int  # int8, versions 0+
        iterations: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            mechanism: int = 0,
            iterations: int = 0,
        ) -> None:
            self.mechanism = mechanism
            self.iterations = iterations
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]  # []DescribeUserScramCredentialsResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
