"""``UpdateMetadataRequest`` and ``UpdateMetadataResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class UpdateMetadataRequest(Message):
    """API key 6, versions 0-8, flexible since 6."""

    name: ClassVar[str] = "UpdateMetadataRequest"
    api_key: ClassVar[int] = 6
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 8
    flexible_since: ClassVar[int] = 6

    class UpdateMetadataPartitionState(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "controller_epoch",
            "leader",
            "leader_epoch",
            "isr",
            "zk_version",
            "replicas",
            "offline_replicas",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0-4, ignorable
        partition_index: int  # int32, versions 0+
        controller_epoch: int  # int32, versions 0+
        leader: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        isr: list[int]  # []int32, versions 0+
        zk_version: int  # int32, versions 0+
        replicas: list[int]  # []int32, versions 0+
        offline_replicas: list[int]  # []int32, versions 4+, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
            controller_epoch: int = 0,
            leader: int = 0,
            leader_epoch: int = 0,
            isr: list[int] = EMPTY,
            zk_version: int = 0,
            replicas: list[int] = EMPTY,
            offline_replicas: list[int] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.controller_epoch = controller_epoch
            self.leader = leader
            self.leader_epoch = leader_epoch
            self.isr = [] if isr is EMPTY else isr
            self.zk_version = zk_version
            self.replicas = [] if replicas is EMPTY else replicas
            self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas
            self.unknown_tagged_fields = None

    class UpdateMetadataTopicState(Struct):
        __slots__ = (
            "topic_name",
            "topic_id",
            "partition_states",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 5+
        topic_id: Uuid  # uuid, versions 7+, ignorable
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]  # []UpdateMetadataPartitionState, versions 5+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            topic_id: Uuid = ZERO_UUID,
            partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.topic_id = topic_id
            self.partition_states = [] if partition_states is EMPTY else partition_states
            self.unknown_tagged_fields = None

    class UpdateMetadataBroker(Struct):
        __slots__ = (
            "id",
            "v0_host",
            "v0_port",
            "endpoints",
            "rack",
            "unknown_tagged_fields",
        )

        id: int  # int32, versions 0+
        v0_host: str  # string, versions 0, ignorable
        v0_port: int  # int32, versions 0, ignorable
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint]  # []UpdateMetadataEndpoint, versions 1+, ignorable
        rack: str | None  # string, versions 2+, nullable, ignorable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            id: int = 0,
            v0_host: str = "",
            v0_port: int = 0,
            endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = EMPTY,
            rack: str | None = "",
        ) -> None:
            self.id = id
            self.v0_host = v0_host
            self.v0_port = v0_port
            self.endpoints = [] if endpoints is EMPTY else endpoints
            self.rack = rack
            self.unknown_tagged_fields = None

    class UpdateMetadataEndpoint(Struct):
        __slots__ = (
            "port",
            "host",
            "listener",
            "security_protocol",
            "unknown_tagged_fields",
        )

        port: int  # int32, versions 1+
        host: str  # string, versions 1+
        listener: str  # string, versions 3+, ignorable
        security_protocol: int  # int16, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            port: int = 0,
            host: str = "",
            listener: str = "",
            security_protocol: int = 0,
        ) -> None:
            self.port = port
            self.host = host
            self.listener = listener
            self.security_protocol = security_protocol
            self.unknown_tagged_fields = None

    __slots__ = (
        "controller_id",
        "is_k_raft_controller",
        "type",
        "controller_epoch",
        "broker_epoch",
        "ungrouped_partition_states",
        "topic_states",
        "live_brokers",
        "unknown_tagged_fields",
    )

    controller_id: int  # int32, versions 0+
    is_k_raft_controller: bool  # bool, versions 8+
    type: int  # int8, versions 8+, tag 0
    controller_epoch: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 5+, ignorable
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]  # []UpdateMetadataPartitionState, versions 0-4
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState]  # []UpdateMetadataTopicState, versions 5+
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker]  # []UpdateMetadataBroker, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        controller_id: int = 0,
        is_k_raft_controller: bool = False,
        type: int = 0,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = EMPTY,
        topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = EMPTY,
        live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.is_k_raft_controller = is_k_raft_controller
        self.type = type
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.ungrouped_partition_states = [] if ungrouped_partition_states is EMPTY else ungrouped_partition_states
        self.topic_states = [] if topic_states is EMPTY else topic_states
        self.live_brokers = [] if live_brokers is EMPTY else live_brokers
        self.unknown_tagged_fields = None


class UpdateMetadataResponse(Message):
    """API key 6, versions 0-8, flexible since 6."""

    name: ClassVar[str] = "UpdateMetadataResponse"
    api_key: ClassVar[int] = 6
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 8
    flexible_since: ClassVar[int] = 6

    __slots__ = (
        "error_code",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
    ) -> None:
        self.error_code = error_code
        self.unknown_tagged_fields = None
