"""``TransactionLogValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class TransactionLogValue(Message):
    """Versions 0-1, flexible since 1."""

    name: ClassVar[str] = "TransactionLogValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    class PartitionsSchema(Struct):
        __slots__ = (
            "topic",
            "partition_ids",
            "unknown_tagged_fields",
        )

        topic: str  # string, versions 0+
        partition_ids: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            topic: str = "",
            partition_ids: list[int] = EMPTY,
        ) -> None:
            self.topic = topic
            self.partition_ids = [] if partition_ids is EMPTY else partition_ids
            self.unknown_tagged_fields = None

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
        "transaction_partitions",
        "transaction_last_update_timestamp_ms",
        "transaction_start_timestamp_ms",
        "unknown_tagged_fields",
    )

    producer_id: int  # int64, versions 0+
    producer_epoch: int  # int16, versions 0+
    transaction_timeout_ms: int  # int32, versions 0+
    transaction_status: int  # int8, versions 0+
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None  # []PartitionsSchema, versions 0+, nullable
    transaction_last_update_timestamp_ms: int  # int64, versions 0+
    transaction_start_timestamp_ms: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = EMPTY,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = [] if transaction_partitions is EMPTY else transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.unknown_tagged_fields = None
