"""``AlterPartitionRequest`` and ``AlterPartitionResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AlterPartitionRequest(Message):
    """API key 56, versions 0-3, flexible since 0."""

    name: ClassVar[str] = "AlterPartitionRequest"
    api_key: ClassVar[int] = 56
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 0

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0-1, ignorable
        topic_id: Uuid  # uuid, versions 2+, ignorable
        partitions: list[AlterPartitionRequest.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            topic_id: Uuid = ZERO_UUID,
            partitions: list[AlterPartitionRequest.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "leader_epoch",
            "new_isr",
            "new_isr_with_epochs",
            "leader_recovery_state",
            "partition_epoch",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        new_isr: list[int]  # []int32, versions 0-2
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState]  # []BrokerState, versions 3+
        leader_recovery_state: int  # int8, versions 1+
        partition_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            leader_epoch: int = 0,
            new_isr: list[int] = EMPTY,
            new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = EMPTY,
            leader_recovery_state: int = 0,
            partition_epoch: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.leader_epoch = leader_epoch
            self.new_isr = [] if new_isr is EMPTY else new_isr
            self.new_isr_with_epochs = [] if new_isr_with_epochs is EMPTY else new_isr_with_epochs
            self.leader_recovery_state = leader_recovery_state
            self.partition_epoch = partition_epoch
            self.unknown_tagged_fields = None

    class BrokerState(Struct):
        __slots__ = (
            "broker_id",
            "broker_epoch",
            "unknown_tagged_fields",
        )

        broker_id: int  # int32, versions 3+
        broker_epoch: int  # int64, versions 3+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            broker_id: int = 0,
            broker_epoch: int = -1,
        ) -> None:
            self.broker_id = broker_id
            self.broker_epoch = broker_epoch
            self.unknown_tagged_fields = None

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "topics",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 0+
    topics: list[AlterPartitionRequest.TopicData]  # []TopicData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[AlterPartitionRequest.TopicData] = EMPTY,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None


class AlterPartitionResponse(Message):
    """API key 56, versions 0-3, flexible since 0."""

    name: ClassVar[str] = "AlterPartitionResponse"
    api_key: ClassVar[int] = 56
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 0

    class TopicData(Struct):
        __slots__ = (
            "topic_name",
            "topic_id",
            "partitions",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0-1, ignorable
        topic_id: Uuid  # uuid, versions 2+, ignorable
        partitions: list[AlterPartitionResponse.PartitionData]  # []PartitionData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            topic_id: Uuid = ZERO_UUID,
            partitions: list[AlterPartitionResponse.PartitionData] = EMPTY,
        ) -> None:
            self.topic_name = topic_name
            self.topic_id = topic_id
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class PartitionData(Struct):
        __slots__ = (
            "partition_index",
            "error_code",
            "leader_id",
            "leader_epoch",
            "isr",
            "leader_recovery_state",
            "partition_epoch",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        error_code: int  # int16, versions 0+
        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        isr: list[int]  # []int32, versions 0+
        leader_recovery_state: int  # int8, versions 1+, ignorable
        partition_epoch: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            isr: list[int] = EMPTY,
            leader_recovery_state: int = 0,
            partition_epoch: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.isr = [] if isr is EMPTY else isr
            self.leader_recovery_state = leader_recovery_state
            self.partition_epoch = partition_epoch
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "topics",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    topics: list[AlterPartitionResponse.TopicData]  # []TopicData, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[AlterPartitionResponse.TopicData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tagged_fields = None
