"""``FetchRequest`` and ``FetchResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Records, Struct, TaggedFields


class FetchRequest(Message):
    """API key 1, versions 0-17, flexible since 12."""

    name: ClassVar[str] = "FetchRequest"
    api_key: ClassVar[int] = 1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 17
    flexible_since: ClassVar[int] = 12

    class ReplicaState(Struct):
        __slots__ = (
            "replica_id",
            "replica_epoch",
            "unknown_tagged_fields",
        )

        replica_id: int  # int32, versions 15+
        replica_epoch: int  # int64, versions 15+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            replica_id: int = -1,
            replica_epoch: int = -1,
        ) -> None:
            self.replica_id = replica_id
            self.replica_epoch = replica_epoch
            self.unknown_tagged_fields = None

    class FetchTopic(Struct):
        __slots__ = (
            "topic",
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0-12, ignorable
        topic_id: Uuid  # uuid, versions 13+, ignorable
        partitions: list[FetchRequest.FetchPartition]  # []FetchPartition, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            topic_id: Uuid = ZERO_UUID,
            partitions: list[FetchRequest.FetchPartition] = EMPTY,
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class FetchPartition(Struct):
        __slots__ = (
            "partition",
            "current_leader_epoch",
            "fetch_offset",
            "last_fetched_epoch",
            "log_start_offset",
            "partition_max_bytes",
            "replica_directory_id",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        current_leader_epoch: int  # int32, versions 9+, ignorable
        fetch_offset: int  # int64, versions 0+
        last_fetched_epoch: int  # int32, versions 12+
        log_start_offset: int  # int64, versions 5+, ignorable
        partition_max_bytes: int  # int32, versions 0+
        replica_directory_id: Uuid  # uuid, versions 17+, tag 0, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            current_leader_epoch: int = -1,
            fetch_offset: int = 0,
            last_fetched_epoch: int = -1,
            log_start_offset: int = -1,
            partition_max_bytes: int = 0,
            replica_directory_id: Uuid = ZERO_UUID,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.fetch_offset = fetch_offset
            self.last_fetched_epoch = last_fetched_epoch
            self.log_start_offset = log_start_offset
            self.partition_max_bytes = partition_max_bytes
            self.replica_directory_id = replica_directory_id
            self.unknown_tagged_fields = None

    class ForgottenTopic(Struct):
        __slots__ = (
            "topic",
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 7-12, ignorable
        topic_id: Uuid  # uuid, versions 13+, ignorable
        partitions: list[int]  # []int32, versions 7+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            topic_id: Uuid = ZERO_UUID,
            partitions: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 12+, tag 0, nullable, ignorable
    replica_id: int  # int32, versions 0-14
    replica_state: FetchRequest.ReplicaState  # ReplicaState, versions 15+, tag 1
    max_wait_ms: int  # int32, versions 0+
    min_bytes: int  # int32, versions 0+
    max_bytes: int  # int32, versions 3+, ignorable
    isolation_level: int  # int8, versions 4+, ignorable
    session_id: int  # int32, versions 7+, ignorable
    session_epoch: int  # int32, versions 7+, ignorable
    topics: list[FetchRequest.FetchTopic]  # []FetchTopic, versions 0+
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]  # []ForgottenTopic, versions 7+
    rack_id: str  # string, versions 11+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchRequest.ReplicaState = EMPTY,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchRequest.FetchTopic] = EMPTY,
        forgotten_topics_data: list[FetchRequest.ForgottenTopic] = EMPTY,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = FetchRequest.ReplicaState() if replica_state is EMPTY else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is EMPTY else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is EMPTY else forgotten_topics_data
        self.rack_id = rack_id
        self.unknown_tagged_fields = None


class FetchResponse(Message):
    """API key 1, versions 0-17, flexible since 12."""

    name: ClassVar[str] = "FetchResponse"
    api_key: ClassVar[int] = 1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 17
    flexible_since: ClassVar[int] = 12

    class FetchableTopicResponse(Struct):
        __slots__ = (
            "topic",
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0-12, ignorable
        topic_id: Uuid  # uuid, versions 13+, ignorable
        partitions: list[FetchResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            topic_id: Uuid = ZERO_UUID,
            partitions: list[FetchResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "high_watermark",
            "last_stable_offset",
            "log_start_offset",
            "diverging_epoch",
            "current_leader",
            "snapshot_id",
            "aborted_transactions",
            "preferred_read_replica",
            "records",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        high_watermark: int  # int64, versions 0+
        last_stable_offset: int  # int64, versions 4+, ignorable
        log_start_offset: int  # int64, versions 5+, ignorable
        diverging_epoch: FetchResponse.EpochEndOffset  # EpochEndOffset, versions 12+, tag 0
        current_leader: FetchResponse.LeaderIdAndEpoch  # LeaderIdAndEpoch, versions 12+, tag 1
        snapshot_id: FetchResponse.SnapshotId  # SnapshotId, versions 12+, tag 2
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None  # []AbortedTransaction, versions 4+, nullable, ignorable
        preferred_read_replica: int  # int32, versions 11+
        records: Records  # records, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            high_watermark: int = 0,
            last_stable_offset: int = -1,
            log_start_offset: int = -1,
            diverging_epoch: FetchResponse.EpochEndOffset = EMPTY,
            current_leader: FetchResponse.LeaderIdAndEpoch = EMPTY,
            snapshot_id: FetchResponse.SnapshotId = EMPTY,
            aborted_transactions: list[FetchResponse.AbortedTransaction] | None = EMPTY,
            preferred_read_replica: int = -1,
            records: Records = None,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.high_watermark = high_watermark
            self.last_stable_offset = last_stable_offset
            self.log_start_offset = log_start_offset
            self.diverging_epoch = FetchResponse.EpochEndOffset() if diverging_epoch is EMPTY else diverging_epoch
            self.current_leader = FetchResponse.LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
            self.snapshot_id = FetchResponse.SnapshotId() if snapshot_id is EMPTY else snapshot_id
            self.aborted_transactions = [] if aborted_transactions is EMPTY else aborted_transactions
            self.preferred_read_replica = preferred_read_replica
            self.records = records
            self.unknown_tagged_fields = None

    class EpochEndOffset(Struct):
        __slots__ = (
            "epoch",
            "end_offset",
            "unknown_tagged_fields",
        )

        epoch: int  # int32, versions 12+
        end_offset: int  # int64, versions 12+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            epoch: int = -1,
            end_offset: int = -1,
        ) -> None:
            self.epoch = epoch
            self.end_offset = end_offset
            self.unknown_tagged_fields = None

    class LeaderIdAndEpoch(Struct):
        __slots__ = (
            "leader_id",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        leader_id: int  # int32, versions 12+
        leader_epoch: int  # int32, versions 12+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            leader_id: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    class SnapshotId(Struct):
        __slots__ = (
            "end_offset",
            "epoch",
            "unknown_tagged_fields",
        )

        end_offset: int  # int64, versions 0+
        epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            end_offset: int = -1,
            epoch: int = -1,
        ) -> None:
            self.end_offset = end_offset
            self.epoch = epoch
            self.unknown_tagged_fields = None

    class AbortedTransaction(Struct):
        __slots__ = (
            "producer_id",
            "first_offset",
            "unknown_tagged_fields",
        )

        producer_id: int  # int64, versions 4+
        first_offset: int  # int64, versions 4+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            producer_id: int = 0,
            first_offset: int = 0,
        ) -> None:
            self.producer_id = producer_id
            self.first_offset = first_offset
            self.unknown_tagged_fields = None

    class NodeEndpoint(Struct):
        __slots__ = (
            "node_id",
            "host",
            "port",
            "rack",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 16+
        host: str  # string, versions 16+
        port: int  # int32, versions 16+
        rack: str | None  # string, versions 16+, nullable
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
        "throttle_time_ms",
        "error_code",
        "session_id",
        "responses",
        "node_endpoints",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 1+, ignorable
    error_code: int  # int16, versions 7+, ignorable
    session_id: int  # int32, versions 7+
    responses: list[FetchResponse.FetchableTopicResponse]  # []FetchableTopicResponse, versions 0+
    node_endpoints: list[FetchResponse.NodeEndpoint]  # []NodeEndpoint, versions 16+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchResponse.FetchableTopicResponse] = EMPTY,
        node_endpoints: list[FetchResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
