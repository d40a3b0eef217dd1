"""A group's members, their common protocols, and the group's decisions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.coordinator.group_members import NO_GENERATION, Join, JoinResult, Member, SyncResult, Ticket
from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.group_values import (
    CONSUMER_PROTOCOL_TYPE,
    EMPTY,
    STABLE,
    VALID_PREVIOUS_STATES,
    GroupDecision,
    GroupLimits,
    GroupState,
    Now,
    Purpose,
    Replaced,
    Write,
)
from barnabas.coordinator.offsets_records import StoredGroup, group_record
from barnabas.model.errors import ErrorCode
from barnabas.wire.errors import WireError
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


class GroupMembership:
    """A group's members, its state, and the `GroupDecision` that is being made."""

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
        """Ids given out with MEMBER_ID_REQUIRED, and when they expire."""
        self.subscribed_topics: frozenset[str] | None = None
        """None if unknown: no consumer group, or an unreadable subscription."""
        self.offsets = GroupOffsets(group_id)
        self._speakers: dict[str, int] = {}
        """How many members support each protocol: a count by each join would be expensive in a large group."""
        self._joining = 0
        """How many members wait for the answer to their JoinGroup."""
        self._pending_sync: dict[str, None] = {}
        self._assigned_generation = NO_GENERATION
        """The generation of the last assignments."""
        self._new_member_added = False
        self._rebalance_deadline_ms: int | None = None
        self._initial_delay_left_ms: int | None = None
        """How much longer the first rebalance may be delayed; None in every later one."""
        self._sync_deadline_ms: int | None = None
        self._scheduled_ms: int | None = None
        """The earliest deadline of a member that was set since the last decision."""
        self._outcome = GroupDecision()

    @property
    def awaits_sync(self) -> bool:
        """Whether some members of this generation have not sent SyncGroup yet."""
        return bool(self._pending_sync)

    # --- the log's records ------------------------------------------------------------------------------------

    def restore(self, stored: StoredGroup, now: Now) -> None:
        """Applies the log's record of the group's members. Committed offsets stay."""
        self.state = STABLE if stored.members else EMPTY
        self.generation_id = stored.generation_id
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.leader = stored.leader
        self.current_state_timestamp_ms = stored.current_state_timestamp_ms
        self.members = {}
        self.static_members = {}
        self._speakers = {}
        self._joining = 0
        self._assigned_generation = NO_GENERATION
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
            self._count_speaker(member.protocols)
            if stored_member.group_instance_id is not None:
                self.static_members[stored_member.group_instance_id] = stored_member.member_id
        self.subscribed_topics = self._computed_subscribed_topics()

    def forget_members(self, now: Now) -> None:
        """Applies the log's tombstone of the group: only committed offsets are left."""
        self.restore(StoredGroup(self.group_id, "", 0, None, None, now.wall_ms, ()), now)

    # --- members ----------------------------------------------------------------------------------------------

    def _member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _schedule(self, member: Member, timeout_ms: int, now: Now) -> None:
        member.session_deadline_ms = now.ms + timeout_ms
        self._note_deadline(member.session_deadline_ms)

    def _note_deadline(self, deadline_ms: int) -> None:
        if self._scheduled_ms is None or deadline_ms < self._scheduled_ms:
            self._scheduled_ms = deadline_ms

    def _count_speaker(self, protocols: Iterable[tuple[str, bytes]], by: int = 1) -> None:
        """Counts a member's protocols; -1 takes them off the counts."""
        for name in {name for name, _ in protocols}:
            count = self._speakers.get(name, 0) + by
            if count:
                self._speakers[name] = count
            else:
                del self._speakers[name]

    def _change_protocols(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self._count_speaker(member.protocols, -1)
        member.protocols = protocols
        self._count_speaker(protocols)

    def _selected_protocol(self) -> str:
        """The protocol that most members prefer among those that all support; in a tie the one voted for first."""
        candidates = self._candidate_protocols()
        assert candidates, "no member was let in that shares no protocol with the others"
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _candidate_protocols(self) -> set[str] | None:
        """The protocols that every member supports; None without members. For membership only."""
        candidates: set[str] | None = None
        for member in self.members.values():
            spoken = {name for name, _ in member.protocols}
            candidates = spoken if candidates is None else candidates & spoken
        return candidates

    def _computed_subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = self._subscribed_topics_of(member)
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def _subscribed_topics_of(self, member: Member) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol_name is None:
            return None
        try:
            return frozenset(_subscription(member.metadata(self.protocol_name)))
        except WireError:
            return None  # a client's own format: the group works without the topics

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
            self._joining -= 1

    def _await_join(self, member: Member, ticket: Ticket) -> None:
        assert member.join_ticket is None, "an earlier join of the member is answered"
        member.join_ticket = ticket
        self._joining += 1

    def _answer_sync(self, member: Member, result: SyncResult) -> None:
        if member.sync_ticket is not None:
            self._answer(member.sync_ticket, result)
            member.sync_ticket = None

    def _write(self, purpose: Purpose, assignment: Mapping[str, bytes], replaced: Replaced | None = None) -> None:
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

    def _take(self) -> GroupDecision:
        outcome, self._outcome = self._outcome, GroupDecision()
        deadlines_ms = (self._scheduled_ms, self._rebalance_deadline_ms, self._sync_deadline_ms)
        outcome.due_ms = min((ms for ms in deadlines_ms if ms is not None), default=None)
        self._scheduled_ms = None
        return outcome


def _subscription(metadata: bytes) -> list[str]:
    """Topics in a consumer's subscription, whatever its version: the first fields never changed."""
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"a subscription of version {version}")
    subscription, _ = ConsumerProtocolSubscription.decode(metadata, 0, 2)
    return list(subscription.topics)
