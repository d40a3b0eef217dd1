"""``ShareGroupMemberMetadataValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, TaggedFields


class ShareGroupMemberMetadataValue(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "ShareGroupMemberMetadataValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "unknown_tagged_fields",
    )

    rack_id: str | None  # string, versions 0+, nullable
    client_id: str  # string, versions 0+
    client_host: str  # string, versions 0+
    subscribed_topic_names: list[str]  # []string, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.unknown_tagged_fields = None
