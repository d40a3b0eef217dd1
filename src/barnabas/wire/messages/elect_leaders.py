"""``ElectLeadersRequest`` and ``ElectLeadersResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ElectLeadersRequest(Message):
    """API key 43, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "ElectLeadersRequest"
    api_key: ClassVar[int] = 43
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class TopicPartitions(Struct):
        __slots__ = (
            "topic",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "election_type",
        "topic_partitions",
        "timeout_ms",
        "unknown_tagged_fields",
    )

    election_type: int  # int8, versions 1+
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None  # []TopicPartitions, versions 0+, nullable
    timeout_ms: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = EMPTY,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.timeout_ms = timeout_ms
        self.unknown_tagged_fields = None


class ElectLeadersResponse(Message):
    """API key 43, versions 0-2, flexible since 2."""

    name: ClassVar[str] = "ElectLeadersResponse"
    api_key: ClassVar[int] = 43
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 2

    class ReplicaElectionResult(Struct):
        __slots__ = (
            "topic",
            "partition_result",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partition_result: list[ElectLeadersResponse.PartitionResult]  # []PartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partition_result: list[ElectLeadersResponse.PartitionResult] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partition_result = [] if partition_result is EMPTY else partition_result
            self.unknown_tagged_fields = None

    class PartitionResult(Struct):
        __slots__ = (
            "partition_id",
            "error_code",
            "error_message",
            "unknown_tagged_fields",
        )

        partition_id: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        error_message: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_id: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.partition_id = partition_id
            self.error_code = error_code
            self.error_message = error_message
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "replica_election_results",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 1+
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]  # []ReplicaElectionResult, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is EMPTY else replica_election_results
        self.unknown_tagged_fields = None
