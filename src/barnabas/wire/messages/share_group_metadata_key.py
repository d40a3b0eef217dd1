"""``ShareGroupMetadataKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class ShareGroupMetadataKey(Message):
    """Versions 11, not flexible."""

    name: ClassVar[str] = "ShareGroupMetadataKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 11
    max_version: ClassVar[int] = 11
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group_id",
    )

    group_id: str  # string, versions 11

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id
