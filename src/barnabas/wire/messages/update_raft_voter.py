"""``UpdateRaftVoterRequest`` and ``UpdateRaftVoterResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class UpdateRaftVoterRequest(Message):
    """API key 82, versions 0, flexible since 0."""

    name: ClassVar[str] = "UpdateRaftVoterRequest"
    api_key: ClassVar[int] = 82
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class Listener(Struct):
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
        "cluster_id",
        "current_leader_epoch",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "k_raft_version_feature",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 0+, nullable
    current_leader_epoch: int  # int32, versions 0+
    voter_id: int  # int32, versions 0+
    voter_directory_id: Uuid  # uuid, versions 0+
    listeners: list[UpdateRaftVoterRequest.Listener]  # []Listener, versions 0+
    k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature  # KRaftVersionFeature, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: Uuid = ZERO_UUID,
        listeners: list[UpdateRaftVoterRequest.Listener] = EMPTY,
        k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.k_raft_version_feature = UpdateRaftVoterRequest.KRaftVersionFeature() if k_raft_version_feature is EMPTY else k_raft_version_feature
        self.unknown_tagged_fields = None


class UpdateRaftVoterResponse(Message):
    """API key 82, versions 0, flexible since 0."""

    name: ClassVar[str] = "UpdateRaftVoterResponse"
    api_key: ClassVar[int] = 82
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    class CurrentLeader(Struct):
        __slots__ = (
            "leader_id",
            "leader_epoch",
            "host",
            "port",
            "unknown_tagged_fields",
        )

        leader_id: int  # int32, versions 0+
        leader_epoch: int  # int32, versions 0+
        host: str  # string, versions 0+
        port: int  # int32, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            leader_id: int = -1,
            leader_epoch: int = -1,
            host: str = "",
            port: int = 0,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.host = host
            self.port = port
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "current_leader",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    current_leader: UpdateRaftVoterResponse.CurrentLeader  # CurrentLeader, versions 0+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: UpdateRaftVoterResponse.CurrentLeader = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = UpdateRaftVoterResponse.CurrentLeader() if current_leader is EMPTY else current_leader
        self.unknown_tagged_fields = None
