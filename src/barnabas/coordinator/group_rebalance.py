"""A group's rebalance: from a member's request for one to the assignments of the next generation. Pure."""

from __future__ import annotations

from typing import Final

from barnabas.coordinator.group_members import UNKNOWN_MEMBER_ID, JoinedMember, JoinResult, Member, SyncResult
from barnabas.coordinator.group_membership import GroupMembership
from barnabas.coordinator.group_values import COMPLETING, EMPTY, PREPARING, STABLE, VALID_PREVIOUS_STATES, Now, Purpose
from barnabas.model.errors import ErrorCode

GENERATION_MAX: Final = 2**31 - 1


class RebalancingGroup(GroupMembership):
    """A group that can form a new generation of its members."""

    # --- members ----------------------------------------------------------------------------------------------

    def _remove(self, member_id: str) -> None:
        self.pending_members.pop(member_id, None)
        self._pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_speaker(member.protocols, -1)
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
            # A member joined during the delay: more may follow.
            self._new_member_added = False
            delay_ms = min(self.limits.initial_rebalance_delay_ms, left_ms)
            self._initial_delay_left_ms = left_ms - delay_ms
            self._rebalance_deadline_ms = now.ms + delay_ms
        else:
            self._complete_join(now)

    def _maybe_complete_join(self, now: Now) -> None:
        """Completes the join before its timeout if all have joined. The first rebalance always waits out its delay."""
        if self.state is not PREPARING or self.pending_members:
            return
        if self._initial_delay_left_ms is not None:
            if self._rebalance_deadline_ms is not None and self._rebalance_deadline_ms <= now.ms:
                self._rebalance_timeout(now)
        elif self._joining == len(self.members):
            self._complete_join(now)

    def _complete_join(self, now: Now) -> None:
        self._rebalance_deadline_ms = None
        self._initial_delay_left_ms = None
        for member in list(self.members.values()):
            if not member.awaits_join and not member.is_static:
                self._remove(member.member_id)
        if self.members and not self._elect_joined_leader():
            # All members are static, and none has come back yet: their session timeouts decide.
            self._rebalance_deadline_ms = now.ms + self._rebalance_timeout_ms()
            return
        # Only a record that some other program wrote has the largest generation.
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
        """Keeps a leader that has joined, or elects the first member that has. False when none has."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is not None and leader.awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader = member.member_id
                return True
        return False

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

    # --- assignments ------------------------------------------------------------------------------------------

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
            # The member's session could not expire while its SyncGroup waited; now it can again.
            self._schedule(member, member.session_timeout_ms, now)

    def _synced(self, member_id: str) -> None:
        self._pending_sync.pop(member_id, None)
        if not self._pending_sync:
            self._sync_deadline_ms = None
