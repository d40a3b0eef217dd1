"""A member of a consumer group, its requests and their answers. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from barnabas.coordinator.offsets_records import StoredMember
from barnabas.model.errors import ErrorCode

MEMBER_NAME_MAX: Final = 8_000
"""Characters of a client's name in its member id. With the UUID the id is a string of at most 32,767 bytes: a longer
one does not fit into the answer to the group's leader, whose connection would be closed."""
UNKNOWN_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1

Ticket: TypeAlias = Hashable
"""Identifies a waiting request."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup. `new_member_id` is the id for a sender that has none."""

    member_id: str
    new_member_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    group_instance_id: str | None = None
    require_known_member_id: bool = False
    supports_skipping_assignment: bool = False


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup. `assignments` come from the leader only."""

    member_id: str
    generation_id: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    protocol_type: str | None = None
    protocol_name: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Member:
    """One member of a group. While it waits for a join's or a sync's answer, that request's ticket is kept here."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(self, member_id: str, join: Join) -> None:
        self.member_id = member_id
        self.group_instance_id = join.group_instance_id
        self.client_id = join.client_id
        self.client_host = join.client_host
        self.protocols = join.protocols
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms
        self.assignment = b""
        self.is_new = False
        self.session_deadline_ms = 0
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def awaits_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def may_expire(self) -> bool:
        """Whether its session may end: not while a request of the member waits, except its very first join."""
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)

    def metadata(self, protocol_name: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} does not speak {protocol_name}, which was chosen by all")

    def vote(self, candidates: Iterable[str]) -> str:
        """The first of its protocols that every member supports."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stored(self, protocol_name: str, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )
