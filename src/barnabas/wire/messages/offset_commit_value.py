"""``OffsetCommitValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class OffsetCommitValue(Message):
    """Versions 0-4, flexible since 4."""

    name: ClassVar[str] = "OffsetCommitValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 4

    __slots__ = (
        "offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        "expire_timestamp",
        "unknown_tagged_fields",
    )

    offset: int  # int64, versions 0+
    leader_epoch: int  # int32, versions 3+, ignorable
    metadata: str  # string, versions 0+
    commit_timestamp: int  # int64, versions 0+
    expire_timestamp: int  # int64, versions 1, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.unknown_tagged_fields = None
