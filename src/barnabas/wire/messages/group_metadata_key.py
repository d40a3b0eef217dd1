"""``GroupMetadataKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class GroupMetadataKey(Message):
    """Versions 2, not flexible."""

    name: ClassVar[str] = "GroupMetadataKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 2
    max_version: ClassVar[int] = 2
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group",
    )

    group: str  # string, versions 2

    def __init__(
        self,
        group: str = "",
    ) -> None:
        self.group = group
