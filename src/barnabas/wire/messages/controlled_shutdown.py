"""``ControlledShutdownRequest`` and ``ControlledShutdownResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ControlledShutdownRequest(Message):
    """API key 7, versions 0-3, flexible since 3."""

    name: ClassVar[str] = "ControlledShutdownRequest"
    api_key: ClassVar[int] = 7
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 2+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.unknown_tagged_fields = None


class ControlledShutdownResponse(Message):
    """API key 7, versions 0-3, flexible since 3."""

    name: ClassVar[str] = "ControlledShutdownResponse"
    api_key: ClassVar[int] = 7
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    flexible_since: ClassVar[int] = 3

    class RemainingPartition(Struct):
        __slots__ = (
            "topic_name",
            "partition_index",
            "unknown_tagged_fields",
        )

        topic_name: str  # string, versions 0+
        partition_index: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index
            self.unknown_tagged_fields = None

    __slots__ = (
        "error_code",
        "remaining_partitions",
        "unknown_tagged_fields",
    )

    error_code: int  # int16, versions 0+
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition]  # []RemainingPartition, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        error_code: int = 0,
        remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.remaining_partitions = [] if remaining_partitions is EMPTY else remaining_partitions
        self.unknown_tagged_fields = None
