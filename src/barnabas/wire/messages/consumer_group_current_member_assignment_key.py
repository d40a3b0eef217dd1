"""``ConsumerGroupCurrentMemberAssignmentKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Versions 8, not flexible."""

    name: ClassVar[str] = "ConsumerGroupCurrentMemberAssignmentKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 8
    max_version: ClassVar[int] = 8
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group_id",
        "member_id",
    )

    group_id: str  # string, versions 8
    member_id: str  # string, versions 8

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
