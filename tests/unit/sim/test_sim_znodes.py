"""Plans are widened by what ZooKeeper has to do besides, and who copies an application's znodes has all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import MS, Plan
from barnabas.sim.plans.widen_znodes import ZNODES
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening

APPLICATION = (
    at(0, "keep", 12, client="keeper", passing=True),
    at(0, "mirror", 14, client="mirror-1"),
    at(0, "mirror", 14, client="mirror-2", recursive=True),
)
OF_APPLICATION = {"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "400"}


@pytest.mark.parametrize("widen", ZNODES, ids=lambda widen: widen.__name__)
def test_some_plans_have_each_and_most_have_not(widen: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(widen, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))
        assert after.coordinator != before.coordinator or "zookeeper.connect" in after.config


def test_who_copies_znodes_has_all_though_connections_are_lost_amid_events() -> None:
    links = ["zookeeper>mirror-1", "mirror-1>zookeeper"]
    drawn = plan(
        *APPLICATION,
        at(2, "jitter", 8, links=links[:1], jitter_ns=100 * MS),
        at(2, "fragment", 8, links=links[:1]),
        *[at(3 + number / 2, "reset", 0, links=links) for number in range(10)],
        length=14,
        configs={},
    )
    outcome = run_plan(replace(drawn, coordinator=OF_APPLICATION))
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["C19"] > 2


def test_zookeeper_begins_again_from_a_snapshot() -> None:
    drawn = plan(
        *APPLICATION,
        at(4, "kill", 0.3, node="zookeeper"),
        at(8, "power-loss", 1, node="zookeeper"),
        length=14,
        configs={},
    )
    outcome = run_plan(replace(drawn, coordinator={**OF_APPLICATION, "snapCount": "10"}))
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.faults["kill"] == outcome.faults["power-loss"] == 1


def test_a_cluster_below_a_chroot_is_judged_as_any_other() -> None:
    """One of its servers never answers; and its tools, its applications and its administrators have the chroot, too."""
    drawn = plan(
        produce(14),
        *APPLICATION,
        at(2, "legacy-reassign", 0, topic="orders", partition=0, replicas=[1, 0]),
        at(3, "zk-expire", 0, node="broker-1"),
        at(4, "reset", 0, links=["controller>zookeeper", "zookeeper>controller"]),
        at(5, "create-topic", 0, topic="new-1", partitions=2, replication_factor=3),
        at(6, "depose", 0),
        at(8, "legacy-delete", 0, topic="new-1"),
        at(9, "kill", 0.3, node="zookeeper"),
        length=16,
        configs={},
        config={"zookeeper.connect": "zookeeper:2182,zookeeper:2181/clusters/one"},
    )
    outcome = run_plan(replace(drawn, coordinator=OF_APPLICATION))
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told == ["done", "new-1 ok", "done", "done"]
    for invariant in ("C1", "C2", "C4", "C5", "C12", "C18", "C19", "C20", "C25"):
        assert outcome.checked[invariant], invariant
