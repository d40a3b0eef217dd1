"""``ListTransactionsRequest`` and ``ListTransactionsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class ListTransactionsRequest(Message):
    """API key 66, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "ListTransactionsRequest"
    api_key: ClassVar[int] = 66
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "state_filters",
        "producer_id_filters",
        "duration_filter",
        "unknown_tagged_fields",
    )

    state_filters: list[str]  # []string, versions 0+
    producer_id_filters: list[int]  # []int64, versions 0+
    duration_filter: int  # int64, versions 1+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        state_filters: list[str] = EMPTY,
        producer_id_filters: list[int] = EMPTY,
        duration_filter: int = -1,
    ) -> None:
        self.state_filters = [] if state_filters is EMPTY else state_filters
        self.producer_id_filters = [] if producer_id_filters is EMPTY else producer_id_filters
        self.duration_filter = duration_filter
        self.unknown_tagged_fields = None


class ListTransactionsResponse(Message):
    """API key 66, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "ListTransactionsResponse"
    api_key: ClassVar[int] = 66
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class TransactionState(Struct):
        __slots__ = (
            "transactional_id",
            "producer_id",
            "transaction_state",
            "unknown_tagged_fields",
        )

        transactional_id: str  # string, versions 0+
        producer_id: int  # int64, versions 0+
        transaction_state: str  # string, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            transactional_id: str = "",
            producer_id: int = 0,
            transaction_state: str = "",
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.transaction_state = transaction_state
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_state_filters",
        "transaction_states",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    unknown_state_filters: list[str]  # []string, versions 0+
    transaction_states: list[ListTransactionsResponse.TransactionState]  # []TransactionState, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = EMPTY,
        transaction_states: list[ListTransactionsResponse.TransactionState] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is EMPTY else unknown_state_filters
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
        self.unknown_tagged_fields = None
