"""``DescribeTransactionsRequest`` and ``DescribeTransactionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeTransactionsRequest(Message):
    """API key 65, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeTransactionsRequest"
    api_key: ClassVar[int] = 65
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "transactional_ids",
        "unknown_tagged_fields",
    )

    transactional_ids: list[str]  # []string, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactional_ids: list[str] = EMPTY,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is EMPTY else transactional_ids
        self.unknown_tagged_fields = None


class DescribeTransactionsResponse(Message):
    """API key 65, versions 0, flexible since 0."""

    name: ClassVar[str] = "DescribeTransactionsResponse"
    api_key: ClassVar[int] = 65
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class TransactionState(Struct):
        __slots__ = (
            "error_code",
            "transactional_id",
            "transaction_state",
            "transaction_timeout_ms",
            "transaction_start_time_ms",
            "producer_id",
            "producer_epoch",
            "topics",
            "unknown_tagged_fields",
        )

        error_code: int  # int16, versions 0+
        transactional_id: str  # string, versions 0+
        transaction_state: str  # string, versions 0+
        transaction_timeout_ms: int  # int32, versions 0+
        transaction_start_time_ms: int  # int64, versions 0+
        producer_id: int  # int64, versions 0+
        producer_epoch: int  # int16, versions 0+
        topics: list[DescribeTransactionsResponse.TopicData]  # []TopicData, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            error_code: int = 0,
            transactional_id: str = "",
            transaction_state: str = "",
            transaction_timeout_ms: int = 0,
            transaction_start_time_ms: int = 0,
            producer_id: int = 0,
            producer_epoch: int = 0,
            topics: list[DescribeTransactionsResponse.TopicData] = EMPTY,
        ) -> None:
            self.error_code = error_code
            self.transactional_id = transactional_id
            self.transaction_state = transaction_state
            self.transaction_timeout_ms = transaction_timeout_ms
            self.transaction_start_time_ms = transaction_start_time_ms
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    class TopicData(Struct):
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
        "throttle_time_ms",
        "transaction_states",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    transaction_states: list[DescribeTransactionsResponse.TransactionState]  # []TransactionState, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: list[DescribeTransactionsResponse.TransactionState] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
        self.unknown_tagged_fields = None
