"""One consumer group: its members, its generation, and its committed offsets. Pure.

The classic protocol (Kafka's ``GroupCoordinator`` and ``GroupMetadata``). Members *join*; when all have joined, or the
rebalance timeout has passed, a *generation* begins: all joins are answered, the leader's with the list of members. The
leader assigns the partitions to the members and sends the assignments with its *sync*. Once they are in the log, all
syncs are answered and the group is stable. Then *heartbeats* keep members in the group; a member that leaves, fails or
joins begins the next rebalance.

The machine gets inputs (a request, a written record, the time) and returns a `GroupDecision`: answers to requests, each
with its ticket, and records to write, whose outcome goes to `stored`. A heartbeat is answered at once. The machine
never waits and never reads a clock; `next_deadline_ms` says when `tick` is due at the latest.

                join                      all joined, or timeout            leader's sync is in the log
    Empty ───────────────▶ PreparingRebalance ───────▶ CompletingRebalance ───────▶ Stable
      ▲                      ▲      │                          │                      │
      └──────────────────────┼──────┘ nobody is left           │                      │
                             └─────────────────────────────────┴──────────────────────┘
                                            a member joins, leaves, fails
"""

from __future__ import annotations

from typing import Final

from barnabas.coordinator.group_answers import GroupSummary, MemberSummary
from barnabas.coordinator.group_members import UNKNOWN_MEMBER_ID, Join, JoinResult, Member, Sync, SyncResult, Ticket
from barnabas.coordinator.group_rebalance import RebalancingGroup
from barnabas.coordinator.group_values import (
    COMPLETING,
    CONSUMER_PROTOCOL_TYPE,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupDecision,
    Now,
    Purpose,
    Replaced,
    Write,
)
from barnabas.coordinator.offsets_records import KeyValue, group_record
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member may wait in its first join: without an id it sends no heartbeats that show it is alive."""


class Group(RebalancingGroup):
    """See the module's text."""

    # --- loading ----------------------------------------------------------------------------------------------

    def loaded(self, now: Now) -> GroupDecision:
        """Starts members' session timeouts, once the log has been read to its end."""
        assert self.state in (STABLE, EMPTY)
        for member in self.members.values():
            self._schedule(member, member.session_timeout_ms, now)
        if len(self.members) > self.limits.max_size:
            self._prepare_rebalance(now)
        return self._take()

    def unloaded(self, now: Now) -> GroupDecision:
        """Answers all waiting requests that another broker coordinates the group now."""
        self._transition(DEAD, now)
        for member in self.members.values():
            self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self._rebalance_deadline_ms = self._sync_deadline_ms = None
        return self._take()

    # --- requests ---------------------------------------------------------------------------------------------

    def join(self, join: Join, ticket: Ticket, now: Now) -> GroupDecision:
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

    def sync(self, sync: Sync, ticket: Ticket, now: Now) -> GroupDecision:
        """A member asks for its assignment; the leader brings all members' assignments."""
        error = self._sync_error(sync)
        if error is not ErrorCode.NONE:
            self._answer(ticket, SyncResult(error))
            return self._take()
        member = self.members[sync.member_id]
        if self.state is PREPARING:
            self._answer(ticket, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif self.state is COMPLETING:
            self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))  # its client gave up an earlier one
            member.sync_ticket = ticket
            self._synced(member.member_id)
            if member.member_id == self.leader and self._assigned_generation != self.generation_id:
                # A repeated SyncGroup of the leader, while this is written, must not write all members' record again.
                self._assigned_generation = self.generation_id
                assignment = {known_id: sync.assignments.get(known_id, b"") for known_id in self.members}
                self._write(Purpose.ASSIGNMENT, assignment)
        else:
            assert self.state is STABLE
            self._synced(member.member_id)
            self._schedule(member, member.session_timeout_ms, now)
            self._answer(ticket, SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment))
        return self._take()

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode:
        """Keeps a member in the group; the answer tells it whether it has to join again."""
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

    def leave(self, member_id: str, group_instance_id: str | None, now: Now) -> tuple[ErrorCode, GroupDecision]:
        """A member leaves, or an administrator removes a static member by its instance id."""
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

    # --- writes and deadlines -----------------------------------------------------------------------------------------

    def stored(self, write: Write, error: ErrorCode, now: Now) -> GroupDecision:
        """Takes the result of a write, which is ignored if the group has changed since."""
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
        """When `tick` is due next."""
        deadlines = [member.session_deadline_ms for member in self.members.values() if member.may_expire]
        deadlines += self.pending_members.values()
        if self._rebalance_deadline_ms is not None:
            deadlines.append(self._rebalance_deadline_ms)
        if self._sync_deadline_ms is not None:
            deadlines.append(self._sync_deadline_ms)
        return min(deadlines, default=None)

    def tick(self, now: Now) -> GroupDecision:
        """Removes members whose session is over, and completes a rebalance whose timeout is over."""
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
        """Whether the sender may commit offsets now; a member's commit also counts as a heartbeat."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer whose partitions are assigned by hand
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
        """Offsets that have expired (KIP-211).

        Retention counts from when the group became empty; in a group that never had members from each commit. In a
        consumer group with members only offsets of topics to which none subscribes expire. Records of brokers before
        2.1 do not tell when a group became empty: retention counts from each commit there, too.
        """
        if self.protocol_type is None:
            return self.offsets.expired(None, frozenset(), retention_ms, now.wall_ms)
        if self.state is EMPTY:
            since_ms = None if self.current_state_timestamp_ms == NO_TIMESTAMP else self.current_state_timestamp_ms
            return self.offsets.expired(since_ms, frozenset(), retention_ms, now.wall_ms)
        if self.state is STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None:
            return self.offsets.expired(None, self.subscribed_topics, retention_ms, now.wall_ms)
        return []

    def maybe_die(self, now: Now) -> KeyValue | None:
        """Ends a group without members and offsets; returns its tombstone if the log has the group."""
        if self.state is EMPTY and not self.offsets and not self.pending_members:
            self._transition(DEAD, now)
            return group_record(self.group_id, None) if self.generation_id > 0 else None
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def summary(self) -> GroupSummary:
        """The group's description for administrators; with members' metadata and assignments only if it is stable."""
        protocol = (self.protocol_name or "") if self.state is STABLE else ""
        return GroupSummary(
            ErrorCode.NONE,
            self.state.value,
            self.protocol_type or "",
            protocol,
            tuple(
                MemberSummary(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(protocol) if protocol else b"",
                    member.assignment if protocol else b"",
                )
                for member in self.members.values()
            ),
        )

    # --- joining ----------------------------------------------------------------------------------------------

    def _accepts(self, member_id: str) -> bool:
        """Whether the group has room for a member. In a rebalance only members that have joined count, else all."""
        if self.state in (EMPTY, DEAD):
            return True
        if self.state is PREPARING:
            member = self.members.get(member_id)
            return (member is not None and member.awaits_join) or self._joining < self.limits.max_size
        return member_id in self.members or len(self.members) < self.limits.max_size

    def _supports(self, join: Join) -> bool:
        """Whether its sender shares a protocol with all other members."""
        if self.state is EMPTY:
            return bool(join.protocol_type and join.protocols)
        if join.protocol_type != self.protocol_type:
            return False
        return any(self._speakers.get(name, 0) == len(self.members) for name, _ in join.protocols)

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
            self._note_deadline(now.ms + join.session_timeout_ms)
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
            # The member did not get the answer to its last join.
            self._answer(ticket, self._current_generation(member_id, with_members=member_id == self.leader))
        elif self.state is STABLE and unchanged and member_id != self.leader:
            self._answer(ticket, self._current_generation(member_id, with_members=False))
        else:
            # The leader joins again when it wants a new assignment: topics may have changed.
            assert self.state in (PREPARING, COMPLETING, STABLE)
            self._update(member, join, ticket)
            self._maybe_prepare_rebalance(now)

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
        self._count_speaker(member.protocols)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        self.pending_members.pop(member_id, None)
        self._await_join(member, ticket)
        self._schedule(member, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._maybe_prepare_rebalance(now)

    def _update(self, member: Member, join: Join, ticket: Ticket) -> None:
        self._answer_join(
            member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        )  # its client gave that request up long ago
        self._change_protocols(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        self._await_join(member, ticket)

    def _replace_static(self, old_member_id: str, join: Join, ticket: Ticket, now: Now) -> None:
        """A new process with a known instance id takes its predecessor's place; the predecessor is fenced.

        If it subscribes to other topics the group rebalances. Apache's coordinator leaves it its predecessor's
        assignment, so that no member may read the new topics.
        """
        assert join.group_instance_id is not None
        leader_before = self.leader or ""
        new_member_id = join.new_member_id
        member = self.members[old_member_id]
        replaced = Replaced(
            old_member_id,
            new_member_id,
            join.group_instance_id,
            member.protocols,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            leader_before,
            join.supports_skipping_assignment,
        )
        # During a rebalance it may no longer support the last generation's protocol.
        subscribed_before = self._subscribed_topics_of(member) if self.state is STABLE else None
        self._rename(old_member_id, new_member_id, join.group_instance_id)
        self._schedule(member, member.session_timeout_ms, now)
        self._update(member, join, ticket)
        if self.state is STABLE:
            is_as_before = self.protocol_name == self._selected_protocol()
            if is_as_before and self._subscribed_topics_of(member) == subscribed_before:
                assignment = {known.member_id: known.assignment for known in self.members.values()}
                self._write(Purpose.STATIC_MEMBER, assignment, replaced)
            else:
                self._maybe_prepare_rebalance(now)
        elif self.state is COMPLETING:
            # The leader may know only the old member id: its assignments would leave out the new one.
            self._prepare_rebalance(now)
        else:
            assert self.state is PREPARING

    def _rename(self, old_member_id: str, new_member_id: str, group_instance_id: str) -> None:
        member = self.members[old_member_id]
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        # The new id takes its predecessor's place, so that assignors see members in the same order.
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
            self._change_protocols(member, replaced.protocols)
            member.session_timeout_ms = replaced.session_timeout_ms
            member.rebalance_timeout_ms = replaced.rebalance_timeout_ms
            self._rename(replaced.new_member_id, replaced.old_member_id, replaced.group_instance_id)
            self._schedule(member, member.session_timeout_ms, now)
        elif self.state is STABLE and self.generation_id == write.generation_id:
            # From version 9 on the answer can tell a leader to skip the assignment. In an older version the leader's id
            # is given as its former id, so that it does not assign: a stable group would ignore its assignment.
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

    # --- members ----------------------------------------------------------------------------------------------

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
