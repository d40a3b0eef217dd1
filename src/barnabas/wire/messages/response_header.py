"""``ResponseHeader``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class ResponseHeader(Message):
    """Versions 0-1, flexible since 1."""

    name: ClassVar[str] = "ResponseHeader"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 1

    __slots__ = (
        "correlation_id",
        "unknown_tagged_fields",
    )

    correlation_id: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
        self.unknown_tagged_fields = None
