"""Plans are widened by those who do the same at once, and by what comes too late, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.coordinator.group_answers import partition_for
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_rivals import RIVALS, at_once, unreplicated
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan

SEEDS = range(150)


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__)
def test_some_plans_have_each_and_most_have_not(rival: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(rival, drawn_from):
        assert all(each.at_ns < after.length_ns for each in added(before, after))


def test_members_that_come_at_once_go_when_they_would_have_gone() -> None:
    for drawn in map(drawn_from, SEEDS):
        after = at_once(drawn, Chance(drawn.seed, "at_once"))
        members = [each for each in after.actions if each.name == "group"]
        begin_ns = [each.at_ns for each in members]
        if after != drawn:
            assert max(begin_ns) - min(begin_ns) <= 600_000_000
        assert [each.until_ns for each in members] == [each.until_ns for each in drawn.actions if each.name == "group"]


def test_what_cannot_be_replicated_is_of_an_id_that_somebody_uses() -> None:
    drawn = plan(at(0, "transact", 8, client="teller", topic="orders", records=20), length=10, configs={})
    cuts = {
        str(each.arguments["when"])
        for seed in SEEDS
        for each in unreplicated(drawn, Chance(seed, "unreplicated")).actions
        if each.name == "partition"
    }
    assert len(cuts) == 1
    assert cuts.pop().startswith("disk write __transaction_state-")


def test_a_coordinator_is_cut_off_when_it_has_just_written() -> None:
    transact = {"client": "teller", "topic": "orders", "records": 20, "transaction_timeout_ms": 2_000}
    kept_in = f"{TRANSACTION_STATE_TOPIC}-{partition_for('teller', 3)}"
    noted = {"when": f"disk write {kept_in} .log", "nth": 4}
    brokers = ["broker-0", "broker-1", "broker-2"]
    outcome = run_plan(
        plan(
            at(0, "transact", 8, **transact),
            at(1, "partition", 4, node=f"leader:{kept_in}", others=brokers, **noted),
            length=14,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert (outcome.events, outcome.faults) == ({"disk write": 1}, {"partition": 1})
