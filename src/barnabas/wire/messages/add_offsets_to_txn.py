"""``AddOffsetsToTxnRequest`` and ``AddOffsetsToTxnResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class AddOffsetsToTxnRequest(Message):
    """API key 25, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "AddOffsetsToTxnRequest"
    api_key: ClassVar[int] = 25
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "group_id",
        "unknown_tagged_fields",
    )

    transactional_id: str  # string, versions 0+
    producer_id: int  # int64, versions 0+
    producer_epoch: int  # int16, versions 0+
    group_id: str  # string, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
        self.unknown_tagged_fields = None


class AddOffsetsToTxnResponse(Message):
    """API key 25, versions 0-4, flexible since 3."""

    name: ClassVar[str] = "AddOffsetsToTxnResponse"
    api_key: ClassVar[int] = 25
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 3

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tagged_fields = None
