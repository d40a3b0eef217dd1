"""``LeaderAndIsrRequest`` and ``LeaderAndIsrResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class LeaderAndIsrRequest(Message):
    """API key 4, versions 0-7, flexible since 4."""

    name: ClassVar[str] = "LeaderAndIsrRequest"
    api_key: ClassVar[int] = 4
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 7
    flexible_since: ClassVar[int] = 4

    class LeaderAndIsrPartitionState(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "controller_epoch",
            "leader",
            "leader_epoch",
            "isr",
            "partition_epoch",
            "replicas",
            "adding_replicas",
            "removing_replicas",
            "is_new",
            "leader_recovery_state",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0-1, ignorable
        partition_index: int  # int32, versions 0+
        controller_epoch: int  # int32, versions 0+
        leader: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        isr: list[int]  # []int32, versions 0+
        partition_epoch: int  # int32, versions 0+
        replicas: list[int]  # []int32, versions 0+
        adding_replicas: list[int]  # []int32, versions 3+, ignorable
        removing_replicas: list[int]  # []int32, versions 3+, ignorable
        is_new: bool  # bool, versions 1+, ignorable
        leader_recovery_state: int  # int8, versions 6+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
            controller_epoch: int = 0,
            leader: int = 0,
            leader_epoch: int = 0,
            isr: list[int] = EMPTY,
            partition_epoch: int = 0,
            replicas: list[int] = EMPTY,
            adding_replicas: list[int] = EMPTY,
            removing_replicas: list[int] = EMPTY,
            is_new: bool = False,
            leader_recovery_state: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.controller_epoch = controller_epoch
            self.leader = leader
            self.leader_epoch = leader_epoch
            self.isr = [] if isr is EMPTY else isr
            self.partition_epoch = partition_epoch
            self.replicas = [] if replicas is EMPTY else replicas
            self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
            self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas
            self.is_new = is_new
            self.leader_recovery_state = leader_recovery_state
            self.unknown_tagged_fields = None

    class LeaderAndIsrTopicState(Struct):
        __slots__ = (
            "topic_name",
            "topic_id",
            "partition_states",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 2+
        topic_id: Uuid  # uuid, versions 5+, ignorable
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]  # []LeaderAndIsrPartitionState, versions 2+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            topic_id: Uuid = ZERO_UUID,
            partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.topic_id = topic_id
            self.partition_states = [] if partition_states is EMPTY else partition_states
            self.unknown_tagged_fields = None

    class LeaderAndIsrLiveLeader(Struct):
        __slots__ = (
            "broker_id",
            "host_name",
            "port",
            "unknown_tagged_fields",
        )

        broker_id: int  # int32, versions 0+
        host_name: str  # string, versions 0+
        port: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            broker_id: int = 0,
            host_name: str = "",
            port: int = 0,
        ) -> None:
            self.broker_id = broker_id
            self.host_name = host_name
            self.port = port
            self.unknown_tagged_fields = None

    __slots__ = (
        "controller_id",
        "is_k_raft_controller",
        "controller_epoch",
        "broker_epoch",
        "type",
        "ungrouped_partition_states",
        "topic_states",
        "live_leaders",
        "unknown_tagged_fields",
    )

    controller_id: int  # int32, versions 0+
    is_k_raft_controller: bool  # bool, versions 7+
    controller_epoch: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 2+, ignorable
    type: int  # int8, versions 5+
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]  # []LeaderAndIsrPartitionState, versions 0-1
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState]  # []LeaderAndIsrTopicState, versions 2+
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader]  # []LeaderAndIsrLiveLeader, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        controller_id: int = 0,
        is_k_raft_controller: bool = False,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        type: int = 0,
        ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = EMPTY,
        topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = EMPTY,
        live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.is_k_raft_controller = is_k_raft_controller
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.type = type
        self.ungrouped_partition_states = [] if ungrouped_partition_states is EMPTY else ungrouped_partition_states
        self.topic_states = [] if topic_states is EMPTY else topic_states
        self.live_leaders = [] if live_leaders is EMPTY else live_leaders
        self.unknown_tagged_fields = None


class LeaderAndIsrResponse(Message):
    """API key 4, versions 0-7, flexible since 4."""

    name: ClassVar[str] = "LeaderAndIsrResponse"
    api_key: ClassVar[int] = 4
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 7
    flexible_since: ClassVar[int] = 4

    class LeaderAndIsrPartitionError(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "error_code",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0-4, ignorable
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

    class LeaderAndIsrTopicError(Struct):
        __slots__ = (
            "topic_id",
            "partition_errors",
            "unknown_tagged_fields",
        )

        topic_id: Uuid  # uuid, versions 5+
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError]  # []LeaderAndIsrPartitionError, versions 5+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_id: Uuid = ZERO_UUID,
            partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = EMPTY,
        ) -> None:
            self.topic_id = topic_id
            self.partition_errors = [] if partition_errors is EMPTY else partition_errors
            self.unknown_tagged_fields = None

    __slots__ = (
        "error_code",
        "partition_errors",
        "topics",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError]  # []LeaderAndIsrPartitionError, versions 0-4
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError]  # []LeaderAndIsrTopicError, versions 5+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = EMPTY,
        topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.partition_errors = [] if partition_errors is EMPTY else partition_errors
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
