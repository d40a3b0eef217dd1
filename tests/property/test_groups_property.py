"""Any order of requests, failures and time keeps a group's promises."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.coordinator.group_members import Join, JoinResult, Sync, SyncResult
from barnabas.coordinator.group_values import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupDecision,
    GroupLimits,
    Now,
    Write,
)
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import read_group
from barnabas.model.errors import ErrorCode

MEMBERS = st.integers(0, 4)
SESSION_MS = 10_000
REBALANCE_MS = 30_000


class Client:
    """What one member knows of itself, as a consumer does."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation_id = -1
        self.leads: tuple[str, ...] | None = None
        self.waiting = False


class Groups(RuleBasedStateMachine):
    """Five clients, two of them static, one group, a log that may fail, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.ms = 0
        self.ids = 0
        self.asked: dict[Hashable, Client] = {}
        self.writes: list[Write] = []
        self.owners: dict[tuple[int, str], str] = {}
        self.log: list[bytes] = []

    @initialize(delay_ms=st.sampled_from([0, 1, 3000]), size=st.sampled_from([3, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        self.group = Group("g", GroupLimits(delay_ms, size), self.now)
        self.clients = [Client(str(n), f"static-{n}" if n < 2 else None) for n in range(5)]

    @property
    def now(self) -> Now:
        return Now(self.ms, self.ms)

    def ticket(self, client: Client) -> Hashable:
        self.ids += 1
        ticket = f"{client.name}-{self.ids}"
        self.asked[ticket] = client
        client.waiting = True
        return ticket

    def carry_out(self, outcome: GroupDecision) -> None:
        self.writes += outcome.writes
        for ticket, result in outcome.answers:
            client = self.asked.pop(ticket)  # every ticket is answered once at most
            client.waiting = any(each is client for each in self.asked.values())
            if isinstance(result, JoinResult):
                self.joined(client, result)
            else:
                self.synced(client, result)

    def joined(self, client: Client, result: JoinResult) -> None:
        if result.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = result.member_id
        if result.error is ErrorCode.NONE:
            assert result.generation_id == self.group.generation_id
            client.generation_id = result.generation_id
            leads = result.leader == result.member_id and not result.skip_assignment
            client.leads = tuple(each.member_id for each in result.members) if leads else None
        elif result.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""

    def synced(self, client: Client, result: SyncResult) -> None:
        if result.error is ErrorCode.NONE and result.assignment:
            # The one resource of each generation has at most one owner in it.
            owner = self.owners.setdefault((client.generation_id, result.assignment.decode()), client.member_id)
            known = client.member_id == owner or client.instance is not None
            assert known, f"{client.member_id} and {owner} both own {result.assignment!r}"

    @rule(number=MEMBERS, version=st.sampled_from([1, 4, 9]), changed=st.booleans())
    def join(self, number: int, version: int, changed: bool) -> None:
        client = self.clients[number]
        self.ids += 1
        request = Join(
            client.member_id,
            f"m{self.ids}-{client.name}",
            "consumer",
            (("range", b"\x00\x00\x00\x00\x00\x00" + (b"x" if changed else b"")),),
            SESSION_MS,
            REBALANCE_MS,
            group_instance_id=client.instance,
            require_known_member_id=version >= 4 and client.instance is None,
            supports_skipping_assignment=version >= 9,
        )
        self.carry_out(self.group.join(request, self.ticket(client), self.now))

    @rule(number=MEMBERS)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        if not client.member_id:
            return
        assignments = {each: each.encode() for each in client.leads} if client.leads else {}
        request = Sync(client.member_id, client.generation_id, assignments, group_instance_id=client.instance)
        self.carry_out(self.group.sync(request, self.ticket(client), self.now))

    @rule(number=MEMBERS, behind=st.integers(0, 2))
    def heartbeat(self, number: int, behind: int) -> None:
        client = self.clients[number]
        generation_id = client.generation_id - behind
        error = self.group.heartbeat(client.member_id, client.instance, generation_id, self.now)
        if generation_id != self.group.generation_id:
            assert error is not ErrorCode.NONE

    @rule(number=MEMBERS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        _, outcome = self.group.leave(client.member_id, client.instance, self.now)
        self.carry_out(outcome)
        client.member_id = ""

    @rule(number=MEMBERS)
    def restart(self, number: int) -> None:
        self.clients[number].member_id = ""
        self.clients[number].leads = None

    @rule(ms=st.sampled_from([1, 500, 3000, SESSION_MS, REBALANCE_MS, 300_000]))
    def pass_time(self, ms: int) -> None:
        self.ms += ms
        self.carry_out(self.group.tick(self.now))

    @precondition(lambda self: self.writes)
    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]))
    def write(self, error: ErrorCode) -> None:
        written = self.writes.pop(0)
        assert written.record.value is not None
        if error is ErrorCode.NONE:
            self.log.append(written.record.value)
        self.carry_out(self.group.stored(written, error, self.now))

    @invariant()
    def members_and_leader_fit_the_state(self) -> None:
        group = getattr(self, "group", None)
        if group is None:
            return
        assert group.state is not DEAD
        assert (group.leader is None) == (not group.members)
        assert group.leader is None or group.leader in group.members
        for name, member_id in group.static_members.items():
            assert group.members[member_id].group_instance_id == name
        if group.state is EMPTY:
            assert not group.members
        if group.state in (COMPLETING, STABLE):
            assert group.members
            assert group.protocol_name == "range"
        if group.state is not COMPLETING:
            assert all(member.sync_ticket is None for member in group.members.values())
        tickets = {member.join_ticket for member in group.members.values()}
        tickets |= {member.sync_ticket for member in group.members.values()}
        assert set(self.asked) == tickets - {None}, "a request waits that no member holds, or the other way round"

    @invariant()
    def whoever_waits_is_answered_in_the_end(self) -> None:
        group = getattr(self, "group", None)
        if group is not None and self.asked and group.state in (PREPARING, COMPLETING):
            assert group.next_deadline_ms() is not None or self.writes

    def teardown(self) -> None:
        """The last record in the log is a group that another coordinator can take up."""
        if self.log:
            taken_up = Group("g", GroupLimits(), self.now)
            taken_up.restore(read_group("g", self.log[-1]), self.now)
            assert taken_up.loaded(self.now).writes == []


Groups.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
test_a_group_keeps_its_promises = pytest.mark.timeout(120)(Groups.TestCase)
