"""What would come of a group that shares anew is asked of a copy: of a group that is well nothing is reported, and of
each thing that may be wrong with it a violation is made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_sim_invariants import patched

from barnabas.coordinator.group_members import Join, Member, Sync
from barnabas.coordinator.group_values import COMPLETING, STABLE, GroupLimits, Now
from barnabas.coordinator.groups import Group
from barnabas.model.errors import ErrorCode
from barnabas.sim.judges import watch_rejoins
from barnabas.sim.judges.watch_rejoins import RejoinWatch
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World

NOW = Now(1_000, 1_000)


def join(name: str) -> Join:
    """The leader has a name, and so has the third."""
    named = None if name == "second" else name
    return Join(name, name, "consumer", (("range", b""),), 30_000, 20_000, group_instance_id=named)


def shared() -> Group:
    """Three members, each with its share."""
    group, names = Group("readers", GroupLimits(0), NOW), ["first", "second", "third"]
    for number, name in enumerate(names):
        group.join(replace(join(name), member_id=""), name, NOW)
        for other in names[:number]:
            group.join(join(other), other, NOW)
    assert group.state is COMPLETING
    (write,) = group.sync(Sync("first", group.generation_id, dict.fromkeys(names, b"its share")), "sync", NOW).writes
    group.stored(write, ErrorCode.NONE, NOW)
    assert group.state is STABLE
    return group


def asked(group: Group) -> list[str]:
    world = World(1)
    RejoinWatch(world, Probes()).ask(group, NOW)
    return [each.sentence for each in world.violations if each.invariant == "G9"]


def test_of_a_group_that_is_well_nothing_is_reported() -> None:
    group = shared()
    before = group.generation_id, group.state, list(group.members)
    assert asked(group) == []
    assert (group.generation_id, group.state, list(group.members)) == before, "it was asked, and nothing has happened"


def test_who_joins_in_vain_is_reported() -> None:
    with patched(watch_rejoins, "_join", lambda *_: None):
        sentences = asked(shared())
    assert any("its leader, which joins again" in sentence for sentence in sentences)
    assert any("no generation in time without second" in sentence for sentence in sentences)


def test_a_leader_that_is_away_is_reported() -> None:
    with patched(Group, "_elect_joined_leader", lambda _: True):
        assert any("wait for the share of first" in sentence for sentence in asked(shared()))


@pytest.mark.parametrize(("named", "told"), [(False, "forget first"), (True, "wait no longer for second, and keep it")])
def test_who_is_away_and_forgotten_or_kept_wrongly_is_reported(named: bool, told: str) -> None:
    taken = watch_rejoins._tick

    def tick(group: Group, now: Now) -> None:
        with patched(Member, "is_static", property(lambda _: named)):
            taken(group, now)

    with patched(watch_rejoins, "_tick", tick):
        assert any(told in sentence for sentence in asked(shared()))
