"""``InitProducerIdRequest`` and ``InitProducerIdResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class InitProducerIdRequest(Message):
    """API key 22, versions 0-5, flexible since 2."""

    name: ClassVar[str] = "InitProducerIdRequest"
    api_key: ClassVar[int] = 22
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "unknown_tagged_fields",
    )

    transactional_id: str | None  # string, versions 0+, nullable
    transaction_timeout_ms: int  # int32, versions 0+
    producer_id: int  # int64, versions 3+
    producer_epoch: int  # int16, versions 3+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.unknown_tagged_fields = None


class InitProducerIdResponse(Message):
    """API key 22, versions 0-5, flexible since 2."""

    name: ClassVar[str] = "InitProducerIdResponse"
    api_key: ClassVar[int] = 22
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    flexible_since: ClassVar[int] = 2

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+, ignorable
    error_code: int  # int16, versions 0+
    producer_id: int  # int64, versions 0+
    producer_epoch: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.unknown_tagged_fields = None
