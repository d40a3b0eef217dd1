"""``CreatePartitionsRequest`` and ``CreatePartitionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class CreatePartitionsRequest(Message):
    """API key 37, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreatePartitionsRequest"
    api_key: ClassVar[int] = 37
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class CreatePartitionsTopic(Struct):
        __slots__ = (
            "name",
            "count",
            "assignments",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        count: int  # int32, versions 0+
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None  # []CreatePartitionsAssignment, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            count: int = 0,
            assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = EMPTY,
        ) -> None:
            self.name = name
            self.count = count
            self.assignments = [] if assignments is EMPTY else assignments
            self.unknown_tagged_fields = None

    class CreatePartitionsAssignment(Struct):
        __slots__ = (
            "broker_ids",
            "unknown_tagged_fields",
        )

        broker_ids: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            broker_ids: list[int] = EMPTY,
        ) -> None:
            self.broker_ids = [] if broker_ids is EMPTY else broker_ids
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
        "unknown_tagged_fields",
    )

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]  # []CreatePartitionsTopic, versions 0+
    timeout_ms: int  # int32, versions 0+
    validate_only: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = EMPTY,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tagged_fields = None


class CreatePartitionsResponse(Message):
    """API key 37, versions 0-3, flexible since 2."""

    name: ClassVar[str] = "CreatePartitionsResponse"
    api_key: ClassVar[int] = 37
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 2

    class CreatePartitionsTopicResult(Struct):
        __slots__ = (
            "name",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            error_code: int = 0,
            error_message: str | None = None,
        ) -> None:
            self.name = name
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]  # []CreatePartitionsTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tagged_fields = None
