"""``CreateTopicsRequest`` and ``CreateTopicsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class CreateTopicsRequest(Message):
    """API key 19, versions 0-7, flexible since 5."""

    name: ClassVar[str] = "CreateTopicsRequest"
    api_key: ClassVar[int] = 19
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 7
    flexible_since: ClassVar[int] = 5

    class CreatableTopic(Struct):
        __slots__ = (
            "name",
            "num_partitions",
            "replication_factor",
            "assignments",
            "configs",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        num_partitions: int  # int32, versions 0+
        replication_factor: int  # int16, versions 0+
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]  # []CreatableReplicaAssignment, versions 0+
        configs: list[CreateTopicsRequest.CreatableTopicConfig]  # []CreatableTopicConfig, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            num_partitions: int = 0,
            replication_factor: int = 0,
            assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = EMPTY,
            configs: list[CreateTopicsRequest.CreatableTopicConfig] = EMPTY,
        ) -> None:
            self.name = name
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.assignments = [] if assignments is EMPTY else assignments
            self.configs = [] if configs is EMPTY else configs
            self.unknown_tagged_fields = None

    class CreatableReplicaAssignment(Struct):
        __slots__ = (
            "partition_index",
            "broker_ids",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        broker_ids: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            broker_ids: list[int] = EMPTY,
        ) -> None:
            self.partition_index = partition_index
            self.broker_ids = [] if broker_ids is EMPTY else broker_ids
            self.unknown_tagged_fields = None

    class CreatableTopicConfig(Struct):
        __slots__ = (
            "name",
            "value",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        value: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            value: str | None = "",
        ) -> None:
            self.name = name
            self.value = value
            self.unknown_tagged_fields = None

    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
        "unknown_tagged_fields",
    )

    topics: list[CreateTopicsRequest.CreatableTopic]  # []CreatableTopic, versions 0+
    timeout_ms: int  # int32, versions 0+
    validate_only: bool  # bool, versions 1+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        topics: list[CreateTopicsRequest.CreatableTopic] = EMPTY,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tagged_fields = None


class CreateTopicsResponse(Message):
    """API key 19, versions 0-7, flexible since 5."""

    name: ClassVar[str] = "CreateTopicsResponse"
    api_key: ClassVar[int] = 19
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 7
    flexible_since: ClassVar[int] = 5

    class CreatableTopicResult(Struct):
        __slots__ = (
            "name",
            "topic_id",
            "error_code",
            "error_message",
            "topic_config_error_code",
            "num_partitions",
            "replication_factor",
            "configs",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        topic_id: Uuid  # uuid, versions 7+, ignorable
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 1+, nullable, ignorable
        topic_config_error_code: int  # int16, versions 5+, tag 0, ignorable
        num_partitions: int  # int32, versions 5+, ignorable
        replication_factor: int  # int16, versions 5+, ignorable
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None  # []CreatableTopicConfigs, versions 5+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            topic_id: Uuid = ZERO_UUID,
            error_code: int = 0,
            error_message: str | None = "",
            topic_config_error_code: int = 0,
            num_partitions: int = -1,
            replication_factor: int = -1,
            configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = EMPTY,
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message
            self.topic_config_error_code = topic_config_error_code
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.configs = [] if configs is EMPTY else configs
            self.unknown_tagged_fields = None

    class CreatableTopicConfigs(Struct):
        __slots__ = (
            "name",
            "value",
            "read_only",
            "config_source",
            "is_sensitive",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 5+
        value: str | None  # string, versions 5+, nullable
        read_only: bool  # bool, versions 5+
        config_source: int  # int8, versions 5+, ignorable
        is_sensitive: bool  # bool, versions 5+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.config_source = config_source
            self.is_sensitive = is_sensitive
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 2+, ignorable
    topics: list[CreateTopicsResponse.CreatableTopicResult]  # []CreatableTopicResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[CreateTopicsResponse.CreatableTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
