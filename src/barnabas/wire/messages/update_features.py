"""``UpdateFeaturesRequest`` and ``UpdateFeaturesResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class UpdateFeaturesRequest(Message):
    """API key 57, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "UpdateFeaturesRequest"
    api_key: ClassVar[int] = 57
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class FeatureUpdateKey(Struct):
        __slots__ = (
            "feature",
            "max_version_level",
            "allow_downgrade",
            "upgrade_type",
            "unknown_tagged_fields",
        )

        feature: str  # string, versions 0+
        max_version_level: int  # int16, versions 0+
        allow_downgrade: bool  # bool, versions 0
        upgrade_type: int  # int8, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            feature: str = "",
            max_version_level: int = 0,
            allow_downgrade: bool = False,
            upgrade_type: int = 1,
        ) -> None:
            self.feature = feature
            self.max_version_level = max_version_level
            self.allow_downgrade = allow_downgrade
            self.upgrade_type = upgrade_type
            self.unknown_tagged_fields = None

    __slots__ = (
        "timeout_ms",
        "feature_updates",
        "validate_only",
        "unknown_tagged_fields",
    )

    timeout_ms: int  # int32, versions 0+
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]  # []FeatureUpdateKey, versions 0+
    validate_only: bool  # bool, versions 1+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is EMPTY else feature_updates
        self.validate_only = validate_only
        self.unknown_tagged_fields = None


class UpdateFeaturesResponse(Message):
    """API key 57, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "UpdateFeaturesResponse"
    api_key: ClassVar[int] = 57
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class UpdatableFeatureResult(Struct):
        __slots__ = (
            "feature",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        feature: str  # string, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            feature: str = "",
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.feature = feature
            self.error_code = error_code
            self.error_message = error_message
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
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]  # []UpdatableFeatureResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
