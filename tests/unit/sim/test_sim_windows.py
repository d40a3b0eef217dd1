"""Plans are widened by windows that hardly any time strikes, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import draw, drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_windows import WINDOWS, at_last
from barnabas.sim.plans.widen_windows import amid_transactions as amid
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan

SEEDS = range(100)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.__name__)
def test_some_plans_have_each_window_and_most_have_not(window: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(window, draw if window is amid else drawn_from):
        assert after.actions[: len(before.actions)] == before.actions
        assert added(before, after)
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_what_comes_at_last_has_nothing_behind_it() -> None:
    plans = [(drawn, at_last(drawn, Chance(drawn.seed, "last"))) for drawn in map(drawn_from, SEEDS)]
    for before, after in plans:
        last = after.actions[len(before.actions) :]
        assert all(action.at_ns > before.length_ns for action in last)
        assert all(action.at_ns <= before.length_ns for action in before.actions)
    last_names = {action.name for before, after in plans for action in after.actions[len(before.actions) :]}
    assert {"shutdown", "partition", "delete-topic"} <= last_names


def test_a_directory_fails_when_its_broker_is_about_to_delete_a_replica() -> None:
    outcome = run_plan(
        plan(
            at(0.5, "create-topic", topic="passing", partitions=2, replication_factor=3),
            at(2, "dir-gone", 3, node="here", path="/kafka/b", when="disk rename /kafka/b/passing-"),
            at(2.5, "delete-topic", topic="passing"),
            length=12,
            configs={"min.insync.replicas": "2"},
            config={"log.dirs": "/kafka/a,/kafka/b"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.events == {"disk rename": 1}
    assert outcome.faults == {"dir-gone": 1}


def test_the_answer_to_the_very_request_is_lost() -> None:
    transact = {"client": "teller", "topic": "orders", "records": 20}
    outcome = run_plan(
        plan(
            at(0, "transact", 8, **transact),
            at(1, "lose-reply", 2, node="there", api="EndTxn", count=1, when="rpc EndTxn", nth=1),
            length=10,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert (outcome.events, outcome.faults) == ({"rpc EndTxn": 1}, {"lose-reply": 1})
