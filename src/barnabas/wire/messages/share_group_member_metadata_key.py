"""``ShareGroupMemberMetadataKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class ShareGroupMemberMetadataKey(Message):
    """Versions 10, not flexible."""

    name: ClassVar[str] = "ShareGroupMemberMetadataKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 10
    max_version: ClassVar[int] = 10
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group_id",
        "member_id",
    )

    group_id: str  # string, versions 10
    member_id: str  # string, versions 10

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
