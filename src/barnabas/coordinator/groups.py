"""One consumer group: who is in it, which generation it is in, what it has committed. Pure.

The classic protocol (Kafka's ``GroupCoordinator`` and ``GroupMetadata``). Members *join*; when all are there, or the
rebalance timeout has passed, a *generation* begins: everybody's join is answered, the leader with the list of members.
The leader works out who reads what and hands it in with its *sync*; once that is in the log everybody's sync is
answered and the group is stable. Then *heartbeats* keep members in; one that leaves, fails or joins begins it anew.

The machine is told what happens (a request, a written record, the passing of time) and returns an `Outcome`: answers to
requests, each with the ticket it came with, and records to be written, whose fate is told to `stored`. A heartbeat has
its answer at once. It never waits and never reads a clock. `next_deadline_ms` says when `tick` is due at the latest.

                join                      all joined, or timeout            leader's sync is in the log
    Empty ───────────────▶ PreparingRebalance ───────▶ CompletingRebalance ───────▶ Stable
      ▲                      ▲      │                          │                      │
      └──────────────────────┼──────┘ nobody is left           │                      │
                             └─────────────────────────────────┴──────────────────────┘
                                            a member joins, leaves, fails
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from barnabas.coordinator.group_members import (
    UNKNOWN_MEMBER_ID,
    Join,
    JoinedMember,
    JoinResult,
    Member,
    Sync,
    SyncResult,
    Ticket,
)
from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.offsets_records import KeyValue, StoredGroup, group_record
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
GENERATION_MAX: Final = 2**31 - 1
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member may wait in its first join: it has no id yet, so no heartbeat tells whether it is still there."""


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
    """The time: `ms` only goes forward and measures intervals, `wall_ms` is what others read in a timestamp."""

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
class _Replaced:
    """What a static member was before another instance with its name took over."""

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
    """A group's record on its way to the log; given back to `Group.stored` with what became of it."""

    record: KeyValue
    purpose: Purpose
    generation_id: int
    assignment: Mapping[str, bytes]
    replaced: _Replaced | None = None


@dataclass(slots=True)
class Outcome:
    """What is to be done: tickets to answer, and records to write. The order is that in which it was decided."""

    answers: list[tuple[Ticket, JoinResult | SyncResult]] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)


class Group:
    """See the module's text."""

    def __init__(self, group_id: str, limits: GroupLimits, now: Now) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = EMPTY
        self.current_state_timestamp_ms = now.wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, int] = {}
        """Ids given out with MEMBER_ID_REQUIRED, and until when they may come back."""
        self.subscribed_topics: frozenset[str] | None = None
        """None where it cannot be known: not a consumer group, or a subscription that cannot be read."""
        self.offsets = GroupOffsets(group_id)
        self._pending_sync: dict[str, None] = {}
        self._new_member_added = False
        self._rebalance_deadline_ms: int | None = None
        self._initial_delay_left_ms: int | None = None
        """How much longer the first rebalance may be put off; None in every later one."""
        self._sync_deadline_ms: int | None = None
        self._outcome = Outcome()

    # --- loading ----------------------------------------------------------------------------------------------

    def restore(self, stored: StoredGroup, now: Now) -> None:
        """Takes up what the log says of the group's members. Committed offsets stay."""
        self.state = STABLE if stored.members else EMPTY
        self.generation_id = stored.generation_id
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.leader = stored.leader
        self.current_state_timestamp_ms = stored.current_state_timestamp_ms
        self.members = {}
        self.static_members = {}
        for stored_member in stored.members:
            member = Member(
                stored_member.member_id,
                Join(
                    stored_member.member_id,
                    stored_member.member_id,
                    stored.protocol_type,
                    ((stored.protocol_name or "", stored_member.subscription),),
                    stored_member.session_timeout_ms,
                    stored_member.rebalance_timeout_ms,
                    stored_member.client_id,
                    stored_member.client_host,
                    stored_member.group_instance_id,
                ),
            )
            member.assignment = stored_member.assignment
            member.session_deadline_ms = now.ms + stored_member.session_timeout_ms
            self.members[stored_member.member_id] = member
            if stored_member.group_instance_id is not None:
                self.static_members[stored_member.group_instance_id] = stored_member.member_id
        self.subscribed_topics = self._computed_subscribed_topics()

    def forget_members(self, now: Now) -> None:
        """The log's tombstone for the group: nothing but committed offsets is left."""
        self.restore(StoredGroup(self.group_id, "", 0, None, None, now.wall_ms, ()), now)

    def loaded(self, now: Now) -> Outcome:
        """The log was read to its end: members have their session timeout from now."""
        assert self.state in (STABLE, EMPTY)
        for member in self.members.values():
            self._schedule(member, member.session_timeout_ms, now)
        if len(self.members) > self.limits.max_size:
            self._prepare_rebalance(now)
        return self._take()

    def unloaded(self, now: Now) -> Outcome:
        """Another broker coordinates the group now: whoever waits here is told to look for it."""
        self._transition(DEAD, now)
        for member in self.members.values():
            self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self._rebalance_deadline_ms = self._sync_deadline_ms = None
        return self._take()

    # --- requests ---------------------------------------------------------------------------------------------

    def join(self, join: Join, ticket: Ticket, now: Now) -> Outcome:
        """A member joins, for the first time or again. `ticket` is answered now or when the generation begins."""
        if not self._accepts(join.member_id):
            self._remove(join.member_id)
            self._answer(ticket, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID))
        elif join.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(join, ticket, now)
        else:
            self._join_known(join, ticket, now)
        self._maybe_complete_join(now)
        return self._take()

    def sync(self, sync: Sync, ticket: Ticket, now: Now) -> Outcome:
        """A member asks for its assignment; the leader brings everybody's."""
        error = self._sync_error(sync)
        if error is not ErrorCode.NONE:
            self._answer(ticket, SyncResult(error))
            return self._take()
        member = self.members[sync.member_id]
        if self.state is PREPARING:
            self._answer(ticket, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif self.state is COMPLETING:
            self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))  # an earlier one that was given up
            member.sync_ticket = ticket
            self._synced(member.member_id)
            if member.member_id == self.leader:
                assignment = {known_id: sync.assignments.get(known_id, b"") for known_id in self.members}
                self._write(Purpose.ASSIGNMENT, assignment)
        else:
            assert self.state is STABLE
            self._synced(member.member_id)
            self._schedule(member, member.session_timeout_ms, now)
            self._answer(ticket, SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment))
        return self._take()

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode:
        """Keeps a member in the group; the answer tells it when it has to join again."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._member_error(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = self.members[member_id]
        self._schedule(member, member.session_timeout_ms, now)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING else ErrorCode.NONE

    def leave(self, member_id: str, group_instance_id: str | None, now: Now) -> tuple[ErrorCode, Outcome]:
        """A member goes by itself, or an administrator removes a static one by its name."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, self._take()
        if member_id == UNKNOWN_MEMBER_ID:
            known = self.static_members.get(group_instance_id) if group_instance_id is not None else None
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID, self._take()
            member_id = known
        elif member_id in self.pending_members:
            self._remove(member_id)
            self._maybe_complete_join(now)
            return ErrorCode.NONE, self._take()
        else:
            error = self._member_error(member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error, self._take()
        self._remove_and_rebalance(self.members[member_id], now)
        return ErrorCode.NONE, self._take()

    # --- what follows -----------------------------------------------------------------------------------------

    def stored(self, write: Write, error: ErrorCode, now: Now) -> Outcome:
        """A record reached the log, or did not. Whatever has changed since it was written comes first."""
        if write.purpose is Purpose.ASSIGNMENT:
            if self.state is COMPLETING and self.generation_id == write.generation_id:
                if error is ErrorCode.NONE:
                    for member in self.members.values():
                        member.assignment = write.assignment.get(member.member_id, b"")
                    self._propagate_assignment(ErrorCode.NONE, now)
                    self._transition(STABLE, now)
                else:
                    self._reset_and_propagate(error, now)
                    self._prepare_rebalance(now)
        elif write.purpose is Purpose.STATIC_MEMBER:
            self._static_member_stored(write, error, now)
        self._maybe_complete_join(now)
        return self._take()

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, if nothing else happens before."""
        deadlines = [member.session_deadline_ms for member in self.members.values() if member.may_expire]
        deadlines += self.pending_members.values()
        if self._rebalance_deadline_ms is not None:
            deadlines.append(self._rebalance_deadline_ms)
        if self._sync_deadline_ms is not None:
            deadlines.append(self._sync_deadline_ms)
        return min(deadlines, default=None)

    def tick(self, now: Now) -> Outcome:
        """Time passed: whoever is late is removed, and a rebalance that has lasted long enough is completed."""
        if self.state is DEAD:
            return self._take()
        for member_id in [
            pending_id for pending_id, deadline_ms in self.pending_members.items() if deadline_ms <= now.ms
        ]:
            self._remove(member_id)
            self._maybe_complete_join(now)
        for member in list(self.members.values()):
            late = member.may_expire and member.session_deadline_ms <= now.ms
            if late and self.members.get(member.member_id) is member:
                self._remove_and_rebalance(member, now)
        if self._rebalance_deadline_ms is not None and self._rebalance_deadline_ms <= now.ms:
            self._rebalance_timeout(now)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now.ms:
            for member_id in list(self._pending_sync):
                self._remove(member_id)
            self._prepare_rebalance(now)
            self._maybe_complete_join(now)
        return self._take()

    # --- offsets ----------------------------------------------------------------------------------------------

    def commit_error(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        now: Now,
        *,
        transactional: bool = False,
    ) -> ErrorCode:
        """Whether this sender may commit offsets now; a member that may is also alive."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer that is assigned by hand
        if generation_id >= 0 or member_id != UNKNOWN_MEMBER_ID or group_instance_id is not None:
            error = self._member_error(member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation_id != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional and self.state is not EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional:
            if self.state is COMPLETING:
                return ErrorCode.REBALANCE_IN_PROGRESS
            member = self.members.get(member_id)
            if member is not None:
                self._schedule(member, member.session_timeout_ms, now)
        return ErrorCode.NONE

    def expired_offsets(self, retention_ms: int, now: Now) -> list[TopicPartition]:
        """Offsets whose time is over (KIP-211).

        Those of a group without members count from when it became empty, those of a consumer group with members only
        for topics it no longer subscribes to, and those of a group that never had members from their commit.
        """
        if self.protocol_type is None:
            return self.offsets.expired(None, frozenset(), retention_ms, now.wall_ms)
        if self.state is EMPTY:
            return self.offsets.expired(self.current_state_timestamp_ms, frozenset(), retention_ms, now.wall_ms)
        if self.state is STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None:
            return self.offsets.expired(None, self.subscribed_topics, retention_ms, now.wall_ms)
        return []

    def maybe_die(self, now: Now) -> KeyValue | None:
        """A group without members and offsets ends; its tombstone, where the log knows of it."""
        if self.state is EMPTY and not self.offsets and not self.pending_members:
            self._transition(DEAD, now)
            return group_record(self.group_id, None) if self.generation_id > 0 else None
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics

    # --- joining ----------------------------------------------------------------------------------------------

    def _accepts(self, member_id: str) -> bool:
        """Whether there is room. In a rebalance those who are there already count, else all members."""
        if self.state in (EMPTY, DEAD):
            return True
        if self.state is PREPARING:
            member = self.members.get(member_id)
            waiting = sum(known.awaits_join for known in self.members.values())
            return (member is not None and member.awaits_join) or waiting < self.limits.max_size
        return member_id in self.members or len(self.members) < self.limits.max_size

    def _supports(self, join: Join) -> bool:
        """Whether its sender shares a protocol with all other members."""
        if self.state is EMPTY:
            return bool(join.protocol_type and join.protocols)
        if join.protocol_type != self.protocol_type:
            return False
        candidates = self._candidate_protocols()
        return any(candidates is None or name in candidates for name, _ in join.protocols)

    def _candidate_protocols(self) -> set[str] | None:
        """Protocols that every member speaks; None when there is no member. For membership only."""
        candidates: set[str] | None = None
        for member in self.members.values():
            spoken = {name for name, _ in member.protocols}
            candidates = spoken if candidates is None else candidates & spoken
        return candidates

    def _join_new(self, join: Join, ticket: Ticket, now: Now) -> None:
        if self.state is DEAD:
            self._answer(ticket, JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID))
        elif not self._supports(join):
            self._answer(ticket, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID))
        elif join.group_instance_id is not None:
            old_member_id = self.static_members.get(join.group_instance_id)
            if old_member_id is None:
                self._add(join.new_member_id, join, ticket, now)
            else:
                self._replace_static(old_member_id, join, ticket, now)
        elif join.require_known_member_id:
            self.pending_members[join.new_member_id] = now.ms + join.session_timeout_ms
            self._answer(ticket, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
        else:
            self._add(join.new_member_id, join, ticket, now)

    def _join_known(self, join: Join, ticket: Ticket, now: Now) -> None:
        member_id = join.member_id
        if self.state is DEAD:
            self._answer(ticket, JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
            return
        if not self._supports(join):
            self._answer(ticket, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            return
        if member_id in self.pending_members:
            if join.group_instance_id is not None:
                self._answer(ticket, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            else:
                self._add(member_id, join, ticket, now)
            return
        error = self._member_error(member_id, join.group_instance_id)
        if error is not ErrorCode.NONE:
            self._answer(ticket, JoinResult(error, member_id))
            return
        member = self.members[member_id]
        unchanged = member.protocols == join.protocols
        if self.state is COMPLETING and unchanged:
            # It did not get the answer to its join.
            self._answer(ticket, self._current_generation(member_id, with_members=member_id == self.leader))
        elif self.state is STABLE and unchanged and member_id != self.leader:
            self._answer(ticket, self._current_generation(member_id, with_members=False))
        else:
            # The leader joins again when it wants a new assignment: topics may have changed.
            assert self.state in (PREPARING, COMPLETING, STABLE)
            self._update(member, join, ticket)
            self._maybe_prepare_rebalance(now)

    def _current_generation(
        self, member_id: str, *, with_members: bool, leader: str | None = None, skip_assignment: bool = False
    ) -> JoinResult:
        assert self.protocol_name is not None
        return JoinResult(
            ErrorCode.NONE,
            member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            (self.leader if leader is None else leader) or "",
            skip_assignment,
            self._joined_members() if with_members else (),
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        assert self.protocol_name is not None
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def _add(self, member_id: str, join: Join, ticket: Ticket, now: Now) -> None:
        member = Member(member_id, join)
        member.is_new = True
        if self.state is PREPARING and self.generation_id == 0:
            self._new_member_added = True
        if not self.members:
            self.protocol_type = join.protocol_type
        if self.leader is None:
            self.leader = member_id
        assert member_id not in self.members
        self.members[member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        self.pending_members.pop(member_id, None)
        member.join_ticket = ticket
        self._schedule(member, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._maybe_prepare_rebalance(now)

    def _update(self, member: Member, join: Join, ticket: Ticket) -> None:
        self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))  # given up long ago
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_ticket = ticket

    def _replace_static(self, old_member_id: str, join: Join, ticket: Ticket, now: Now) -> None:
        """A new process with a known instance id takes over its predecessor's place, which is fenced."""
        assert join.group_instance_id is not None
        leader_before = self.leader or ""
        new_member_id = join.new_member_id
        member = self.members[old_member_id]
        replaced = _Replaced(
            old_member_id,
            new_member_id,
            join.group_instance_id,
            member.protocols,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            leader_before,
            join.supports_skipping_assignment,
        )
        self._rename(old_member_id, new_member_id, join.group_instance_id)
        self._schedule(member, member.session_timeout_ms, now)
        self._update(member, join, ticket)
        if self.state is STABLE:
            if self.protocol_name == self._selected_protocol():
                assignment = {known.member_id: known.assignment for known in self.members.values()}
                self._write(Purpose.STATIC_MEMBER, assignment, replaced)
            else:
                self._maybe_prepare_rebalance(now)
        elif self.state is COMPLETING:
            # The leader may have been told of the old id: what it hands in would leave the new one without.
            self._prepare_rebalance(now)
        else:
            assert self.state is PREPARING

    def _rename(self, old_member_id: str, new_member_id: str, group_instance_id: str) -> None:
        member = self.members[old_member_id]
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        # In its predecessor's place, so that the order in which assignors see members stays.
        self.members = {known.member_id: known for known in self.members.values()}
        if old_member_id in self._pending_sync:
            del self._pending_sync[old_member_id]
            self._pending_sync[new_member_id] = None
        if self.leader == old_member_id:
            self.leader = new_member_id
        self.static_members[group_instance_id] = new_member_id

    def _static_member_stored(self, write: Write, error: ErrorCode, now: Now) -> None:
        replaced = write.replaced
        assert replaced is not None
        member = self.members.get(replaced.new_member_id)
        if member is None or self.state is DEAD:
            return
        if error is not ErrorCode.NONE:
            self._answer_join(
                member,
                JoinResult(
                    error,
                    UNKNOWN_MEMBER_ID,
                    self.generation_id,
                    self.protocol_type,
                    self.protocol_name,
                    replaced.leader_before,
                ),
            )
            member.protocols = replaced.protocols
            member.session_timeout_ms = replaced.session_timeout_ms
            member.rebalance_timeout_ms = replaced.rebalance_timeout_ms
            self._rename(replaced.new_member_id, replaced.old_member_id, replaced.group_instance_id)
            self._schedule(member, member.session_timeout_ms, now)
        elif self.state is STABLE and self.generation_id == write.generation_id:
            # From version 9 on a leader can be told that it leads and yet need not assign. An older one is told of its
            # former id as leader, so that it does not assign: a stable group would not hand that out.
            leads = replaced.supports_skipping_assignment and self.leader == member.member_id
            self._answer_join(
                member,
                self._current_generation(
                    member.member_id,
                    with_members=leads,
                    leader=None if replaced.supports_skipping_assignment else replaced.leader_before,
                    skip_assignment=leads,
                ),
            )
            self._schedule(member, member.session_timeout_ms, now)

    # --- rebalancing ------------------------------------------------------------------------------------------

    def _maybe_prepare_rebalance(self, now: Now) -> None:
        if self.state in VALID_PREVIOUS_STATES[PREPARING]:
            self._prepare_rebalance(now)

    def _prepare_rebalance(self, now: Now) -> None:
        if self.state is COMPLETING:
            self._reset_and_propagate(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._pending_sync = {}
        self._sync_deadline_ms = None
        rebalance_timeout_ms = self._rebalance_timeout_ms()
        if self.state is EMPTY:
            delay_ms = self.limits.initial_rebalance_delay_ms
            self._initial_delay_left_ms = max(rebalance_timeout_ms - delay_ms, 0)
            self._rebalance_deadline_ms = now.ms + delay_ms
        else:
            self._initial_delay_left_ms = None
            self._rebalance_deadline_ms = now.ms + rebalance_timeout_ms
        self._transition(PREPARING, now)

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _rebalance_timeout(self, now: Now) -> None:
        left_ms = self._initial_delay_left_ms
        if left_ms and self._new_member_added:
            # Somebody came during the delay: others may be on their way.
            self._new_member_added = False
            delay_ms = min(self.limits.initial_rebalance_delay_ms, left_ms)
            self._initial_delay_left_ms = left_ms - delay_ms
            self._rebalance_deadline_ms = now.ms + delay_ms
        else:
            self._complete_join(now)

    def _maybe_complete_join(self, now: Now) -> None:
        """All are there: no need to wait for the timeout. The first rebalance always waits out its delay."""
        if self.state is not PREPARING or self.pending_members:
            return
        if self._initial_delay_left_ms is not None:
            if self._rebalance_deadline_ms is not None and self._rebalance_deadline_ms <= now.ms:
                self._rebalance_timeout(now)
        elif all(member.awaits_join for member in self.members.values()):
            self._complete_join(now)

    def _complete_join(self, now: Now) -> None:
        self._rebalance_deadline_ms = None
        self._initial_delay_left_ms = None
        for member in list(self.members.values()):
            if not member.awaits_join and not member.is_static:
                self._remove(member.member_id)
        if self.members and not self._elect_joined_leader():
            # Static members alone, and none has come back yet: their session timeouts decide.
            self._rebalance_deadline_ms = now.ms + self._rebalance_timeout_ms()
            return
        # The largest comes from a record only: it was written by a stranger.
        self.generation_id = self.generation_id + 1 if self.generation_id < GENERATION_MAX else 1
        self._pending_sync = {}
        if not self.members:
            self.protocol_name = None
            self.leader = None
            self.subscribed_topics = self._computed_subscribed_topics()
            self._transition(EMPTY, now)
            self._write(Purpose.EMPTY, {})
            return
        self.protocol_name = self._selected_protocol()
        self.subscribed_topics = self._computed_subscribed_topics()
        self._transition(COMPLETING, now)
        for member in self.members.values():
            self._answer_join(
                member, self._current_generation(member.member_id, with_members=member.member_id == self.leader)
            )
            self._schedule(member, member.session_timeout_ms, now)
            member.is_new = False
            self._pending_sync[member.member_id] = None
        self._sync_deadline_ms = now.ms + self._rebalance_timeout_ms()

    def _elect_joined_leader(self) -> bool:
        """The leader stays when it has joined; else the first that has. False when nobody has."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is not None and leader.awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader = member.member_id
                return True
        return False

    def _selected_protocol(self) -> str:
        """The protocol most members prefer among those all speak; of equals the one voted for first."""
        candidates = self._candidate_protocols()
        assert candidates, "no member was let in that shares no protocol with the others"
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _computed_subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            if self.protocol_name is None:
                return None
            try:
                topics.update(_subscription(member.metadata(self.protocol_name)))
            except WireError:
                return None  # a client's own format; the group works all the same
        return frozenset(topics)

    def _reset_and_propagate(self, error: ErrorCode, now: Now) -> None:
        for member in self.members.values():
            member.assignment = b""
        self._propagate_assignment(error, now)

    def _propagate_assignment(self, error: ErrorCode, now: Now) -> None:
        for member in self.members.values():
            if member.sync_ticket is None:
                continue
            if error is ErrorCode.NONE:
                result = SyncResult(error, self.protocol_type, self.protocol_name, member.assignment)
            else:
                result = SyncResult(error)
            self._answer_sync(member, result)
            # While its sync waited its session could not expire; from now on it can again.
            self._schedule(member, member.session_timeout_ms, now)

    def _synced(self, member_id: str) -> None:
        self._pending_sync.pop(member_id, None)
        if not self._pending_sync:
            self._sync_deadline_ms = None

    # --- members ----------------------------------------------------------------------------------------------

    def _member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _sync_error(self, sync: Sync) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._member_error(sync.member_id, sync.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if sync.generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if sync.protocol_type is not None and sync.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if sync.protocol_name is not None and sync.protocol_name != self.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.UNKNOWN_MEMBER_ID if self.state is EMPTY else ErrorCode.NONE

    def _schedule(self, member: Member, timeout_ms: int, now: Now) -> None:
        member.session_deadline_ms = now.ms + timeout_ms

    def _remove(self, member_id: str) -> None:
        self.pending_members.pop(member_id, None)
        self._pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID))
        self._answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def _remove_and_rebalance(self, member: Member, now: Now) -> None:
        self._remove(member.member_id)
        if self.state in (STABLE, COMPLETING):
            self._maybe_prepare_rebalance(now)
        self._maybe_complete_join(now)

    # --- outcome ----------------------------------------------------------------------------------------------

    def _transition(self, state: GroupState, now: Now) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.current_state_timestamp_ms = now.wall_ms

    def _answer(self, ticket: Ticket, result: JoinResult | SyncResult) -> None:
        self._outcome.answers.append((ticket, result))

    def _answer_join(self, member: Member, result: JoinResult) -> None:
        if member.join_ticket is not None:
            self._answer(member.join_ticket, result)
            member.join_ticket = None

    def _answer_sync(self, member: Member, result: SyncResult) -> None:
        if member.sync_ticket is not None:
            self._answer(member.sync_ticket, result)
            member.sync_ticket = None

    def _write(self, purpose: Purpose, assignment: Mapping[str, bytes], replaced: _Replaced | None = None) -> None:
        name = self.protocol_name
        stored = StoredGroup(
            self.group_id,
            self.protocol_type or "",
            self.generation_id,
            name,
            self.leader,
            self.current_state_timestamp_ms,
            tuple(
                member.stored(name, assignment[member.member_id])
                for member in self.members.values()
                if name is not None
            ),
        )
        self._outcome.writes.append(
            Write(group_record(self.group_id, stored), purpose, self.generation_id, assignment, replaced)
        )

    def _take(self) -> Outcome:
        outcome, self._outcome = self._outcome, Outcome()
        return outcome


def _subscription(metadata: bytes) -> list[str]:
    """Topics in a consumer's subscription, whatever its version: the first fields never changed."""
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"a subscription of version {version}")
    subscription, _ = ConsumerProtocolSubscription.decode(metadata, 0, 2)
    return list(subscription.topics)
