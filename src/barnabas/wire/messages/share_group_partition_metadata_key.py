"""``ShareGroupPartitionMetadataKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class ShareGroupPartitionMetadataKey(Message):
    """Versions 9, not flexible."""

    name: ClassVar[str] = "ShareGroupPartitionMetadataKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 9
    max_version: ClassVar[int] = 9
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group_id",
    )

    group_id: str  # string, versions 9

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id
