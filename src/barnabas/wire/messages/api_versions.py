"""``ApiVersionsRequest`` and ``ApiVersionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ApiVersionsRequest(Message):
    """API key 18, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "ApiVersionsRequest"
    api_key: ClassVar[int] = 18
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "client_software_name",
        "client_software_version",
        "unknown_tagged_fields",
    )

    client_software_name: str  # string, versions 3+, ignorable
    client_software_version: str  # string, versions 3+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.unknown_tagged_fields = None


class ApiVersionsResponse(Message):
    """API key 18, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "ApiVersionsResponse"
    api_key: ClassVar[int] = 18
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    class ApiVersion(Struct):
        __slots__ = (
            "api_key",
            "min_version",
            "max_version",
            "unknown_tagged_fields",
        )

        api_key: int  # int16, versions 0+
        min_version: int  # int16, versions 0+
        max_version: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            api_key: int = 0,
            min_version: int = 0,
            max_version: int = 0,
        ) -> None:
            self.api_key = api_key
            self.min_version = min_version
            self.max_version = max_version
            self.unknown_tagged_fields = None

    class SupportedFeatureKey(Struct):
        __slots__ = (
            "name",
            "min_version",
            "max_version",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 3+
        min_version: int  # int16, versions 3+
        max_version: int  # int16, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            min_version: int = 0,
            max_version: int = 0,
        ) -> None:
            self.name = name
            self.min_version = min_version
            self.max_version = max_version
            self.unknown_tagged_fields = None

    class FinalizedFeatureKey(Struct):
        __slots__ = (
            "name",
            "max_version_level",
            "min_version_level",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 3+
        max_version_level: int  # int16, versions 3+
        min_version_level: int  # int16, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            max_version_level: int = 0,
            min_version_level: int = 0,
        ) -> None:
            self.name = name
            self.max_version_level = max_version_level
            self.min_version_level = min_version_level
            self.unknown_tagged_fields = None

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    api_keys: list[ApiVersionsResponse.ApiVersion]  # []ApiVersion, versions 0+
    throttle_time_ms: int  # int32, versions 1+, ignorable
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]  # []SupportedFeatureKey, versions 3+, tag 0, ignorable
    finalized_features_epoch: int  # int64, versions 3+, tag 1, ignorable
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]  # []FinalizedFeatureKey, versions 3+, tag 2, ignorable
    zk_migration_ready: bool  # bool, versions 3+, tag 3, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersionsResponse.ApiVersion] = EMPTY,
        throttle_time_ms: int = 0,
        supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = EMPTY,
        finalized_features_epoch: int = -1,
        finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = EMPTY,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is EMPTY else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is EMPTY else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is EMPTY else finalized_features
        self.zk_migration_ready = zk_migration_ready
        self.unknown_tagged_fields = None
