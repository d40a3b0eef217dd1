"""``FetchSnapshotRequest`` and ``FetchSnapshotResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Records, Struct, TaggedFields


class FetchSnapshotRequest(Message):
    """API key 59, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "FetchSnapshotRequest"
    api_key: ClassVar[int] = 59
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class TopicSnapshot(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]  # []PartitionSnapshot, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[FetchSnapshotRequest.PartitionSnapshot] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionSnapshot(Struct):
        __slots__ = (
            "partition",
            "current_leader_epoch",
            "snapshot_id",
            "position",
            "replica_directory_id",
            "unknown_tagged_fields",
        )

        partition: int  # int32, versions 0+
        current_leader_epoch: int  # int32, versions 0+
        snapshot_id: FetchSnapshotRequest.SnapshotId  # SnapshotId, versions 0+
        position: int  # int64, versions 0+
        replica_directory_id: Uuid  # uuid, versions 1+, tag 0, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition: int = 0,
            current_leader_epoch: int = 0,
            snapshot_id: FetchSnapshotRequest.SnapshotId = EMPTY,
            position: int = 0,
            replica_directory_id: Uuid = ZERO_UUID,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.snapshot_id = FetchSnapshotRequest.SnapshotId() if snapshot_id is EMPTY else snapshot_id
            self.position = position
            self.replica_directory_id = replica_directory_id
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
            end_offset: int = 0,
            epoch: int = 0,
        ) -> None:
            self.end_offset = end_offset
            self.epoch = epoch
            self.unknown_tagged_fields = None

    __slots__ = (
        "cluster_id",
        "replica_id",
        "max_bytes",
        "topics",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 0+, tag 0, nullable
    replica_id: int  # int32, versions 0+
    max_bytes: int  # int32, versions 0+
    topics: list[FetchSnapshotRequest.TopicSnapshot]  # []TopicSnapshot, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[FetchSnapshotRequest.TopicSnapshot] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class FetchSnapshotResponse(Message):
    """API key 59, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "FetchSnapshotResponse"
    api_key: ClassVar[int] = 59
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class TopicSnapshot(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]  # []PartitionSnapshot, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[FetchSnapshotResponse.PartitionSnapshot] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionSnapshot(Struct):
        __slots__ = (
            "index",
            "error_code",
            "snapshot_id",
            "current_leader",
            "size",
            "position",
            "unaligned_records",
            "unknown_tagged_fields",
        )

        index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        snapshot_id: FetchSnapshotResponse.SnapshotId  # SnapshotId, versions 0+
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch  # LeaderIdAndEpoch, versions 0+, tag 0
        size: int  # int64, versions 0+
        position: int  # int64, versions 0+
        unaligned_records: Records  # records, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            index: int = 0,
            error_code: int = 0,
            snapshot_id: FetchSnapshotResponse.SnapshotId = EMPTY,
            current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = EMPTY,
            size: int = 0,
            position: int = 0,
            unaligned_records: Records = None,
        ) -> None:
            self.index = index
            self.error_code = error_code
            self.snapshot_id = FetchSnapshotResponse.SnapshotId() if snapshot_id is EMPTY else snapshot_id
            self.current_leader = FetchSnapshotResponse.LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
            self.size = size
            self.position = position
            self.unaligned_records = unaligned_records
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
            end_offset: int = 0,
            epoch: int = 0,
        ) -> None:
            self.end_offset = end_offset
            self.epoch = epoch
            self.unknown_tagged_fields = None

    class LeaderIdAndEpoch(Struct):
        __slots__ = (
            "leader_id",
            "leader_epoch",
            "unknown_tagged_fields",
        )

        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            leader_id: int = 0,
            leader_epoch: int = 0,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.unknown_tagged_fields = None

    class NodeEndpoint(Struct):
        __slots__ = (
            "node_id",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        node_id: int  # int32, versions 1+
        host: str  # string, versions 1+
        port: int  # uint16, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "topics",
        "node_endpoints",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+, ignorable
    error_code: int  # int16, versions 0+
    topics: list[FetchSnapshotResponse.TopicSnapshot]  # []TopicSnapshot, versions 0+
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint]  # []NodeEndpoint, versions 1+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[FetchSnapshotResponse.TopicSnapshot] = EMPTY,
        node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tagged_fields = None
