"""``ConsumerGroupMemberMetadataValue``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Bytes, Struct, TaggedFields


class ConsumerGroupMemberMetadataValue(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "ConsumerGroupMemberMetadataValue"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class ClassicMemberMetadata(Struct):
        __slots__ = (
            "session_timeout_ms",
            "supported_protocols",
            "unknown_tagged_fields",
        )

        session_timeout_ms: int  # int32, versions 0+
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]  # []ClassicProtocol, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            session_timeout_ms: int = 0,
            supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = EMPTY,
        ) -> None:
            self.session_timeout_ms = session_timeout_ms
            self.supported_protocols = [] if supported_protocols is EMPTY else supported_protocols
            self.unknown_tagged_fields = None

    class ClassicProtocol(Struct):
        __slots__ = (
            "name",
            "metadata",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        metadata: Bytes  # bytes, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            metadata: Bytes = b"",
        ) -> None:
            self.name = name
            self.metadata = metadata
            self.unknown_tagged_fields = None

    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "classic_member_metadata",
        "unknown_tagged_fields",
    )

    instance_id: str | None  # string, versions 0+, nullable
    rack_id: str | None  # string, versions 0+, nullable
    client_id: str  # string, versions 0+
    client_host: str  # string, versions 0+
    subscribed_topic_names: list[str]  # []string, versions 0+
    subscribed_topic_regex: str | None  # string, versions 0+, nullable
    rebalance_timeout_ms: int  # int32, versions 0+
    server_assignor: str | None  # string, versions 0+, nullable
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None  # ClassicMemberMetadata, versions 0+, tag 0, nullable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata
        self.unknown_tagged_fields = None
