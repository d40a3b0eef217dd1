"""Plays a rebalance with a copy of each stable group, with one of its members away (G9).

In a run chance decides which member stays away, and the end of its session soon hides a mistake. So each group that
has become stable is copied: the other members join again, and time passes until they have a generation. Its leader is a
member that has joined; all waiting members are in it, and absent ones only if they are static. A leader that joins
again starts a rebalance.
"""

from __future__ import annotations

import copy
from typing import Final

from barnabas.coordinator.group_members import Join, Member
from barnabas.coordinator.group_values import COMPLETING, STABLE, GroupState, Now, Write
from barnabas.coordinator.groups import Group
from barnabas.model.errors import ErrorCode
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

_join, _tick = Group.join, Group.tick
"""As they are, for nobody else is to watch what is played."""
MEMBERS_MAX: Final = 4
"""Of a larger group no more are away in turn."""


class RejoinWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        probes.across(Group, "stored", lambda group: group.state, self._stored)

    def _stored(self, before: GroupState, _: object, group: Group, write: Write, error: ErrorCode, now: Now) -> None:
        if before is not STABLE and group.state is STABLE:
            self.ask(group, now)

    def ask(self, group: Group, now: Now) -> None:
        self.world.check("G9")
        for away in [*group.members][:MEMBERS_MAX]:
            if len(group.members) > 1:
                self._shares_anew(copy.deepcopy(group), group.members[away], now)
        if group.leader in group.members:
            asked = copy.deepcopy(group)
            _join(asked, _again(asked, asked.members[group.leader]), object(), now)
            if asked.state is STABLE:
                self._wrong(group, f"would not share anew for {group.leader}, its leader, which joins again")

    def _shares_anew(self, group: Group, away: Member, now: Now) -> None:
        there = [member for member in group.members.values() if member.member_id != away.member_id]
        ends_ms = now.ms + max(member.rebalance_timeout_ms for member in group.members.values())
        for number, member in enumerate(there):
            wants = _again(group, member, otherwise=number == 0)
            _join(group, wants, object(), now)
        while group.state is not COMPLETING:
            at_ms = group.next_deadline_ms()
            if at_ms is None or at_ms > ends_ms:
                self._wrong(group, f"would have no generation in time without {away.member_id}")
                return
            _tick(group, now._replace(ms=at_ms))
        if away.member_id in group.members and not away.is_static:
            self._wrong(group, f"would wait no longer for {away.member_id}, and keep it")
        elif away.is_static and away.session_deadline_ms > ends_ms and away.member_id not in group.members:
            self._wrong(group, f"would forget {away.member_id}, which has a name and may come back")
        elif group.leader == away.member_id:
            self._wrong(group, f"would wait for the share of {away.member_id}, which is away")
        elif lost := [member.member_id for member in there if member.member_id not in group.members]:
            self._wrong(group, f"would put {lost} out, who wait for {away.member_id}")

    def _wrong(self, group: Group, what: str) -> None:
        self.world.violated("G9", f"{node()} coordinates group {group.group_id}, and {what}", node=node())


def _again(group: Group, member: Member, *, otherwise: bool = False) -> Join:
    """What a member says when it joins once more; `otherwise`: it wants something else than before."""
    protocols = tuple((name, metadata + b"\0" * otherwise) for name, metadata in member.protocols)
    return Join(
        member.member_id, "", group.protocol_type or "", protocols, member.session_timeout_ms,
        member.rebalance_timeout_ms, member.client_id, member.client_host, member.group_instance_id,
    )  # fmt: skip
