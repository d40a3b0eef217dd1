"""``AddRaftVoterRequest`` and ``AddRaftVoterResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class AddRaftVoterRequest(Message):
    """API key 80, versions 0, flexible since 0."""

    name: ClassVar[str] = "AddRaftVoterRequest"
    api_key: ClassVar[int] = 80
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

    __slots__ = (
        "cluster_id",
        "timeout_ms",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "unknown_tagged_fields",
    )

    cluster_id: str | None  # string, versions 0+, nullable
    timeout_ms: int  # int32, versions 0+
    voter_id: int  # int32, versions 0+
    voter_directory_id: Uuid  # uuid, versions 0+
    listeners: list[AddRaftVoterRequest.Listener]  # []Listener, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: Uuid = ZERO_UUID,
        listeners: list[AddRaftVoterRequest.Listener] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.unknown_tagged_fields = None


class AddRaftVoterResponse(Message):
    """API key 80, versions 0, flexible since 0."""

    name: ClassVar[str] = "AddRaftVoterResponse"
    api_key: ClassVar[int] = 80
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tagged_fields = None
