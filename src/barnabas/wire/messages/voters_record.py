"""``VotersRecord``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class VotersRecord(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "VotersRecord"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class Voter(Struct):
        __slots__ = (
            "voter_id",
            "voter_directory_id",
            "endpoints",
            "k_raft_version_feature",
            "unknown_tagged_fields",
        )

        voter_id: int  # int32, versions 0+
        voter_directory_id: Uuid  # uuid, versions 0+
        endpoints: list[VotersRecord.Endpoint]  # []Endpoint, versions 0+
        k_raft_version_feature: VotersRecord.KRaftVersionFeature  # KRaftVersionFeature, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            voter_id: int = 0,
            voter_directory_id: Uuid = ZERO_UUID,
            endpoints: list[VotersRecord.Endpoint] = EMPTY,
            k_raft_version_feature: VotersRecord.KRaftVersionFeature = EMPTY,
        ) -> None:
            self.voter_id = voter_id
            self.voter_directory_id = voter_directory_id
            self.endpoints = [] if endpoints is EMPTY else endpoints
            self.k_raft_version_feature = VotersRecord.KRaftVersionFeature() if k_raft_version_feature is EMPTY else k_raft_version_feature
            self.unknown_tagged_fields = None

    class Endpoint(Struct):
        __slots__ = (
            "name",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        host: str  # string, versions 0+
        port: int  # uint16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            host: str = "",
            port: int = 0,
        ) -> None:
            self.name = name
            self.host = host
            self.port = port
            self.unknown_tagged_fields = None

    class KRaftVersionFeature(Struct):
        __slots__ = (
            "min_supported_version",
            "max_supported_version",
            "unknown_tagged_fields",
        )

        min_supported_version: int  # int16, versions 0+
        max_supported_version: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            min_supported_version: int = 0,
            max_supported_version: int = 0,
        ) -> None:
            self.min_supported_version = min_supported_version
            self.max_supported_version = max_supported_version
            self.unknown_tagged_fields = None

    __slots__ = (
        "version",
        "voters",
        "unknown_tagged_fields",
    )

    version: int  # int16, versions 0+
    voters: list[VotersRecord.Voter]  # []Voter, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        version: int = 0,
        voters: list[VotersRecord.Voter] = EMPTY,
    ) -> None:
        self.version = version
        self.voters = [] if voters is EMPTY else voters
        self.unknown_tagged_fields = None
