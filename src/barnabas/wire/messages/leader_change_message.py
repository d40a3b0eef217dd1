"""``LeaderChangeMessage``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class LeaderChangeMessage(Message):
    """Versions 0-1, flexible since 0."""

    name: ClassVar[str] = "LeaderChangeMessage"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class Voter(Struct):
        __slots__ = (
            "voter_id",
            "voter_directory_id",
            "unknown_tagged_fields",
        )

        voter_id: int  # int32, versions 0+
        voter_directory_id: Uuid  # uuid, versions 1+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            voter_id: int = 0,
            voter_directory_id: Uuid = ZERO_UUID,
        ) -> None:
            self.voter_id = voter_id
            self.voter_directory_id = voter_directory_id
            self.unknown_tagged_fields = None

    __slots__ = (
        "version",
        "leader_id",
        "voters",
        "granting_voters",
        "unknown_tagged_fields",
    )

    version: int  # int16, versions 0+
    leader_id: int  # int32, versions 0+
    voters: list[LeaderChangeMessage.Voter]  # []Voter, versions 0+
    granting_voters: list[LeaderChangeMessage.Voter]  # []Voter, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessage.Voter] = EMPTY,
        granting_voters: list[LeaderChangeMessage.Voter] = EMPTY,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is EMPTY else voters
        self.granting_voters = [] if granting_voters is EMPTY else granting_voters
        self.unknown_tagged_fields = None
