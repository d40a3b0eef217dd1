"""``OffsetCommitKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class OffsetCommitKey(Message):
    """Versions 0-1, not flexible."""

    name: ClassVar[str] = "OffsetCommitKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "group",
        "topic",
        "partition",
    )

    group: str  # string, versions 0-1
    topic: str  # string, versions 0-1
    partition: int  # int32, versions 0-1

    def __init__(
        self,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
