"""``DeleteTopicsRequest`` and ``DeleteTopicsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DeleteTopicsRequest(Message):
    """API key 20, versions 0-6, flexible since 4."""

    name: ClassVar[str] = "DeleteTopicsRequest"
    api_key: ClassVar[int] = 20
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    flexible_since: ClassVar[int] = 4

    class DeleteTopicState(Struct):
        __slots__ = (
            "name",
            "topic_id",
            "unknown_tagged_fields",
        )

        name: str | None  # string, versions 6+, nullable
        topic_id: Uuid  # uuid, versions 6+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str | None = None,
            topic_id: Uuid = ZERO_UUID,
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "topic_names",
        "timeout_ms",
        "unknown_tagged_fields",
    )

    topics: list[DeleteTopicsRequest.DeleteTopicState]  # []DeleteTopicState, versions 6+
    topic_names: list[str]  # []string, versions 0-5, ignorable
    timeout_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[DeleteTopicsRequest.DeleteTopicState] = EMPTY,
        topic_names: list[str] = EMPTY,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.topic_names = [] if topic_names is EMPTY else topic_names
        self.timeout_ms = timeout_ms
        self.unknown_tagged_fields = None


class DeleteTopicsResponse(Message):
    """API key 20, versions 0-6, flexible since 4."""

    name: ClassVar[str] = "DeleteTopicsResponse"
    api_key: ClassVar[int] = 20
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    flexible_since: ClassVar[int] = 4

    class DeletableTopicResult(Struct):
        __slots__ = (
            "name",
            "topic_id",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        name: str | None  # string, versions 0+, nullable in 6+
        topic_id: Uuid  # uuid, versions 6+, ignorable
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 5+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str | None = "",
            topic_id: Uuid = ZERO_UUID,
            error_code: int = 0,
            error_message: str | None = None,
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "responses",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    responses: list[DeleteTopicsResponse.DeletableTopicResult]  # []DeletableTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[DeleteTopicsResponse.DeletableTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tagged_fields = None
