"""The values of a group: its states, the time, its limits, records to write and answers to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from barnabas.coordinator.group_members import JoinResult, SyncResult, Ticket
from barnabas.coordinator.offsets_records import KeyValue

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

VALID_PREVIOUS_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    PREPARING: frozenset({STABLE, COMPLETING, EMPTY}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    EMPTY: frozenset({PREPARING}),
    DEAD: frozenset(GroupState),
}


class Now(NamedTuple):
    """The time: `ms` only goes forward and measures intervals, `wall_ms` is for timestamps."""

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The broker's rules for groups."""

    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000


class Purpose(Enum):
    """Why a group's record is written."""

    ASSIGNMENT = "assignment"
    STATIC_MEMBER = "static member"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Replaced:
    """A static member as it was before another instance with its name took over."""

    old_member_id: str
    new_member_id: str
    group_instance_id: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    leader_before: str
    supports_skipping_assignment: bool


@dataclass(frozen=True, slots=True)
class Write:
    """A group's record to be written to the log; `Group.stored` gets it back with the outcome."""

    record: KeyValue
    purpose: Purpose
    generation_id: int
    assignment: Mapping[str, bytes]
    replaced: Replaced | None = None


@dataclass(slots=True)
class GroupDecision:
    """A decision: tickets to answer, and records to write, in the order of the decisions."""

    answers: list[tuple[Ticket, JoinResult | SyncResult]] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    due_ms: int | None = None
    """The earliest deadline that this decision set, if any; earlier deadlines may have been set before."""
