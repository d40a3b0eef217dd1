"""``ProduceRequest`` and ``ProduceResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Records, Struct, TaggedFields


class ProduceRequest(Message):
    """API key 0, versions 0-11, flexible since 9."""

    name: ClassVar[str] = "ProduceRequest"
    api_key: ClassVar[int] = 0
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 11
    flexible_since: ClassVar[int] = 9

    class TopicProduceData(Struct):
        __slots__ = (
            "name",
            "partition_data",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partition_data: list[ProduceRequest.PartitionProduceData]  # []PartitionProduceData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_data: list[ProduceRequest.PartitionProduceData] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_data = [] if partition_data is EMPTY else partition_data
            self.unknown_tagged_fields = None

    class PartitionProduceData(Struct):
        __slots__ = (
            "index",
            "records",
            "unknown_tagged_fields",
        )

        index: int  # int32, versions 0+
        records: Records  # records, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            index: int = 0,
            records: Records = None,
        ) -> None:
            self.index = index
            self.records = records
            self.unknown_tagged_fields = None

    __slots__ = (
        "transactional_id",
        "acks",
        "timeout_ms",
        "topic_data",
        "unknown_tagged_fields",
    )

    transactional_id: str | None  # string, versions 3+, nullable
    acks: int  # int16, versions 0+
    timeout_ms: int  # int32, versions 0+
    topic_data: list[ProduceRequest.TopicProduceData]  # []TopicProduceData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[ProduceRequest.TopicProduceData] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is EMPTY else topic_data
        self.unknown_tagged_fields = None


class ProduceResponse(Message):
    """API key 0, versions 0-11, flexible since 9."""

    name: ClassVar[str] = "ProduceResponse"
    api_key: ClassVar[int] = 0
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 11
    flexible_since: ClassVar[int] = 9

    class TopicProduceResponse(Struct):
        __slots__ = (
            "name",
            "partition_responses",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partition_responses: list[ProduceResponse.PartitionProduceResponse]  # []PartitionProduceResponse, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_responses: list[ProduceResponse.PartitionProduceResponse] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_responses = [] if partition_responses is EMPTY else partition_responses
            self.unknown_tagged_fields = None

    class PartitionProduceResponse(Struct):
        __slots__ = (
            "index",
            "error_code",
            "base_offset",
            "log_append_time_ms",
            "log_start_offset",
            "record_errors",
            "error_message",
            "current_leader",
            "unknown_tagged_fields",
        )

        index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        base_offset: int  # int64, versions 0+
        log_append_time_ms: int  # int64, versions 2+, ignorable
        log_start_offset: int  # int64, versions 5+, ignorable
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]  # []BatchIndexAndErrorMessage, versions 8+, ignorable
        error_message: str | None  # string, versions 8+, nullable, ignorable
        current_leader: ProduceResponse.LeaderIdAndEpoch  # LeaderIdAndEpoch, versions 10+, tag 0
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            index: int = 0,
            error_code: int = 0,
            base_offset: int = 0,
            log_append_time_ms: int = -1,
            log_start_offset: int = -1,
            record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = EMPTY,
            error_message: str | None = None,
            current_leader: ProduceResponse.LeaderIdAndEpoch = EMPTY,
        ) -> None:
            self.index = index
            self.error_code = error_code
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.log_start_offset = log_start_offset
            self.record_errors = [] if record_errors is EMPTY else record_errors
            self.error_message = error_message
            self.current_leader = ProduceResponse.LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
            self.unknown_tagged_fields = None

    class BatchIndexAndErrorMessage(Struct):
        __slots__ = (
            "batch_index",
            "batch_index_error_message",
            "unknown_tagged_fields",
        )

        batch_index: int  # int32, versions 8+
        batch_index_error_message: str | None  # string, versions 8+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            batch_index: int = 0,
            batch_index_error_message: str | None = None,
        ) -> None:
            self.batch_index = batch_index
            self.batch_index_error_message = batch_index_error_message
            self.unknown_tagged_fields = None

    class LeaderIdAndEpoch(Struct):
        __slots__ = (
            "leader_id",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        leader_id: int  # int32, versions 10+
        leader_epoch: int  # int32, versions 10+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            leader_id: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    class NodeEndpoint(Struct):
        __slots__ = (
            "node_id",
            "host",
            "port",
            "rack",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 10+
        host: str  # string, versions 10+
        port: int  # int32, versions 10+
        rack: str | None  # string, versions 10+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack
            self.unknown_tagged_fields = None

    __slots__ = (
        "responses",
        "throttle_time_ms",
        "node_endpoints",
        "unknown_tagged_fields",
    )

    responses: list[ProduceResponse.TopicProduceResponse]  # []TopicProduceResponse, versions 0+
    throttle_time_ms: int  # int32, versions 1+, ignorable
    node_endpoints: list[ProduceResponse.NodeEndpoint]  # []NodeEndpoint, versions 10+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        responses: list[ProduceResponse.TopicProduceResponse] = EMPTY,
        throttle_time_ms: int = 0,
        node_endpoints: list[ProduceResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.responses = [] if responses is EMPTY else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
