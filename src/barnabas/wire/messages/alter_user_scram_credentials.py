"""``AlterUserScramCredentialsRequest`` and ``AlterUserScramCredentialsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class AlterUserScramCredentialsRequest(Message):
    """API key 51, versions 0, flexible since 0."""

    name: ClassVar[str] = "AlterUserScramCredentialsRequest"
    api_key: ClassVar[int] = 51
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ScramCredentialDeletion(Struct):
        __slots__ = (
            "name",
            "mechanism",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        mechanism: int  # int8, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            mechanism: int = 0,
        ) -> None:
            self.name = name
            self.mechanism = mechanism
            self.unknown_tagged_fields = None

    class ScramCredentialUpsertion(Struct):
        __slots__ = (
            "name",
            "mechanism",
            "iterations",
            "salt",
            "salted_password",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        mechanism: int  # int8, versions 0+
        iterations: int  # int32, versions 0+
        salt: Bytes  # bytes, versions 0+
        salted_password: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            mechanism: int = 0,
            iterations: int = 0,
            salt: Bytes = b"",
            salted_password: Bytes = b"",
        ) -> None:
            self.name = name
            self.mechanism = mechanism
            self.iterations = iterations
            self.salt = salt
            self.salted_password = salted_password
            self.unknown_tagged_fields = None

    __slots__ = (
        "deletions",
        "upsertions",
        "unknown_tagged_fields",
    )

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]  # []ScramCredentialDeletion, versions 0+
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]  # []ScramCredentialUpsertion, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = EMPTY,
        upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = EMPTY,
    ) -> None:
        self.deletions = [] if deletions is EMPTY else deletions
        self.upsertions = [] if upsertions is EMPTY else upsertions
        self.unknown_tagged_fields = None


class AlterUserScramCredentialsResponse(Message):
    """API key 51, versions 0, flexible since 0."""

    name: ClassVar[str] = "AlterUserScramCredentialsResponse"
    api_key: ClassVar[int] = 51
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class AlterUserScramCredentialsResult(Struct):
        __slots__ = (
            "user",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        user: str  # string, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]  # []AlterUserScramCredentialsResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
