"""``SnapshotFooterRecord``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class SnapshotFooterRecord(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "SnapshotFooterRecord"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "version",
        "unknown_tagged_fields",
    )

    version: int  # int16, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        version: int = 0,
    ) -> None:
        self.version = version
        self.unknown_tagged_fields = None
