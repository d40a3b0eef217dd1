"""``StopReplicaRequest`` and ``StopReplicaResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class StopReplicaRequest(Message):
    """API key 5, versions 0-4, flexible since 2."""

    name: ClassVar[str] = "StopReplicaRequest"
    api_key: ClassVar[int] = 5
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 2

    class StopReplicaPartitionV0(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0
        partition_index: int  # int32, versions 0
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    class StopReplicaTopicV1(Struct):
        __slots__ = (
            "name",
            "partition_indexes",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 1-2
        partition_indexes: list[int]  # []int32, versions 1-2
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partition_indexes: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
            self.unknown_tagged_fields = None

    class StopReplicaTopicState(Struct):
        __slots__ = (
            "topic_name",
            "partition_states",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 3+
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState]  # []StopReplicaPartitionState, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partition_states = [] if partition_states is EMPTY else partition_states
            self.unknown_tagged_fields = None

    class StopReplicaPartitionState(Struct):
        __slots__ = (
            "partition_index",
            "leader_epoch",
            "delete_partition",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 3+
        leader_epoch: int  # int32, versions 3+
        delete_partition: bool  # bool, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            leader_epoch: int = -1,
            delete_partition: bool = False,
        ) -> None:
            self.partition_index = partition_index
            self.leader_epoch = leader_epoch
            self.delete_partition = delete_partition
            self.unknown_tagged_fields = None

    __slots__ = (
        "controller_id",
        "is_k_raft_controller",
        "controller_epoch",
        "broker_epoch",
        "delete_partitions",
        "ungrouped_partitions",
        "topics",
        "topic_states",
        "unknown_tagged_fields",
    )

    controller_id: int  # int32, versions 0+
    is_k_raft_controller: bool  # bool, versions 4+
    controller_epoch: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 1+, ignorable
    delete_partitions: bool  # bool, versions 0-2
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0]  # []StopReplicaPartitionV0, versions 0
    topics: list[StopReplicaRequest.StopReplicaTopicV1]  # []StopReplicaTopicV1, versions 1-2
    topic_states: list[StopReplicaRequest.StopReplicaTopicState]  # []StopReplicaTopicState, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        controller_id: int = 0,
        is_k_raft_controller: bool = False,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        delete_partitions: bool = False,
        ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = EMPTY,
        topics: list[StopReplicaRequest.StopReplicaTopicV1] = EMPTY,
        topic_states: list[StopReplicaRequest.StopReplicaTopicState] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.is_k_raft_controller = is_k_raft_controller
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.delete_partitions = delete_partitions
        self.ungrouped_partitions = [] if ungrouped_partitions is EMPTY else ungrouped_partitions
        self.topics = [] if topics is EMPTY else topics
        self.topic_states = [] if topic_states is EMPTY else topic_states
        self.unknown_tagged_fields = None


class StopReplicaResponse(Message):
    """API key 5, versions 0-4, flexible since 2."""

    name: ClassVar[str] = "StopReplicaResponse"
    api_key: ClassVar[int] = 5
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 2

    class StopReplicaPartitionError(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "error_code",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.error_code = error_code
            self.unknown_tagged_fields = None

    __slots__ = (
        "error_code",
        "partition_errors",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError]  # []StopReplicaPartitionError, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.partition_errors = [] if partition_errors is EMPTY else partition_errors
        self.unknown_tagged_fields = None
