"""``AddPartitionsToTxnRequest`` and ``AddPartitionsToTxnResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AddPartitionsToTxnRequest(Message):
    """API key 24, versions 0-5, flexible since 3."""

    name: ClassVar[str] = "AddPartitionsToTxnRequest"
    api_key: ClassVar[int] = 24
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 3

    class AddPartitionsToTxnTopic(Struct):
        __slots__ = (
            "name",
            "partitions",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        partitions: list[int]  # []int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            partitions: list[int] = EMPTY,
        ) -> None:
            self.name = name
            self.partitions = [] if partitions is EMPTY else partitions
            self.unknown_tagged_fields = None

    class AddPartitionsToTxnTransaction(Struct):
        __slots__ = (
            "transactional_id",
            "producer_id",
            "producer_epoch",
            "verify_only",
            "topics",
            "unknown_tagged_fields",
        )

        transactional_id: str  # string, versions 4+
        producer_id: int  # int64, versions 4+
        producer_epoch: int  # int16, versions 4+
        verify_only: bool  # bool, versions 4+
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]  # []AddPartitionsToTxnTopic, versions 4+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            transactional_id: str = "",
            producer_id: int = 0,
            producer_epoch: int = 0,
            verify_only: bool = False,
            topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = EMPTY,
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.verify_only = verify_only
            self.topics = [] if topics is EMPTY else topics
            self.unknown_tagged_fields = None

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
        "unknown_tagged_fields",
    )

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]  # []AddPartitionsToTxnTransaction, versions 4+
    v3_and_below_transactional_id: str  # string, versions 0-3
    v3_and_below_producer_id: int  # int64, versions 0-3
    v3_and_below_producer_epoch: int  # int16, versions 0-3
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]  # []AddPartitionsToTxnTopic, versions 0-3
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = EMPTY,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = EMPTY,
    ) -> None:
        self.transactions = [] if transactions is EMPTY else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is EMPTY else v3_and_below_topics
        self.unknown_tagged_fields = None


class AddPartitionsToTxnResponse(Message):
    """API key 24, versions 0-5, flexible since 3."""

    name: ClassVar[str] = "AddPartitionsToTxnResponse"
    api_key: ClassVar[int] = 24
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 3

    class AddPartitionsToTxnTopicResult(Struct):
        __slots__ = (
            "name",
            "results_by_partition",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]  # []AddPartitionsToTxnPartitionResult, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = EMPTY,
        ) -> None:
            self.name = name
            self.results_by_partition = [] if results_by_partition is EMPTY else results_by_partition
            self.unknown_tagged_fields = None

    class AddPartitionsToTxnPartitionResult(Struct):
        __slots__ = (
            "partition_index",
            "partition_error_code",
            "unknown_tagged_fields",
        )

        partition_index: int  # int32, versions 0+
        partition_error_code: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            partition_index: int = 0,
            partition_error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.partition_error_code = partition_error_code
            self.unknown_tagged_fields = None

    class AddPartitionsToTxnResult(Struct):
        __slots__ = (
            "transactional_id",
            "topic_results",
            "unknown_tagged_fields",
        )

        transactional_id: str  # string, versions 4+
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]  # []AddPartitionsToTxnTopicResult, versions 4+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            transactional_id: str = "",
            topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = EMPTY,
        ) -> None:
            self.transactional_id = transactional_id
            self.topic_results = [] if topic_results is EMPTY else topic_results
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results_by_transaction",
        "results_by_topic_v3_and_below",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 4+, ignorable
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]  # []AddPartitionsToTxnResult, versions 4+
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]  # []AddPartitionsToTxnTopicResult, versions 0-3
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = EMPTY,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is EMPTY else results_by_transaction
        self.results_by_topic_v3_and_below = [] if results_by_topic_v3_and_below is EMPTY else results_by_topic_v3_and_below
        self.unknown_tagged_fields = None
