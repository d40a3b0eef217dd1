"""``SnapshotHeaderRecord``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class SnapshotHeaderRecord(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "SnapshotHeaderRecord"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "version",
        "last_contained_log_timestamp",
        "unknown_tagged_fields",
    )

    version: int  # int16, versions 0+
    last_contained_log_timestamp: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
        self.unknown_tagged_fields = None
