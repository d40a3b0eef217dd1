"""``AllocateProducerIdsRequest`` and ``AllocateProducerIdsResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class AllocateProducerIdsRequest(Message):
    """API key 67, versions 0, flexible since 0."""

    name: ClassVar[str] = "AllocateProducerIdsRequest"
    api_key: ClassVar[int] = 67
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.unknown_tagged_fields = None


class AllocateProducerIdsResponse(Message):
    """API key 67, versions 0, flexible since 0."""

    name: ClassVar[str] = "AllocateProducerIdsResponse"
    api_key: ClassVar[int] = 67
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id_start",
        "producer_id_len",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    producer_id_start: int  # int64, versions 0+
    producer_id_len: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len
        self.unknown_tagged_fields = None
